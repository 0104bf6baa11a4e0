//! What two versions of a text or of a JSON value do not have in common, for people.

use super::definition::Held;
use super::value::JsonTree;

/// One line of two texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineOf<'a> {
    /// In both.
    Both(&'a str),
    /// Only in the old one.
    Old(&'a str),
    /// Only in the new one.
    New(&'a str),
}

/// How many equal lines are shown around those that differ.
const AROUND: usize = 2;
/// Texts with more lines are not compared line by line.
const LINES_MAX: usize = 2000;

/// The lines that differ, with up to two equal lines around them.
pub fn lines_of<'a>(old: &'a str, new: &'a str) -> Vec<LineOf<'a>> {
    let (old, new): (Vec<_>, Vec<_>) = (old.split('\n').collect(), new.split('\n').collect());
    let same_first = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - same_first;
    let both_ends = old.iter().rev().zip(new.iter().rev());
    let same_last = both_ends.take(rest).take_while(|(old, new)| old == new).count();
    let (middle_old, middle_new) =
        (&old[same_first..old.len() - same_last], &new[same_first..new.len() - same_last]);
    let mut lines: Vec<LineOf<'a>> =
        old[..same_first].iter().map(|line| LineOf::Both(line)).collect();
    compare(middle_old, middle_new, &mut lines);
    lines.extend(old[old.len() - same_last..].iter().map(|line| LineOf::Both(line)));
    let is_near = |index: usize| {
        let from = index.saturating_sub(AROUND);
        let to = (index + AROUND + 1).min(lines.len());
        lines[from..to].iter().any(|line| !matches!(line, LineOf::Both(_)))
    };
    (0..lines.len()).filter(|index| is_near(*index)).map(|index| lines[index]).collect()
}

/// By the longest common subsequence, if the texts are not too long for that.
fn compare<'a>(old: &[&'a str], new: &[&'a str], lines: &mut Vec<LineOf<'a>>) {
    let is_large = LINES_MAX < old.len() || LINES_MAX < new.len();
    let width = new.len() + 1;
    let mut common = vec![0u16; if is_large { 0 } else { (old.len() + 1) * width }];
    if !is_large {
        for from in (0..old.len()).rev() {
            for to in (0..new.len()).rev() {
                common[from * width + to] = match old[from] == new[to] {
                    true => common[(from + 1) * width + to + 1] + 1,
                    false => common[(from + 1) * width + to].max(common[from * width + to + 1]),
                };
            }
        }
    }
    let at = |from: usize, to: usize| common.get(from * width + to).copied().unwrap_or(0);
    let (mut from, mut to) = (0, 0);
    while from < old.len() || to < new.len() {
        if from < old.len() && to < new.len() && old[from] == new[to] && !is_large {
            lines.push(LineOf::Both(old[from]));
            (from, to) = (from + 1, to + 1);
        } else if from < old.len() && (to == new.len() || at(from, to + 1) <= at(from + 1, to)) {
            lines.push(LineOf::Old(old[from]));
            from += 1;
        } else {
            lines.push(LineOf::New(new[to]));
            to += 1;
        }
    }
}

/// A place of a JSON value at which two differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differing<'a> {
    /// Where, as RFC 6901 has it.
    pub pointer: String,
    /// What stands there in the old one, if anything.
    pub old: Option<JsonTree<'a>>,
    /// What stands there in the new one, if anything.
    pub new: Option<JsonTree<'a>>,
}

/// The smallest values at which two differ, in the order of the old one, then what only the new
/// one has. Of what is no JSON: nothing.
pub fn differing<'a>(old: Option<&'a Held>, new: Option<&'a Held>) -> Vec<Differing<'a>> {
    let value = |held: Option<&'a Held>| match held {
        Some(Held::Json(json)) => JsonTree::parse(json).ok(),
        Some(Held::Text(text)) => Some(JsonTree::String(text.into())),
        None => None,
    };
    let mut found = Vec::new();
    walk(String::new(), value(old), value(new), &mut found);
    found
}

fn walk<'a>(
    pointer: String,
    old: Option<JsonTree<'a>>,
    new: Option<JsonTree<'a>>,
    found: &mut Vec<Differing<'a>>,
) {
    match (old, new) {
        (Some(JsonTree::Array(old)), Some(JsonTree::Array(new))) => {
            let (mut old, mut new) = (old.into_iter(), new.into_iter());
            for index in 0.. {
                let (old, new) = (old.next(), new.next());
                if old.is_none() && new.is_none() {
                    return;
                }
                walk(format!("{pointer}/{index}"), old, new, found);
            }
        }
        (Some(JsonTree::Object(old)), Some(JsonTree::Object(mut new)))
            if !is_doubled(&old) && !is_doubled(&new) =>
        {
            for (name, old) in old {
                let same = new.iter().position(|(other, _)| *other == name);
                let new = same.map(|at| new.remove(at).1);
                walk(format!("{pointer}/{}", token(&name)), Some(old), new, found);
            }
            for (name, new) in new {
                walk(format!("{pointer}/{}", token(&name)), None, Some(new), found);
            }
        }
        (old, new) if old != new => found.push(Differing { pointer, old, new }),
        _ => {}
    }
}

fn is_doubled<N: Ord, V>(members: &[(N, V)]) -> bool {
    let mut names: Vec<_> = members.iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

fn token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(old: &str, new: &str) -> String {
        let sign = |line: LineOf<'_>| match line {
            LineOf::Both(line) => format!(" {line}"),
            LineOf::Old(line) => format!("-{line}"),
            LineOf::New(line) => format!("+{line}"),
        };
        lines_of(old, new).into_iter().map(sign).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn lines_are_told_with_two_around_them() {
        assert_eq!(lines("a\nb", "a\nb"), "");
        assert_eq!(lines("a", "b"), "-a|+b");
        assert_eq!(lines("1\n2\n3\n4\n5\n6", "1\n2\n3\nx\n5\n6"), " 2| 3|-4|+x| 5| 6");
        assert_eq!(lines("a\nb\nc", "a\nc"), " a|-b| c");
        assert_eq!(lines("", "x"), "-|+x");
        let long = (0..3000).map(|line| line.to_string()).collect::<Vec<_>>().join("\n");
        assert_eq!(lines_of(&long, "x").len(), 3001);
    }

    #[test]
    fn the_smallest_values_are_told() {
        let pointers = |old: &str, new: &str| {
            let (old, new) = (Held::Json(old.to_owned()), Held::Json(new.to_owned()));
            let differing = differing(Some(&old), Some(&new));
            let text = |value: &Option<JsonTree<'_>>| value.as_ref().map(super::super::one_line);
            let line = |one: &Differing<'_>| {
                let [old, new] = [&one.old, &one.new].map(|value| text(value).unwrap_or_default());
                format!("{}:{old}>{new}", one.pointer)
            };
            differing.iter().map(line).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(pointers(r#"{"a":{"b":1},"c":[1,2]}"#, r#"{"c":[1,2],"a":{"b":1}}"#), "");
        assert_eq!(
            pointers(r#"{"a":{"b":1},"c":[1,2]}"#, r#"{"a":{"b":1.0},"c":[1]}"#),
            "/a/b:1>1.0 /c/1:2>"
        );
        assert_eq!(pointers(r#"{"a/~":1}"#, r#"{"b":{}}"#), "/a~1~0:1> /b:>{}");
        assert_eq!(pointers("1", "[1]"), ":1>[1]");
        assert_eq!(pointers(r#"{"a":1,"a":2}"#, r#"{"a":1}"#), r#":{"a": 1, "a": 2}>{"a": 1}"#);
    }
}
