//! The lines of a child, replayed from `transcripts/godex/ask`.

use bytes::BytesMut;
use toolbus_proto::godex::ask::{Ask, Reader};
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Exit, Failure, FailureKind, LastWords, Outcome};
use toolbus_testkit::transcript::{self, Player, Words};

use super::words::{join, split};

const FOLDER: &str = "transcripts/godex/ask";

#[test]
fn conversations_come_out_as_they_are_written() {
    transcript::check_folder(FOLDER, |_| Child::default());
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in transcript::files(FOLDER) {
        transcript::sweep(&transcript::read(&file), Child::default);
    }
}

#[test]
fn many_lines_may_come_in_one_read() {
    for file in transcript::files(FOLDER) {
        let text = transcript::read(&file);
        for run in text.split("\n\n") {
            let lines = |arrow: &str| -> Vec<String> {
                let behind = run.lines().filter_map(|line| line.strip_prefix(arrow));
                behind.map(|line| line.trim_start().to_owned()).collect()
            };
            let (mut reader, mut came) = (Reader::new(), Vec::new());
            reader.handle_bytes(&mut BytesMut::from(&*(lines("<<").join("\n") + "\n")));
            while let Some(text) = reader.poll_progress(false) {
                came.push(format!("t1 progress {}", Json::of(&text)));
            }
            let learned = lines("==").into_iter().filter(|line| line.contains(" progress "));
            assert_eq!(came, learned.collect::<Vec<_>>(), "{}", file.display());
            let is_ended = lines("==")
                .iter()
                .any(|line| line.starts_with("t1 ok") || line.starts_with("t1 failed"));
            assert_eq!(reader.outcome().is_some(), is_ended, "{}", file.display());
        }
    }
}

#[test]
fn a_slow_reader_gets_all_that_waits_as_one() {
    let mut reader = Reader::new();
    let delta =
        |text: &str| format!("{{\"type\":\"response.output_text.delta\",\"delta\":\"{text}\"}}\n");
    let lines = ["a", "b", "c"].map(delta).concat();
    reader.handle_bytes(&mut BytesMut::from(&*lines));
    assert_eq!(reader.poll_progress(false).as_deref(), Some("a"));
    assert_eq!(reader.poll_progress(true).as_deref(), Some("bc"));
    assert_eq!(reader.poll_progress(true), None);
}

#[test]
fn a_line_over_the_limit_is_a_failure() {
    let mut reader = Reader::new();
    let mut input = BytesMut::new();
    for _ in 0..17 {
        input.extend_from_slice(&[b'x'; 1 << 20]);
        reader.handle_bytes(&mut input);
    }
    input.extend_from_slice(b"\n");
    reader.handle_bytes(&mut input);
    let failure = reader.outcome().unwrap().clone().unwrap_err();
    assert_eq!(failure.kind, FailureKind::TooLarge);
}

#[test]
fn arguments_are_checked_before_anything_is_started() {
    let read = |args: &str| Ask::read(Some(&Json::parse(args.to_owned()).unwrap()));
    for args in [
        "[]",
        "{}",
        r#"{"prompt":" "}"#,
        r#"{"prompt":1}"#,
        r#"{"prompt":"a","x":1}"#,
        r#"{"prompt":"a\u0000"}"#,
        r#"{"prompt":"a","model":null}"#,
    ] {
        assert_eq!(read(args).unwrap_err().kind, FailureKind::InvalidArguments, "{args}");
    }
    let long = format!(r#"{{"prompt":"a","model":"{}"}}"#, "x".repeat(100_001));
    assert_eq!(read(&long).unwrap_err().kind, FailureKind::TooLarge);
}

/// A child that the conversation plays.
#[derive(Default)]
struct Child {
    words: Vec<String>,
    started: Vec<String>,
    has_file: bool,
    reader: Reader,
    input: BytesMut,
    is_over: bool,
}

impl Child {
    fn drain(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        while self.reader.poll_warning().is_some() {
            came.push("== warning".to_owned());
        }
        while let Some(text) = self.reader.poll_progress(false) {
            came.push(format!("== t1 progress {}", Json::of(&text)));
        }
        if let Some(outcome) = self.reader.outcome()
            && !std::mem::replace(&mut self.is_over, true)
        {
            came.push(format!("== t1 {}", shown(outcome)));
        }
        came
    }
}

fn shown(outcome: &Result<Outcome, Failure>) -> String {
    match outcome {
        Ok(Outcome::Value(json)) => format!("ok {json}"),
        Ok(other) => format!("{other:?}"),
        Err(Failure { kind: FailureKind::Gone, last_words: Some(words), .. }) => {
            let (exit, stderr) = (words.exit.unwrap(), words.stderr.join("\n"));
            format!("gone {exit}, stderr {}", Json::of(&stderr))
        }
        Err(failure) => {
            let code = failure.code.as_ref().map(|code| format!(" code {code}"));
            let message = Json::of(&failure.message);
            format!("{} {message}{}", failure.kind, code.unwrap_or_default())
        }
    }
}

impl Player for Child {
    fn happen(&mut self, what: &str) -> Vec<String> {
        let mut words = Words::new(what);
        match words.word() {
            Some("address") => {
                self.words = split(words.rest().strip_prefix("godex+stdio:").unwrap());
            }
            Some("call") => {
                let args = match words.rest().strip_prefix("t1 ask ").unwrap() {
                    "with a prompt of 100001 bytes" => Json::of(&serde_json::json!({
                        "prompt": "x".repeat(100_001),
                    })),
                    args => Json::parse(args.to_owned()).unwrap(),
                };
                let ask = Ask::read(Some(&args)).unwrap();
                self.has_file = ask.file().is_some();
                let file = self.has_file.then_some("<private file>");
                let arguments = ask.arguments(&self.words, file);
                self.started = [vec![self.words[0].clone()], arguments].concat();
            }
            Some("started") => {
                assert_eq!(join(&self.started).replace('\'', ""), words.rest().replace('\'', ""));
            }
            Some("exited") => {
                let (code, stderr) = match words.rest().split_once(", stderr: ") {
                    Some((code, stderr)) => (code, vec![stderr.to_owned()]),
                    None => (words.rest(), Vec::new()),
                };
                self.reader.handle_eof(&mut self.input);
                let exit = Some(Exit::Code(code.parse().unwrap()));
                self.reader.handle_exit(LastWords { exit, stderr, ..LastWords::default() });
                if self.has_file {
                    self.is_over = true;
                    return vec!["== the private file is gone".to_owned()];
                }
            }
            _ => panic!("what is `{what}`?"),
        }
        self.drain()
    }

    fn bytes(&mut self, _wire: &str, bytes: &[u8]) -> Vec<String> {
        self.input.extend_from_slice(bytes);
        self.reader.handle_bytes(&mut self.input);
        self.drain()
    }
}
