use expect_test::expect;

use super::*;

fn sh(script: &str) -> Program {
    Program::new("sh").args(["-c", script])
}

#[test]
fn a_page_shows_everything() {
    let page = sh("cat; echo $GREETING; echo no >&2; printf half >&2; exit 3")
        .stdin("in\n")
        .env("GREETING", "hi")
        .run();
    expect![[r#"
        stdout
        in
        hi
        stderr
        no
        half
        (no newline)
        exit 3
    "#]]
    .assert_eq(&page.to_string());
    page.group.unwrap().assert_gone();
}

#[test]
fn a_page_shows_what_killed_it_and_nothing_where_nothing_is() {
    expect!["signal 9\n"].assert_eq(&sh("kill -s KILL $$").run().to_string());
}

#[test]
fn input_that_is_not_read_does_no_harm() {
    let page = sh("exit 0").stdin(vec![b'x'; 1 << 20]).run();
    assert_eq!(page.to_string(), "exit 0\n");
}

#[test]
#[should_panic(expected = "did not end within 0ns")]
fn who_does_not_end_is_killed() {
    let impatient = Program { patience: Duration::ZERO, ..sh("kill -s STOP $$") };
    impatient.run();
}
