//! How this program is made a peer of each wire, so that every front can be put before every
//! back: for `toolbus demo` and for the tests of all pairs.

/// A peer of one wire, made of this program and the tools behind an address.
#[derive(Debug, Clone, Copy)]
pub struct Fixture {
    /// The words that make the program serve this wire on its standard input and output; an
    /// address follows, whose tools it serves.
    pub words: &'static [&'static str],
    /// What stands before such a command to make it an address.
    pub scheme: &'static str,
    /// What is called first to see that it works.
    pub hello: Probe,
    /// What calls of this wire cannot do, each with the reason.
    pub cannot: &'static [(Trait, &'static str)],
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
    /// A call that every wire can carry which carries tools of any name.
    pub const UPPER: Probe =
        Probe { tool: "upper", args: r#"{"text":"hello"}"#, answer: r#""HELLO""# };
}

/// What a call may be, besides one that succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trait {
    /// It fails, and the caller learns why.
    Fails,
    /// Its arguments and its answer are nested.
    Nested,
    /// Its arguments and its answer are large: a mebibyte.
    Large,
    /// Its answer comes in parts, each passed on as it comes.
    Streams,
    /// It takes too long, and is given up.
    TimesOut,
    /// Its caller gives it up.
    Cancelled,
}

impl Trait {
    /// All of them.
    pub const ALL: [Trait; 6] = [
        Trait::Fails,
        Trait::Nested,
        Trait::Large,
        Trait::Streams,
        Trait::TimesOut,
        Trait::Cancelled,
    ];

    /// What it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Trait::Fails => "fails",
            Trait::Nested => "nested",
            Trait::Large => "large",
            Trait::Streams => "streams",
            Trait::TimesOut => "times out",
            Trait::Cancelled => "cancelled",
        }
    }
}

impl Fixture {
    /// Why calls of this wire cannot be so, if they cannot.
    pub fn why_not(&self, what: Trait) -> Option<&'static str> {
        self.cannot.iter().find(|(cannot, _)| *cannot == what).map(|(_, why)| *why)
    }
}
