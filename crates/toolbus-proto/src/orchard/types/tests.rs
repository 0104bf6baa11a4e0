use super::*;

fn canonical(text: &str) -> String {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).to_string()
}

#[test]
fn blanks_breaks_and_comments_are_free() {
    for (text, want) in [
        (" list (\n string )", "list(string)"),
        ("object({})", "object({})"),
        ("object({ a = string, b : number, })", "object({a=string,b=number})"),
        (
            "object({ # first\n a = string // one\n /* two */ b = any\n})",
            "object({a=string,b=any})",
        ),
        ("object({a=\nstring\n,\nb=bool})", "object({a=string,b=bool})"),
        ("tuple([])", "tuple([])"),
        ("tuple([string,])", "tuple([string])"),
        ("object({\"for\"=any,é=any,a-b=any})", "object({a-b=any,\"for\"=any,é=any})"),
    ] {
        assert_eq!(canonical(text), want, "{text}");
    }
}

#[test]
fn defaults_are_plain_values_of_their_type() {
    for (default, want) in [
        ("number, \"5\"", "number,5"),
        ("number, 1e2", "number,100"),
        ("number, -007", "number,-7"),
        ("string, null", "string"),
        ("string, 5", "string,\"5\""),
        ("string, \"$${x} %%{y} $ % \\u00e9\\n\"", "string,\"$${x} %%{y} $ % é\\n\""),
        ("set(string), [\"b\", \"a\", \"b\"]", "set(string),[\"a\",\"b\"]"),
        ("any, { b = [1, null], \"a\" : true }", "any,{\"a\":true,\"b\":[1,null]}"),
        ("object({x=optional(number,1)}), {}", "object({x=optional(number,1)}),{\"x\":1}"),
    ] {
        let text = format!("object({{t=optional({default})}})");
        assert_eq!(canonical(&text), format!("object({{t=optional({want})}})"), "{text}");
        assert_eq!(canonical(&canonical(&text)), canonical(&text));
    }
}

#[test]
fn what_is_no_type_is_told_with_its_place() {
    for (text, offset, message) in [
        ("", 0, "expected a type, found the end"),
        ("strng", 0, "there is no type `strng`, did you mean `string`?"),
        ("list(xyzzy)", 5, "there is no type `xyzzy`"),
        ("list", 0, "`list` needs the type of its elements, such as `list(string)`"),
        ("tuple", 0, "`tuple` needs its parts, such as `tuple([string, number])`"),
        ("object", 0, "`object` needs its parts, such as `object({ name = string })`"),
        ("list(string", 11, "expected `)`, found the end"),
        ("string string", 7, "expected the end of the type, found `s`"),
        ("object({a=string b=string})", 17, "expected `,`, a line break or `}`, found `b`"),
        ("object({a=string,a=any})", 17, "key \"a\" stands twice"),
        ("object({1=string})", 8, "expected a key or `}`, found `1`"),
        ("list(optional(string))", 5, "`optional` can only stand for a key of an `object`"),
        (
            "object({a=optional(number,\"x\")})",
            26,
            "the default does not fit: want number, got string",
        ),
        (
            "object({a=optional(string,x)})",
            26,
            "a default must be a plain value, without references, calls or templates",
        ),
        (
            "object({a=optional(string,\"${x}\")})",
            26,
            "a default must be a plain value, without references, calls or templates",
        ),
        (
            "object({a=optional(string,\"\\ud800\")})",
            28,
            "the string has an escape that means no character",
        ),
        ("object({a=optional(number,1_000)})", 27, "expected `)`, found `_`"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!((error.offset, error.to_string().as_str()), (offset, message), "{text}");
    }
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize| format!("{}string{}", "list(".repeat(depth), ")".repeat(depth));
    assert_eq!(canonical(&nested(32)), nested(32));
    assert_eq!(parse(&nested(33)).unwrap_err().fault, TypeFault::TooDeep);
    let default = |depth| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        parse(&format!("object({{a=optional(any,{open}{close})}})"))
    };
    assert!(default(31).is_ok());
    assert_eq!(default(32).unwrap_err().fault, TypeFault::TooDeep);
    assert!(parse(&"list(".repeat(100_000)).is_err());
}
