//! Conversions and questions about values.

use crate::evaluator::evaluating::{check, check_types};

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
        ("sensitive([1]...)", "error bad_argument"),
        ("try([1]...)", "error bad_argument"),
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
