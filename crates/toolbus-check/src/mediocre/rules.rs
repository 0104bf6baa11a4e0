//! The rules that `toolbus check mediocre` tries, for people who want to know what each asks for.

pub(super) const RULES: &[(&str, &str)] = &[
    ("unknown-method", "A method that it does not have is answered by `err`."),
    ("missing-method", "A call without a method is answered by `err`, and the connection goes on."),
    ("pipelined", "Calls that are sent before their answers are there are answered in order."),
    ("whitespace", "Between objects there may be white space or none."),
    ("byte-by-byte", "A call is understood however its bytes arrive."),
    ("unknown-fields", "Members that it does not know are ignored."),
    ("half-close", "A call is answered though the caller sends no more."),
    ("stray-bytes", "Bytes that begin no object end the connection, after at most one error."),
    ("single-call", "The method of `--method` is answered."),
    ("stream-call", "The method of `--method` is answered when it is called by an empty stream."),
];
