//! What fits a query, best first; nothing is an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::WORDS_MAX;
use super::index::{Index, Postings, plain};
use super::terms::{is_one_slip, pieces, runs, stem, term};

/// What a query has found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Matches {
    /// The tools that fit, best first.
    pub found: Vec<Found>,
    /// The words that no tool has, in lower case.
    pub unmatched: Vec<String>,
}

/// A tool that fits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// Which of the documents.
    pub tool: usize,
    /// How well, in millionths at the finest.
    pub score: f64,
    /// It is the name that was asked for.
    pub is_exact: bool,
}

/// How much a synonym counts, and a word that was mended.
const SYNONYM: f64 = 0.6;
const MENDED: f64 = 0.8;
/// A shorter word is not mended.
const MENDED_CHARS_MIN: usize = 5;

/// A word of a query.
struct Word {
    /// In lower case.
    text: String,
    /// The terms it stands for, with their factors; none if no tool has it.
    terms: Vec<(f64, String)>,
    /// It was misspelled, as it seems.
    is_mended: bool,
    /// A number or a name: that no tool has it says nothing.
    is_value: bool,
}

impl Index {
    /// Looks for tools.
    pub fn search(&self, query: &str) -> Matches {
        let words = self.words(query);
        let unmatched = words.iter().filter(|word| word.terms.is_empty());
        let unmatched: Vec<_> = unmatched.map(|word| word.text.clone()).collect();
        let is_known = |word: &&Word| !word.terms.is_empty() && !word.is_mended;
        let known = words.iter().filter(is_known).count();
        let unknown = words.iter().filter(|word| word.terms.is_empty() && !word.is_value).count();
        let is_in_vain = 0 < unknown && known <= unknown;
        let scores = self.scores(&words);
        let wanted = words.iter().filter(|word| !word.is_value).count();
        let rounded = |score: f64| (score * 1e6).round() / 1e6;
        let whole = plain(query);
        let mut ranked: Vec<(u8, Found)> = Vec::new();
        let mut candidates: BTreeSet<usize> = BTreeSet::new();
        if !is_in_vain {
            let fits = |hits: usize| 1 <= hits && wanted <= 2 * hits;
            let fitting = scores.iter().filter(|(_, (hits, _))| fits(*hits));
            candidates.extend(fitting.map(|(tool, _)| *tool as usize));
        }
        let rank_of = |tool: usize| {
            let named = &self.documents[tool];
            match whole.is_empty() {
                false if named.plain_full.contains(&whole) => 0,
                false if named.plain_own == whole => 1,
                _ => 2,
            }
        };
        if !whole.is_empty() {
            candidates.extend((0..self.documents.len()).filter(|tool| rank_of(*tool) < 2));
        }
        for tool in candidates {
            let score = scores.get(&(tool as u32)).map_or(0.0, |(_, score)| rounded(*score));
            let rank = rank_of(tool);
            ranked.push((rank, Found { tool, score, is_exact: rank < 2 }));
        }
        ranked.sort_by(|(one_rank, one), (other_rank, other)| {
            let by_name = || {
                let [one, other] = [one, other].map(|found| &self.documents[found.tool].full);
                one.as_bytes().cmp(other.as_bytes())
            };
            one_rank.cmp(other_rank).then(other.score.total_cmp(&one.score)).then_with(by_name)
        });
        Matches { found: ranked.into_iter().map(|(_, found)| found).collect(), unmatched }
    }

    /// Of each tool that has one of the words: how many it has, and its score.
    fn scores(&self, words: &[Word]) -> BTreeMap<u32, (usize, f64)> {
        let mut all: BTreeMap<u32, (usize, f64)> = BTreeMap::new();
        let mut best: Vec<f64> = vec![0.0; self.documents.len()];
        for word in words {
            let mut having = Vec::new();
            for (factor, term) in &word.terms {
                let Some(postings) = self.terms.get(term.as_str()) else { continue };
                let factor = factor * self.idf(postings);
                for (tool, weight) in &postings.tools {
                    let score = factor * weight / (1.0 + weight);
                    let best = &mut best[*tool as usize];
                    if *best == 0.0 {
                        having.push(*tool);
                    }
                    *best = best.max(score);
                }
            }
            for tool in having {
                let (hits, score) = all.entry(tool).or_default();
                *hits += 1;
                *score += std::mem::take(&mut best[tool as usize]);
            }
        }
        all
    }

    fn words(&self, query: &str) -> Vec<Word> {
        let mut words: Vec<Word> = Vec::new();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let mut is_first = true;
        for run in runs(query) {
            let pieces = pieces(run);
            let parts = match pieces.is_empty() || self.terms.contains_key(term(run).as_str()) {
                true => vec![run],
                false => pieces,
            };
            for part in parts {
                let is_first = std::mem::replace(&mut is_first, false);
                let text = part.to_lowercase();
                if text.chars().count() < 2 && !text.chars().all(char::is_numeric)
                    || self.stop_words.contains(&text.as_str())
                {
                    continue;
                }
                let stem = stem(text.clone());
                if words.len() == WORDS_MAX {
                    return words;
                }
                if !seen.insert(stem.clone()) {
                    continue;
                }
                let has_capital = part.chars().next().is_some_and(char::is_uppercase);
                let is_number = text.chars().all(char::is_numeric);
                let is_value = is_number || has_capital && !is_first;
                let (terms, is_mended) = self.terms_of(&text, stem);
                let is_value = is_value && terms.is_empty();
                words.push(Word { text, terms, is_mended, is_value });
            }
        }
        words
    }

    /// What a word stands for, and whether it had to be mended for that.
    fn terms_of(&self, text: &str, stem: String) -> (Vec<(f64, String)>, bool) {
        let has = |term: &String| self.terms.contains_key(term.as_str());
        let synonyms = self.synonyms.get(&stem).into_iter().flatten().filter(|term| has(term));
        let synonyms: Vec<_> = synonyms.map(|term| (SYNONYM, term.clone())).collect();
        let own = has(&stem).then(|| (1.0, stem.clone()));
        let terms: Vec<_> = own.into_iter().chain(synonyms).collect();
        if !terms.is_empty() || text.chars().count() < MENDED_CHARS_MIN {
            return (terms, false);
        }
        (self.mended(&stem).map(|term| (MENDED, term)).into_iter().collect(), true)
    }

    /// The term that was probably meant: of several the one in most tools, then the first.
    fn mended(&self, stem: &str) -> Option<String> {
        let first = stem.chars().next()?;
        let wanted: Vec<char> = stem.chars().collect();
        let mut letters: Vec<char> = Vec::new();
        let mut best: Option<(&str, &Postings)> = None;
        let from = first.to_string();
        let alike = self.terms.range::<str, _>((Bound::Included(from.as_str()), Bound::Unbounded));
        for (term, postings) in alike.take_while(|(term, _)| term.starts_with(first)) {
            letters.clear();
            letters.extend(term.chars());
            if is_one_slip(&wanted, &letters)
                && best.is_none_or(|(_, best)| best.tools.len() < postings.tools.len())
            {
                best = Some((term, postings));
            }
        }
        best.map(|(term, _)| term.to_owned())
    }
}
