//! `--ask`: the user is asked before a tool runs that may change something.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::{self, BufRead as _};
use std::rc::Rc;
use std::thread;

use tokio::sync::oneshot;
use toolbus::LocalFuture;
use toolbus_proto::godex::ToolCall;
use toolbus_proto::printable::beginning;
use toolbus_proto::tool::{ToolName, ToolSpec};

use crate::render::printable;
use crate::stderr;

/// Which tools may run without a question.
#[derive(Debug, Default, Clone)]
pub(super) struct Consent {
    allowed: Rc<RefCell<HashSet<ToolName>>>,
}

impl Consent {
    /// Tools that say of themselves that they change nothing may run.
    pub(super) fn add(&self, tools: &[ToolSpec]) {
        let is_harmless =
            |tool: &&ToolSpec| tool.hints.is_some_and(|hints| hints.read_only == Some(true));
        let names = tools.iter().filter(is_harmless).map(|tool| tool.name.clone());
        self.allowed.borrow_mut().extend(names);
    }

    pub(super) fn may_run(&self, tool: &ToolName) -> bool {
        self.allowed.borrow().contains(tool)
    }

    /// Asks on standard error, and reads what the user types.
    pub(super) fn ask(&self, call: &ToolCall) -> LocalFuture<'static, bool> {
        let tool = call.tool.clone();
        // It may have been allowed for good while this call waited for its turn.
        if self.may_run(&tool) {
            return Box::pin(async { true });
        }
        let (name, arguments) = (printable(tool.as_str()), beginning(call.args.as_str()));
        stderr::write(&format!("run {name} {}? [y]es, [n]o, [a]lways: ", printable(&arguments)));
        stderr::flush();
        let (tell, told) = oneshot::channel();
        // Reading a terminal blocks and cannot be broken off: a signal that ends us does not wait
        // for it.
        let asking = thread::Builder::new().name("consent".to_owned());
        let asked = asking.spawn(move || tell.send(typed()));
        let allowed = self.allowed.clone();
        Box::pin(async move {
            let typed = match asked {
                Ok(_) => told.await.unwrap_or_default(),
                Err(_) => String::new(),
            };
            match typed.trim().to_lowercase().as_str() {
                "y" | "yes" => true,
                "a" | "always" => {
                    allowed.borrow_mut().insert(tool);
                    true
                }
                _ => false,
            }
        })
    }
}

/// One line of the user; nothing at the end of input, which leaves the question's line.
fn typed() -> String {
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(1..) => line,
        Ok(0) | Err(_) => {
            stderr::write("\n");
            stderr::flush();
            String::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use toolbus_proto::json::Json;
    use toolbus_proto::tool::Hints;

    use super::*;

    #[test]
    fn only_what_says_that_it_changes_nothing_runs_unasked() {
        let tool = |name: &str, read_only: Option<bool>| {
            let hints = Some(Hints { read_only, ..Hints::default() });
            ToolSpec { hints, ..ToolSpec::new(name, Json::null()) }
        };
        let consent = Consent::default();
        let silent = ToolSpec::new("silent", Json::null());
        consent.add(&[tool("reads", Some(true)), tool("writes", Some(false)), silent]);
        let may_run = |name: &str| consent.may_run(&name.into());
        assert_eq!(["reads", "writes", "silent", "new"].map(may_run), [true, false, false, false]);
    }
}
