//! A plan as people read it.

use crate::plan::{Plan, PlannedAttrs};
use crate::secrets::{MASK, Secrets};
use crate::value::Value;

/// A value is shown with so many characters at most.
const SHOWN_MAX: usize = 200;

/// All secrets that a plan knows of.
pub fn secrets_of(plan: &Plan) -> Secrets {
    let secrets = Secrets::new();
    plan.variables.values().for_each(|value| secrets.hide_sensitive(value));
    let attrs = |attrs: &PlannedAttrs| {
        attrs.values().for_each(|attr| secrets.hide_sensitive(&attr.value));
    };
    plan.providers.iter().for_each(|provider| attrs(&provider.config));
    for node in &plan.nodes {
        attrs(&node.attrs);
        node.teardown.iter().for_each(attrs);
    }
    plan.outputs.iter().for_each(|output| secrets.hide_sensitive(&output.value));
    secrets
}

/// What a piece of a plan is, for those who draw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// Nothing particular.
    Plain,
    /// The name of a scenario or an action.
    Title,
    /// What a run does.
    Run,
    /// What a teardown does.
    Teardown,
    /// What is not known yet, or not shown.
    Open,
    /// What says little.
    Faint,
}

/// The plan: its actions in order, with what they get, and what the scenario gives.
pub fn plan_text(plan: &Plan, secrets: &Secrets) -> String {
    let mut out = Drawing { text: String::new(), ink: &|_, text| text.to_owned(), signs: false };
    out.plan(plan, secrets);
    out.text
}

/// The same for a terminal, drawn with these inks: a sign stands before what is done, `+` by a
/// run, `-` by a teardown, and the last line counts them.
pub fn plan_drawn(plan: &Plan, secrets: &Secrets, ink: &dyn Fn(Ink, &str) -> String) -> String {
    let mut out = Drawing { text: String::new(), ink, signs: true };
    out.plan(plan, secrets);
    out.summary(plan);
    out.text
}

fn count(count: usize, word: &str) -> String {
    match count {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    }
}

struct Drawing<'a> {
    text: String,
    ink: &'a dyn Fn(Ink, &str) -> String,
    signs: bool,
}

impl Drawing<'_> {
    fn put(&mut self, ink: Ink, text: &str) -> &mut Self {
        self.text.push_str(&(self.ink)(ink, text));
        self
    }

    /// The sign of what is done, where there are signs.
    fn sign(&mut self, ink: Ink, sign: &str) {
        if self.signs {
            self.put(ink, sign).put(Ink::Plain, " ");
        }
    }

    fn plan(&mut self, plan: &Plan, secrets: &Secrets) {
        let actions = count(plan.nodes.len(), "action");
        let providers = count(plan.providers.len(), "provider");
        self.put(Ink::Plain, "scenario: ").put(Ink::Title, plan.name());
        self.put(Ink::Plain, &format!("\nplan: {actions} with {providers}\n"));
        if !plan.nodes.is_empty() {
            self.put(Ink::Plain, "\n");
        }
        let indent = if self.signs { "     " } else { "   " };
        for (index, node) in plan.nodes.iter().enumerate() {
            let provider = &plan.providers[node.provider].name;
            self.sign(Ink::Run, "+");
            self.put(Ink::Plain, &format!("{}. ", index + 1)).put(Ink::Title, &node.address);
            self.put(Ink::Plain, " ").put(Ink::Faint, &format!("({provider})"));
            self.put(Ink::Plain, "\n");
            if !node.depends_on.is_empty() {
                let needed = node.depends_on.iter().map(|needed| &*plan.nodes[*needed].address);
                let after = format!("after {}", needed.collect::<Vec<_>>().join(", "));
                self.put(Ink::Plain, indent).put(Ink::Faint, &after).put(Ink::Plain, "\n");
            }
            self.attrs(indent, &node.attrs, secrets);
            if let Some(teardown) = &node.teardown {
                self.put(Ink::Plain, &indent[..3]);
                self.sign(Ink::Teardown, "-");
                self.put(Ink::Plain, "teardown:\n");
                self.attrs(&format!("{indent}  "), teardown, secrets);
            }
        }
        if !plan.outputs.is_empty() {
            self.put(Ink::Plain, "\noutputs:\n");
        }
        for output in &plan.outputs {
            self.put(Ink::Plain, &format!("{} = ", output.name));
            self.value(&output.value, secrets);
            self.put(Ink::Plain, "\n");
        }
    }

    fn attrs(&mut self, indent: &str, attrs: &PlannedAttrs, secrets: &Secrets) {
        for (name, attr) in attrs {
            self.put(Ink::Plain, &format!("{indent}{name} = "));
            if attr.is_default {
                let default = format!("{} (default)", shown(&attr.value, secrets));
                self.put(Ink::Faint, &default);
            } else {
                self.value(&attr.value, secrets);
            }
            self.put(Ink::Plain, "\n");
        }
    }

    /// A value whose open parts are drawn as such; text that reads the same is drawn so, too.
    fn value(&mut self, value: &Value, secrets: &Secrets) {
        let shown = shown(value, secrets);
        let mut rest = &*shown;
        let opens = ["(known after run)", MASK];
        while let Some((at, open)) =
            opens.iter().filter_map(|open| Some((rest.find(open)?, *open))).min()
        {
            self.put(Ink::Plain, &rest[..at]).put(Ink::Open, open);
            rest = &rest[at + open.len()..];
        }
        self.put(Ink::Plain, rest);
    }

    /// What a run would do, and what could be undone of it.
    fn summary(&mut self, plan: &Plan) {
        let undone = plan.nodes.iter().filter(|node| node.teardown.is_some()).count();
        let run = format!("{} to run", plan.nodes.len());
        let teardown = format!("{undone} with a teardown");
        self.put(Ink::Plain, "\n").put(Ink::Title, "plan:").put(Ink::Plain, " ");
        self.sign(Ink::Run, "+");
        self.put(Ink::Plain, &format!("{run}, "));
        self.sign(Ink::Teardown, "-");
        self.put(Ink::Plain, &format!("{teardown}; nothing was done yet\n"));
    }
}

/// The value without its secrets, cut where it is long.
fn shown(value: &Value, secrets: &Secrets) -> String {
    let shown = value.shown();
    let masked = secrets.masked(&shown);
    match masked.chars().count() <= SHOWN_MAX {
        true => masked.into_owned(),
        false => masked.chars().take(SHOWN_MAX - 3).chain("...".chars()).collect(),
    }
}
