//! Each function, with what it refuses.

use crate::evaluating::{check, check_types, run, shown};

#[test]
fn numbers() {
    check(&[
        ("abs(-3)", "3"),
        ("abs(\"-3.50\")", "3.5"),
        ("abs(-170141183460469231731687303715884105728)", "error number_too_large"),
        ("ceil(1.2)", "2"),
        ("ceil(-1.2)", "-1"),
        ("ceil(3)", "3"),
        ("floor(1.8)", "1"),
        ("floor(-1.2)", "-2"),
        ("round(2.5)", "3"),
        ("round(-2.5)", "-3"),
        ("round(2.4999999999999999999999)", "2"),
        ("signum(-0.001)", "-1"),
        ("signum(0)", "0"),
        ("signum(7)", "1"),
        ("max(1, 3, 2)", "3"),
        ("max([1, 30, \"4\"]...)", "30"),
        ("max()", "error bad_argument"),
        ("min(1, -3, 2)", "-3"),
        ("min([]...)", "error bad_argument"),
        ("sum([1, 2.5, \"3\"])", "6.5"),
        ("sum([])", "0"),
        ("sum([1, null])", "error bad_argument"),
        ("sum([\"x\"])", "error bad_argument"),
        ("sum(toset([1, 1, 2]))", "3"),
        ("pow(2, 10)", "1024"),
        ("pow(2, 126)", "85070591730234615865843651857942052864"),
        ("pow(2, 127)", "error number_too_large"),
        ("pow(2, -2)", "0.25"),
        ("pow(1.5, 2)", "2.25"),
        ("pow(4, 0.5)", "2"),
        ("pow(-4, 0.5)", "error bad_argument"),
        ("pow(0, -1)", "error division_by_zero"),
        ("pow(-1, 999999999999999999999)", "-1"),
        ("pow(10, 1000000000)", "error number_too_large"),
        ("log(1000, 10)", "3"),
        ("log(8, 2)", "3"),
        ("log(243, 3)", "5"),
        ("log(0.25, 2)", "-2"),
        ("log(0, 2)", "error bad_argument"),
        ("log(2, 1)", "error bad_argument"),
        ("parseint(\"ff\", 16)", "255"),
        ("parseint(\"-Zz\", 36)", "-1295"),
        ("parseint(\"12\", 2)", "error bad_argument"),
        ("parseint(\"1\", 37)", "error bad_argument"),
        ("parseint(\"1\", 1.5)", "error bad_argument"),
        ("parseint(\"\", 10)", "error bad_argument"),
        ("parseint(\"ffffffffffffffffffffffffffffffffffffff\", 16)", "error number_too_large"),
        ("abs(null)", "error bad_argument"),
        ("abs([])", "error bad_argument"),
        ("abs(\"x\")", "error bad_argument"),
        ("abs(1, 2)", "error bad_argument"),
    ]);
}

#[test]
fn text() {
    check(&[
        ("strlen(\"\")", "0"),
        ("strlen(\"e\u{301}\")", "1"),
        ("strlen(\"a\\r\\nb\")", "3"),
        ("strlen(12.50)", "4"),
        ("upper(\"straße\")", "\"STRASSE\""),
        ("lower(\"ÄB\")", "\"äb\""),
        ("title(\"hello wOrld, it's x-ray\")", "\"Hello WOrld, It's X-Ray\""),
        ("trimspace(\"\\t a b\\n\")", "\"a b\""),
        ("trim(\"?!hi?!\", \"!?\")", "\"hi\""),
        ("trimprefix(\"helloworld\", \"hello\")", "\"world\""),
        ("trimprefix(\"helloworld\", \"cat\")", "\"helloworld\""),
        ("trimsuffix(\"helloworld\", \"world\")", "\"hello\""),
        ("chomp(\"a\\r\\n\\n\")", "\"a\""),
        ("split(\",\", \"a,b,,c\")", "[\"a\",\"b\",\"\",\"c\"]"),
        ("split(\",\", \"\")", "[\"\"]"),
        ("split(\"\", \"äb\")", "[\"ä\",\"b\"]"),
        ("join(\", \", [\"a\", 1, true])", "\"a, 1, true\""),
        ("join(\"-\", [])", "\"\""),
        ("join(\"-\", [null])", "error bad_argument"),
        ("join(\"-\", \"a\")", "error bad_argument"),
        ("replace(\"1 + 2 + 3\", \"+\", \"-\")", "\"1 - 2 - 3\""),
        ("replace(\"hello world\", \"/w.*d/\", \"all\")", "\"hello all\""),
        ("replace(\"ab12\", \"/([a-z]+)([0-9]+)/\", \"$2-$1\")", "\"12-ab\""),
        ("replace(\"ab\", \"/(?P<x>a)/\", \"<$${x}>\")", "\"<a>b\""),
        ("replace(\"a/b\", \"/\", \"-\")", "\"a-b\""),
        ("replace(\"ab\", \"\", \"-\")", "\"-a-b-\""),
        ("replace(\"x\", \"/(/\", \"\")", "error bad_argument"),
        ("substr(\"hello\", 1, 3)", "\"ell\""),
        ("substr(\"hello\", -3, -1)", "\"llo\""),
        ("substr(\"hello\", -9, 2)", "\"he\""),
        ("substr(\"hello\", 9, 2)", "\"\""),
        ("substr(\"grüße\", 2, 2)", "\"üß\""),
        ("substr(\"hello\", 0, -2)", "error bad_argument"),
        ("substr(\"hello\", 0.5, 1)", "error bad_argument"),
        ("indent(2, \"a\\nb\\nc\")", "\"a\\n  b\\n  c\""),
        ("indent(-1, \"a\")", "error bad_argument"),
        ("startswith(\"hello\", \"he\")", "true"),
        ("endswith(\"hello\", \"lo\")", "true"),
        ("strcontains(\"hello\", \"ell\")", "true"),
        ("strcontains(\"hello\", \"x\")", "false"),
        ("strrev(\"ae\u{301}b\")", "\"be\u{301}a\""),
        ("repeat(\"ab\", 3)", "\"ababab\""),
        ("repeat(\"ab\", 0)", "\"\""),
        ("repeat(\"ab\", -1)", "error bad_argument"),
        ("repeat(\"ab\", 100000000)", "error too_big"),
        ("padleft(\"7\", 3, \"0\")", "\"007\""),
        ("padright(\"é\", 3, \".\")", "\"é..\""),
        ("padleft(\"long\", 2, \" \")", "\"long\""),
        ("padleft(\"7\", 3, \"ab\")", "error bad_argument"),
        ("regex(\"[a-z]+\", \"53453453.345345aaabbbccc23454\")", "\"aaabbbccc\""),
        ("regex(\"(\\\\d\\\\d\\\\d\\\\d)-(\\\\d\\\\d)\", \"2019-02-01\")", "[\"2019\",\"02\"]"),
        ("regex(\"(?P<a>x)(?P<b>y)?\", \"x\")", "{\"a\":\"x\",\"b\":null}"),
        ("regex(\"q\", \"x\")", "error bad_argument"),
        ("regex(\"(\", \"x\")", "error bad_argument"),
        ("regexall(\"[a-z]+\", \"1a2bc3\")", "[\"a\",\"bc\"]"),
        ("regexall(\"q\", \"x\")", "[]"),
        ("regexall(\"(a)(b)?\", \"aba\")", "[[\"a\",\"b\"],[\"a\",null]]"),
        ("length(regexall(\"x\", \"axbx\"))", "2"),
    ]);
}

#[test]
fn formats() {
    check(&[
        ("format(\"Hello, %s!\", \"Ander\")", "\"Hello, Ander!\""),
        ("format(\"%d of %d%%\", 1, \"2\")", "\"1 of 2%\""),
        ("format(\"%5d|%-5d|%05d|%+d\", 42, 42, -42, 42)", "\"   42|42   |-0042|+42\""),
        ("format(\"%f %.2f %.0f %8.3f\", 1.5, 2.345, 2.5, 1)", "\"1.500000 2.35 3    1.000\""),
        ("format(\"%6s|%-6s|%.2s\", \"ab\", \"ab\", \"abc\")", "\"    ab|ab    |ab\""),
        (
            "format(\"%v %v %v\", \"a\", [1, \"b\"], { c = null })",
            "\"a [1,\\\"b\\\"] {\\\"c\\\":null}\"",
        ),
        ("format(\"%v\", null)", "\"null\""),
        ("format(\"%q\", \"a\\\"b\")", "\"\\\"a\\\\\\\"b\\\"\""),
        ("format(\"%x %x %04x\", 255, \"hi\", 10)", "\"ff 6869 000a\""),
        ("format(\"%t\", true)", "\"true\""),
        ("format(\"%s\", 1.50)", "\"1.5\""),
        ("format(\"%s\", [])", "error bad_argument"),
        ("format(\"%s\", null)", "error bad_argument"),
        ("format(\"%d\", 1.5)", "error bad_argument"),
        ("format(\"%d\", \"x\")", "error bad_argument"),
        ("format(\"%s\")", "error bad_argument"),
        ("format(\"\", 1)", "error bad_argument"),
        ("format(\"%z\", 1)", "error bad_argument"),
        ("format(\"100%\")", "error bad_argument"),
        ("format(\"%99999999999999999999999d\", 1)", "error too_big"),
        ("formatlist(\"%s-%s\", [\"a\", \"b\"], 1)", "[\"a-1\",\"b-1\"]"),
        ("formatlist(\"%s%s\", [\"a\", \"b\"], [1, 2])", "[\"a1\",\"b2\"]"),
        ("formatlist(\"%s%s\", [\"a\", \"b\"], [1])", "error bad_argument"),
        ("formatlist(\"x%s\", [])", "[]"),
    ]);
}

#[test]
fn collections() {
    check(&[
        ("length([1, [2, 3]])", "2"),
        ("length({ a = 1 })", "1"),
        ("length(toset([1, 1]))", "1"),
        ("length(null)", "error bad_argument"),
        ("concat([1], [\"a\"], [])", "[1,\"a\"]"),
        ("concat()", "[]"),
        ("concat([1], \"a\")", "error bad_argument"),
        ("contains([\"a\", \"b\"], \"b\")", "true"),
        ("contains([\"1\"], 1)", "false"),
        ("contains([null], null)", "true"),
        ("contains({ a = 1 }, 1)", "error bad_argument"),
        ("distinct([\"b\", \"a\", \"b\", 1, 1.0])", "[\"b\",\"a\",1]"),
        ("element([\"a\", \"b\", \"c\"], -1)", "\"c\""),
        ("element([\"a\", \"b\", \"c\"], 3)", "\"a\""),
        ("element([], 0)", "error bad_index"),
        ("element([1], 0.5)", "error bad_argument"),
        ("index([\"a\", \"b\"], \"b\")", "1"),
        ("index([\"a\"], \"z\")", "error bad_argument"),
        ("keys({ b = 1, a = 2 })", "[\"a\",\"b\"]"),
        ("values({ b = 1, a = \"x\" })", "[\"x\",1]"),
        ("keys([1])", "error bad_argument"),
        ("lookup({ a = 1 }, \"a\", 0)", "1"),
        ("lookup({ a = 1 }, \"a\")", "error bad_argument"),
        ("merge({ a = 1, b = 1 }, null, { b = 2 })", "{\"a\":1,\"b\":2}"),
        ("merge()", "{}"),
        ("merge([{ a = 1 }, { b = 2 }]...)", "{\"a\":1,\"b\":2}"),
        ("merge([1])", "error bad_argument"),
        ("range(3)", "[0,1,2]"),
        ("range(1, 4)", "[1,2,3]"),
        ("range(1, 8, 2)", "[1,3,5,7]"),
        ("range(0, 1, 0.25)", "[0,0.25,0.5,0.75]"),
        ("range(4, 1)", "[4,3,2]"),
        ("range(4, 1, -2)", "[4,2]"),
        ("range(0)", "[]"),
        ("range(1, 4, 0)", "error bad_argument"),
        ("range(1, 4, -1)", "error bad_argument"),
        ("range(1, 2, 3, 4)", "error bad_argument"),
        ("length(range(100000))", "100000"),
        ("range(0, 1, 0.000001)", "error too_big"),
        ("reverse([1, \"b\", 3])", "[3,\"b\",1]"),
        ("slice([\"a\", \"b\", \"c\", \"d\"], 1, 3)", "[\"b\",\"c\"]"),
        ("slice([1], 1, 1)", "[]"),
        ("slice([1], 0, 2)", "error bad_index"),
        ("slice([1, 2], 2, 1)", "error bad_index"),
        ("flatten([[1, [2]], [], 3])", "[1,2,3]"),
        ("flatten([toset([2, 1])])", "[1,2]"),
        ("compact([\"a\", \"\", null, \"b\"])", "[\"a\",\"b\"]"),
        ("chunklist([1, 2, 3], 2)", "[[1,2],[3]]"),
        ("chunklist([1], 0)", "error bad_argument"),
        ("coalesce(null, \"\", \"b\")", "\"b\""),
        ("coalesce(null, 0)", "0"),
        ("coalesce(null)", "error bad_argument"),
        ("coalescelist([], [1])", "[1]"),
        ("coalescelist([], [])", "error bad_argument"),
        ("one([])", "null"),
        ("one([5])", "5"),
        ("one([1, 2])", "error bad_argument"),
        ("sort([\"e\", \"d\", \"É\", \"a\", 10, 9])", "[\"10\",\"9\",\"a\",\"d\",\"e\",\"É\"]"),
        (
            "transpose({ a = [\"1\", \"2\"], b = [\"2\", \"3\"] })",
            "{\"1\":[\"a\"],\"2\":[\"a\",\"b\"],\"3\":[\"b\"]}",
        ),
        ("transpose({ a = 1 })", "error bad_argument"),
        ("zipmap([\"a\", \"b\"], [1, \"x\"])", "{\"a\":1,\"b\":\"x\"}"),
        ("zipmap([\"a\"], [])", "error bad_argument"),
        ("matchkeys([1, 2, 3], [\"a\", \"b\", \"a\"], [\"a\"])", "[1,3]"),
        ("matchkeys([1], [], [])", "error bad_argument"),
        ("alltrue([true, \"true\"])", "true"),
        ("alltrue([])", "true"),
        ("alltrue([true, null])", "false"),
        ("anytrue([])", "false"),
        ("anytrue([false, true])", "true"),
        ("anytrue([1])", "error bad_argument"),
        ("setunion([\"a\"], [\"b\", \"a\"])", "[\"a\",\"b\"]"),
        ("setintersection([\"a\", \"b\"], [\"b\", \"c\"])", "[\"b\"]"),
        ("setsubtract([\"a\", \"b\", \"c\"], [\"a\", \"c\"])", "[\"b\"]"),
        ("setunion([1], [\"a\"])", "[\"1\",\"a\"]"),
        ("setunion([1], [[]])", "error bad_argument"),
        ("setproduct([\"b\", \"a\"], [1, 2])", "[[\"a\",1],[\"a\",2],[\"b\",1],[\"b\",2]]"),
        ("setproduct([\"a\"], [])", "[]"),
        ("setproduct(range(10000), range(10000))", "error too_big"),
    ]);
}

#[test]
fn encodings() {
    check(&[
        (
            "jsonencode({ b = [1, 2.50, null, true], a = \"é\\u0001/<>\" })",
            "\"{\\\"a\\\":\\\"é\\\\u0001/<>\\\",\\\"b\\\":[1,2.5,null,true]}\"",
        ),
        ("jsonencode(null)", "\"null\""),
        ("jsondecode(\" {\\\"a\\\": [1.0, \\\"\\\\u00e9\\\", null]} \")", "{\"a\":[1,\"é\",null]}"),
        ("jsondecode(\"\")", "error bad_argument"),
        ("jsondecode(\"1e999\")", "error number_too_large"),
        ("jsondecode(\"{\\\"a\\\":1,\\\"a\\\":2}\").a", "2"),
        ("base64encode(\"Hello World\")", "\"SGVsbG8gV29ybGQ=\""),
        ("base64encode(\"\")", "\"\""),
        ("base64decode(\"SGVsbG8gV29ybGQ=\")", "\"Hello World\""),
        ("base64decode(\"YQ==\")", "\"a\""),
        ("base64decode(\"YR==\")", "error bad_argument"),
        ("base64decode(\"YQ\")", "error bad_argument"),
        ("base64decode(\"====\")", "error bad_argument"),
        ("base64decode(\"/w==\")", "error bad_argument"),
        ("urlencode(\"a b/é~\")", "\"a%20b%2F%C3%A9~\""),
        ("urldecode(\"a%20b%2F%C3%A9+\")", "\"a b/é+\""),
        ("urldecode(\"%2\")", "error bad_argument"),
        ("urldecode(\"%é\")", "error bad_argument"),
        ("hexencode(\"é\")", "\"c3a9\""),
        ("hexdecode(\"C3a9\")", "\"é\""),
        ("hexdecode(\"c\")", "error bad_argument"),
        ("hexdecode(\"zz\")", "error bad_argument"),
        (
            "csvdecode(\"a,b\\n1,\\\"x,\\\"\\\"y\\\"\\\"\\nz\\\"\\r\\n\\n2,\\n\")",
            "[{\"a\":\"1\",\"b\":\"x,\\\"y\\\"\\nz\"},{\"a\":\"2\",\"b\":\"\"}]",
        ),
        ("csvdecode(\"a\\n\")", "[]"),
        ("csvdecode(\"\")", "error bad_argument"),
        ("csvdecode(\"a,a\")", "error bad_argument"),
        ("csvdecode(\"a,b\\n1\")", "error bad_argument"),
        ("csvdecode(\"a\\n\\\"1\")", "error bad_argument"),
        ("md5(\"hello world\")", "\"5eb63bbbe01eeed093cb22bb8f5acdc3\""),
        ("sha1(\"hello world\")", "\"2aae6c35c94fcfb415dbe95f408b9ce91ee846ed\""),
        (
            "sha256(\"hello world\")",
            "\"b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9\"",
        ),
        ("substr(sha512(\"hello world\"), 0, 16)", "\"309ecc489c12d6eb\""),
        (
            "hmacsha256(\"key\", \"The quick brown fox jumps over the lazy dog\")",
            "\"f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8\"",
        ),
        ("uuidv5(\"dns\", \"www.terraform.io\")", "\"a5008fae-b28c-5ba5-96cd-82b4c53552d6\""),
        (
            "uuidv5(\"6ba7b810-9dad-11d1-80b4-00c04fd430c8\", \"www.terraform.io\")",
            "\"a5008fae-b28c-5ba5-96cd-82b4c53552d6\"",
        ),
        ("uuidv5(\"dsn\", \"x\")", "error bad_argument"),
    ]);
}

#[test]
fn times() {
    check(&[
        ("timeadd(\"2017-11-22T00:00:00Z\", \"10m\")", "\"2017-11-22T00:10:00Z\""),
        ("timeadd(\"2026-01-01T00:00:00+01:00\", \"-1h30m\")", "\"2025-12-31T22:30:00+01:00\""),
        ("timeadd(\"2026-01-01T00:00:00.250Z\", \"500ms\")", "\"2026-01-01T00:00:00.75Z\""),
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
fn types() {
    check(&[
        ("tostring(1.50)", "\"1.5\""),
        ("tostring(true)", "\"true\""),
        ("tostring(null)", "null"),
        ("tostring([])", "error type_mismatch"),
        ("tonumber(\"1e3\")", "1000"),
        ("tonumber(\"x\")", "error type_mismatch"),
        ("tonumber(true)", "error type_mismatch"),
        ("tobool(\"true\")", "true"),
        ("tobool(1)", "error type_mismatch"),
        ("tolist([1, \"a\"])", "[\"1\",\"a\"]"),
        ("tolist(toset([\"b\", \"a\"]))", "[\"a\",\"b\"]"),
        ("tolist([1, true])", "error type_mismatch"),
        ("tolist(\"a\")", "error type_mismatch"),
        ("toset([\"b\", \"a\", \"b\"])", "[\"a\",\"b\"]"),
        ("toset({ a = 1 })", "error type_mismatch"),
        ("tomap({ a = 1, b = \"x\" })", "{\"a\":\"1\",\"b\":\"x\"}"),
        ("tomap([1])", "error type_mismatch"),
        ("type(null)", "\"any\""),
        ("type({ b = [true], a = \"x\" })", "\"object({a=string,b=tuple([bool])})\""),
        ("type(toset([1]))", "\"set(number)\""),
        ("type(tolist([]))", "\"list(any)\""),
        ("type(csvdecode(\"a\\n1\"))", "\"list(object({a=string}))\""),
        ("try(1 / 0, \"x\")", "\"x\""),
        ("try(1 / 0, [][0])", "error bad_index"),
        ("try({ a = 1 }.b, { a = 1 }.a)", "1"),
        ("try()", "error bad_argument"),
        ("can(1 / 0)", "false"),
        ("can(1)", "true"),
        ("[for x in [1, 2] : try(x / 0, x)]", "[1,2]"),
        ("sensitive(\"abcd\")", "(sensitive)"),
        ("[sensitive(1), 2]", "[(sensitive),2]"),
        ("nonsensitive([sensitive(1), 2])", "[1,2]"),
        ("issensitive(s)", "true"),
        ("issensitive([s])", "true"),
        ("issensitive(1)", "false"),
        ("sensitive(1, 2)", "error bad_argument"),
    ]);
    check_types(&[
        ("split(\",\", \"\")", "list(string)"),
        ("concat(tolist([1]), tolist([2]))", "list(number)"),
        ("merge(tomap({ a = 1 }), tomap({ b = 2 }))", "map(number)"),
        ("values(tomap({ a = 1 }))", "list(number)"),
        ("reverse(toset([1]))", "list(number)"),
        ("zipmap([\"a\"], tolist([true]))", "map(bool)"),
        ("setproduct([\"a\"], [1])", "set(tuple([string,number]))"),
    ]);
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

/// Each of the table in the documentation is there, and nothing else.
#[test]
fn all_functions_are_there() {
    let known: Vec<&str> = toolbus_orchard::function::names().collect();
    let documented = "abs ceil floor round signum max min sum pow log parseint strlen upper lower \
        title trimspace trim trimprefix trimsuffix chomp split join replace substr format \
        formatlist indent startswith endswith strcontains strrev repeat padleft padright regex \
        regexall length concat contains distinct element index keys values lookup merge range \
        reverse slice flatten compact chunklist coalesce coalescelist one sort setunion \
        setintersection setsubtract setproduct transpose zipmap matchkeys alltrue anytrue \
        jsonencode jsondecode base64encode base64decode urlencode urldecode hexencode hexdecode \
        csvdecode md5 sha1 sha256 sha512 hmacsha256 uuidv5 timestamp timeadd timediff timecmp \
        timeseries formatdate unixtime fromunix tostring tonumber tobool tolist toset tomap type \
        try can sensitive nonsensitive issensitive uuid randint randchoice randstring shuffle \
        file fileexists filebase64 basename dirname pathjoin";
    let mut documented: Vec<&str> = documented.split_whitespace().collect();
    documented.sort_unstable();
    assert_eq!(known, documented);
}
