//! How a failure is told: to people on standard error, to scripts as a line of JSON.

use std::fmt::Write as _;

use serde_json::value::RawValue;
use toolbus_engine::secrets::masked;

use crate::failed::Report;
use crate::logging::{self, LogFormat};
use crate::render::printable;
use crate::render::style::Paint;

/// The report as the lines of the log are written, and those that belong to it.
pub(crate) fn told(report: &Report, format: LogFormat, paint: Paint) -> String {
    let all = std::iter::once(report).chain(&*report.more);
    all.map(|report| match format {
        LogFormat::Text => text(report, paint),
        LogFormat::Json => logging::report(report),
    })
    .collect()
}

/// ``error: <message>``, the causes, what else is known, and last what to do about it.
pub(crate) fn text(report: &Report, paint: Paint) -> String {
    let mut text = String::new();
    section(&mut text, &paint.error("error:"), &report.message, "       ");
    for cause in &report.causes {
        section(&mut text, "  caused by:", cause, "    ");
    }
    for line in &report.lines {
        text.push_str(&printable(&masked(line)));
        text.push('\n');
    }
    if let Some(hint) = &report.hint {
        section(&mut text, &paint.hint("hint:"), hint, "      ");
    }
    text
}

/// A label and its words; a message of several lines stays under its first.
fn section(text: &mut String, label: &str, words: &str, indent: &str) {
    let words = printable(masked(words.trim_end()).as_ref()).replace('\n', &format!("\n{indent}"));
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{label} {words}");
}

/// A failed call as the one line that `--json` puts on standard output.
pub(crate) fn json(
    kind: &str,
    message: &str,
    code: Option<&RawValue>,
    detail: Option<&RawValue>,
) -> String {
    let message = serde_json::Value::from(message);
    let mut line = format!(r#"{{"error":{{"kind":"{kind}","message":{message}"#);
    for (member, value) in [("code", code), ("detail", detail)] {
        if let Some(value) = value {
            let _ = write!(line, r#","{member}":{value}"#);
        }
    }
    line.push_str("}}\n");
    line
}

#[cfg(test)]
mod tests {
    use std::io;

    use expect_test::{Expect, expect};
    use serde_json::value::RawValue;

    use super::{json, text};
    use crate::exit::Exit;
    use crate::failed::Failed;
    use crate::render::style::Paint;

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    fn check(failed: Failed, on: bool, expect: Expect) {
        let report = failed.report.expect("a test of a report has one");
        expect.assert_eq(&text(&report, Paint { on }));
    }

    #[test]
    fn a_message_may_stand_alone() {
        check(
            Failed::usage("`x` is not a felt"),
            false,
            expect![[r#"
                error: `x` is not a felt
            "#]],
        );
    }

    #[test]
    fn causes_then_lines_then_the_hint() {
        let first = io::Error::other("no such file");
        let failed = Failed::new(Exit::Unreachable, "cannot start oracle `sqrt`")
            .caused_by(&io::Error::other(first))
            .lines(["exit status 3".to_owned(), "  | last\x07 words".to_owned()])
            .hint("give the path of the program");
        check(
            failed,
            false,
            expect![[r#"
                error: cannot start oracle `sqrt`
                  caused by: no such file
                exit status 3
                  | last\x07 words
                hint: give the path of the program
            "#]],
        );
    }

    #[test]
    fn a_message_of_several_lines_stays_together() {
        check(
            Failed::new(Exit::Failed, "value must be even\nCaused by: 7\n").hint("one\ntwo"),
            false,
            expect![[r#"
                error: value must be even
                       Caused by: 7
                hint: one
                      two
            "#]],
        );
    }

    #[test]
    fn colour_is_on_the_labels_only() {
        let failed = Failed::usage("no").hint("yes");
        let report = failed.report.expect("made with a message");
        assert_eq!(
            text(&report, Paint { on: true }),
            "\x1b[1m\x1b[31merror:\x1b[0m no\n\x1b[1m\x1b[36mhint:\x1b[0m yes\n"
        );
    }

    #[test]
    fn json_leaves_out_what_the_peer_did_not_say() {
        assert_eq!(
            json("gone", "it said \"no\"\n", None, None),
            "{\"error\":{\"kind\":\"gone\",\"message\":\"it said \\\"no\\\"\\n\"}}\n"
        );
    }

    #[test]
    fn json_keeps_the_peers_own_text() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).expect("valid JSON");
        assert_eq!(
            json("failed", "no", Some(&raw("-32000")), Some(&raw(r#"{"b":1.50,"a":[]}"#))),
            "{\"error\":{\"kind\":\"failed\",\"message\":\"no\",\"code\":-32000,\"detail\":{\"b\":1.50,\"a\":[]}}}\n"
        );
    }
}
