//! The rules that `toolbus check oracle` tries, for people who want to know what each asks for.

pub(super) const RULES: &[(&str, &str)] = &[
    ("first-byte", "The first byte of its output is `{`: nothing stands before the first message."),
    ("ready", "Its first line is the request `ready`, with an id that can be answered."),
    ("quiet-before-ack", "It says nothing more until `ready` is answered."),
    ("answers-invoke", "A call is answered, by a result or an error, on one line and within 5 s."),
    ("id-echo", "Each answer has the id of its call, as it was written."),
    ("felts", "What a call results in are felts."),
    ("error-ack", "It ends when `ready` is answered by an error."),
    ("shutdown", "It ends soon after the notification `shutdown`."),
    ("eof", "It ends when its input does."),
    ("survives-garbage", "A line that is no JSON does not end it."),
    ("number-ids", "Ids such as -1, 1.5 and 2^64 are echoed, too."),
];
