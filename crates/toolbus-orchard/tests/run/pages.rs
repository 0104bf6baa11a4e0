//! Each good scenario of the corpus, run: what is told is the page beside it. `UPDATE_EXPECT=1`
//! writes them anew.

use std::fs;

use crate::plan::corpus::{Asked, planned, scenarios};
use crate::run::stage::Stage;

#[test]
fn good_scenarios_run() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for path in scenarios("plans") {
        let bytes = fs::read(&path).unwrap();
        let (_, planned) = planned(&path, &bytes, &Asked::read(&path, &bytes));
        let stage = Stage::of(planned.plan.unwrap());
        let (told, summary) = stage.to_end();
        let mut page = without_clock(&told);
        for (name, value) in &summary.outputs {
            page.push_str(&format!("{name} = {}\n", value.shown()));
        }
        page.push_str(&format!("exit: {}\n", summary.exit_code));
        let golden = path.with_extension("run.txt");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&golden, &page).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if expected != page {
            let name = path.file_stem().unwrap().to_str().unwrap();
            wrong.push(format!("{name}: expected\n{expected}\ngot\n{page}"));
        }
        count += 1;
        // What was sensitive is in no record.
        assert!(!stage.record_text().contains("s3cr3t"), "{}", path.display());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(15 <= count, "{count} are not many");
}

/// `timestamp()` is now, whenever that is: `NOW` stands in its place.
fn without_clock(text: &str) -> String {
    let is_time = |text: &str| {
        let shape = b"dddd-dd-ddTdd:dd:ddZ";
        let bytes = text.as_bytes();
        shape.len() <= bytes.len()
            && shape.iter().zip(bytes).all(|(shape, byte)| match shape {
                b'd' => byte.is_ascii_digit(),
                shape => shape == byte,
            })
    };
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_now = is_time(rest);
        out.push_str(if is_now { "NOW" } else { &rest[..first.len_utf8()] });
        rest = &rest[if is_now { 20 } else { first.len_utf8() }..];
    }
    out
}
