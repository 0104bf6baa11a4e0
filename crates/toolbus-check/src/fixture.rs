//! How this program is made a peer of each wire, so that every front can be put before every
//! back: for `toolbus demo` and for the tests of all pairs.

use serde_json::Value;

/// All of them, by the names of their wires, in the order in which those are listed.
pub const FIXTURES: [(&str, &Fixture); 5] = [
    ("oracle", &ORACLE),
    ("orchard", &ORCHARD),
    ("mcp", &MCP),
    ("mediocre", &MEDIOCRE),
    ("orchestra", &ORCHESTRA),
];

/// That of the wire of this name, if this program can be a peer of it.
pub fn fixture(wire: &str) -> Option<&'static Fixture> {
    FIXTURES.into_iter().find(|(name, _)| *name == wire).map(|(_, fixture)| fixture)
}

/// A peer of one wire, made of this program and the tools behind an address.
#[derive(Debug, Clone, Copy)]
pub struct Fixture {
    /// The words that make the program serve this wire on its standard input and output; an
    /// address follows, whose tools it serves.
    pub words: &'static [&'static str],
    /// What stands before such a command to make it an address.
    pub scheme: &'static str,
    /// Do calls on one connection run side by side?
    pub runs_side_by_side: bool,
    /// What is called first to see that it works.
    pub hello: Probe,
    /// What calls of this wire cannot do, or not as it is, each with the reason.
    pub limits: &'static [(Capability, &'static str)],
}

/// A call and what it answers.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// The tool.
    pub tool: &'static str,
    /// Its arguments, as JSON.
    pub args: &'static str,
    /// What it answers, as JSON.
    pub answer: &'static str,
}

impl Probe {
    /// A call of a built-in tool that any wire can carry.
    pub const UPPER: Probe =
        Probe { tool: "upper", args: r#"{"text":"hello"}"#, answer: r#""HELLO""# };

    /// Is this the answer, or a wire's way to carry it: in an object, or as the text of that?
    pub fn is_answered_by(&self, answer: &str) -> bool {
        let read = |text: &str| serde_json::from_str::<Value>(text).ok();
        let expected = read(self.answer);
        let mut left = read(answer);
        while let Some(value) = left {
            left = match value {
                value if expected.as_ref() == Some(&value) => return true,
                Value::Object(mut members) if members.len() == 1 => {
                    members.remove("text").or_else(|| members.remove("result"))
                }
                Value::String(text) => read(&text),
                _ => None,
            };
        }
        false
    }
}

/// What may be wanted of the calls of a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Capability {
    Lists,
    Succeeds,
    Fails,
    Nested,
    Large,
    Streams,
    TimesOut,
    Cancelled,
}

impl Capability {
    /// All of them.
    pub const ALL: [Capability; 8] = [
        Capability::Lists,
        Capability::Succeeds,
        Capability::Fails,
        Capability::Nested,
        Capability::Large,
        Capability::Streams,
        Capability::TimesOut,
        Capability::Cancelled,
    ];

    /// What it is called.
    pub fn title(self) -> &'static str {
        match self {
            Capability::Lists => "Tools are listed",
            Capability::Succeeds => "A call succeeds",
            Capability::Fails => "A call fails",
            Capability::Nested => "Nested values",
            Capability::Large => "Large values",
            Capability::Streams => "Answers in parts",
            Capability::TimesOut => "Time-outs",
            Capability::Cancelled => "Cancellation",
        }
    }

    /// What it means.
    pub fn meaning(self) -> &'static str {
        match self {
            Capability::Lists => "The caller learns which tools the back has.",
            Capability::Succeeds => "The answer is the back's.",
            Capability::Fails => "The caller learns what the tool said when it failed.",
            Capability::Nested => "Arguments and answers are objects and arrays in each other.",
            Capability::Large => "Arguments and answers of 1 MiB.",
            Capability::Streams => "Each part of an answer is passed on as it comes.",
            Capability::TimesOut => {
                "A call that is quiet for too long is given up, and the caller told."
            }
            Capability::Cancelled => {
                "The caller gives a call up while it runs, and the next call on the same \
                 connection is answered."
            }
        }
    }
}

impl Fixture {
    /// Why calls of this wire cannot do this, or not as it is.
    pub fn why_not(&self, what: Capability) -> Option<&'static str> {
        self.limits.iter().find(|(limit, _)| *limit == what).map(|(_, why)| *why)
    }
}

const ORACLE: Fixture = Fixture {
    words: &["oracle", "serve"],
    scheme: "stdio:",
    runs_side_by_side: false,
    hello: Probe::UPPER,
    limits: &[
        (Capability::Nested, "what has no Cairo type travels as the text of its JSON"),
        (Capability::Streams, "an answer is one list of felts, so its parts are collected"),
        (Capability::Cancelled, "a call cannot be taken back, and the next one waits for it"),
    ],
};

/// The answer of every call is an object.
const WRAPPED: &str = "outputs are an object; an answer that is not one is its member `result`";

const ORCHARD: Fixture = Fixture {
    words: &["provider"],
    scheme: "orchard+stdio:",
    runs_side_by_side: true,
    hello: Probe { answer: r#"{"result":"HELLO"}"#, ..Probe::UPPER },
    limits: &[
        (Capability::Succeeds, WRAPPED),
        (Capability::Large, WRAPPED),
        (Capability::Streams, "outputs are one object, so the parts of an answer are collected"),
        (Capability::Cancelled, "a host has no word for it: the action runs to its end, unheard"),
    ],
};

const MCP: Fixture = Fixture {
    words: &["mcp"],
    scheme: "mcp+stdio:",
    runs_side_by_side: true,
    hello: Probe::UPPER,
    limits: &[(
        Capability::Streams,
        "an answer is whole, so its parts are collected; meanwhile they are told as progress",
    )],
};

const MEDIOCRE: Fixture = Fixture {
    words: &["rpc", "serve", "--listen", "stdio:"],
    scheme: "mediocre+stdio:",
    runs_side_by_side: false,
    hello: Probe::UPPER,
    limits: &[],
};

const IN_AN_OBJECT: &str = "a result is an object, so a text is its member `text`";

const ORCHESTRA: Fixture = Fixture {
    words: &["plugin"],
    scheme: "orchestra+plugin:",
    runs_side_by_side: true,
    hello: Probe::UPPER,
    limits: &[
        (Capability::Succeeds, IN_AN_OBJECT),
        (Capability::Large, IN_AN_OBJECT),
        (
            Capability::Streams,
            "an answer is whole, so its parts are collected; meanwhile they are told as progress",
        ),
    ],
};
