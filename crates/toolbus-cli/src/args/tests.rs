//! Which word of a command line ends up where.

use std::ffi::OsString;

use clap::FromArgMatches as _;
use expect_test::{Expect, expect};

use super::{Cli, called_toolbus, color_when, command, parse};
use crate::command::wire::BUILT;
use crate::render::style::ColorWhen;

#[test]
fn clap_finds_nothing_wrong_with_our_commands() {
    called_toolbus(command()).debug_assert();
}

#[test]
fn a_start_builds_the_commands_once() {
    for words in ["call builtin: add a=1 b=2", "orchard plan x", "-v mcp builtin:", "tolos", "-V"] {
        let words = std::iter::once("toolbus").chain(words.split(' '));
        let words: Vec<OsString> = words.map(OsString::from).collect();
        BUILT.set(0);
        // What came of it is the matter of others.
        let _ = parse(&words);
        assert_eq!(BUILT.get(), 1, "{words:?}");
    }
}

#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn check(words: &str, expect: Expect) {
    expect.assert_debug_eq(&parsed(words).command);
}

/// `words` are separated by `|`, so that they may contain blanks.
fn parsed(words: &str) -> Cli {
    let words = std::iter::once("toolbus").chain(words.split('|'));
    let matches = command().try_get_matches_from(words).expect("the words are fine");
    Cli::from_arg_matches(&matches).expect("the words are fine")
}

#[test]
fn felts_may_begin_with_a_dash() {
    check(
        "oracle|invoke|stdio:o|add|-1|--fn|-v|--|-2",
        expect![[r#"
            Wire(
                WireCommand(
                    Invoke(
                        InvokeArgs {
                            connection: "stdio:o",
                            selector: "add",
                            felts: [
                                "-1",
                                "--fn",
                                "-v",
                                "--",
                                "-2",
                            ],
                            functions: [],
                            as_cairo: false,
                            lenient_felts: false,
                            timeout: None,
                            start_timeout: 120s,
                            stop_timeout: 5s,
                            line_max: 67108864,
                            allow_shell: false,
                            program: ProgramArgs {
                                vars: [],
                                env_pass: [],
                            },
                        },
                    ),
                ),
            )
        "#]],
    );
}

#[test]
fn flags_may_stand_anywhere_before_the_first_felt() {
    check(
        "oracle|invoke|--timeout|2|stdio:o|--as-cairo|add|--fn|add(a: i8) -> i8|--line-max=1KiB|-1",
        expect![[r#"
            Wire(
                WireCommand(
                    Invoke(
                        InvokeArgs {
                            connection: "stdio:o",
                            selector: "add",
                            felts: [
                                "-1",
                            ],
                            functions: [
                                "add(a: i8) -> i8",
                            ],
                            as_cairo: true,
                            lenient_felts: false,
                            timeout: Some(
                                2s,
                            ),
                            start_timeout: 120s,
                            stop_timeout: 5s,
                            line_max: 1024,
                            allow_shell: false,
                            program: ProgramArgs {
                                vars: [],
                                env_pass: [],
                            },
                        },
                    ),
                ),
            )
        "#]],
    );
}

#[test]
fn a_dash_is_a_selector() {
    check(
        "oracle|invoke|stdio:o|-|--lenient-felts|--allow-shell",
        expect![[r#"
            Wire(
                WireCommand(
                    Invoke(
                        InvokeArgs {
                            connection: "stdio:o",
                            selector: "-",
                            felts: [],
                            functions: [],
                            as_cairo: false,
                            lenient_felts: true,
                            timeout: None,
                            start_timeout: 120s,
                            stop_timeout: 5s,
                            line_max: 67108864,
                            allow_shell: true,
                            program: ProgramArgs {
                                vars: [],
                                env_pass: [],
                            },
                        },
                    ),
                ),
            )
        "#]],
    );
}

#[test]
fn the_word_after_a_double_dash_is_no_flag() {
    check(
        "oracle|invoke|stdio:o|f|--|--fn",
        expect![[r#"
            Wire(
                WireCommand(
                    Invoke(
                        InvokeArgs {
                            connection: "stdio:o",
                            selector: "f",
                            felts: [
                                "--fn",
                            ],
                            functions: [],
                            as_cairo: false,
                            lenient_felts: false,
                            timeout: None,
                            start_timeout: 120s,
                            stop_timeout: 5s,
                            line_max: 67108864,
                            allow_shell: false,
                            program: ProgramArgs {
                                vars: [],
                                env_pass: [],
                            },
                        },
                    ),
                ),
            )
        "#]],
    );
}

#[test]
fn global_flags_stand_before_or_behind_the_command() {
    let before = globals("-vv|--json|--config=x.toml|--log-format=json|tools|builtin:");
    let behind = globals("tools|builtin:|-vv|--json|--config=x.toml|--log-format=json");
    assert_eq!(before, behind);
    expect![[r#"
        Globals {
            config: Some(
                "x.toml",
            ),
            json: true,
            verbose: 2,
            quiet: false,
            color: Auto,
            log_format: Json,
        }"#]]
    .assert_eq(&before);
}

fn globals(words: &str) -> String {
    format!("{:#?}", parsed(words).globals)
}

#[test]
fn color_is_seen_in_words_that_do_not_parse() {
    let of = |words: &str| {
        let words: Vec<OsString> = words.split(' ').map(Into::into).collect();
        color_when(&words)
    };
    assert_eq!(of("toolbus nope"), ColorWhen::Auto);
    assert_eq!(of("toolbus nope --color always"), ColorWhen::Always);
    assert_eq!(of("toolbus --color=never nope"), ColorWhen::Never);
    assert_eq!(of("toolbus --color=pink nope"), ColorWhen::Auto);
    assert_eq!(of("toolbus nope --color"), ColorWhen::Auto);
    assert_eq!(of("toolbus oracle invoke x f -- --color=always"), ColorWhen::Auto);
}
