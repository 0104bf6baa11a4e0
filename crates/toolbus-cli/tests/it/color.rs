//! Colour: none in a pipe, unless it is asked for.

use expect_test::expect;

use crate::page::{Page, check};

#[test]
fn a_pipe_has_no_colour() {
    check(
        "tolos --color auto",
        expect![[r#"
            stderr
            error: there is no command `tolos`
            usage: toolbus [OPTIONS] <COMMAND>
            hint: did you mean `tools`?
            exit 2
        "#]],
    );
    check(
        "tolos --color never",
        expect![[r#"
            stderr
            error: there is no command `tolos`
            usage: toolbus [OPTIONS] <COMMAND>
            hint: did you mean `tools`?
            exit 2
        "#]],
    );
}

#[test]
fn always_is_always() {
    check(
        "tolos --color always",
        expect![[r#"
            stderr
            ␛[1m␛[31merror:␛[0m there is no command `tolos`
            usage: toolbus [OPTIONS] <COMMAND>
            ␛[1m␛[36mhint:␛[0m did you mean `tools`?
            exit 2
        "#]],
    );
    // Who asks by an option means it; NO_COLOR is for those who did not.
    Page::of(&["tolos", "--color=always"]).env("NO_COLOR", "1").check(expect![[r#"
        stderr
        ␛[1m␛[31merror:␛[0m there is no command `tolos`
        usage: toolbus [OPTIONS] <COMMAND>
        ␛[1m␛[36mhint:␛[0m did you mean `tools`?
        exit 2
    "#]]);
}

#[test]
fn help_has_colour_too() {
    let plain = Page::of(&["tools", "-h"]).run().stdout;
    let colored = Page::of(&["tools", "-h", "--color", "always"]).run().stdout;
    assert!(!plain.contains('\x1b'), "{plain}");
    assert!(colored.contains("\x1b["), "{colored}");
}
