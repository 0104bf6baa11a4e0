//! What a change of a text is, as people read it: a unified diff with three lines of context.

use std::fmt::Write as _;
use std::ops::Range;

/// So many lines stand around a change.
const CONTEXT: usize = 3;
/// Of more lines than this only what is alike at both ends is looked for.
const LINES_MAX: usize = 2000;

/// The change of a file; nothing if there is none.
pub fn unified(path: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let (old, new) = (lines(old), lines(new));
    let steps = steps(&old, &new);
    let mut told = format!("--- {path}\n+++ {path}\n");
    for hunk in hunks(&steps) {
        let of = |is_there: fn(&LineStep) -> bool, until: usize| {
            steps[..until].iter().filter(|step| is_there(step)).count()
        };
        let range = |is_there: fn(&LineStep) -> bool| {
            let (start, end) = (of(is_there, hunk.start), of(is_there, hunk.end));
            match end - start {
                0 => format!("{start},0"),
                1 => (start + 1).to_string(),
                count => format!("{},{count}", start + 1),
            }
        };
        let (is_old, is_new) =
            (|step: &LineStep| *step != LineStep::Added, |step: &LineStep| *step != LineStep::Gone);
        // Writing to a string cannot fail.
        let _ = writeln!(told, "@@ -{} +{} @@", range(is_old), range(is_new));
        let (mut at, mut to) = (of(is_old, hunk.start), of(is_new, hunk.start));
        for step in &steps[hunk] {
            let (mark, line) = match step {
                LineStep::Same => (' ', old[at]),
                LineStep::Gone => ('-', old[at]),
                LineStep::Added => ('+', new[to]),
            };
            at += usize::from(*step != LineStep::Added);
            to += usize::from(*step != LineStep::Gone);
            let _ = writeln!(told, "{mark}{}", line.strip_suffix('\n').unwrap_or(line));
            if !line.ends_with('\n') {
                told.push_str("\\ No newline at end of file\n");
            }
        }
    }
    told
}

/// What becomes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineStep {
    Same,
    Gone,
    Added,
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn steps(old: &[&str], new: &[&str]) -> Vec<LineStep> {
    let head = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let (old, new) = (&old[head..], &new[head..]);
    let tail =
        old.iter().rev().zip(new.iter().rev()).take_while(|(one, other)| one == other).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    let mut steps = vec![LineStep::Same; head];
    match old.len().max(new.len()) <= LINES_MAX {
        true => between(old, new, &mut steps),
        false => {
            steps.extend(old.iter().map(|_| LineStep::Gone));
            steps.extend(new.iter().map(|_| LineStep::Added));
        }
    }
    steps.extend(vec![LineStep::Same; tail]);
    steps
}

/// By the longest common subsequence.
fn between(old: &[&str], new: &[&str], steps: &mut Vec<LineStep>) {
    let width = new.len() + 1;
    let mut longest = vec![0_u32; (old.len() + 1) * width];
    for at in (0..old.len()).rev() {
        for to in (0..new.len()).rev() {
            longest[at * width + to] = match old[at] == new[to] {
                true => longest[(at + 1) * width + to + 1] + 1,
                false => longest[(at + 1) * width + to].max(longest[at * width + to + 1]),
            };
        }
    }
    let (mut at, mut to) = (0, 0);
    while at < old.len() || to < new.len() {
        let both = at < old.len() && to < new.len();
        if both && old[at] == new[to] {
            steps.push(LineStep::Same);
            (at, to) = (at + 1, to + 1);
        } else if to == new.len()
            || both && longest[at * width + to + 1] <= longest[(at + 1) * width + to]
        {
            steps.push(LineStep::Gone);
            at += 1;
        } else {
            steps.push(LineStep::Added);
            to += 1;
        }
    }
}

/// Changes with what stands around them; those that are near each other are one.
fn hunks(steps: &[LineStep]) -> Vec<Range<usize>> {
    let mut hunks: Vec<Range<usize>> = Vec::new();
    let changed = steps.iter().enumerate().filter(|(_, step)| **step != LineStep::Same);
    for (at, _) in changed {
        let (start, end) = (at.saturating_sub(CONTEXT), (at + 1 + CONTEXT).min(steps.len()));
        match hunks.last_mut().filter(|last| start <= last.end) {
            Some(last) => last.end = end,
            None => hunks.push(start..end),
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::unified;

    #[test]
    fn a_change_has_three_lines_around_it() {
        assert_eq!(unified("x", "a\n", "a\n"), "");
        assert_eq!(unified("x", "", "a\nb\n"), "--- x\n+++ x\n@@ -0,0 +1,2 @@\n+a\n+b\n");
        assert_eq!(unified("x", "a\n", ""), "--- x\n+++ x\n@@ -1 +0,0 @@\n-a\n");
        assert_eq!(
            unified("x", "1\n2\n3\n4\n5\n6\n7\n8\n9", "1\n2\n3\n4\nfive\n6\n7\n8\n9"),
            "--- x\n+++ x\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
        );
        assert_eq!(
            unified("x", "a", "a\nb\n"),
            "--- x\n+++ x\n@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n"
        );
        let many: String = (0..20).map(|line| format!("{line}\n")).collect();
        let changed = many.replace("2\n3\n", "2\nnew\n3\n").replace("17\n", "");
        let told = unified("x", &many, &changed);
        assert_eq!(told.matches("@@ -").count(), 2, "{told}");
    }
}
