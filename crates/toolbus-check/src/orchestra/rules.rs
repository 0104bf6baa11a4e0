//! The rules that `toolbus check orchestra` tries, for people who want to know what each asks for.

pub(super) const RULES: &[(&str, &str)] = &[
    ("--manifest", "Started with `--manifest` a plugin prints what it is and ends."),
    ("READY", "A plugin says `READY` and its address once it can be called."),
    (
        "handshake with ALPN",
        "A connection with the protocol's ALPN and a known certificate is taken.",
    ),
    ("refuses another ALPN", "A connection for another protocol is refused."),
    ("refuses a foreign certificate", "A certificate of another CA is refused."),
    ("requires a certificate", "A connection without a certificate is refused."),
    ("health", "A health request is answered as healthy."),
    ("echoes request_id", "An answer has the id of its request."),
    ("split header", "A request is understood however its bytes arrive."),
    (
        "empty frame",
        "A frame without a request is answered as unknown, and the connection goes on.",
    ),
    (
        "unknown member",
        "A request of an unknown kind is answered as unknown, and the connection goes on.",
    ),
    ("FIN-less request", "A request is answered before its stream is closed."),
    ("unknown tool", "A call of a tool that it does not have is an error."),
    ("tools have unique names", "No two tools have one name."),
    ("tools have object schemas", "The arguments of each tool are an object."),
    ("150 late FINs", "Streams that are closed late are given back."),
    ("shutdown", "A plugin answers the request to shut down."),
    ("exit", "A plugin ends soon after it was told to."),
];
