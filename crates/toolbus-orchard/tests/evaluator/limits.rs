//! No input may panic, overflow the stack, take for ever or fill the memory.

use std::thread;

use toolbus_orchard::diagnostic::{Code, FileId};
use toolbus_orchard::expr;

use crate::evaluator::evaluating::{check, planned};

#[test]
fn what_takes_too_long_or_grows_too_large_is_refused() {
    check(&[
        (
            "[for a in range(1000) : [for b in range(1000) : [for c in range(1000) : 1]]]",
            "error too_big",
        ),
        ("length([for a in range(100000) : range(100000)[0]])", "error too_big"),
        ("length([for a in range(100000) : [range(100000)][*][0]])", "error too_big"),
        ("[for a in range(1000) : range(10000)]", "error too_big"),
        ("strlen(join(\"\", [for i in range(17) : repeat(\"x\", 1000000)]))", "error too_big"),
        ("[for i in range(100) : repeat(\"x\", 1000000)]", "error too_big"),
        ("\"%{ for i in range(100) }${repeat(\"x\", 1000000)}%{ endfor }\"", "error too_big"),
        ("split(\"\", repeat(\"x\", 2000000))", "error too_big"),
        ("regexall(\"\", repeat(\"x\", 2000000))", "error too_big"),
        (
            "jsondecode(\"[${join(\",\", [for i in range(100000) : \"0,0,0,0,0,0,0,0,0,0,0\"])}]\")",
            "error too_big",
        ),
        ("join(repeat(\"x\", 1000000), range(1000))", "error too_big"),
        ("replace(repeat(\"x\", 10000), \"x\", repeat(\"y\", 10000))", "error too_big"),
        ("replace(repeat(\"x\", 10000), \"/x/\", repeat(\"y\", 10000))", "error too_big"),
        ("indent(1000000, repeat(\"\\n\", 1000000))", "error too_big"),
        ("padleft(\"\", 100000000, \"x\")", "error too_big"),
        ("randstring(100000000)", "(known after run)"),
        ("setproduct(range(1000), range(1000))", "error too_big"),
        ("try([for a in range(10000) : [for b in range(1000) : 1]], 1)", "error too_big"),
        ("true ? 1 : [for a in range(10000) : [for b in range(1000) : 1]]", "error too_big"),
        ("regex(\"(a{500}){500}\", \"a\")", "error too_big"),
        ("regexall(\"x?\", repeat(\"y\", 900000))", "error too_big"),
        ("length(concat([for i in range(19) : range(50000)]...))", "950000"),
        ("concat([for i in range(20) : range(50000)]..., [1])", "error syntax"),
        ("strlen(repeat(\"x\", 16777216))", "16777216"),
        ("repeat(\"x\", 16777217)", "error too_big"),
        ("length(range(100000)) + length(range(100000))", "200000"),
    ]);
}

/// What doubles with each step is counted with all that is in it, shared or not.
#[test]
fn what_doubles_does_not_go_far() {
    let doubled =
        (0..30).fold("[1]".to_owned(), |inner, _| format!("[for x in [{inner}] : [x, x]]"));
    assert_eq!(planned(&doubled).unwrap_err().code, Code::TooBig);
    let text = (0..30).fold("\"x\"".to_owned(), |inner, _| {
        format!("join(\"\", flatten([for x in [{inner}] : [x, x]]))")
    });
    // Nested so deep that the parser has a word to say, too.
    assert!(matches!(planned(&text).unwrap_err().code, Code::TooBig | Code::Syntax));
}

/// As deep as the parser lets pass, on a stack as small as threads have by default.
#[test]
fn the_stack_is_deep_enough() {
    let around = |open: &str, inner: &str, close: &str, depth: usize| {
        format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    let shapes = [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{ a = ", "1", " }"),
        ("-(", "1", ")"),
        ("!", "true", ""),
        ("\"a${", "1", "}\""),
        ("\"%{ if true }${", "1", "}%{ endif }\""),
        ("abs(", "1", ")"),
        ("try(", "1", ")"),
        ("[for x in [1] : ", "x", "]"),
        ("{for x in [1] : \"k\" => ", "x", "}"),
        ("true ? 1 : ", "1", ""),
        ("true ? ", "1", " : 1"),
        ("[0, 0][", "0", "]"),
        ("(1 + 1 + ", "1", ")"),
        ("[\"a\", ", "1", "][0]"),
        ("flatten([", "1", "])"),
    ];
    let check = move || {
        for (open, inner, close) in shapes {
            let deepest = (1..=70).rev().find(|depth| {
                let text = around(open, inner, close, *depth);
                match expr::parse(&text, FileId(0)) {
                    Ok(expression) => {
                        let _ = expr::references(&expression);
                        planned(&text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
                        true
                    }
                    Err(problem) => {
                        assert_eq!(problem.code, Code::Syntax);
                        false
                    }
                }
            });
            assert!(deepest.is_some_and(|depth| 10 < depth), "{open}{close} {deepest:?}");
        }
        let chain = vec!["1"; 129].join(" + ");
        assert_eq!(planned(&chain).unwrap().shown(), "129");
        // Chains inside brackets, so that both limits are reached at once.
        let deep = around("(1 + ", "1", ")", 60);
        assert_eq!(planned(&deep).unwrap().shown(), "61");
        let long = vec!["1"; 60].join(" + ");
        let both = around("[", &format!("{long} + {}", around("(", &long, ")", 4)), "]", 50);
        planned(&both).unwrap();
        let endless = around("[", "1", "]", 100_000);
        assert_eq!(planned(&endless).unwrap_err().code, Code::Syntax);
        let endless = vec!["1"; 100_000].join("+");
        assert_eq!(planned(&endless).unwrap_err().code, Code::Syntax);
    };
    thread::Builder::new().stack_size(2 << 20).spawn(check).unwrap().join().unwrap();
}

#[test]
fn ten_thousand_attributes_take_no_time() {
    let texts: Vec<String> =
        (0..10_000).map(|index| format!("\"name-${{{index} + 1}}-${{upper(\"x\")}}\"")).collect();
    let expressions: Vec<_> =
        texts.iter().map(|text| expr::parse(text, FileId(0)).unwrap()).collect();
    let begun = std::time::Instant::now();
    for expression in &expressions {
        let source = expr::Source::pure(FileId(0));
        assert!(expr::evaluate(expression, &expr::NoNames, &source).is_ok());
    }
    // Told, not judged: how fast a machine is decides no test.
    println!("10000 attributes in {:?}", begun.elapsed());
}

/// A problem is told in a few lines, whatever the values are.
#[test]
fn messages_stay_short() {
    let long = "repeat(\"x\", 1000000)";
    for text in [
        "{}[LONG]",
        "{ (LONG) = 1 }.a",
        "{ (LONG) = 1, (LONG) = 2 }",
        "{for x in [1, 2] : LONG => x}",
        "1 + LONG",
        "tonumber(LONG)",
        "parseint(LONG, 10)",
        "timeadd(LONG, \"1h\")",
        "timeadd(\"2026-01-01T00:00:00Z\", LONG)",
        "formatdate(LONG, \"2026-01-01T00:00:00Z\")",
        "format(LONG, 1)",
        "file(LONG)",
        "csvdecode(\"${LONG},${LONG}\")",
        "regex(\"(${LONG}\", \"\")",
        "jsondecode(LONG)",
        "uuidv5(LONG, \"\")",
    ] {
        let problem = planned(&text.replace("LONG", long)).expect_err(text);
        assert!(problem.message.len() < 400, "{text}: {}", problem.message.len());
        assert!(problem.help.unwrap_or_default().len() < 400, "{text}");
    }
}

#[test]
fn an_object_of_too_many_keys_is_refused_before_it_is_parsed() {
    let keys: String = (0..100_000).map(|index| format!("k{index} = 1\n")).collect();
    let problem = planned(&format!("{{\n{keys}}}")).unwrap_err();
    assert_eq!(problem.code, Code::TooBig);
    assert_eq!(problem.span.map(|span| span.range), Some(0..1));
}
