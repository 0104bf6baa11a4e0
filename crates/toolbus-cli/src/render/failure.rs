//! A failed call: which exit code it is, what people are told, and what scripts read.

use serde_json::value::RawValue;
use toolbus::bus::BusError;
use toolbus_engine::secrets::masked;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Code, Failure, FailureKind, LastWords};

use crate::exit::Exit;
use crate::failed::Failed;
use crate::render::report;

/// How the program ends because of it.
pub(crate) fn exit(failure: &Failure) -> Exit {
    match failure.kind {
        // Found before the call left us, it is as if it had never been made.
        FailureKind::UnknownTool | FailureKind::InvalidArguments if !failure.from_peer => {
            Exit::Usage
        }
        FailureKind::UnknownTool
        | FailureKind::InvalidArguments
        | FailureKind::Failed
        | FailureKind::Cancelled => Exit::Failed,
        FailureKind::TimedOut => Exit::TimedOut,
        FailureKind::Gone
        | FailureKind::BrokeProtocol
        | FailureKind::Unavailable
        | FailureKind::TooLarge => Exit::Unreachable,
        _ => Exit::Failed,
    }
}

/// What people are told: the message, how the process ended, its last words, a hint.
pub(crate) fn failed(failure: &Failure) -> Failed {
    let failed = Failed::new(exit(failure), failure.to_string());
    match &failure.last_words {
        Some(words) => with_last_words(failed, words),
        None => failed,
    }
}

/// A front cannot serve because its bus could not be opened.
pub(crate) fn not_open(error: &BusError) -> Failed {
    match error {
        BusError::Unreachable { address, failure } => {
            let message = format!("cannot open `{address}`: {failure}");
            let failed = Failed::new(Exit::Unreachable, message);
            match &failure.last_words {
                Some(words) => with_last_words(failed, words),
                None => failed,
            }
        }
        _ => {
            let failed = Failed::usage(error.to_string());
            match error.hint() {
                Some(hint) => failed.hint(hint),
                None => failed,
            }
        }
    }
}

pub(crate) fn with_last_words(failed: Failed, words: &LastWords) -> Failed {
    // Most messages say how it ended.
    let message = failed.message();
    let exit = words.exit.iter().map(ToString::to_string).filter(|exit| !message.contains(exit));
    let stderr = words.stderr.iter().map(|line| format!("  | {line}"));
    let failed = failed.lines(exit.chain(stderr));
    match &words.hint {
        Some(hint) => failed.hint(hint),
        None => failed,
    }
}

/// The line that `--json` puts on standard output.
pub(crate) fn json(failure: &Failure) -> String {
    let code = failure.code.as_ref().map(|code| match code {
        Code::Number(number) => Json::of(number),
        Code::Word(word) => Json::of(word),
    });
    // What a peer says passes as it is.
    let ours = |text: &str| match failure.from_peer {
        true => text.to_owned(),
        false => masked(text).into_owned(),
    };
    let detail = failure.detail.as_ref().map(Json::compact);
    let raw = |json: &Option<Json>| -> Option<Box<RawValue>> {
        json.as_ref().and_then(|json| RawValue::from_string(json.to_string()).ok())
    };
    report::json(
        failure.kind.as_str(),
        &ours(&failure.message),
        raw(&code).as_deref(),
        raw(&detail).as_deref(),
    )
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use toolbus_proto::tool::Exit as ProcessExit;

    use super::*;
    use crate::render::style::Paint;

    #[test]
    fn every_kind_has_its_exit_code() {
        use FailureKind as Kind;
        let codes = |kind| {
            let mut failure = Failure::new(kind, "m");
            let ours = exit(&failure).code();
            failure.from_peer = true;
            (ours, exit(&failure).code())
        };
        for (kind, expected) in [
            (Kind::UnknownTool, (2, 1)),
            (Kind::InvalidArguments, (2, 1)),
            (Kind::Failed, (1, 1)),
            (Kind::TimedOut, (4, 4)),
            (Kind::Cancelled, (1, 1)),
            (Kind::Gone, (3, 3)),
            (Kind::Unavailable, (3, 3)),
            (Kind::BrokeProtocol, (3, 3)),
            (Kind::TooLarge, (3, 3)),
        ] {
            assert_eq!(codes(kind), expected, "{kind}");
        }
    }

    #[test]
    fn a_dead_process_is_told_with_its_last_words() {
        let words = LastWords {
            exit: Some(ProcessExit::Code(3)),
            stderr: vec!["reading\x07".into(), "cannot go on".into()],
            hint: Some("look into its log".into()),
            ..LastWords::default()
        };
        let mut failure = Failure::new(FailureKind::Gone, "it went away").with_last_words(words);
        failure.code = Some(Code::Word("E1".into()));
        let report = failed(&failure).report.unwrap();
        expect![[r#"
            error: E1: it went away
            exit status 3
              | reading\x07
              | cannot go on
            hint: look into its log
        "#]]
        .assert_eq(&report::text(&report, Paint { on: false }));
    }

    #[test]
    fn scripts_get_code_and_detail_apart() {
        let mut failure = Failure::new(FailureKind::Failed, "no");
        failure.code = Some(Code::Number(-7));
        failure.detail = Some(Json::parse("{ \"b\" : 1.50 }").unwrap());
        let line = r#"{"error":{"kind":"failed","message":"no","code":-7,"detail":{"b":1.50}}}"#;
        assert_eq!(json(&failure), format!("{line}\n"));
    }
}
