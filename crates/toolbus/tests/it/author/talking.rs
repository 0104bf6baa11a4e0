//! What a tool says before it answers, and what it hears meanwhile.

use super::{Talk, call, request};

/// A call that takes for ever, unless its caller stops it.
const ENDLESS: &str =
    r#"{"name":"primes","arguments":{"below":18446744073709551615},"_meta":{"progressToken":"p"}}"#;

#[test]
fn progress_goes_out_while_the_tool_runs() {
    let mut talk = Talk::with("numbers");
    talk.say(&request(1, "tools/call", ENDLESS));
    assert_eq!(
        talk.hear(),
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":2,"total":18446744073709551615}}"#
    );
}

#[test]
fn a_call_that_is_cancelled_ends_and_is_not_answered() {
    let mut talk = Talk::with("numbers");
    talk.say(&request(1, "tools/call", ENDLESS));
    talk.hear();
    // Those behind it wait for their turn; one of them in vain.
    talk.say(&call(2, "repeat", r#"{"text":"never","times":1}"#));
    talk.say(&call(3, "repeat", r#"{"text":"on","times":1}"#));
    for id in [2, 1] {
        let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":"#;
        talk.say(&format!(r#"{cancelled}{{"requestId":{id}}}}}"#));
    }
    let answer = r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"on"}]}}"#;
    assert_eq!(talk.hear_answer(), answer);
    talk.end();
}

#[test]
fn a_client_that_closes_its_end_ends_the_program() {
    Talk::with("numbers").end();
    Talk::with("wait").end();
}
