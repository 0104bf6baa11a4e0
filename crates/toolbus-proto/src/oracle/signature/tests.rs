use proptest::prelude::*;

use super::*;

fn error(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

#[test]
fn an_error_says_what_and_where() {
    for (text, want) in [
        ("", "there is no function, at byte 0 of the signature"),
        ("f(x: u7)", "there is no type `u7`, at byte 5 of the signature"),
        ("f(x)", "expected `:` and a type, found `)`, at byte 3 of the signature"),
        ("f(", "expected a name, found the end, at byte 2 of the signature"),
        ("f() - > u8", "expected `->`, found `-`, at byte 4 of the signature"),
        ("fn fn()", "expected the name of a function, found `fn()`, at byte 3 of the signature"),
        ("f(x: u8, x: u8)", "two members are named `x`, at byte 9 of the signature"),
        ("f() f()", "the function `f` is declared twice, at byte 4 of the signature"),
        (
            "struct u8 {} f()",
            "`u8` is a type already and cannot be defined, at byte 7 of the signature",
        ),
        (
            "enum Span {A} f()",
            "`Span` is a type already and cannot be defined, at byte 5 of the signature",
        ),
        (
            "struct A {} enum A {B} f()",
            "the type `A` is defined twice, at byte 17 of the signature",
        ),
        ("enum E {} f()", "expected the name of a variant, found `}`, at byte 8 of the signature"),
        (
            "f(x: [u8; 65536])",
            "an array holds at most 65535 elements, not 65536, at byte 10 of the signature",
        ),
        (
            "f(x: Array<[(); 3]>)",
            "the elements of `Array<[(); 3]>` take no felts, so their number means nothing, \
             at byte 5 of the signature",
        ),
        (
            "struct A { b: Option<B> } struct B { a: [A; 2] } f()",
            "a type contains itself; it may only through an Array or a Span, \
             at byte 7 of the signature",
        ),
        ("f(\"a)", "expected a JSON string, found `\"a)`, at byte 2 of the signature"),
        ("f(,)", "expected a name, found `,)`, at byte 2 of the signature"),
        ("f(x: (,))", "expected a type, found `,))`, at byte 6 of the signature"),
    ] {
        assert_eq!(error(text), want, "{text}");
    }
}

#[test]
fn the_canonical_form_is_the_shortest_that_says_it() {
    for (text, want) in [
        ("\"f\"(\"a\": u8)", "f(a: u8)"),
        ("\"fn\"(\"\": u8)", "\"fn\"(\"\": u8)"),
        ("fn f(a:((u8),(),),)->((),)", "f(a: (u8, ())) -> ((),)"),
        ("struct E{}f(e:E)", "struct E { } fn f(e: E)"),
        (
            "struct N { next: Array<N>, v: Span<M> } enum M { A: N, B } struct Z { } f() -> N",
            "struct N { next: Array<N>, v: Span<M> } enum M { A: N, B } fn f() -> N",
        ),
        (
            "struct A{} struct B{c:C} struct C{} f(x: [B; 007], y: Result<A, B>) -> bool",
            "struct B { c: C } struct C { } struct A { } fn f(x: [B; 7], y: Result<A, B>) -> bool",
        ),
        ("f(s: shortstring)//x\n->\tbytes31;", "f(s: shortstring) -> bytes31"),
        ("struct fn { x: u8 } f(x: fn)", "struct fn { x: u8 } fn f(x: fn)"),
    ] {
        let functions = parse(text).unwrap();
        assert_eq!(functions[0].canonical(), want);
        assert_eq!(parse(want).unwrap(), functions, "{text}");
    }
}

#[test]
fn nesting_ends_at_its_limit() {
    let nested = |depth| format!("f(x: {}u8{})", "Array<".repeat(depth), ">".repeat(depth));
    assert!(parse(&nested(NESTING_MAX)).is_ok());
    assert!(error(&nested(NESTING_MAX + 1)).contains("nested deeper than 128"));
    assert!(
        error(&"f(x: ".chars().chain("(".repeat(100_000).chars()).collect::<String>())
            .contains("nested deeper than 128")
    );

    let chain = |length: usize| {
        let links = (1..length).map(|i| format!("struct S{i} {{ a: S{}, b: S{} }}", i - 1, i - 1));
        let links: String = links.collect();
        format!("struct S0 {{ a: u8 }} {links} f(x: S{})", length - 1)
    };
    assert!(parse(&chain(NESTING_MAX)).is_ok());
    assert!(error(&chain(NESTING_MAX + 1)).contains("nested deeper than 128"));
    assert!(error(&chain(20_000)).contains("nested deeper than 128"));
}

#[test]
fn long_chains_through_arrays_are_printed_without_recursion() {
    let links = (1..10_000).map(|i| format!("struct S{i} {{ a: Array<S{}> }}", i - 1));
    let text = format!("struct S0 {{ a: u8 }} {} f(x: S9999)", links.collect::<String>());
    let canonical = parse(&text).unwrap()[0].canonical();
    assert!(canonical.ends_with("struct S0 { a: u8 } fn f(x: S9999)"));
}

#[test]
fn a_text_has_a_longest_length() {
    let text = |bytes: usize| format!("f(){}", " ".repeat(bytes - 3));
    assert!(parse(&text(TEXT_BYTES_MAX)).is_ok());
    assert!(error(&text(TEXT_BYTES_MAX + 1)).contains("longer than 1048576 bytes"));
}

proptest! {
    #[test]
    fn no_text_breaks_the_parser(text in r#"(?s).{0,40}"#) {
        let _ = parse(&text);
    }

    #[test]
    fn no_words_break_the_parser(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "struct", "enum", "fn", "f", "A", "B", "x", "u8", "u256", "json", "Option", "Result",
                "Array", "Span", "(", ")", "[", "]", "<", ">", "{", "}", ",", ":", ";", "->", "3",
                "\"q\"", "// c\n", " ", "é",
            ]),
            0..30,
        )
    ) {
        if let Ok(functions) = parse(&words.concat()) {
            for function in functions {
                prop_assert_eq!(&parse(&function.canonical()).unwrap(), &[function]);
            }
        }
    }
}
