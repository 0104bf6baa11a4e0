//! The language: literals, operators, conditions, parts, loops and templates.

use toolbus_orchard::diagnostic::FileId;
use toolbus_orchard::expr;

use crate::evaluator::evaluating::{check, check_types, planned};

#[test]
fn numbers_are_as_they_are_written() {
    check(&[
        ("0.1 + 0.2", "0.3"),
        ("1 / 4", "0.25"),
        ("4 / 2", "2"),
        ("1 / 3", "0.3333333333333333333333333333"),
        ("2 / 3", "0.6666666666666666666666666667"),
        ("9007199254740993", "9007199254740993"),
        ("170141183460469231731687303715884105727", "170141183460469231731687303715884105727"),
        ("-170141183460469231731687303715884105728", "-170141183460469231731687303715884105728"),
        ("- /* five */ 5", "-5"),
        ("-5 % 3", "-2"),
        ("5 % -3", "2"),
        ("5.5 % 2", "1.5"),
        ("1e-5", "0.00001"),
        ("1.50", "1.5"),
        ("1E3", "1000"),
        ("0.1234567890123456789012345678901234567890", "0.1234567890123456789012345679"),
        ("170141183460469231731687303715884105728", "error number_too_large"),
        ("1e40", "error number_too_large"),
        ("1e38 * 10", "error number_too_large"),
        ("-(-170141183460469231731687303715884105728)", "error number_too_large"),
        ("1e-1000 * 1e-1000", "error number_too_large"),
        ("1 / 0.0", "error division_by_zero"),
        ("u / 0", "error division_by_zero"),
        ("5 - 2 - 1", "2"),
        ("2 + 3 * 4", "14"),
        ("(2 + 3) * 4", "20"),
    ]);
}

#[test]
fn operators_convert_and_refuse_null() {
    check(&[
        ("\"1\" + \"2\"", "3"),
        ("\"10\" > 9", "true"),
        ("\"a\" < \"b\"", "error type_mismatch"),
        ("true + 1", "error type_mismatch"),
        ("[] + 1", "error type_mismatch"),
        ("1 + null", "error null_value"),
        ("-null", "error null_value"),
        ("!null", "error null_value"),
        ("null && true", "error null_value"),
        ("false && null", "false"),
        ("true && null", "error null_value"),
        ("null < 1", "error null_value"),
        ("null == null", "true"),
        ("null == 0", "false"),
        ("!\"true\"", "false"),
        ("!1", "error type_mismatch"),
        ("\"true\" && true", "true"),
        ("1 && true", "error type_mismatch"),
        ("true || nosuch", "true"),
        ("false || nosuch", "error unknown_reference"),
        ("1 == 1.0", "true"),
        ("1 == \"1\"", "false"),
        ("[1, \"a\"] == [1, \"a\"]", "true"),
        ("[1] == tolist([1])", "true"),
        ("[1] == toset([1])", "false"),
        ("{ a = 1, b = 2 } == { b = 2, a = 1 }", "true"),
        ("{ a = 1 } == tomap({ a = 1 })", "true"),
        ("{ a = 1 } != { a = 2 }", "true"),
        ("toset([2, 1, 2]) == toset([1, 2])", "true"),
        ("1 <= 1 && 2 >= 1 && 1 < 2 && !(1 > 2)", "true"),
    ]);
}

#[test]
fn the_branch_not_taken_lends_its_type() {
    check(&[
        ("true ? 1 : 2", "1"),
        ("\"true\" ? 1 : 2", "1"),
        ("false ? \"a\" : 1", "\"1\""),
        ("true ? true : \"x\"", "\"true\""),
        ("true ? 1 : true", "error type_mismatch"),
        ("true ? \"a\" : []", "error type_mismatch"),
        ("true ? {} : []", "error type_mismatch"),
        ("true ? [1] : []", "[1]"),
        ("true ? { a = 1 } : {}", "{\"a\":1}"),
        ("true ? null : [1]", "null"),
        ("false ? null : [1]", "[1]"),
        ("true ? 5 : nosuch.name", "5"),
        ("true ? 1 / 0 : 2", "error division_by_zero"),
        ("null ? 1 : 2", "error null_value"),
        ("5 ? 1 : 2", "error type_mismatch"),
        ("true ? tolist([1]) : tolist([\"a\"])", "[\"1\"]"),
        ("false ? 1 : true ? 2 : 3", "2"),
    ]);
}

#[test]
fn parts_of_values() {
    check(&[
        ("[1, 2, 3][1]", "2"),
        ("[1, 2, 3][\"1\"]", "2"),
        ("[1, 2, 3].1", "2"),
        ("[1][-1]", "error bad_index"),
        ("[1][0.5]", "error bad_index"),
        ("[1][\"a\"]", "error type_mismatch"),
        ("[1][null]", "error null_value"),
        ("[1].a", "error bad_index"),
        ("{ a = 1 }.a", "1"),
        ("{ a = 1 }[\"a\"]", "1"),
        ("{ a = 1 }.b", "error bad_index"),
        ("{ a = 1 }[\"b\"]", "error bad_index"),
        ("{ \"1\" = 2 }[1]", "2"),
        ("{ a = { b = [1, { c = \"x\" }] } }.a.b[1].c", "\"x\""),
        ("toset([1])[0]", "error bad_index"),
        ("5[0]", "error bad_index"),
        ("\"abc\".a", "error bad_index"),
        ("n.a", "error null_value"),
        ("n[0]", "error null_value"),
        ("n[*]", "[]"),
        ("n[*].a", "[]"),
        ("n.*.a", "[]"),
        ("5[*]", "[5]"),
        ("{ a = 1 }[*].a", "[1]"),
        ("[{ a = { b = 1 } }, { a = { b = 2 } }][*].a.b", "[1,2]"),
        ("[{ a = [1, 2] }, { a = [3, 4] }][*].a[0]", "[1,3]"),
        ("[{ a = [1, 2] }, { a = [3, 4] }].*.a[0]", "[1,2]"),
        ("[{ a = [{ b = 1 }] }, { a = [] }][*].a[*].b", "[[1],[]]"),
        ("[{ a = 1 }, {}][*].a", "error bad_index"),
        ("toset([2, 1])[*]", "[1,2]"),
    ]);
}

#[test]
fn objects_and_loops() {
    check(&[
        ("{ \"a b\" = 1, (\"c\") = 2, 3 = 4 }", "{\"3\":4,\"a b\":1,\"c\":2}"),
        ("{ \"${\"a\"}b\" : 1 }", "{\"ab\":1}"),
        ("{ a = 1, \"a\" = 2 }", "error syntax"),
        ("{ a = 1, a = 2 }", "error syntax"),
        ("{ a = 1, (\"a\") = 2 }", "error duplicate"),
        ("{ (null) = 1 }", "error null_value"),
        ("{ ([]) = 1 }", "error type_mismatch"),
        ("[for x in [1, 2] : x * 2]", "[2,4]"),
        ("[for i, x in [\"a\", \"b\"] : \"${i}${x}\"]", "[\"0a\",\"1b\"]"),
        ("[for k, v in { b = 1, a = 2 } : \"${k}${v}\"]", "[\"a2\",\"b1\"]"),
        ("[for x in toset([\"b\", \"a\"]) : x]", "[\"a\",\"b\"]"),
        ("[for k, v in toset([\"a\"]) : [k, v]]", "[[\"a\",\"a\"]]"),
        ("{for k, v in { a = 1 } : v => k}", "{\"1\":\"a\"}"),
        ("{for x in [\"a\", \"b\", \"a\"] : x => 1...}", "{\"a\":[1,1],\"b\":[1]}"),
        (
            "{for x in [1, 2, 3] : x % 2 == 0 ? \"even\" : \"odd\" => x...}",
            "{\"even\":[2],\"odd\":[1,3]}",
        ),
        ("{for x in [1, 1] : x => x}", "error duplicate"),
        ("{for x in [1] : null => x}", "error null_value"),
        ("[for x in [1, 2] : x if x > 1]", "[2]"),
        ("[for x in [1] : x if null]", "error null_value"),
        ("[for x in [1] : x if 5]", "error type_mismatch"),
        ("[for x in \"abc\" : x]", "error type_mismatch"),
        ("[for x in null : x]", "error null_value"),
        ("[for x in [1, 2] : [for y in [x, 10] : x * y]]", "[[1,10],[4,20]]"),
        ("[for s in [1] : s]", "[1]"),
        ("[for x in [1] : x][0] + x", "error unknown_reference"),
        ("[]", "[]"),
        ("{}", "{}"),
    ]);
    check_types(&[
        ("[for x in [1] : x]", "tuple([number])"),
        ("{for x in [1] : \"a\" => x}", "object({a=number})"),
    ]);
}

#[test]
fn templates() {
    check(&[
        ("\"a${1}b${true}c\"", "\"a1btruec\""),
        ("\"${[1]}\"", "[1]"),
        ("\"${null}\"", "null"),
        ("\"${5}\"", "5"),
        ("\"${~ 5 ~}\"", "5"),
        ("\"a ${null}\"", "error null_value"),
        ("\"a ${{}}\"", "error type_mismatch"),
        ("\"a${\"b${\"c\"}\"}\"", "\"abc\""),
        ("\"\\u00e9\\n\\t\\\"\"", "\"é\\n\\t\\\"\""),
        ("\"%%{if} $${x} 100% $5\"", "\"%{if} ${x} 100% $5\""),
        ("\"a  ${~ \"b\" ~}  c\"", "\"abc\""),
        ("\"a  ${~ \"b\" }  c\"", "\"ab  c\""),
        ("\"%{ if true }yes%{ endif }\"", "\"yes\""),
        ("\"%{ if false }yes%{ endif }\"", "\"\""),
        ("\"%{ if false }${1 / 0}%{ else }no%{ endif }\"", "\"no\""),
        ("\"%{ if null }yes%{ endif }\"", "error null_value"),
        ("\"%{ for x in [1, 2] }<${x}>%{ endfor }\"", "\"<1><2>\""),
        ("\"%{ for k, v in { a = 1 } }${k}=${v};%{ endfor }\"", "\"a=1;\""),
        ("\"a %{~ for x in [1, 2] ~} ${x} %{~ endfor ~} b\"", "\"a12b\""),
        ("\"a %{ if true ~} x %{~ else ~} y %{~ endif } b\"", "\"a x b\""),
        ("\"a %{ if false ~} x %{~ else ~} y %{~ endif } b\"", "\"a y b\""),
        ("<<EOT\nhello ${1 + 1}\n  world\nEOT\n", "\"hello 2\\n  world\\n\""),
        ("<<-EOT\n    hello\n      world\n    EOT\n", "\"hello\\n  world\\n\""),
        (
            "<<EOT\n%{ for x in [1, 2] ~}\n- ${x}\n%{ endfor ~}\nend\nEOT\n",
            "\"- 1\\n- 2\\nend\\n\"",
        ),
        (
            "<<EOT\n%{ for x in [1, 2] ~}\n  - ${x}\n%{ endfor ~}\nend\nEOT\n",
            "\"  - 1\\n  - 2\\nend\\n\"",
        ),
        ("\"a \\n\\n ${~ 1 ~} \\n\\n b\"", "\"a \\n1\\n b\""),
        ("<<EOT\n${5}\nEOT\n", "\"5\\n\""),
        ("<<EOT\nEOT\n", "\"\""),
        ("<<EOT\n$${x} \\n \"q\"\nEOT\n", "\"${x} \\\\n \\\"q\\\"\\n\""),
    ]);
}

#[test]
fn problems_say_where_and_what_to_do() {
    for (text, place, message, help) in [
        ("lenght([])", "lenght", "there is no function `lenght`", "did you mean `length`?"),
        (
            "1 + \"a\"",
            "\"a\"",
            "the right side of `+` must be a number, but this is the text \"a\"",
            "to put texts together write \"${one}${two}\"",
        ),
        (
            "{ name = 1 }.nmae",
            ".nmae",
            "there is no attribute `nmae` in this object",
            "did you mean `name`?",
        ),
        ("{ name = 1 }.x", ".x", "there is no attribute `x` in this object", "there are: name"),
        ("[1, 2][2]", "[2]", "there is no element 2: the list has 2", "indexes go from 0 to 1"),
        (
            "upper([])",
            "[]",
            "`upper`: argument 1 (`s`) must be text, not a tuple",
            "it is called as `upper(s)`",
        ),
        (
            "substr(\"a\")",
            "substr",
            "`substr` takes 3 arguments, not 1",
            "it is called as `substr(s, offset, len)`",
        ),
        ("len([])", "len", "there is no function `len`", "use `length(c)` or `strlen(s)`"),
        (
            "length(\"abc\")",
            "\"abc\"",
            "`length`: argument 1 (`c`) must be a list, set, map or object, not text",
            "the characters of a text are counted by `strlen(s)`",
        ),
        ("3 * (1 / 0)", "0", "division by zero", "test the right side first: `x == 0 ? … : … / x`"),
        (
            "\"a ${[]}\"",
            "[]",
            "what a template puts in must be a string, but this is a tuple",
            "make it text by `join(\", \", …)` or `jsonencode(…)`",
        ),
    ] {
        let problem = planned(text).unwrap_err();
        let span = problem.span.clone().expect("a place");
        assert_eq!(&text[span.range], place, "{text}");
        assert_eq!(problem.message, message, "{text}");
        assert_eq!(problem.help.as_deref(), Some(help), "{text}");
    }
}

#[test]
fn references_are_found_everywhere() {
    let text = r#"{
      a = var.a.b["c"][0].d
      (local.key) = "${action.t.n.out} %{ if var.c }x%{ else }${var.e}%{ endif }"
      b = [for k, v in var.list : k => upper(v.x) + var.y... if var.cond]
      d = cond ? self.out[each.key].z : [var.splat[*].q, -var.neg, !(var.not)]
      e = <<EOT
%{ for v in var.h }${v}${var.i[local.j]}%{ endfor }
EOT
      f = f(v.x, component.t["i"].o)
      g = { for x in [1] : x => x }
    }"#
    .replace(
        "[for k, v in var.list : k => upper(v.x) + var.y... if var.cond]",
        "{for k, v in var.list : k => upper(v.x) + var.y... if var.cond}",
    );
    let expression = expr::parse(&text, FileId(0)).unwrap();
    let found: Vec<String> = expr::references(&expression)
        .iter()
        .map(|reference| {
            let path = reference.path.iter().map(|step| match &step.key {
                expr::Key::Name(name) => format!(".{name}"),
                expr::Key::Index(index) => format!("[{index}]"),
            });
            format!("{}{}", reference.root, path.collect::<String>())
        })
        .collect();
    let expected = "var.a.b.c[0].d local.key action.t.n.out var.c var.e var.list var.y var.cond \
        cond self.out each.key var.splat var.neg var.not var.h var.i local.j v.x component.t.i.o";
    assert_eq!(found, expected.split_whitespace().collect::<Vec<_>>());
    let reference = &expr::references(&expression)[0];
    assert_eq!(&text[reference.span.clone()], "var.a.b[\"c\"][0].d");
    assert_eq!(&text[reference.span_of(2)], "var.a.b");
    assert_eq!(&text[reference.root_span.clone()], "var");
}
