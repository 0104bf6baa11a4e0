//! The terms of all tools of a catalogue.

use std::collections::{BTreeMap, HashMap};

use super::terms::{each_term, term};
use super::words::{STOP_WORDS, SYNONYMS};
use crate::json::edit;
use crate::tool::ToolSpec;

/// A tool as it is looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// What it is called in full: `files.read_file`.
    pub full: String,
    /// What it is called where it is offered, if that is something else.
    pub shown: Option<String>,
    /// What its back calls it.
    pub own: String,
    /// A name for people.
    pub title: String,
    /// Whose it is.
    pub back: String,
    /// The names of its arguments.
    pub arguments: Vec<String>,
    /// What it does.
    pub description: String,
}

impl Document {
    /// A tool of this back.
    pub fn of(back: &str, spec: &ToolSpec) -> Document {
        let properties = edit::member(spec.input.as_str(), "properties").unwrap_or("{}");
        Document {
            full: format!("{back}.{}", spec.name),
            shown: None,
            own: spec.name.to_string(),
            title: spec.title.clone().unwrap_or_default(),
            back: back.to_owned(),
            arguments: edit::members(properties).map(|(name, _)| name.into_owned()).collect(),
            description: spec.description.clone().unwrap_or_default(),
        }
    }
}

/// How much a field weighs, and how much its length counts.
const FIELDS: [(f64, f64); 5] = [(5.0, 0.3), (3.0, 0.3), (2.0, 0.0), (1.0, 0.5), (1.0, 0.5)];

/// All tools of a catalogue, by their terms.
#[derive(Debug, Default)]
pub struct Index {
    pub(super) documents: Vec<Named>,
    /// Which terms there are, and in which tools: sorted, so that those that begin alike are
    /// neighbours.
    pub(super) terms: BTreeMap<Box<str>, Postings>,
    /// The terms of the words that say the same, by the term of a word.
    pub(super) synonyms: HashMap<String, Vec<String>>,
    pub(super) stop_words: Vec<&'static str>,
}

/// The names of a tool.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) full: String,
    /// Without what people leave out: the full names, and the own one.
    pub(super) plain_full: [String; 2],
    pub(super) plain_own: String,
}

/// The tools that have a term.
#[derive(Debug, Default)]
pub(super) struct Postings {
    /// Which, and how much it weighs there.
    pub(super) tools: Vec<(u32, f64)>,
}

impl Index {
    /// Of these tools.
    pub fn new(documents: &[Document]) -> Index {
        let mut lengths = vec![[0u32; FIELDS.len()]; documents.len()];
        let mut counts: HashMap<String, Vec<(u32, [u32; FIELDS.len()])>> = HashMap::new();
        for (tool, document) in documents.iter().enumerate() {
            let mut count = |field: usize, text: &str| {
                each_term(text, |term| {
                    lengths[tool][field] += 1;
                    let tool = tool as u32;
                    let tools = counts.entry(term).or_default();
                    if tools.last().is_none_or(|(last, _)| *last != tool) {
                        tools.push((tool, [0; FIELDS.len()]));
                    }
                    if let Some((_, counts)) = tools.last_mut() {
                        counts[field] += 1;
                    }
                });
            };
            count(0, &document.own);
            count(1, &document.title);
            count(2, &document.back);
            document.arguments.iter().for_each(|name| count(3, name));
            count(4, &document.description);
        }
        let all = documents.len() as f64;
        let means: [f64; FIELDS.len()] = std::array::from_fn(|field| {
            lengths.iter().map(|lengths| f64::from(lengths[field])).sum::<f64>() / all
        });
        let weigh = |(tool, counts): (u32, [u32; FIELDS.len()])| {
            let mut weight = 0.0;
            for (field, (factor, b)) in FIELDS.into_iter().enumerate() {
                if counts[field] != 0 {
                    let length = f64::from(lengths[tool as usize][field]);
                    let norm = 1.0 - b + b * length / means[field];
                    weight += factor * f64::from(counts[field]) / norm;
                }
            }
            (tool, weight)
        };
        let terms = counts.into_iter().map(|(term, tools)| {
            (term.into_boxed_str(), Postings { tools: tools.into_iter().map(weigh).collect() })
        });
        Index {
            documents: documents.iter().map(Named::of).collect(),
            terms: terms.collect(),
            synonyms: synonyms(),
            stop_words: STOP_WORDS.split_ascii_whitespace().collect(),
        }
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Is there no tool?
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// How much a term says, by how many tools have it.
    pub(super) fn idf(&self, postings: &Postings) -> f64 {
        let (all, having) = (self.documents.len() as f64, postings.tools.len() as f64);
        (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
    }
}

impl Named {
    fn of(document: &Document) -> Named {
        let shown = document.shown.as_deref().unwrap_or(&document.full);
        Named {
            full: document.full.clone(),
            plain_full: [plain(&document.full), plain(shown)],
            plain_own: plain(&document.own),
        }
    }
}

/// A name without what people leave out of it.
pub(super) fn plain(name: &str) -> String {
    let is_kept = |c: &char| !matches!(c, '_' | '-' | '.' | '/') && !c.is_whitespace();
    name.chars().filter(is_kept).flat_map(char::to_lowercase).collect()
}

fn synonyms() -> HashMap<String, Vec<String>> {
    let mut all: HashMap<String, Vec<String>> = HashMap::new();
    for group in SYNONYMS {
        for word in group.split(' ') {
            let others = group.split(' ').filter(|other| *other != word);
            let synonyms = all.entry(term(word)).or_default();
            for other in others.map(term) {
                if !synonyms.contains(&other) {
                    synonyms.push(other);
                }
            }
        }
    }
    all
}
