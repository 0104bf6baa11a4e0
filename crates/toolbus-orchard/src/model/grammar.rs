//! The blocks of the language and what may stand in them. The reader takes its names from these
//! tables, and `docs/orchard.md` is written from them, so that neither can forget one.

/// A key of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// How it is written.
    pub name: &'static str,
    /// What it takes and means, for people.
    pub meaning: &'static str,
}

/// A kind of block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The word that it begins with.
    pub name: &'static str,
    /// What its labels are.
    pub labels: &'static [&'static str],
    /// The blocks that it stands in, and how often.
    pub place: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// The keys that it knows.
    pub keys: &'static [Key],
    /// What else stands in it, where the names are not ours.
    pub others: Option<&'static str>,
    /// The blocks that it knows.
    pub blocks: &'static [&'static str],
}

/// All of them, from the outermost to the innermost.
pub const BLOCKS: [Block; 12] = [
    Block {
        name: "scenario",
        labels: &["NAME"],
        place: "in a file, any number of times",
        purpose: "What is planned and run. With several in a file `--scenario NAME` chooses one.",
        keys: &SCENARIO,
        others: None,
        blocks: &IN_SCENARIO,
    },
    Block {
        name: "component",
        labels: &["NAME"],
        place: "in a file of its own, once",
        purpose: "Actions that scenarios and other components include.",
        keys: &[],
        others: None,
        blocks: &IN_BODY,
    },
    Block {
        name: "required_providers",
        labels: &[],
        place: "in `scenario`, once at most",
        purpose: "The providers whose actions are used. Components use those of the scenario.",
        keys: &[],
        others: Some(
            "`NAME = { source = \"…\" }`: a provider and where it comes from; the name is yours to choose",
        ),
        blocks: &[],
    },
    Block {
        name: "provider",
        labels: &["NAME"],
        place: "in `scenario`, once for each instance",
        purpose: "What a provider is configured with. Left out, it gets the defaults of its schema.",
        keys: &PROVIDER,
        others: Some("the config of its schema; may refer to `var` and `local`, not to actions"),
        blocks: &[],
    },
    Block {
        name: "variable",
        labels: &["NAME"],
        place: "in `scenario` and `component`, any number of times",
        purpose: "A value that is given from outside, read as `var.NAME`.",
        keys: &VARIABLE,
        others: None,
        blocks: &[],
    },
    Block {
        name: "locals",
        labels: &[],
        place: "in `scenario` and `component`, any number of times",
        purpose: "Names for values that are used more than once.",
        keys: &[],
        others: Some("`NAME = EXPRESSION`, read as `local.NAME`"),
        blocks: &[],
    },
    Block {
        name: "action",
        labels: &["TYPE", "NAME"],
        place: "in `scenario` and `component`, any number of times",
        purpose: "One thing that a provider does. TYPE is the action's name in the provider's schema.",
        keys: &ACTION,
        others: Some("the attributes of its schema"),
        blocks: &IN_ACTION,
    },
    Block {
        name: "retry",
        labels: &[],
        place: "in `action`, once at most",
        purpose: "Tries an action again that the provider refused. Its attributes are evaluated once. An action that got no answer is never tried again: it may have had its effect.",
        keys: &RETRY,
        others: None,
        blocks: &[],
    },
    Block {
        name: "lifecycle",
        labels: &[],
        place: "in `action`, once at most",
        purpose: "How an action ends, and how it is undone.",
        keys: &LIFECYCLE,
        others: None,
        blocks: &IN_LIFECYCLE,
    },
    Block {
        name: "teardown",
        labels: &[],
        place: "in `lifecycle`, once at most",
        purpose: "How the action is undone: `teardown` executes the same action of the same provider once more, with these attributes. They may refer to `self`, which is what the action gave, and make no order.",
        keys: &[],
        others: Some("the attributes of the action's schema"),
        blocks: &[],
    },
    Block {
        name: "component",
        labels: &["TYPE", "NAME"],
        place: "in `scenario` and `component`, any number of times",
        purpose: "Includes a component. TYPE is the name that its file gives it.",
        keys: &COMPONENT,
        others: None,
        blocks: &[],
    },
    Block {
        name: "output",
        labels: &["NAME"],
        place: "in `scenario` and `component`, any number of times",
        purpose: "What a scenario prints at its end, and what a component gives: `component.TYPE.NAME.OUTPUT`.",
        keys: &OUTPUT,
        others: None,
        blocks: &[],
    },
];

const fn key(name: &'static str, meaning: &'static str) -> Key {
    Key { name, meaning }
}

/// Their names, for the reader.
pub(super) const fn names<const COUNT: usize>(keys: &[Key; COUNT]) -> [&'static str; COUNT] {
    let mut names = [""; COUNT];
    let mut at = 0;
    while at < COUNT {
        names[at] = keys[at].name;
        at += 1;
    }
    names
}

pub(super) const IN_BODY: [&str; 5] = ["variable", "locals", "component", "action", "output"];
pub(super) const IN_SCENARIO: [&str; 7] =
    ["required_providers", "provider", "variable", "locals", "component", "action", "output"];
pub(super) const IN_ACTION: [&str; 2] = ["retry", "lifecycle"];
pub(super) const IN_LIFECYCLE: [&str; 1] = ["teardown"];

pub(super) const SCENARIO: [Key; 2] = [
    key("description", "text for `toolbus orchard list`"),
    key("tags", "a list of words, for `list` as well"),
];

pub(super) const PROVIDER: [Key; 1] = [key(
    "alias",
    "a name that makes a further instance with its own process; actions choose it by `provider = NAME.ALIAS`",
)];

pub(super) const VARIABLE: [Key; 4] = [
    key(
        "type",
        "a type, such as `string` or `list(object({ id = number }))`; left out, it is `any`",
    ),
    key("default", "its value if none is given; without one it must be given"),
    key("description", "text for people"),
    key("sensitive", "`true`: never shown, neither is what is made of it"),
];

pub(super) const COMPONENT: [Key; 4] = [
    key("source", "required; the path of its file, relative to this one"),
    key("inputs", "an object with the values of its variables"),
    key("for_each", "a map, an object or a set of strings: one component for each"),
    key("depends_on", "as in `action`; holds for all actions in it"),
];

/// The first three are ours whatever the schema of the action has.
pub(super) const ACTION: [Key; 5] = [
    key(
        "depends_on",
        "a list of `action.TYPE.NAME` and `component.TYPE.NAME` that come before, though nothing of them is used",
    ),
    key("provider", "which provider, where several have this action: `NAME` or `NAME.ALIAS`"),
    key(
        "for_each",
        "a map, an object or a set of strings: one action for each, with `each.key` and `each.value`; its address is `action.TYPE.NAME[\"KEY\"]`",
    ),
    key(
        "timeout",
        "how long it may take, such as `\"30s\"`, unless the schema has an attribute of that name (then use `lifecycle`)",
    ),
    key(
        "idempotent",
        "`true`: may also be tried again after outputs that do not fit, unless the schema has an attribute of that name",
    ),
];

pub(super) const RETRY: [Key; 4] = [
    key("attempts", "required; how often it is tried in all"),
    key("delay", "the pause before the next attempt, `\"1s\"` if left out"),
    key("backoff", "what the pause is multiplied by each time, `1` if left out"),
    key("on", "the error codes after which it is tried again, `[\"execute_failed\"]` if left out"),
];

pub(super) const LIFECYCLE: [Key; 1] =
    [key("timeout", "how long the action may take, such as `\"30s\"`, whatever its schema has")];

pub(super) const OUTPUT: [Key; 3] = [
    key("value", "required; an expression"),
    key("description", "text for people"),
    key("sensitive", "`true`: not shown"),
];

impl Block {
    /// How the block is written: `action "TYPE" "NAME"`.
    pub fn header(&self) -> String {
        let labels = self.labels.iter().map(|label| format!(" \"{label}\""));
        self.name.to_owned() + &labels.collect::<String>()
    }
}

/// The tables as a page shows them, in Markdown.
pub fn markdown() -> String {
    let mut out = String::new();
    for block in &BLOCKS {
        out.push_str(&format!("### `{}`\n\n", block.header()));
        out.push_str(&format!("Stands {}. {}\n\n", block.place, block.purpose));
        if !block.keys.is_empty() || block.others.is_some() {
            out.push_str("| key | |\n|---|---|\n");
            for Key { name, meaning } in block.keys {
                out.push_str(&format!("| `{name}` | {meaning} |\n"));
            }
            if let Some(others) = block.others {
                out.push_str(&format!("| others | {others} |\n"));
            }
            out.push('\n');
        }
        if !block.blocks.is_empty() {
            let names = block.blocks.iter().map(|name| format!("`{name}`"));
            out.push_str(&format!("Blocks in it: {}.\n\n", names.collect::<Vec<_>>().join(", ")));
        }
    }
    out
}
