//! The rules that `toolbus check nats` tries, for people who want to know what each asks for.

pub(super) const RULES: &[(&str, &str)] = &[
    (
        "ping",
        "`$SRV.PING`, `.NAME` and `.NAME.ID` are answered with all that the services API asks for.",
    ),
    ("info", "The same of `$SRV.INFO`."),
    ("stats", "The same of `$SRV.STATS`."),
    ("identity", "All answers have the same name, id, version and metadata."),
    ("name", "The name is letters, digits, `_` and `-`."),
    ("version", "The version is three numbers with dots between them, as SemVer has it."),
    ("other-name", "A PING of another name or id is not answered."),
    ("endpoints", "INFO and STATS list the same endpoints, and their subjects are valid."),
    ("counters", "The numbers of STATS are numbers, and the average time fits them."),
    ("answers", "With `--method`: a request with an empty payload is answered within 5 s."),
    ("counted", "With `--method`: `num_requests` has risen behind it."),
    ("tools", "Of a toolbus: the list has pages, unique names and digests that fit."),
    ("queue-group", "Each endpoint has a queue group, or a request runs once per instance."),
    ("schemas", "Each endpoint says by `input` or `schema` what it takes."),
    ("error-headers", "An error has both headers, and its code is a number."),
];
