//! `toolbus call` of a plugin that it starts itself.

use expect_test::expect;

use crate::page::Page;

fn plugin() -> String {
    format!("orchestra+plugin:{} plugin builtin:", env!("CARGO_BIN_EXE_toolbus"))
}

#[test]
fn text_is_the_string_text_or_else_the_whole_line() {
    Page::of(&["call", "--text", &plugin(), "upper", "text=hi"]).check(expect![[r#"
        stdout
        HI
        exit 0
    "#]]);
    Page::of(&["call", "--text", &plugin(), "echo", r#"{"text":1,"a":"b"}"#]).check(expect![[r#"
        stdout
        {"a":"b","text":1}
        exit 0
    "#]]);
}
