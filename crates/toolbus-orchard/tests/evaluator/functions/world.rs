//! Time, chance and files.

use crate::evaluator::evaluating::{check, run, shown};

#[test]
fn times() {
    check(&[
        ("timeadd(\"2017-11-22T00:00:00Z\", \"10m\")", "\"2017-11-22T00:10:00Z\""),
        ("timeadd(\"2026-01-01T00:00:00+01:00\", \"-1h30m\")", "\"2025-12-31T22:30:00+01:00\""),
        ("timeadd(\"2026-01-01T00:00:00.250Z\", \"500ms\")", "\"2026-01-01T00:00:00Z\""),
        ("timeadd(\"2024-02-28T12:00:00Z\", \"24h\")", "\"2024-02-29T12:00:00Z\""),
        ("timeadd(\"2026-02-29T00:00:00Z\", \"1h\")", "error bad_argument"),
        ("timeadd(\"yesterday\", \"1h\")", "error bad_argument"),
        ("timeadd(\"2026-01-01T00:00:00Z\", \"1 hour\")", "error bad_argument"),
        ("timeadd(\"2026-01-01T00:00:00Z\", \"\")", "error bad_argument"),
        ("timeadd(\"9999-12-31T23:59:59Z\", \"1s\")", "error bad_argument"),
        ("timeadd(\"2026-01-01T00:00:00Z\", \"99999999999999999999h\")", "error bad_argument"),
        ("timediff(\"2026-01-01T00:00:00Z\", \"2026-01-02T00:00:01.5Z\")", "86401.5"),
        ("timediff(\"2026-01-02T00:00:00Z\", \"2026-01-01T00:00:00Z\")", "-86400"),
        ("timecmp(\"2026-01-01T00:00:00Z\", \"2026-01-01T01:00:00+01:00\")", "0"),
        ("timecmp(\"2026-01-01T00:00:00Z\", \"2026-01-01T00:00:01Z\")", "-1"),
        (
            "timeseries(\"2026-01-01T00:00:00Z\", \"-24h\", 3)",
            "[\"2026-01-01T00:00:00Z\",\"2025-12-31T00:00:00Z\",\"2025-12-30T00:00:00Z\"]",
        ),
        ("timeseries(\"2026-01-01T00:00:00Z\", \"1s\", 100001)", "error too_big"),
        ("timeseries(\"2026-01-01T00:00:00Z\", \"1s\", 0)", "[]"),
        (
            "formatdate(\"DD MMM YYYY hh:mm ZZZ\", \"2018-01-02T23:12:01Z\")",
            "\"02 Jan 2018 23:12 UTC\"",
        ),
        (
            "formatdate(\"EEEE, DD-MMM-YY hh:mm:ss ZZZ\", \"2018-01-02T23:12:01-08:00\")",
            "\"Tuesday, 02-Jan-18 23:12:01 -0800\"",
        ),
        (
            "formatdate(\"EEE, D MMMM 'at' H'o''clock' AA aa ZZZZZ\", \"2018-01-02T23:12:01-08:00\")",
            "\"Tue, 2 January at 11o'clock PM pm -08:00\"",
        ),
        (
            "formatdate(\"YYYY-MM-DD'T'hh:mm:ssZ\", \"2018-01-02T23:12:01Z\")",
            "\"2018-01-02T23:12:01Z\"",
        ),
        ("formatdate(\"YYY\", \"2018-01-02T23:12:01Z\")", "error bad_argument"),
        ("formatdate(\"'open\", \"2018-01-02T23:12:01Z\")", "error bad_argument"),
        ("unixtime(\"1970-01-02T00:00:00Z\")", "86400"),
        ("unixtime(\"1969-12-31T23:59:59.5Z\")", "-0.5"),
        ("fromunix(1700000000)", "\"2023-11-14T22:13:20Z\""),
        ("fromunix(0.25)", "\"1970-01-01T00:00:00.25Z\""),
        ("fromunix(1e30)", "error number_too_large"),
        ("fromunix(1e20)", "error bad_argument"),
        ("timestamp()", "(known after run)"),
        ("timestamp(1)", "error bad_argument"),
    ]);
    let now = run("timestamp()", 0, "a").unwrap();
    assert_eq!(now.as_str(), Some("2026-09-21T14:13:20Z"));
}

#[test]
fn chance_is_the_same_for_the_same_seed_and_node() {
    let all = "[uuid(), randint(1, 6), randchoice([\"a\", \"b\", \"c\"]), randstring(8), shuffle(range(20))]";
    assert!(shown(all).starts_with("[(known after run)"));
    let text = |seed, address| run(all, seed, address).unwrap().shown();
    assert_eq!(text(7, "action.a.b"), text(7, "action.a.b"));
    assert_ne!(text(7, "action.a.b"), text(8, "action.a.b"));
    assert_ne!(text(7, "action.a.b"), text(7, "action.a.c"));
    for seed in 0..200 {
        let dice = run("randint(-1, 1)", seed, "x").unwrap();
        assert!(["-1", "0", "1"].contains(&dice.shown().as_str()));
        let uuid = run("uuid()", seed, "x").unwrap();
        let uuid = uuid.as_str().unwrap();
        assert!(uuid.len() == 36 && &uuid[14..15] == "4" && "89ab".contains(&uuid[19..20]));
        let word = run("randstring(5)", seed, "x").unwrap();
        assert!(word.as_str().unwrap().bytes().all(|byte| byte.is_ascii_alphanumeric()));
        let sorted = run("sort(shuffle([3, 1, 2]))", seed, "x").unwrap();
        assert_eq!(sorted.shown(), "[\"1\",\"2\",\"3\"]");
    }
    for wrong in ["randint(2, 1)", "randchoice([])", "randstring(-1)", "randint(0.5, 1)"] {
        assert_eq!(run(wrong, 0, "x").unwrap_err().code.as_str(), "bad_argument", "{wrong}");
    }
    let all = "randint(-170141183460469231731687303715884105728, 170141183460469231731687303715884105727)";
    assert_ne!(run(all, 0, "x").unwrap(), run(all, 1, "x").unwrap());
}

#[test]
fn files() {
    check(&[
        ("file(\"a.txt\")", "\"in a\\n\""),
        ("file(\"/folder/a.txt\")", "\"in a\\n\""),
        ("file(\"b.bin\")", "error bad_argument"),
        ("file(\"none\")", "error bad_argument"),
        ("fileexists(\"a.txt\")", "true"),
        ("fileexists(\"none\")", "false"),
        ("filebase64(\"b.bin\")", "\"/wA=\""),
        ("basename(\"a/b/c.txt\")", "\"c.txt\""),
        ("basename(\"a/b/\")", "\"b\""),
        ("basename(\"/\")", "\"/\""),
        ("dirname(\"a/b/c.txt\")", "\"a/b\""),
        ("dirname(\"c.txt\")", "\".\""),
        ("dirname(\"/c\")", "\"/\""),
        ("pathjoin(\"a\", \"b/\", \"\", \"c\")", "\"a/b/c\""),
        ("pathjoin(\"a\", \"/b\")", "\"/b\""),
    ]);
}
