//! `toolbus oracle serve` in front of oracles: what becomes of their signatures and failures,
//! and that no process stays behind.

use std::io::Write;
use std::process::Stdio;

use expect_test::expect;
use rustix::process::Signal;
use toolbus_testkit::patience::eventually;
use toolbus_testkit::scratch::Scratch;

use crate::live::{Live, marked};
use crate::page::{Page, command, oracle, ourselves};

const OFFERS: &str = r#"{"jsonrpc":"2.0","id":0,"method":"ready","params":{"toolbus":1,"functions":["f(x: felt252) -> felt252","struct P { x: u8 } fn g(p: P) -> Option<u8>","broken("]}}"#;

/// Offers functions and answers each call by its calldata.
fn offering<'a>(before: &[&'a str]) -> Vec<&'a str> {
    [before, &["say", OFFERS, "read", "forever", "{", "read", "echo", "}"]].concat()
}

fn invoke(selector: &str, calldata: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"invoke","params":{{"selector":"{selector}","calldata":{calldata}}}}}"#
    )
}

#[test]
fn an_oracle_behind_an_oracle_keeps_its_signatures() {
    let address = oracle(&offering(&[]));
    Page::of(&["oracle", "serve", &address]).check(expect![[r#"
        stdout
        {"jsonrpc":"2.0","id":0,"method":"ready","params":{"toolbus":1,"functions":["f(x: felt252) -> felt252","struct P { x: u8 } fn g(p: P) -> Option<u8>","invoke(selector: ByteArray, calldata: Array<felt252>) -> Array<felt252>"]}}
        stderr
        warning: faulty-tool: left out `broken(`: expected a name, found the end, at byte 7 of the signature
        exit 0
    "#]]);
    let mut front = Live::serving(&["-q", &address]);
    let p = "0x800000000000011000000000000000000000000000000000000000000000000";
    assert_eq!(
        front.ask(&invoke("f", &format!("[\"{p}\"]"))),
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":["{p}"]}}"#)
    );
    // By the generic tool: selector `any`, two felts.
    let any = invoke("invoke", r#"["0x0","0x616e79","0x3","0x2","0x8","0x9"]"#);
    assert_eq!(front.ask(&any), r#"{"jsonrpc":"2.0","id":1,"result":["0x2","0x8","0x9"]}"#);
}

#[test]
fn an_oracle_that_tells_of_no_function_can_be_called_by_its_selectors() {
    let address = oracle(&["echo-oracle"]);
    let square = "square(x: u8) -> u8";
    let mut front = Live::start(&["oracle", "serve", "-q", "--fn", square, &address]);
    assert_eq!(
        front.hear(),
        r#"{"jsonrpc":"2.0","id":0,"method":"ready","params":{"toolbus":1,"functions":["invoke(selector: ByteArray, calldata: Array<felt252>) -> Array<felt252>","square(x: u8) -> u8"]}}"#
    );
    front.say(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#);
    // Whatever it is called, and whatever felts there are: they are passed on.
    let any = invoke("what ever", r#"["0x8","0x9"]"#);
    assert_eq!(front.ask(&any), r#"{"jsonrpc":"2.0","id":1,"result":["0x8","0x9"]}"#);
    // One that was declared is checked.
    assert_eq!(
        front.ask(&invoke("square", r#"["0x4"]"#)),
        r#"{"jsonrpc":"2.0","id":1,"result":["0x4"]}"#
    );
    let wrong = front.ask(&invoke("square", r#"["0x100"]"#));
    assert!(wrong.contains(r#""code":-32602"#) && wrong.contains("`x`"), "{wrong}");
}

#[test]
fn a_selector_that_the_oracle_does_not_know_is_refused_in_its_words() {
    let inner = ourselves(&["builtin:"]);
    let mut front = Live::serving(&["-q", &inner]);
    let refused = front.ask(&invoke("nope", "[]"));
    let begin = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown selector: \"nope\", this oracle provides: \"add\""#;
    assert!(refused.starts_with(begin), "{refused}");
}

#[test]
fn three_in_a_row() {
    let inner = ourselves(&["builtin:"]);
    let outer = ourselves(&[&inner]);
    let upper = "upper(text: ByteArray) -> ByteArray";
    Page::of(&["oracle", "invoke", &outer, "--fn", upper, "upper", "hello"]).check(expect![[r#"
            stdout
            "HELLO"
            exit 0
        "#]]);
    Page::of(&[
            "oracle",
            "invoke",
            "--json",
            &outer,
            "fail",
            "0x0",
            "0x6f6f7073",
            "0x4",
            "0x0",
            "0x7",
        ]).check(expect![[r#"
            stdout
            {"error":{"message":"oops","code":-32603,"data":{"kind":"failed","code":-32603,"detail":{"kind":"failed","code":7}},"kind":"failed"}}
            stderr
            error: -32603: oops
            exit 1
        "#]]);
}

#[test]
fn several_addresses_may_not_offer_the_same_name() {
    let one = oracle(&offering(&[]));
    let other = oracle(&offering(&["err", "another"]));
    let page = Page::of(&["oracle", "serve", "-q", &one, &other]).run();
    assert_eq!((page.status.code(), page.stdout.as_str()), (Some(2), ""), "{page}");
    assert!(page.stderr.contains(&one) && page.stderr.contains(&other), "{page}");
}

#[test]
fn of_several_generic_tools_the_first_is_offered() {
    let plain = oracle(&["echo-oracle"]);
    Page::of(&["oracle", "serve", "-q", &plain, &oracle(&["echo-oracle", "exit", "0"])]).check(expect![[r#"
            stdout
            {"jsonrpc":"2.0","id":0,"method":"ready","params":{"toolbus":1,"functions":["invoke(selector: ByteArray, calldata: Array<felt252>) -> Array<felt252>"]}}
            exit 0
        "#]]);
}

#[test]
fn a_back_that_cannot_be_opened_is_told_and_nothing_is_served() {
    Page::of(&["oracle", "serve", "builtin:", &oracle(&["err", "no licence", "exit", "3"])]).check(expect![[r#"
        stderr
        error: cannot open `stdio:'faulty-tool' 'err' 'no licence' 'exit' '3'`: `faulty-tool` ended with exit status 3 before it was ready
          | no licence
        exit 3
    "#]]);
    Page::of(&["oracle", "serve", "--start-timeout", "300ms", &oracle(&["stay"])]).check(expect![
        [r#"
        stderr
        error: cannot open `stdio:'faulty-tool' 'stay'`: `faulty-tool` was not ready within 300ms
        exit 3
    "#]
    ]);
}

#[test]
fn a_back_that_dies_is_started_again_by_the_next_call() {
    let scratch = Scratch::new();
    let dies = scratch.file("dies");
    let address = oracle(&["once", &dies, "{", "ready", "read", "exit", "5", "}", "echo-oracle"]);
    let mut front = Live::serving(&[&address]);
    let any = invoke("invoke", r#"["0x0","0x66","0x1","0x0"]"#);
    expect![[r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"`faulty-tool` ended with exit status 5 before it answered","data":{"kind":"gone"}}}"#]].assert_eq(&front.ask(&any));
    expect![[r#"{"jsonrpc":"2.0","id":1,"result":["0x0"]}"#]].assert_eq(&front.ask(&any));
}

#[test]
fn what_a_back_refuses_is_passed_on() {
    let address =
        oracle(&["ready", "forever", "{", "read", "refuse", "-32000", "value must be even", "}"]);
    let mut front = Live::serving(&[&address]);
    expect![[r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"value must be even","data":{"kind":"failed","code":-32000}}}"#]].assert_eq(&front.ask(&invoke("invoke", r#"["0x0","0x66","0x1","0x0"]"#)));
}

#[test]
fn a_reply_that_does_not_fit_is_the_backs_fault() {
    let ready = r#"{"jsonrpc":"2.0","id":0,"method":"ready","params":{"toolbus":1,"functions":["f() -> u8"]}}"#;
    let address = oracle(&["say", ready, "read", "read", "answer", "[\"0x100\"]", "read"]);
    let mut front = Live::serving(&[&address]);
    expect![[r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the result must be of type u8, but felt 0 is 0x100","data":{"kind":"broke_protocol"}}}"#]].assert_eq(&front.ask(&invoke("f", "[]")));
}

#[test]
fn an_executor_that_is_killed_leaves_no_process_behind() {
    let scratch = Scratch::new();
    let mark = scratch.file("back");
    let address = oracle(&["mark", &mark, "ignore-term", "echo-oracle"]);
    let front = Live::serving(&[&address]);
    let back = marked(&mark, 1);
    front.signal(Signal::KILL);
    back[0].assert_gone();
}

#[test]
fn backs_go_with_the_end_of_input() {
    let scratch = Scratch::new();
    let mark = scratch.file("back");
    let mut front = Live::serving(&[&oracle(&["mark", &mark, "echo-oracle"])]);
    front.hang_up();
    expect!["exit 0\n"].assert_eq(&front.end());
    marked(&mark, 1)[0].assert_gone();
}

#[test]
fn an_answer_that_is_not_read_is_not_waited_for() {
    let scratch = Scratch::new();
    let mark = scratch.file("called");
    let address = oracle(&["ready", "read", "mark", &mark, "readall"]);
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    let mut command = command(&["oracle", "serve", &address]);
    let mut front = command.stdin(Stdio::piped()).stdout(writer).spawn().expect("was built");
    drop(command);
    let mut stdin = front.stdin.take().expect("is piped");
    let said = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{{}}}}\n{}\n",
        invoke("invoke", r#"["0x0","0x66","0x1","0x0"]"#)
    );
    stdin.write_all(said.as_bytes()).expect("it reads");
    let back = marked(&mark, 1);
    drop(stdin);
    drop(reader);
    eventually("it ends", || front.try_wait().is_ok_and(|status| status.is_some()));
    assert_eq!(front.wait().expect("has ended").code(), Some(0));
    back[0].assert_gone();
}
