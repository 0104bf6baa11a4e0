use std::panic::{AssertUnwindSafe, catch_unwind};

use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::scratch::Scratch;

/// Shouts back each whole line, and knows the time.
struct Shouter {
    clock: Clock,
    begun: std::time::Instant,
    kept: Vec<u8>,
    /// Forgets what it has of a line when a read ends: a mistake a sweep must find.
    forgets: bool,
}

impl Shouter {
    fn new() -> Shouter {
        let clock = Clock::new();
        Shouter { clock, begun: clock.now, kept: Vec::new(), forgets: false }
    }
}

impl Player for Shouter {
    fn happen(&mut self, words: &str) -> Vec<String> {
        if self.clock.happen(words) {
            return vec![format!("== {:?} have passed", self.clock.now - self.begun)];
        }
        assert!(!words.contains("panic"), "as you wish");
        vec![format!("== {words} happened, by my beard")]
    }

    fn bytes(&mut self, wire: &str, bytes: &[u8]) -> Vec<String> {
        let mut came = Vec::new();
        for &byte in bytes {
            if byte != b'\n' {
                self.kept.push(byte);
                continue;
            }
            let line = String::from_utf8(std::mem::take(&mut self.kept)).unwrap();
            came.push(match line.as_str() {
                "noise" => "== noise".to_owned(),
                _ => format!(">>{wire} {}", line.to_uppercase()),
            });
        }
        if self.forgets {
            self.kept.clear();
        }
        came
    }

    fn arrival(&self, _wire: &str, text: &str) -> Vec<Arrival> {
        match text {
            "(end)" => vec![Arrival::Event("the end".to_owned())],
            _ => vec![Arrival::Bytes(format!("{text}\n").into_bytes())],
        }
    }
}

const ALL_OF_IT: &str = "\
# A remark before everything.
-- rain
== rain …, by …
<< hi
# A remark between.
>> HI
<<c you
>>c YOU
<< [hub 4] ho
>>hub 4 HO
-- bytes o
-- bytes ne\\ntwo\\n
>> ONE
>> TWO
-- lines 3 noise
== noise 3 times
-- wait 0.5
== 500ms have passed
<< (end)
== the end …

-- wait 2
== 2s have passed
";

#[test]
fn a_conversation_comes_out_the_same() {
    let found = replay::replay("a test", ALL_OF_IT, Shouter::new);
    assert_eq!(found, ALL_OF_IT);
    check(
        Shouter::new,
        expect![[r#"
            << hi
            >> HI
        "#]],
    );
}

#[test]
fn what_is_missing_too_much_or_otherwise_is_seen() {
    let text = "<< a\n>> B\n<< c\n-- rain\n== snow …\n<< d\n>> D\n>> E\n";
    let found = replay::replay("a test", text, Shouter::new);
    expect![[r#"
          << a
        - >> B
        + >> A
          << c
        + >> C
          -- rain
        - == snow …
        + == rain happened, by my beard
          << d
          >> D
        - >> E
    "#]]
    .assert_eq(&diff::diff(text, &found));
}

#[test]
fn a_sweep_finds_who_relies_on_where_a_read_ends() {
    sweep(ALL_OF_IT, Shouter::new);
    let forgetful = || Shouter { forgets: true, ..Shouter::new() };
    let text = "<< hi\n>> HI\n";
    assert_eq!(replay::replay("a test", text, forgetful), text);
    let swept = catch_unwind(AssertUnwindSafe(|| sweep(text, forgetful)));
    assert!(swept.is_err());
}

#[test]
fn a_folder_is_checked_file_by_file() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path().join("deeper")).unwrap();
    fs::write(scratch.file("good.txt"), "<< hi\n>> HI\n").unwrap();
    fs::write(scratch.file("no_conversation.jsonl"), "<< hi\n").unwrap();
    check_file(scratch.file("good.txt"), Shouter::new);
    check_folder(scratch.path(), |_| Shouter::new());
    if is_updating() {
        // What differs would be written anew.
        return;
    }
    fs::write(scratch.file("deeper/bad.txt"), "<< ho\n>> HI\n").unwrap();
    let checked = catch_unwind(|| check_folder(scratch.path(), |_| Shouter::new()));
    let panic = *checked.unwrap_err().downcast::<String>().unwrap();
    assert!(panic.contains("bad.txt:\n  << ho\n- >> HI\n+ >> HO\n"), "{panic}");
    assert!(panic.ends_with("1 of 2 conversations differ"), "{panic}");
}

#[test]
fn every_golden_conversation_is_read_without_loss() {
    for file in files("transcripts") {
        let text = read(&file);
        let mut written = String::new();
        for step in replay::steps(&text) {
            step.write(&mut written, &step.expected());
        }
        assert_eq!(written, text, "{}", file.display());
    }
}

#[test]
fn a_carriage_return_is_a_byte() {
    let text = "<< hi\r\n>> HI\r\n";
    assert_eq!(replay::replay("a test", text, Shouter::new), text);
}

#[test]
fn escapes_stand_for_bytes() {
    assert_eq!(unescape(r"a\n\xff\\n\{41*3}ż"), b"a\n\xff\\nAAA\xc5\xbc");
}

#[test]
#[should_panic(expected = r"not an escape: `\q` in `a\q`")]
fn what_is_no_escape_is_a_mistake() {
    unescape(r"a\q");
}

proptest! {
    #[test]
    fn any_bytes_can_be_written_and_read(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        prop_assert_eq!(unescape(&escape(&bytes)), bytes);
    }
}
