//! What only the run will tell, and what must not be shown.

use toolbus_orchard::diagnostic::Problem;

use crate::evaluator::evaluating::{check, check_types, planned};

#[test]
fn unknown_in_is_unknown_out_with_its_type() {
    check_types(&[
        ("u", "any"),
        ("u + 1", "number"),
        ("us == \"a\"", "bool"),
        ("un < 5", "bool"),
        ("!ub", "bool"),
        ("ub && true", "bool"),
        ("-un", "number"),
        ("\"a${us}\"", "string"),
        ("\"${us}\"", "string"),
        ("\"${ul}\"", "list(string)"),
        ("ub ? 1 : 2", "number"),
        ("ub ? 1 : \"a\"", "string"),
        ("ub ? [1] : []", "list(number)"),
        ("ub ? null : {}", "object({})"),
        ("ub ? 1 : nosuch", "number"),
        ("uo.a", "number"),
        ("uo[\"a\"]", "number"),
        ("um.anything", "number"),
        ("ul[0]", "string"),
        ("ul[un]", "string"),
        ("[1, 2][un]", "number"),
        ("[1, \"a\"][un]", "string"),
        ("{ a = 1 }[us]", "number"),
        ("ut[1]", "number"),
        ("u.a.b[0]", "any"),
        ("ul[*]", "list(string)"),
        ("u[*].a", "any"),
        ("[for x in ul : upper(x)]", "list(string)"),
        ("[for x in u : x.y]", "list(any)"),
        ("{for k, v in um : k => v + 1}", "map(number)"),
        ("{for k, v in um : k => v...}", "map(list(number))"),
        ("[for x in [1, 2] : x if ub]", "list(number)"),
        ("{ (us) = 1 }", "any"),
        ("upper(us)", "string"),
        ("length(ul)", "number"),
        ("length([us, us])", "number"),
        ("split(\",\", us)", "list(string)"),
        ("element(ul, 0)", "string"),
        ("tolist(ul)", "list(string)"),
        ("toset(ut)", "set(string)"),
        ("toset([us])", "set(string)"),
        ("merge({ a = us }, { b = 1 })", "object({a=string,b=number})"),
        ("max(ul...)", "number"),
        ("try(us, 1)", "any"),
        ("can(us)", "bool"),
        ("uuid()", "string"),
        ("randint(1, 2)", "number"),
        ("jsonencode([us])", "string"),
        ("\"%{ if ub }a%{ endif }\"", "string"),
        ("\"%{ for x in ul }${x}%{ endfor }\"", "string"),
    ]);
    check(&[
        ("length([us, us])", "2"),
        ("[us, 1]", "[(known after run),1]"),
        ("merge({ a = us }, { b = 1 }).b", "1"),
        ("keys({ a = us })", "[\"a\"]"),
        ("[for x in [us, us] : \"a\"]", "[\"a\",\"a\"]"),
        ("false && ub", "false"),
        ("try([us][1], 5)", "5"),
        ("concat([us], [1])[1]", "1"),
    ]);
}

#[test]
fn names_and_types_are_checked_before_the_run() {
    check(&[
        ("uo.b", "error bad_index"),
        ("uo[\"b\"]", "error bad_index"),
        ("us.a", "error bad_index"),
        ("us[0]", "error bad_index"),
        ("ut[2]", "error bad_index"),
        ("ul + 1", "error type_mismatch"),
        ("ub + 1", "error type_mismatch"),
        ("u + \"a\"", "error type_mismatch"),
        ("u + null", "error null_value"),
        ("\"a${ul}\"", "error type_mismatch"),
        ("[for x in us : x]", "error type_mismatch"),
        ("[for x in ul : x.y]", "error bad_index"),
        ("ub ? ul : us", "error type_mismatch"),
        ("ul ? 1 : 2", "error type_mismatch"),
        ("upper(ul)", "error bad_argument"),
        ("length(us)", "error bad_argument"),
        ("keys(ul)", "error bad_argument"),
        ("upper(us, us)", "error bad_argument"),
    ]);
}

#[test]
fn taint_follows_every_operation() {
    for text in [
        "s",
        "\"x${s}\"",
        "\"${s}\"",
        "s == \"a\"",
        "sb && true",
        "sb || false",
        "!sb",
        "sb ? 1 : 2",
        "upper(s)",
        "jsonencode([s])",
        "length(sensitive([1]))",
        "sensitive({ a = 1 }).a",
        "sensitive([1])[0]",
        "[1, 2][sensitive(0)]",
        "{ a = 1 }[sensitive(\"a\")]",
        "{ (s) = 1 }",
        "[for x in sensitive([1]) : x]",
        "[for x in [1] : x if sb]",
        "{for x in [1] : s => x}",
        "\"%{ if sb }a%{ endif }\"",
        "\"%{ for x in sensitive([1]) }a%{ endfor }\"",
        "toset([s])",
        "sensitive([{ a = 1 }])[*].a",
        "\"${us}${s}\"",
        "sb ? us : us",
        "max(sensitive([1])...)",
        "contains([s], 1)",
        "-sensitive(1)",
        "sensitive(1) + 1",
        "1 < sensitive(1)",
        "coalesce(s, \"a\")",
        "zipmap([s], [1])",
        "flatten([sensitive([1])])[0]",
        "sensitive(us)",
        "s == us",
    ] {
        assert!(planned(text).unwrap().is_sensitive(), "{text}");
    }
    for text in [
        "[s, 1][1]",
        "{ a = s, b = 1 }.b",
        "merge({ a = s }, { b = 1 }).b",
        "length([s])",
        "keys({ a = s })",
        "nonsensitive(s)",
        "[for x in [s, 1] : x][1]",
        "true ? 1 : s",
        "issensitive(s)",
    ] {
        assert!(!planned(text).unwrap().contains_sensitive(), "{text}");
    }
    check(&[
        ("[for x in [s, \"b\"] : x]", "[(sensitive),\"b\"]"),
        ("{ a = s, b = us, c = 1 }", "{\"a\":(sensitive),\"b\":(known after run),\"c\":1}"),
        ("tolist([s, \"b\"])", "[(sensitive),\"b\"]"),
    ]);
}

/// What is sensitive must not come out by way of a message.
#[test]
fn problems_do_not_tell_what_is_sensitive() {
    for text in [
        "s + 1",
        "s ? 1 : 2",
        "{ a = 1 }[s]",
        "sensitive({ secret = 1 }).a",
        "sensitive({ secret = 1 })[\"a\"]",
        "{ (s) = 1, (s) = 2 }",
        "{for x in [1, 2] : s => x}",
        "tonumber(s)",
        "parseint(s, 10)",
        "timeadd(s, \"1h\")",
        "regex(s, \"(\")",
        "regex(\"[\", s)",
        "jsondecode(s)",
        "file(s)",
        "format(s, 1)",
        "formatdate(s, \"2018-01-02T23:12:01Z\")",
        "csvdecode(\"${s},${s}\")",
        "hexdecode(s)",
        "[1][sensitive(4711)]",
        "ut[sensitive(4711)]",
        "slice([1], 0, sensitive(4711))",
        "sensitive([1])[4711]",
    ] {
        let Problem { message, help, .. } = planned(text).expect_err(text);
        assert!(!message.contains("secret") && !message.contains("4711"), "{text}: {message}");
        assert!(!help.unwrap_or_default().contains("secret"), "{text}");
    }
}
