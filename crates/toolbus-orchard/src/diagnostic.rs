//! What is wrong with a scenario: a code to script against, a message, and where it stands.
//!
//! Reader, evaluator and plan make a [`Problem`]; [`show`](crate::show) draws it with its source.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use toolbus_proto::did_you_mean::distance;

/// A file that was read, by its number in the order of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileId(pub u32);

/// A place in a file, in bytes from its beginning.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// From where to where.
    pub range: Range<usize>,
}

impl Span {
    /// This range of that file.
    pub fn new(file: FileId, range: Range<usize>) -> Span {
        Span { file, range }
    }
}

/// By file, then by position.
impl Ord for Span {
    fn cmp(&self, other: &Span) -> std::cmp::Ordering {
        let key = |span: &Span| (span.file, span.range.start, span.range.end);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Span {
    fn partial_cmp(&self, other: &Span) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

macro_rules! codes {
    ($($name:ident $word:literal $meaning:literal)*) => {
        /// What kind of problem it is: a word that stays the same from version to version.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            /// All of them, in the order of the documentation.
            pub const ALL: &[Code] = &[$(Code::$name),*];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$name => $word,)*
                }
            }
        }
    };
}

codes! {
    Syntax "syntax" "The text is no HCL."
    UnknownBlock "unknown_block" "A block that does not belong here."
    UnknownAttribute "unknown_attribute" "An attribute that does not belong here."
    MissingAttribute "missing_attribute" "An attribute that must be given."
    Duplicate "duplicate" "A name or a key for the second time."
    UnknownReference "unknown_reference" "A reference to what is not declared."
    UnknownOutput "unknown_output" "An output that the action does not have."
    UnknownFunction "unknown_function" "A function that does not exist."
    UnknownVariable "unknown_variable" "A value for a variable that is not declared."
    MissingVariable "missing_variable" "A variable without a value."
    UnknownActionType "unknown_action_type" "An action that no provider has."
    UnknownProvider "unknown_provider" "A provider that is not declared."
    AmbiguousProvider "ambiguous_provider" "An action that several providers have."
    ProviderSource "provider_source" "A source that is no provider."
    TypeMismatch "type_mismatch" "A value that cannot become the type that is wanted."
    NullValue "null_value" "`null` where a value is needed."
    BadIndex "bad_index" "An element, key or attribute that is not there."
    BadArgument "bad_argument" "A function got the wrong number or kind of arguments."
    DivisionByZero "division_by_zero" "A division by zero."
    NumberTooLarge "number_too_large" "A number out of range."
    TooBig "too_big" "More work or more data than is allowed."
    Cycle "cycle" "Things that need each other in a circle."
    SelfOutsideTeardown "self_outside_teardown" "`self` where there is none."
    ActionInProviderConfig "action_in_provider_config" "A provider's config that needs an action."
    ComponentSource "component_source" "A component's file that cannot be read."
    ComponentLabel "component_label" "A component's file that holds another component."
    ComponentCycle "component_cycle" "A component that includes itself."
    UnknownForEach "unknown_for_each" "A `for_each` that is known only after the run."
    SensitiveForEach "sensitive_for_each" "A `for_each` over sensitive values."
    ScenarioChoice "scenario_choice" "Several scenarios, and none was chosen."
    UnknownScenario "unknown_scenario" "A scenario that is not in the file."
    UnknownTarget "unknown_target" "A target that is not in the plan."
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Does a problem stop everything?
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Yes.
    Error,
    /// No, but it may not be what was meant.
    Warning,
}

impl Severity {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What kind of problem.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in one line without a full stop.
    pub message: String,
    /// Where, if it stands in a file.
    pub span: Option<Span>,
    /// Further places and what they have to do with it.
    pub labels: Vec<(Span, String)>,
    /// What the reader can do about it.
    pub help: Option<String>,
}

impl Problem {
    /// An error.
    pub fn error(code: Code, message: impl Into<String>) -> Problem {
        Problem {
            code,
            severity: Severity::Error,
            message: message.into(),
            span: None,
            labels: Vec::new(),
            help: None,
        }
    }

    /// A warning.
    pub fn warning(code: Code, message: impl Into<String>) -> Problem {
        Problem { severity: Severity::Warning, ..Problem::error(code, message) }
    }

    /// The same, at this place.
    #[must_use]
    pub fn at(mut self, span: Span) -> Problem {
        self.span = Some(span);
        self
    }

    /// The same, with a further place and what it has to do with the problem.
    #[must_use]
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Problem {
        self.labels.push((span, text.into()));
        self
    }

    /// The same, with what the reader can do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }

    /// The same, with a hint at what was probably meant by `word`, if that can be told.
    #[must_use]
    pub fn meant<'a>(self, word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Problem {
        match did_you_mean(word, candidates) {
            Some(meant) => self.help(format!("did you mean `{meant}`?")),
            None => self,
        }
    }
}

/// By file and position, each once; what has no place stands first.
pub(crate) fn sorted(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by(|one, other| {
        one.span.cmp(&other.span).then_with(|| one.message.cmp(&other.message))
    });
    let mut seen = BTreeSet::new();
    problems.retain(|problem| {
        seen.insert((problem.span.clone(), problem.code, problem.message.clone()))
    });
    problems
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// How many characters of a value are shown in a message.
const EXCERPT_CHARS_MAX: usize = 60;

/// A text as messages show it: between quotes, and the beginning only if it is long.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS_MAX) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// No word that is longer was meant to be another.
const WORD_BYTES_MAX: usize = 100;

/// The candidate that is spelled most like `word`: at most a third of its letters, and at least
/// one, may differ; two neighbours that changed places count as one.
pub fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let near_enough = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= WORD_BYTES_MAX)
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= near_enough)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_the_letters_may_differ() {
        let known = ["text", "times", "length", "x"];
        for (word, meant) in [
            ("txt", Some("text")),
            ("tiems", Some("times")),
            ("lenght", Some("length")),
            ("ttimess", Some("times")),
            ("tine", None),
            ("y", Some("x")),
            ("", Some("x")),
        ] {
            assert_eq!(did_you_mean(word, known), meant, "{word}");
        }
    }

    #[test]
    fn every_code_has_a_word_of_its_own() {
        let words: std::collections::BTreeSet<_> =
            Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(words.len(), 32);
        assert_eq!(words.len(), Code::ALL.len());
    }
}
