//! The rules that `toolbus check mcp` tries, for people who want to know what each asks for.

pub(super) const RULES: &[(&str, &str)] = &[
    ("handshake", "`initialize` or `server/discover` is answered as the protocol says."),
    (
        "version",
        "A version that it does not know is answered by one that it does, or by error -32022.",
    ),
    ("ids", "Ids come back as they were sent: a string as a string, a number as a number."),
    (
        "tools-list",
        "Every page of its tools can be read; names are unique and schemas are of objects.",
    ),
    (
        "unknown-tool",
        "A call of a tool that it does not have is an error, or a result with `isError`.",
    ),
    ("unknown-method", "A method that it does not have is error -32601."),
    ("notification", "A notification is not answered."),
    ("stdout", "Its standard output is lines of JSON and nothing else."),
    ("eof", "It ends within 5 s when its input does."),
    ("session", "A session that it does not know is answered by 404."),
    ("headers", "A modern request without its header `Mcp-Method` is error -32020."),
    ("origin", "A web page of another origin is refused with 403."),
    ("garbage", "A line that is no JSON does not end it."),
    ("ping", "`ping` is answered."),
];
