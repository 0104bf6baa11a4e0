//! Both machines, replayed from `transcripts/mediocre/`.
//!
//! What leaves must leave where the conversation says. What our side learns it may take when
//! it likes: a conversation shows it where our side acts on it, so here it only has to be
//! there by then, in its order, and to be all.

use toolbus_testkit::transcript::{self, unescape};

use super::ends::{Calls, End, Learned, Leaves, Plays, Serves};
use super::frame;

/// More places than this to cut one run of bytes are not tried; they are spread over it.
const CUTS_MAX: usize = 64;

#[test]
fn a_server_answers_as_it_is_written() {
    check_all::<Serves>("serving_", 15);
}

#[test]
fn a_caller_asks_as_it_is_written() {
    check_all::<Calls>("calling_", 8);
}

fn check_all<M: Plays>(prefix: &str, count_min: usize) {
    let files = transcript::files("transcripts/mediocre");
    let name = |file: &std::path::Path| file.file_name().unwrap().to_str().unwrap().to_owned();
    let files: Vec<_> = files.iter().filter(|file| name(file).starts_with(prefix)).collect();
    assert!(count_min <= files.len(), "only {} conversations", files.len());
    for file in files {
        let text = transcript::read(file);
        let steps = steps(&text);
        let name = name(file);
        check::<M>(&format!("{name}, whole"), &steps, |_, bytes| vec![bytes]);
        check::<M>(&format!("{name}, by bytes"), &steps, |_, bytes| {
            // A long run is one blob; its middle is like any other.
            bytes.chunks(bytes.len().div_ceil(64 * 1024).max(1)).collect()
        });
        for (run, step) in steps.iter().enumerate() {
            let Cause::Arrives(bytes) = &step.cause else { continue };
            for at in (1..bytes.len()).step_by(bytes.len().div_ceil(CUTS_MAX)) {
                let how = format!("{name}, what arrives in step {run} cut at {at}");
                check::<M>(&how, &steps, |index, bytes| {
                    let at = if index == run { at } else { 0 };
                    let (before, behind) = bytes.split_at(at);
                    vec![before, behind]
                });
            }
        }
    }
}

#[derive(Debug)]
enum Cause {
    Happens(String),
    Arrives(Vec<u8>),
    Ends,
}

/// A cause, and what stands behind it.
#[derive(Debug)]
struct Step {
    cause: Cause,
    leaves: Vec<Leaves>,
    learned: Vec<String>,
}

/// Successive lines of one kind are one run of bytes.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        let line = (0..3).fold(line.to_owned(), |line, index| {
            line.replace(&format!("$F{}", index + 1), &frame(index))
        });
        let (arrow, words) = line.split_at(2);
        let words = words.strip_prefix(' ').unwrap_or_default();
        let cause = match (arrow, words) {
            ("--", words) => Cause::Happens(words.to_owned()),
            ("<<", "(end)") => Cause::Ends,
            ("<<", words) => Cause::Arrives(unescape(words)),
            (arrow, words) => {
                steps.last_mut().expect("something happens first").expect(arrow, words);
                continue;
            }
        };
        match (steps.last_mut(), &cause) {
            (Some(Step { cause: Cause::Arrives(run), leaves, learned }), Cause::Arrives(more))
                if leaves.is_empty() && learned.is_empty() =>
            {
                run.extend_from_slice(more);
            }
            _ => steps.push(Step { cause, leaves: Vec::new(), learned: Vec::new() }),
        }
    }
    steps
}

impl Step {
    fn expect(&mut self, arrow: &str, words: &str) {
        match (arrow, words) {
            ("==", words) => self.learned.push(words.to_owned()),
            (">>", "(end)") => self.leaves.push(Leaves::End),
            (">>", "(close)") => self.leaves.push(Leaves::Close),
            (">>", words) => match self.leaves.last_mut() {
                Some(Leaves::Bytes(run)) => run.extend(unescape(words)),
                _ => self.leaves.push(Leaves::Bytes(unescape(words))),
            },
            _ => panic!("not a line of a conversation: {arrow} {words}"),
        }
    }
}

fn check<M: Plays>(
    how: &str,
    steps: &[Step],
    cut: impl for<'a> Fn(usize, &'a [u8]) -> Vec<&'a [u8]>,
) {
    let mut end = End::<M>::new();
    for (index, step) in steps.iter().enumerate() {
        match &step.cause {
            Cause::Happens(words) => end.happen(words),
            Cause::Ends => end.end(),
            Cause::Arrives(bytes) => {
                cut(index, bytes).into_iter().for_each(|piece| end.arrive(piece));
            }
        }
        let leaves: Vec<_> = end.leaves.drain(..).collect();
        assert_eq!(leaves, step.leaves, "{how}: what leaves in step {index}, {step:?}");
        for expected in &step.learned {
            let found = claim(&mut end, expected);
            assert_eq!(&found, expected, "{how}: step {index}");
        }
    }
    assert!(end.learned.is_empty(), "{how}: learned, too: {:?}", end.learned);
    assert!(end.notices.is_empty(), "{how}: noticed, too: {:?}", end.notices);
}

/// What our side takes when it expects this line.
fn claim<M: Plays>(end: &mut End<M>, expected: &str) -> String {
    if expected.starts_with("note ") || expected.starts_with("broke ") {
        return end.notices.pop_front().unwrap_or_default();
    }
    match end.learned.pop_front() {
        None => String::new(),
        Some(Learned::Line(line)) => line,
        // Of a run of bytes as much may be taken at once as one likes.
        Some(Learned::Piece(who, mut run)) => {
            let wanted = expected.split_once(" piece ").map_or("\"\"", |(_, wanted)| wanted);
            let len = serde_json::from_str::<String>(wanted).unwrap().len().min(run.len());
            let rest = run.split_off(len);
            if !rest.is_empty() {
                end.learned.push_front(Learned::Piece(who.clone(), rest));
            }
            let taken = serde_json::to_string(&String::from_utf8_lossy(&run)).unwrap();
            format!("{who} piece {taken}")
        }
    }
}
