//! The rules that `toolbus check orchard` tries, for people who want to know what each asks for.

pub(super) const RULES: &[(&str, &str)] = &[
    ("schema-probe", "Started with `schema` it prints its schema and ends."),
    ("describe", "`describe` is answered by its schema."),
    ("protocol", "The schema names a version of the protocol that hosts know."),
    ("schema", "The schema can be read: actions, attributes and their types."),
    ("schema-agrees", "What `schema` printed and what `describe` answered are the same."),
    ("unknown-method", "A method that it does not have is the error `unknown_method`."),
    ("configure", "`configure` is answered."),
    ("unknown-action", "An action that it does not have is the error `unknown_action`."),
    ("shutdown", "It ends soon after `shutdown`."),
    ("frames", "Its standard output is lines of JSON and nothing else."),
    ("id-echo", "Each answer has the id of its request."),
    ("answers-once", "No request is answered twice."),
    ("one-outcome", "An answer has either a result or an error."),
    ("eof", "It ends when its input does."),
    ("raw-defaults", "Defaults are values, not texts that hold JSON."),
    ("known-members", "Its answers have no members that hosts do not know."),
];
