use super::*;
use crate::oracle::{felt::Leniency, felts, signature};

const SHAPES: &str = "struct Point { x: u32, y: u32 } \
                      enum Shape { Dot, Circle: u32, Rect: Point } ";

fn function(text: &str) -> Function {
    signature::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).remove(0)
}

fn list(text: &str) -> Vec<Felt> {
    felts::read_words(text.split(',').filter(|word| !word.is_empty()), Leniency::Strict).unwrap()
}

fn printed(felts: &[Felt]) -> String {
    felts.iter().map(Felt::to_string).collect::<Vec<_>>().join(",")
}

fn returning(ty: &str) -> Function {
    function(&format!("{SHAPES} f() -> {ty}"))
}

#[test]
fn values_and_felts_are_the_same_both_ways() {
    let x31 = "x".repeat(31);
    let word = format!("0x1,0x{},0x0,0x0", "78".repeat(31));
    for (ty, json, felts) in [
        ("u256", r#""340282366920938463463374607431768211461""#, "0x5,0x1"),
        ("i8", "-128", "0x800000000000010ffffffffffffffffffffffffffffffffffffffffffffff81"),
        ("ByteArray", r#""""#, "0x0,0x0,0x0"),
        ("ByteArray", r#""abc""#, "0x0,0x616263,0x3"),
        ("ByteArray", &format!("\"{x31}\""), &word),
        ("ByteArray", r#""a\"b\n""#, "0x0,0x6122620a,0x4"),
        ("ByteArray", r#"{"bytes":"00ff"}"#, "0x0,0xff,0x2"),
        ("shortstring", r#"{"bytes":"ff"}"#, "0xff"),
        ("shortstring", r#"{"bytes":"6100"}"#, "0x6100"),
        ("Option<u64>", "7", "0x0,0x7"),
        ("Option<u64>", "null", "0x1"),
        ("Option<()>", r#"{"Some":null}"#, "0x0"),
        ("Option<json>", r#"{"Some":null}"#, "0x0,0x0,0x6e756c6c,0x4"),
        ("Option<json>", "null", "0x1"),
        ("Option<Option<Option<u8>>>", r#"{"Some":{"Some":7}}"#, "0x0,0x0,0x0,0x7"),
        ("Result<u64, ByteArray>", r#"{"Err":"oops"}"#, "0x1,0x0,0x6f6f7073,0x4"),
        ("Shape", r#""Dot""#, "0x0"),
        ("Shape", r#"{"Rect":{"x":3,"y":4}}"#, "0x2,0x3,0x4"),
        ("(u8, Array<u64>, bool)", "[1,[10,11],true]", "0x1,0x2,0xa,0xb,0x1"),
        ("[u64; 3]", "[1,2,3]", "0x1,0x2,0x3"),
        ("[(); 2]", "[null,null]", ""),
        (
            "i64",
            "-9007199254740991",
            "0x800000000000010ffffffffffffffffffffffffffffffffffe0000000000002",
        ),
        (
            "i64",
            r#""-9007199254740992""#,
            "0x800000000000010ffffffffffffffffffffffffffffffffffe0000000000001",
        ),
        (
            "json",
            r#"{"b":1.50,"a":[1e400,"\u0041"]}"#,
            "0x1,0x7b2262223a312e35302c2261223a5b31653430302c225c7530303431225d7d,0x0,0x0",
        ),
    ] {
        let function = returning(ty);
        let Ok(encoded) = encode_result(&function, json) else { panic!("{ty} {json}") };
        if ty != "json" {
            assert_eq!(printed(&encoded), felts, "{ty} {json}");
        }
        assert_eq!(decode_result(&function, &encoded).unwrap(), json, "{ty}");
    }
}

#[test]
fn json_may_be_written_in_more_ways_than_one() {
    let minus_one = "0x800000000000011000000000000000000000000000000000000000000000000";
    for (ty, json, felts) in [
        ("u8", r#""0xFf""#, "0xff"),
        ("u8", r#""007""#, "0x7"),
        ("u8", "-0", "0x0"),
        ("u8", r#""\u0037""#, "0x7"),
        ("felt252", "-1", minus_one),
        ("felt252", r#""-1""#, minus_one),
        ("felt252", r#""10""#, "0xa"),
        ("bytes31", "16", "0x10"),
        ("shortstring", r#"{"bytes":"0061"}"#, "0x61"),
        ("()", "[ ]", ""),
        ("Shape", r#"{"Dot":null}"#, "0x0"),
        ("Shape", r#" { "Rect" : { "y" : 4 , "x" : 3 } } "#, "0x2,0x3,0x4"),
        ("json", r#" [ 1 , "a b" ] "#, "0x0,0x5b312c22612062225d,0x9"),
    ] {
        let encoded = encode_result(&returning(ty), json).unwrap();
        assert_eq!(printed(&encoded), felts, "{ty} {json}");
    }
}

#[test]
fn json_that_does_not_fit_is_refused_with_its_place() {
    for (ty, json, want) in [
        ("u8", "256", "the result must be an integer of type u8, not 256"),
        ("u8", "-1", "the result must be an integer of type u8, not -1"),
        ("u8", "1.0", "the result must be an integer of type u8, not 1.0"),
        ("u8", "1e1", "the result must be an integer of type u8, not 1e1"),
        ("u8", r#""""#, r#"the result must be an integer of type u8, not """#),
        ("u8", r#""+1""#, r#"the result must be an integer of type u8, not "+1""#),
        ("i8", "128", "the result must be an integer of type i8, not 128"),
        ("i8", "-129", "the result must be an integer of type i8, not -129"),
        ("i8", r#""-0x1""#, r#"the result must be an integer of type i8, not "-0x1""#),
        ("bool", "1", "the result must be true or false, not 1"),
        ("[u8; 2]", "[1]", "the result must be an array of exactly 2, not [1]"),
        ("[u8; 2]", "[1,2,3]", "the result must be an array of exactly 2, not [1,2,3]"),
        ("Array<Point>", r#"[{"x":1,"y":2},{"x":1}]"#, "`[1].y` of the result is missing"),
        ("Point", r#"{"x":1,"z":2}"#, "`z` of the result is unknown"),
        ("Point", r#"{"x":1,"x":2}"#, "`x` of the result is given twice"),
        ("Point", "[1,2]", "the result must be an object, not [1,2]"),
        ("Shape", r#""Circle""#, r#"the result must be a variant of `Shape`, not "Circle""#),
        ("Shape", "{}", "the result must be a variant of `Shape`, not {}"),
        ("Shape", r#"{"Dot":1}"#, r#"the result must be a variant of `Shape`, not {"Dot":1}"#),
        (
            "Shape",
            r#"{"Circle":1,"Dot":null}"#,
            r#"the result must be a variant of `Shape`, not {"Circle":1,"Dot":null}"#,
        ),
        ("Option<json>", "5", r#"the result must be null or {"Some":…}, not 5"#),
        (
            "Array<(u8, Point)>",
            r#"[[1,{"x":-1,"y":0}]]"#,
            "`[0][1].x` of the result must be an integer of type u32, not -1",
        ),
        (
            "ByteArray",
            r#"{"bytes":"abc"}"#,
            r#"the result must be a string or {"bytes":"<hex>"}, not {"bytes":"abc"}"#,
        ),
        ("()", "0", "the result must be null, not 0"),
        (
            "bytes31",
            "-1",
            "the result must be an integer or a hex string of at most 31 bytes, not -1",
        ),
    ] {
        assert_eq!(encode_result(&returning(ty), json).unwrap_err().to_string(), want);
    }
    let long = format!("\"{}\"", "a".repeat(32));
    assert!(encode_result(&returning("shortstring"), &long).is_err());
    assert!(encode_result(&returning("shortstring"), r#""é""#).is_err());
    let prime = format!("\"0x8{}11{}1\"", "0".repeat(12), "0".repeat(47));
    assert!(encode_result(&returning("felt252"), &prime).is_err());
}

#[test]
fn arguments_go_by_position_or_by_name() {
    let f = function("f(a: u8, b: Option<u8>, c: Option<json>)");
    for (args, felts) in [
        ("[1,2]", "0x1,0x0,0x2,0x1"),
        (r#"{"a":1}"#, "0x1,0x1,0x1"),
        (r#"{"c":null,"b":2,"a":1}"#, "0x1,0x0,0x2,0x1"),
        (r#"{"c":{"Some":5},"a":1}"#, "0x1,0x1,0x0,0x0,0x35,0x1"),
    ] {
        assert_eq!(printed(&encode_args(&f, args).unwrap()), felts);
    }
    for (args, want) in [
        ("[1,2,null,4]", "the argument list has more than the 3 values that the function takes"),
        ("[]", "argument `a` is missing"),
        (r#"{"b":1}"#, "argument `a` is missing"),
        (r#"{"a":1,"d":1}"#, "argument `d` is unknown"),
        (r#"{"a":1,"b":"x"}"#, r#"argument `b` must be an integer of type u8, not "x""#),
        ("5", "the argument list must be an array or an object, not 5"),
    ] {
        assert_eq!(encode_args(&f, args).unwrap_err().to_string(), want);
    }
}

#[test]
fn arguments_take_the_form_that_the_tool_reads() {
    let f = function("f(a: u128, b: Option<u8>, c: Option<json>)");
    let max = format!("0x{}", "f".repeat(32));
    let all = list(&format!("{max},0x0,0x2,0x0,0x0,0x35,0x1"));
    let few = list("0x1,0x1,0x1");
    for (form, felts, want) in [
        (ArgsForm::Plain, &all, r#"{"a":340282366920938463463374607431768211455,"b":2,"c":5}"#),
        (ArgsForm::Plain, &few, r#"{"a":1}"#),
        (
            ArgsForm::Signature,
            &all,
            r#"{"a":340282366920938463463374607431768211455,"b":2,"c":{"Some":5}}"#,
        ),
        (ArgsForm::Signature, &few, r#"{"a":1,"b":null,"c":null}"#),
    ] {
        assert_eq!(decode_args(&f, form, felts).unwrap(), want);
    }
    let echo = function("echo(arguments: json) -> json");
    let felts = encode_args(&echo, r#"[{"a":[1]}]"#).unwrap();
    assert_eq!(decode_args(&echo, ArgsForm::Whole, &felts).unwrap(), r#"{"a":[1]}"#);
}

#[test]
fn felts_that_do_not_fit_are_refused_with_their_number() {
    for (text, felts, want) in [
        ("f(x: u8)", "0x100", "parameter `x` must be of type u8, but felt 0 is 0x100"),
        ("f(x: u8)", "", "parameter `x` needs felt 0, which is missing"),
        ("f(x: u8)", "0x1,0x2", "parameter `x` ends before felt 1, which is left over"),
        ("f()", "0x1", "the argument list ends before felt 0, which is left over"),
        ("f(x: bool)", "0x2", "parameter `x` must be of type bool, but felt 0 is 0x2"),
        ("f(a: u8, x: i8)", "0x1,0x80", "parameter `x` must be of type i8, but felt 1 is 0x80"),
        ("f(x: Shape)", "0x3", "parameter `x` must be of type Shape, but felt 0 is 0x3"),
        ("f(x: Shape)", "0x2,0x3", "parameter `x.Rect.y` needs felt 2, which is missing"),
        ("f(x: u256)", "0x1", "parameter `x` needs felt 1, which is missing"),
        (
            "f(x: Array<Point>)",
            "0x2,0x1,0x2,0x3",
            "parameter `x` has the length 0x2 in felt 0, but only 3 felts follow",
        ),
        (
            "f(x: Array<u8>)",
            "0x1000000000000000",
            "parameter `x` has the length 0x1000000000000000 in felt 0, but only 0 felts follow",
        ),
        ("f(x: ByteArray)", "0x0,0x61", "parameter `x` needs felt 2, which is missing"),
        (
            "f(x: ByteArray)",
            "0x0,0x61,0x1f",
            "parameter `x` must be a ByteArray with at most 30 bytes in its last word, but felt 2 is 0x1f",
        ),
        (
            "f(x: ByteArray)",
            "0x0,0x616263,0x2",
            "parameter `x` must be a ByteArray with 2 bytes in this word, but felt 1 is 0x616263",
        ),
        (
            "f(x: json)",
            "0x0,0x7b,0x1",
            "parameter `x` must be JSON, but the text that begins at felt 0 is not",
        ),
    ] {
        let function = function(&format!("{SHAPES} {text}"));
        let error = decode_args(&function, ArgsForm::Plain, &list(felts)).unwrap_err();
        assert_eq!(error.to_string(), want);
    }
    let wide = format!("0x1,0x1{},0x0,0x0", "0".repeat(62));
    let error = decode_result(&returning("ByteArray"), &list(&wide)).unwrap_err().to_string();
    assert!(error.contains("31 bytes in this word, but felt 1 is"), "{error}");
    let error = decode_result(&returning("u8"), &list("0x1,0x2")).unwrap_err().to_string();
    assert_eq!(error, "the result ends before felt 1, which is left over");
}

#[test]
fn values_are_nested_no_deeper_than_json_may_be() {
    let tree = function("struct Tree { kids: Array<Tree> } f(t: Array<Tree>) -> Tree");
    let nested = |depth: usize| {
        let mut felts = vec![Felt::ONE; depth - 1];
        felts.push(Felt::ZERO);
        felts
    };
    let json = decode_result(&tree, &nested(NESTING_MAX / 2)).unwrap();
    assert_eq!(encode_result(&tree, &json).unwrap(), nested(NESTING_MAX / 2));
    let error = decode_result(&tree, &nested(100_000)).unwrap_err();
    assert_eq!(error.fault(), &CodecFault::TooDeep);
    let deep = r#"{"kids":["#.repeat(100_000);
    assert_eq!(encode_result(&tree, &deep).unwrap_err().fault(), &CodecFault::TooDeep);
}

/// Types can be written that make much of nothing; the limits end them.
#[test]
fn little_does_not_become_too_much() {
    let links = (1..100).map(|i| format!("struct S{i} {{ a: S{}, b: S{} }} ", i - 1, i - 1));
    let doubling = format!("struct S0 {{}} {} f() -> S99", links.collect::<String>());
    let error = decode_result(&function(&doubling), &[]).unwrap_err();
    assert_eq!(error.fault(), &CodecFault::TooMuchJson);

    let options = (0..10_000).map(|i| format!("f{i}: Option<u8>,")).collect::<String>();
    let wide = function(&format!("struct S {{ {options} }} f() -> Array<S>"));
    let many = format!("[{}{{}}]", "{},".repeat(2_000));
    let error = encode_result(&wide, &many).unwrap_err();
    assert_eq!(error.fault(), &CodecFault::TooManyFelts);
}
