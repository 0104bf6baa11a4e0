//! Functions whose signatures are ours and the same everywhere.

use super::signature::{self, Function};

/// The tool that every oracle has: call any selector with bare felts.
pub fn generic_invoke() -> Function {
    only("invoke(selector: ByteArray, calldata: Array<felt252>) -> Array<felt252>")
}

/// The one function of `shell:`: the exit code and the output of a command.
pub fn shell_exec() -> Function {
    only("exec(command: ByteArray) -> (i32, ByteArray)")
}

/// Reserved on our oracles: which tools there are.
pub fn toolbus_tools() -> Function {
    only("toolbus.tools() -> json")
}

/// Reserved on our oracles: call a tool with JSON, whatever its signature.
pub fn toolbus_call() -> Function {
    only("toolbus.call(tool: ByteArray, arguments: json) -> json")
}

/// The signature of a tool of a front that is searched, if it is not to be made from its schema.
pub fn search(tool: &str) -> Option<Function> {
    Some(only(match tool {
        "toolbus_call" => "toolbus_call(name: ByteArray, arguments: Option<json>) -> ByteArray",
        "toolbus_search" => "toolbus_search(query: ByteArray, limit: Option<u128>) -> json",
        _ => return None,
    }))
}

/// The signature of a built-in tool, if it is not to be made from its schema.
pub fn builtin(tool: &str) -> Option<Function> {
    Some(only(match tool {
        "add" => "add(a: i128, b: i128) -> i128",
        "echo" => "echo(arguments: json) -> json",
        "fail" => "fail(message: ByteArray, code: Option<i64>)",
        "sleep" => "sleep(ms: u32) -> json",
        "upper" => "upper(text: ByteArray) -> ByteArray",
        _ => return None,
    }))
}

fn only(text: &str) -> Function {
    signature::parse(text).ok().and_then(|mut functions| functions.pop()).expect("tested below")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_written_canonically() {
        let ours = [generic_invoke(), shell_exec(), toolbus_tools(), toolbus_call()];
        let ours = ours
            .into_iter()
            .chain(["toolbus_call", "toolbus_search"].map(|tool| search(tool).unwrap()));
        let builtins = ["add", "echo", "fail", "sleep", "upper"];
        for function in builtins.into_iter().filter_map(builtin).chain(ours) {
            let canonical = function.canonical();
            assert_eq!(only(&canonical), function);
            assert!(canonical.starts_with(function.name()));
        }
        assert!(builtin("count").is_none());
    }
}
