//! The rules that `toolbus check godex` tries, for people who want to know what each asks for.

pub(super) const RULES: &[(&str, &str)] = &[
    ("lines-are-events", "Every line of its output is a JSON object with a string `type`."),
    ("known-types", "The types of its lines are known ones."),
    ("text", "In text mode there is text."),
    ("calls", "A call of a tool has `call_id`, `name` and `arguments`."),
    ("deltas-add-up", "The deltas of an item add up to what its end says."),
    ("one-terminal-line", "Exactly one line ends the run, and it is the last."),
    ("usage", "`response.completed` tells the usage in three whole numbers."),
    ("exit-code", "The exit code is 0 if and only if the run was completed."),
    ("stderr-apart", "What it says to people is not on standard output."),
    ("bad-flag", "A flag that it does not know ends it with another code than 0."),
];
