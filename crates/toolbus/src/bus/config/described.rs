//! Every key of the config in words: its table, what its value may be, what goes without saying,
//! and what it is for. The JSON Schema and the tables of the documents are made of this.
//!
//! Keys of single wires come from the registry; those that all peers have stand here.

mod schema;

use super::key::{Key, KeyKind};
use crate::peer::{FrontKind, PeerKind, Registry};

pub use schema::schema;

/// A key of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct DescribedKey {
    /// Its name.
    pub name: &'static str,
    /// What its value may be.
    pub shape: Shape,
    /// Whose it is: `all backs`, `oracle backs`.
    pub whose: &'static str,
    /// It has to be there.
    pub is_required: bool,
    /// What goes without saying, as it would be written; empty if that is nothing.
    pub default: &'static str,
    /// What it is for.
    pub doc: &'static str,
}

/// What a value may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Any text.
    Text,
    /// An array of texts.
    Texts,
    /// A text, or an array of them.
    OneOrMoreTexts,
    /// The number of a user, or an array of them.
    OneOrMoreNumbers,
    /// True or false.
    Bool,
    /// True, false or "auto".
    Search,
    /// A time with its unit.
    Duration,
    /// A number of bytes, or text with a unit.
    Size,
    /// An integer above zero, and no higher than this.
    Count(Option<u32>),
    /// An integer above zero, or "auto".
    Threads,
    /// So many calls in so much time.
    Rate,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A table of texts, by names of the user's.
    Names,
    /// A table whose keys are not ours.
    Open,
    /// A table with these keys.
    Table(&'static [DescribedKey]),
    /// The same of a wire.
    Keys(&'static [Key]),
    /// A text, or `false`.
    TextOrFalse,
    /// A text, or `true`.
    TrueOrText,
    /// Arrays of texts, by names of the user's.
    TextsByName,
    /// Tables with these keys, by names of the user's.
    Tables(&'static [DescribedKey]),
}

impl DescribedKey {
    const fn new(
        name: &'static str,
        shape: Shape,
        whose: &'static str,
        doc: &'static str,
    ) -> DescribedKey {
        DescribedKey { name, shape, whose, is_required: false, default: "", doc }
    }

    const fn required(self) -> DescribedKey {
        DescribedKey { is_required: true, ..self }
    }

    const fn default(self, default: &'static str) -> DescribedKey {
        DescribedKey { default, ..self }
    }

    /// A key that a wire has.
    fn of(key: &Key) -> DescribedKey {
        let shape = match key.kind {
            KeyKind::Text | KeyKind::Secret | KeyKind::SecretOrFile => Shape::Text,
            KeyKind::Texts => Shape::Texts,
            KeyKind::Bool => Shape::Bool,
            KeyKind::Duration | KeyKind::DurationOrNone => Shape::Duration,
            KeyKind::Size | KeyKind::HeldSize => Shape::Size,
            KeyKind::Count => Shape::Count(None),
            KeyKind::Choice { words, .. } => Shape::Choice(words),
            KeyKind::Secrets => Shape::Names,
            KeyKind::SecretObject => Shape::Open,
            KeyKind::OneOrMoreTexts => Shape::OneOrMoreTexts,
            KeyKind::TextOrFalse => Shape::TextOrFalse,
            KeyKind::TrueOrText => Shape::TrueOrText,
            KeyKind::TextsByName => Shape::TextsByName,
            KeyKind::Table(keys) => Shape::Keys(keys),
        };
        let described = DescribedKey::new(key.name, shape, key.only_for, key.doc);
        described.default(key.default)
    }
}

/// A table of the config, or a family of them.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its name: `back`, `journal`.
    pub name: &'static str,
    /// There are several, each with a name of the user's: `[back.math]`.
    pub is_family: bool,
    /// What it is for.
    pub doc: &'static str,
    /// Its keys, those of all peers first.
    pub keys: Vec<DescribedKey>,
}

/// All tables, in the order in which the documents tell of them.
pub fn tables(registry: &Registry) -> Vec<Table> {
    let with = |common: &[DescribedKey], keys_of: fn(&'static dyn PeerKind) -> &'static [Key]| {
        let mut all = common.to_vec();
        for key in registry.kinds().flat_map(keys_of).map(DescribedKey::of) {
            // Two kinds may share a key.
            if !all.contains(&key) {
                all.push(key);
            }
        }
        all
    };
    let front_keys = |kind: &'static dyn PeerKind| kind.front().map_or(&[][..], FrontKind::keys);
    let table = |name, is_family, doc, keys| Table { name, is_family, doc, keys };
    vec![
        table("back", true, "Who answers", with(&BACK, PeerKind::back_keys)),
        table("front", true, "On what callers are served", with(&FRONT, front_keys)),
        table("view", true, "What callers are shown, and how", VIEW.to_vec()),
        table("caller", true, "Who calls, and what is let through", CALLER.to_vec()),
        table("lock", false, "What becomes of what differs from the lock", LOCK.to_vec()),
        table("journal", false, "One line of JSON for each call", JOURNAL.to_vec()),
        table("admin", false, "Health, metrics and the live page over HTTP", ADMIN.to_vec()),
        table("serve", false, "How `toolbus serve` works", SERVE.to_vec()),
    ]
}

const BACKS: &str = "all backs";
const PROGRAMS: &str = "backs on stdio";
const FRONTS: &str = "all fronts";
const VIEWS: &str = "all views";
const CALLERS: &str = "all callers";
const LOCKED: &str = "the lock";
const WRITTEN: &str = "the journal";
const PAGES: &str = "health, metrics and the page";
const CALLS_MAX: Shape = Shape::Count(Some(toolbus_proto::limit::CALLS_MAX));

const BACK: [DescribedKey; 14] = [
    DescribedKey::new(
        "connect",
        Shape::Text,
        BACKS,
        "Its address, as on the command line; what a bare command speaks is found out",
    )
    .required(),
    DescribedKey::new(
        "allow",
        Shape::Texts,
        BACKS,
        "Its tools that may be called, by their own names; without it all",
    ),
    DescribedKey::new("timeout", Shape::Duration, BACKS, "How long a call may be quiet")
        .default("60s"),
    DescribedKey::new(
        "start_timeout",
        Shape::Duration,
        BACKS,
        "How long until it must be ready; else as its protocol says",
    ),
    DescribedKey::new(
        "stop_timeout",
        Shape::Duration,
        BACKS,
        "How long from the goodbye to SIGTERM; else as its protocol says",
    ),
    DescribedKey::new(
        "rate",
        Shape::Rate,
        BACKS,
        "How many calls it is given in a time, as in `60/1m`; one too many is refused",
    ),
    DescribedKey::new(
        "in_flight",
        CALLS_MAX,
        BACKS,
        "How many calls it is given at once; one too many is refused",
    ),
    DescribedKey::new(
        "pin",
        Shape::Bool,
        BACKS,
        "It keeps state between calls: of several machines all calls of one caller go to the same; \
         else as its protocol does",
    ),
    DescribedKey::new(
        "restart",
        Shape::Choice(&["on-demand", "never"]),
        PROGRAMS,
        "Whether it is started again by the next call once it is dead",
    )
    .default("on-demand"),
    DescribedKey::new("lock", Shape::Bool, BACKS, "Whether it is in `toolbus.lock`")
        .default("true"),
    DescribedKey::new(
        "idle_stop",
        Shape::Duration,
        "programs that keep running",
        "It is told goodbye when nothing was asked of it for so long, and started again by the \
         next call",
    ),
    DescribedKey::new("env", Shape::Names, PROGRAMS, "Set in its environment").default("{}"),
    DescribedKey::new("env_pass", Shape::Texts, PROGRAMS, "Passed on to it from our environment")
        .default("[]"),
    DescribedKey::new("cwd", Shape::Text, PROGRAMS, "The folder in which it runs"),
];

const FRONT: [DescribedKey; 8] = [
    DescribedKey::new("serve", Shape::Text, FRONTS, "What it listens on").required(),
    DescribedKey::new(
        "list_timeout",
        Shape::Duration,
        FRONTS,
        "How long its first list waits for backs that were never listed; `0s`: not at all",
    )
    .default("15s"),
    DescribedKey::new(
        "search",
        Shape::Search,
        FRONTS,
        "Callers search for its tools; `auto` if there are more than 100",
    ),
    DescribedKey::new(
        "always",
        Shape::Texts,
        FRONTS,
        "Patterns of the tools that are listed even where callers search",
    ),
    DescribedKey::new(
        "callers",
        Shape::Texts,
        "fronts that can tell callers apart",
        "Who may come in: names of callers, `*` and `?` as in patterns",
    ),
    DescribedKey::new("view", Shape::Text, FRONTS, "The view in which its callers see the tools"),
    DescribedKey::new("rate", Shape::Rate, FRONTS, "How many calls in a time, as in `60/1m`"),
    DescribedKey::new("in_flight", CALLS_MAX, FRONTS, "How many calls at once"),
];

const VIEW: [DescribedKey; 8] = [
    DescribedKey::new(
        "show",
        Shape::Texts,
        VIEWS,
        "What is shown: patterns of `<back>.<tool>`, `prompt:<back>.<prompt>`, \
         `resource:<back>.<uri>`, `method:<method>`; without it everything",
    ),
    DescribedKey::new("hide", Shape::Texts, VIEWS, "What is not: patterns; it wins over `show`")
        .default("[]"),
    DescribedKey::new(
        "hints",
        Shape::Table(&HINTS),
        VIEWS,
        "Only tools of which their back says so",
    )
    .default("{}"),
    DescribedKey::new(
        "names",
        Shape::Choice(&["back", "plain", "full"]),
        VIEWS,
        "How tools are named: without the name of the back if it is plain, always with it if full",
    )
    .default("back"),
    DescribedKey::new(
        "instructions",
        Shape::Text,
        VIEWS,
        "What clients are told in place of what the servers say",
    ),
    DescribedKey::new(
        "search",
        Shape::Search,
        VIEWS,
        "Callers search for its tools; `auto` if there are more than 100",
    ),
    DescribedKey::new(
        "always",
        Shape::Texts,
        VIEWS,
        "Patterns of the tools that are listed even where callers search",
    ),
    DescribedKey::new(
        "tool",
        Shape::Tables(&RULE),
        VIEWS,
        "What is changed about single tools, by `<back>.<tool>`",
    ),
];

const HINTS: [DescribedKey; 3] = [
    DescribedKey::new("read_only", Shape::Bool, VIEWS, "They change nothing"),
    DescribedKey::new("idempotent", Shape::Bool, VIEWS, "Once more does no more"),
    DescribedKey::new("destructive", Shape::Bool, VIEWS, "They may destroy something"),
];

const RULE: [DescribedKey; 5] = [
    DescribedKey::new("rename", Shape::Text, VIEWS, "Its name there"),
    DescribedKey::new("title", Shape::Text, VIEWS, "Its title there"),
    DescribedKey::new("description", Shape::Text, VIEWS, "Its description there"),
    DescribedKey::new("append", Shape::Text, VIEWS, "Stands behind its description"),
    DescribedKey::new(
        "fixed",
        Shape::Open,
        VIEWS,
        "Arguments that are filled in and that no caller sees",
    ),
];

const CALLER: [DescribedKey; 10] = [
    DescribedKey::new(
        "token",
        Shape::OneOrMoreTexts,
        CALLERS,
        "Its bearer tokens, as `${NAME}` or `${file:PATH}`",
    ),
    DescribedKey::new(
        "token_sha256",
        Shape::OneOrMoreTexts,
        CALLERS,
        "The SHA-256 of its bearer tokens, in hex",
    ),
    DescribedKey::new(
        "cert_sha256",
        Shape::OneOrMoreTexts,
        CALLERS,
        "The SHA-256 of its client certificates in DER, in hex",
    ),
    DescribedKey::new(
        "cert_subject",
        Shape::OneOrMoreTexts,
        CALLERS,
        "The subjects of its client certificates, as in `O=Tools, CN=ann`",
    ),
    DescribedKey::new(
        "uid",
        Shape::OneOrMoreNumbers,
        CALLERS,
        "The users whose processes it is, on a Unix socket",
    ),
    DescribedKey::new(
        "oauth",
        Shape::Table(&WANTED),
        CALLERS,
        "Which tokens of sign-in servers are its own: all that is given must fit",
    ),
    DescribedKey::new(
        "view",
        Shape::Text,
        CALLERS,
        "The view in which it sees the tools, besides that of the front",
    ),
    DescribedKey::new("rate", Shape::Rate, CALLERS, "How many calls it may make in a time"),
    DescribedKey::new("in_flight", CALLS_MAX, CALLERS, "How many calls it may make at once"),
    DescribedKey::new(
        "limit",
        Shape::Tables(&LIMIT),
        CALLERS,
        "How many of the calls that a pattern matches",
    ),
];

const WANTED: [DescribedKey; 4] = [
    DescribedKey::new("issuer", Shape::OneOrMoreTexts, CALLERS, "Who has made the token"),
    DescribedKey::new("sub", Shape::OneOrMoreTexts, CALLERS, "Whose it is"),
    DescribedKey::new("scope", Shape::OneOrMoreTexts, CALLERS, "A scope that it has"),
    DescribedKey::new(
        "claims",
        Shape::Open,
        CALLERS,
        "What other claims of it are, or have in them: a text or an array of them for each",
    ),
];

const LIMIT: [DescribedKey; 2] = [
    DescribedKey::new("rate", Shape::Rate, CALLERS, "How many of them in a time"),
    DescribedKey::new("in_flight", CALLS_MAX, CALLERS, "How many of them at once"),
];

const LOCK: [DescribedKey; 3] = [
    DescribedKey::new(
        "changed",
        Shape::Choice(&["refuse", "warn"]),
        LOCKED,
        "What becomes of a tool that is not as it was pinned",
    )
    .default("refuse"),
    DescribedKey::new(
        "new",
        Shape::Choice(&["refuse", "warn", "allow"]),
        LOCKED,
        "What becomes of a tool that was not pinned",
    )
    .default("refuse"),
    DescribedKey::new(
        "program",
        Shape::Choice(&["warn", "refuse", "ignore"]),
        LOCKED,
        "What becomes of a back whose program is not the one that was pinned",
    )
    .default("warn"),
];

const JOURNAL: [DescribedKey; 5] = [
    DescribedKey::new("path", Shape::Text, WRITTEN, "The file").required(),
    DescribedKey::new("arguments", Shape::Bool, WRITTEN, "Write the arguments of calls too")
        .default("false"),
    DescribedKey::new("results", Shape::Bool, WRITTEN, "Write their results too").default("false"),
    DescribedKey::new(
        "bytes_max",
        Shape::Size,
        WRITTEN,
        "How large it may grow before it is rotated",
    )
    .default("64MiB"),
    DescribedKey::new(
        "required",
        Shape::Bool,
        WRITTEN,
        "Calls fail as long as it cannot be written; else they go on without it",
    )
    .default("false"),
];

const ADMIN: [DescribedKey; 8] = [
    DescribedKey::new("listen", Shape::Text, PAGES, "Host and port").required(),
    DescribedKey::new(
        "token",
        Shape::Text,
        PAGES,
        "The token that has to be shown, as `${NAME}` or `${file:PATH}`",
    ),
    DescribedKey::new(
        "token_env",
        Shape::Text,
        PAGES,
        "The environment variable that holds that token",
    ),
    DescribedKey::new(
        "insecure",
        Shape::Bool,
        PAGES,
        "Let all look although other machines can reach us",
    )
    .default("false"),
    DescribedKey::new("origins", Shape::Texts, PAGES, "Origins that may look besides our own")
        .default("[]"),
    DescribedKey::new(
        "hosts",
        Shape::Texts,
        PAGES,
        "Names by which we may be called besides our own",
    )
    .default("[]"),
    DescribedKey::new(
        "page",
        Shape::Choice(&["look", "call", "off"]),
        PAGES,
        "What the live page may do; `look` where only this machine can reach it, else `off`",
    ),
    DescribedKey::new(
        "page_values",
        Shape::Bool,
        PAGES,
        "The page tells what calls are given and what they answer",
    )
    .default("true"),
];

const SERVE: [DescribedKey; 1] = [DescribedKey::new(
    "threads",
    Shape::Threads,
    "`toolbus serve`",
    "On how many threads connections over HTTP are served; `auto`: as many as there are cores, at \
     most 8",
)
.default("1")];

#[cfg(test)]
mod tests;
