//! `toolbus oracle invoke`, one call: what goes out, what is printed, what is refused before
//! anything is started.

use expect_test::{Expect, expect};
use toolbus_testkit::scratch::Scratch;

use crate::page::{Page, check, oracle, ourselves};

const REFUSES: [&str; 6] = [
    "ready",
    "read",
    "say",
    r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32000,"message":"value must be even","data":{"n": 7}}}"#,
    "read",
    "read",
];

/// Calls an oracle that does `steps`, with these words behind its address.
fn invoke(steps: &[&str], words: &[&str], expect: Expect) {
    let address = oracle(steps);
    Page::of(&[&["oracle", "invoke", &address], words].concat()).check(expect);
}

#[test]
fn felts_go_out_canonical_and_come_back_as_one_line() {
    invoke(
        &["echo-oracle"],
        &["f", "0x2710", "0x00AB"],
        expect![[r#"
        stdout
        ["0x2710","0xab"]
        exit 0
    "#]],
    );
    invoke(
        &["echo-oracle"],
        &["f"],
        expect![[r#"
        stdout
        []
        exit 0
    "#]],
    );
    invoke(
        &["echo-oracle"],
        &["--json", "f", "0x1"],
        expect![[r#"
        stdout
        {"ok":["0x1"]}
        exit 0
    "#]],
    );
    invoke(
        &["echo-oracle"],
        &["f", "--json", "0x1"],
        expect![[r#"
        stdout
        {"ok":["0x1"]}
        exit 0
    "#]],
    );
    invoke(
        &["echo-oracle"],
        &["f", "--as-cairo", "0x7"],
        expect![[r#"
        stdout
        ["0x0","0x7"]
        exit 0
    "#]],
    );
}

#[test]
fn the_whole_conversation() {
    let steps =
        ["ready", "err", "$LINE", "read", "err", "$LINE", "answer", "[]", "read", "err", "$LINE"];
    invoke(
        &steps,
        &["-v", "square ✓", "0x2710"],
        expect![[r#"
            stdout
            []
            stderr
            info: faulty-tool: {"jsonrpc":"2.0","id":0,"result":{}}
            info: faulty-tool: {"jsonrpc":"2.0","id":0,"method":"invoke","params":{"selector":"square ✓","calldata":["0x2710"]}}
            info: faulty-tool: {"jsonrpc":"2.0","method":"shutdown"}
            log
            info: faulty-tool: started, process ID
            info: faulty-tool: ready
            info: faulty-tool: ended with exit status 0
            exit 0
        "#]],
    );
}

#[test]
fn a_result_may_be_missing_and_an_error_may_be_null() {
    let answers = [
        r#"{"jsonrpc":"2.0","id":$ID,"result":null}"#,
        r#"{"jsonrpc":"2.0","id":$ID}"#,
        r#"{"jsonrpc":"2.0","id":$ID,"result":["0x1"],"error":null}"#,
    ];
    let expects = [
        expect![[r#"
        stdout
        []
        exit 0
    "#]],
        expect![[r#"
        stdout
        []
        exit 0
    "#]],
        expect![[r#"
        stdout
        ["0x1"]
        exit 0
    "#]],
    ];
    for (answer, expect) in answers.into_iter().zip(expects) {
        invoke(&["ready", "read", "say", answer, "read"], &["f"], expect);
    }
}

#[test]
fn an_oracle_that_says_no() {
    invoke(
        &REFUSES,
        &["f"],
        expect![[r#"
        stderr
        error: -32000: value must be even
        exit 1
    "#]],
    );
    invoke(
        &REFUSES,
        &["f", "--json"],
        expect![[r#"
        stdout
        {"error":{"message":"value must be even","code":-32000,"data":{"n":7},"kind":"failed"}}
        stderr
        error: -32000: value must be even
        exit 1
    "#]],
    );
    invoke(
        &REFUSES,
        &["f", "--as-cairo"],
        expect![[r#"
        stdout
        ["0x1","0x0","0x76616c7565206d757374206265206576656e","0x12"]
        stderr
        error: -32000: value must be even
        exit 1
    "#]],
    );
    let shapeless = r#"{"jsonrpc":"2.0","id":$ID,"result":[],"error":{"code":1.5}}"#;
    invoke(
        &["ready", "read", "say", shapeless, "read"],
        &["f", "--json"],
        expect![[r#"
        stdout
        {"error":{"message":"{\"code\":1.5}","kind":"failed"}}
        stderr
        error: {"code":1.5}
        exit 1
    "#]],
    );
    for code in ["-32601", "-32602", "7"] {
        let page = Page::of(&[
            "oracle",
            "invoke",
            &oracle(&["ready", "read", "refuse", code, "no", "read"]),
            "f",
        ])
        .run();
        assert_eq!(page.status.code(), Some(1), "{code}: {page}");
    }
}

#[test]
fn a_signature_makes_values_of_felts() {
    let steps = ["echo-oracle"];
    invoke(
        &steps,
        &["f", "--fn", "f(x: i8) -> i8", "-5"],
        expect![[r#"
        stdout
        -5
        exit 0
    "#]],
    );
    let pair = "f(x: i8, y: ByteArray) -> (i8, ByteArray)";
    invoke(
        &steps,
        &["--fn", pair, "f", "-5", "hello"],
        expect![[r#"
        stdout
        [-5,"hello"]
        exit 0
    "#]],
    );
    invoke(
        &steps,
        &["--fn", pair, "f", "-5", "\"5\""],
        expect![[r#"
        stdout
        [-5,"5"]
        exit 0
    "#]],
    );
    invoke(
        &steps,
        &["--fn", pair, "--as-cairo", "f", "1", "x"],
        expect![[r#"
        stdout
        ["0x0","0x1","0x0","0x78","0x1"]
        exit 0
    "#]],
    );
    invoke(
        &steps,
        &["--fn", "f(x: u256) -> u256", "f", "340282366920938463463374607431768211461"],
        expect![[r#"
            stdout
            "340282366920938463463374607431768211461"
            exit 0
        "#]],
    );
    invoke(
        &steps,
        &["--fn", "f(x: u16) -> u8", "f", "256"],
        expect![[r#"
        stderr
        error: the result must be of type u8, but felt 0 is 0x100
        exit 3
    "#]],
    );
    invoke(
        &steps,
        &["--fn", "f(x: (u8, u8)) -> u8", "f", "[1,2]"],
        expect![[r#"
        stderr
        error: the result ends before felt 1, which is left over
        exit 3
    "#]],
    );
}

#[test]
fn what_is_wrong_before_the_call_starts_nothing() {
    let scratch = Scratch::new();
    let mark = scratch.file("started");
    let steps = ["mark", &mark, "echo-oracle"];
    invoke(
        &steps,
        &["f", "0x1", "10"],
        expect![[r#"
        stderr
        error: felt 1 must begin with 0x: "10"
        exit 2
    "#]],
    );
    invoke(
        &steps,
        &["f", "--json", "0x800000000000011000000000000000000000000000000000000000000000001"],
        expect![[r#"
            stdout
            {"error":{"message":"felt 0 is not below the field prime: \"0x800000000000011000000000000000000000000000000000000000000000001\"","kind":"invalid_arguments"}}
            stderr
            error: felt 0 is not below the field prime: "0x800000000000011000000000000000000000000000000000000000000000001"
            exit 2
        "#]],
    );
    invoke(
        &steps,
        &["f", "--as-cairo", "0x"],
        expect![[r#"
        stdout
        ["0x1","0x1","0x66656c74203020686173206e6f2064696769747320626568696e642030783a","0x2022307822","0x5"]
        stderr
        error: felt 0 has no digits behind 0x: "0x"
        exit 2
    "#]],
    );
    invoke(
        &steps,
        &["f", "--fn", "f(", "1"],
        expect![[r#"
        stderr
        error: `f(` is no signature
          caused by: expected a name, found the end, at byte 2 of the signature
        exit 2
    "#]],
    );
    invoke(
        &steps,
        &["f", "--fn", "f() -> Array<()>"],
        expect![[r#"
        stderr
        error: `f() -> Array<()>` is no signature
          caused by: the elements of `Array<()>` take no felts, so their number means nothing, at byte 7 of the signature
        exit 2
    "#]],
    );
    invoke(
        &steps,
        &["g", "--fn", "f()"],
        expect![[r#"
        stderr
        error: no signature for `g`: `--fn` gives `f`
        exit 2
    "#]],
    );
    invoke(
        &steps,
        &["f", "--fn", "f()", "--fn", "f() -> u8"],
        expect![[r#"
        stderr
        error: `--fn` gives two signatures for `f`
        exit 2
    "#]],
    );
    invoke(
        &steps,
        &["f", "--fn", "f(x: u8)", "300"],
        expect![[r#"
        stderr
        error: argument `x` must be an integer of type u8, not 300
        exit 2
    "#]],
    );
    invoke(
        &steps,
        &["f", "--fn", "f(x: u8)"],
        expect![[r#"
        stderr
        error: argument `x` is missing
        exit 2
    "#]],
    );
    invoke(
        &steps,
        &["-", "0x1"],
        expect![[r#"
        stderr
        error: `0x1` behind `-` would be lost
        hint: a batch takes each call from a line of standard input
        exit 2
    "#]],
    );
    assert!(!std::path::Path::new(&mark).exists(), "something was started");
}

#[test]
fn felts_beyond_the_prime_can_be_tolerated() {
    let prime = "0x800000000000011000000000000000000000000000000000000000000000001";
    let most = "0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";
    invoke(
        &["echo-oracle"],
        &["f", "--lenient-felts", prime, most],
        expect![[r#"
        stdout
        ["0x0","0x7fffffffffffdf0ffffffffffffffffffffffffffffffffffffffffffffffe0"]
        exit 0
    "#]],
    );
    let answer = format!("[\"{prime}\"]");
    invoke(
        &["ready", "read", "answer", &answer, "read"],
        &["f"],
        expect![[r#"
        stderr
        error: felt 0 is not below the field prime: "0x800000000000011000000000000000000000000000000000000000000000001"
        exit 3
    "#]],
    );
    invoke(
        &["ready", "read", "answer", &answer, "read"],
        &["f", "--lenient-felts"],
        expect![[r#"
        stdout
        ["0x0"]
        exit 0
    "#]],
    );
}

#[test]
fn connections_that_are_none() {
    check(
        "oracle invoke tcp:x f",
        expect![[r#"
        stderr
        error: unsupported connection scheme: "tcp:x"; supported are stdio:, oracle+stdio:, shell:
        exit 2
    "#]],
    );
    check(
        "oracle invoke STDIO:x f",
        expect![[r#"
            stderr
            error: unsupported connection scheme: "STDIO:x"; supported are stdio:, oracle+stdio:, shell:
            hint: did you mean `stdio:x`?
            exit 2
        "#]],
    );
    check(
        "oracle invoke stdio: f",
        expect![[r#"
        stderr
        error: empty oracle command
        exit 2
    "#]],
    );
    check(
        "oracle invoke stdio:'a f",
        expect![[r#"
        stderr
        error: failed to parse oracle command: missing closing quote
        exit 2
    "#]],
    );
    check(
        "oracle invoke shell: f",
        expect![[r#"
        stderr
        error: `shell:` is off: whoever calls it can run any command
        hint: allow it by `--allow-shell`, or `allow_shell = true` in the config
        exit 2
    "#]],
    );
    check(
        "oracle invoke shell:x f",
        expect![[r#"
        stderr
        error: `shell:x` is no address: nothing may stand behind `shell:`
        exit 2
    "#]],
    );
    check(
        "oracle invoke builtin: f",
        expect![[r#"
        stderr
        error: unsupported connection scheme: "builtin:"; supported are stdio:, oracle+stdio:, shell:
        exit 2
    "#]],
    );
}

#[test]
fn programs_that_are_none() {
    check(
        "oracle invoke stdio:no-such-oracle f",
        expect![[r#"
        stderr
        error: there is no program `no-such-oracle` in PATH
        hint: install `no-such-oracle`, or give its path
        exit 3
    "#]],
    );
    check(
        "oracle invoke --json oracle+stdio:no-such-oracle f",
        expect![[r#"
        stdout
        {"error":{"message":"there is no program `no-such-oracle` in PATH","kind":"unavailable"}}
        stderr
        error: there is no program `no-such-oracle` in PATH
        hint: install `no-such-oracle`, or give its path
        exit 3
    "#]],
    );
    check(
        "oracle invoke --as-cairo stdio://x f",
        expect![[r#"
            stdout
            ["0x1","0x0","0x7468657265206973206e6f2070726f6772616d20602f2f7860","0x19"]
            stderr
            error: there is no program `//x`
            hint: nothing is at that path: correct it
            exit 3
        "#]],
    );
    check(
        "oracle invoke stdio:FOO=1 f",
        expect![[r#"
        stderr
        error: there is no program `FOO=1` in PATH
        hint: install `FOO=1`, or give its path
        exit 3
    "#]],
    );
}

#[test]
fn our_own_oracle_can_be_called() {
    let builtin = ourselves(&["builtin:"]);
    let add = "add(a: i128, b: i128) -> i128";
    Page::of(&["oracle", "invoke", &builtin, "--fn", add, "add", "-1", "3"]).check(expect![[r#"
            stdout
            2
            exit 0
        "#]]);
    Page::of(&["oracle", "invoke", &builtin, "nope"]).check(expect![[r#"
        stderr
        error: -32602: unknown selector: "nope", this oracle provides: "add", "blob", "count", "early", "echo", "fail", "sink", "sleep", "upper"
        exit 1
    "#]]);
}
