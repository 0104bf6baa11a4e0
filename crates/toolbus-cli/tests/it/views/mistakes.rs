//! Mistakes in what a config says of views, callers and limits: told before anything is started, each
//! with its line and what to do.

use std::fmt::Write as _;
use std::fs;

use expect_test::{Expect, expect};
use toolbus_testkit::scratch::Scratch;

use crate::page::Page;

const GIT: &str = "[back.git]\nconnect = \"builtin:\"\n";
const WEB: &str = "[front.web]\nserve = \"mediocre+http://127.0.0.1:0\"\n";
const ANN: &str = "[caller.ann]\ntoken = \"abcdefgh\"\n";

/// What is told of each of these, behind a back of two lines.
#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn check(configs: &[String], expect: Expect) {
    let scratch = Scratch::new();
    let path = scratch.file("toolbus.toml");
    let mut told = String::new();
    for config in configs {
        fs::write(&path, [GIT, config].concat()).unwrap();
        let page = Page::of(&["tools", "--config", &path]).inside().run();
        assert_eq!(page.stdout, "", "{config}");
        assert_eq!(page.status.code(), Some(2), "{config}");
        let _ = writeln!(told, "{}", page.stderr.replace(&path, "toolbus.toml"));
    }
    expect.assert_eq(&told);
}

fn texts<const COUNT: usize>(texts: [&str; COUNT]) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

#[test]
fn names_that_are_not_in_the_config() {
    check(
        &[
            format!("[view.reader]\n{WEB}view = \"reder\"\n"),
            format!("[view.reader]\n{ANN}view = \"reder\"\n"),
            format!("{ANN}{WEB}callers = [\"anne\"]\n"),
            format!("{ANN}{WEB}callers = [\"ann\", \"x*\"]\n"),
            format!("{WEB}view = \"far-away\"\n"),
        ],
        expect![[r#"
            error: `toolbus.toml` line 6: `front.web.view`: there is no view `reder`
            hint: did you mean `reader`?

            error: `toolbus.toml` line 6: `caller.ann.view`: there is no view `reder`
            hint: did you mean `reader`?

            error: `toolbus.toml` line 7: `front.web.callers`: there is no caller `anne`
            hint: did you mean `ann`?

            error: `toolbus.toml` line 7: `front.web.callers`: there is no caller `x*`

            error: `toolbus.toml` line 5: `front.web.view`: there is no view `far-away`

        "#]],
    );
}

#[test]
fn patterns_that_can_match_nothing_and_names_that_are_none() {
    check(
        &texts([
            "[view.v]\nshow = [\"git.*\", \"git\"]\n",
            "[view.v]\nhide = [\"gi?\"]\n",
            "[caller.ann]\nuid = 1\nlimit.\"git\" = { in_flight = 1 }\n",
            "[view.v.tool.\"git.*\"]\ntitle = \"x\"\n",
            "[view.v.tool.\"gi?.log\"]\ntitle = \"x\"\n",
            "[view.v.tool.\"git\"]\ntitle = \"x\"\n",
            "[view.v.tool.\"git.log\"]\nrename = \"a b\"\n",
            "[view.v.tool.\"git.log\"]\nrename = \"git.log\"\n",
            "[view.v.tool.\"git.log\"]\nrename = \"\"\n",
            "[view.\"a b\"]\n",
        ]),
        expect![[r#"
            error: `toolbus.toml` line 4: `view.v.show`: `git` can match no tool
            hint: write `git.*` for all tools of a back

            error: `toolbus.toml` line 4: `view.v.hide`: `gi?` can match no tool
            hint: write `gi?.*` for all tools of a back

            error: `toolbus.toml` line 5: `caller.ann.limit`: `git` can match no tool
            hint: write `git.*` for all tools of a back

            error: `toolbus.toml` line 3: `view.v.tool.git.*`: `git.*` is no tool: write BACK.TOOL

            error: `toolbus.toml` line 3: `view.v.tool.gi?.log`: `gi?.log` is no tool: write BACK.TOOL

            error: `toolbus.toml` line 3: `view.v.tool.git`: `git` is no tool: write BACK.TOOL

            error: `toolbus.toml` line 4: `view.v.tool.git.log.rename`: `a b` is no name of a tool
            hint: letters, digits, `_` and `-`, at most 64

            error: `toolbus.toml` line 4: `view.v.tool.git.log.rename`: `git.log` is no name of a tool
            hint: letters, digits, `_` and `-`, at most 64

            error: `toolbus.toml` line 4: `view.v.tool.git.log.rename`: `` is no name of a tool
            hint: letters, digits, `_` and `-`, at most 64

            error: `toolbus.toml` line 3: `a b` is no name: letters, digits, `_` and `-` make one, and `toolbus` is taken

        "#]],
    );
    let long = "x".repeat(65);
    check(
        &[format!("[view.v.tool.\"git.log\"]\nrename = \"{long}\"\n")],
        expect![[r#"
        error: `toolbus.toml` line 4: `view.v.tool.git.log.rename`: `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` is no name of a tool
        hint: letters, digits, `_` and `-`, at most 64

    "#]],
    );
}

#[test]
fn two_tools_of_one_name_and_an_argument_fixed_twice() {
    let two =
        |name: &str, tool: &str, rest: &str| format!("[view.{name}.tool.\"git.{tool}\"]\n{rest}\n");
    let renames = |name: &str, tool: &str| two(name, tool, "rename = \"history\"");
    let both = format!("{WEB}view = \"b\"\ncallers = [\"ann\"]\n{ANN}view = \"a\"\n");
    check(
        &[
            renames("v", "show") + &renames("v", "log"),
            renames("a", "log") + &renames("b", "show") + &both,
            "[view.v]\nnames = \"plain\"\n[view.v.tool.\"git.log\"]\nrename = \"history\"\n\
             [view.v.tool.\"files.list\"]\nrename = \"history\"\n"
                .to_owned(),
            two("a", "log", "fixed = { repo = 1 }")
                + &two("b", "log", "fixed = { repo = 2 }")
                + &both,
        ],
        expect![[r#"
            error: `toolbus.toml` line 3: `view.v`: both `git.log` and `git.show` would be called `history`

            error: `toolbus.toml` line 10: `front.web.callers`: both `git.log` and `git.show` would be called `history`

            error: `toolbus.toml` line 3: `view.v`: both `files.list` and `git.log` would be called `history`

            error: `toolbus.toml` line 10: `front.web.callers`: views `b` and `a` fix `repo` of `git.log` to different values

        "#]],
    );
    // The same value is no mistake, and neither is one name in two backs.
    let scratch = Scratch::new();
    let path = scratch.file("toolbus.toml");
    for fine in [
        two("a", "log", "fixed = { repo = 1 }") + &two("b", "log", "fixed = { repo = 1 }") + &both,
        renames("v", "log") + "[view.v.tool.\"files.list\"]\nrename = \"history\"\n",
    ] {
        fs::write(&path, [GIT, &fine].concat()).unwrap();
        let page = Page::of(&["tools", "--config", &path]).inside().run();
        assert_eq!(page.status.code(), Some(0), "{page}");
    }
}

#[test]
fn values_that_a_caller_or_a_limit_cannot_have() {
    check(
        &texts([
            "[view.v.tool.\"git.log\"]\nfixed = { day = 2026-01-01 }\n",
            "[caller.ann]\ntoken_sha256 = \"abc\"\n",
            "[caller.ann]\ncert_sha256 = [\"ab:cd\"]\n",
            "[caller.ann]\nuid = 1\nrate = \"60\"\n",
            "[caller.ann]\nuid = 1\nrate = \"60/1\"\n",
            "[caller.ann]\nuid = 1\nrate = \"0/1m\"\n",
            "[caller.ann]\nuid = 1\nrate = \"1000001/1m\"\n",
            "[caller.ann]\nuid = 1\nrate = \"60/0s\"\n",
            "[caller.ann]\nuid = 1\nrate = \"+60/1m\"\n",
            "[caller.ann]\nuid = 1\nin_flight = 0\n",
            "[caller.ann]\nuid = 1\nin_flight = 1000001\n",
            "[caller.ann]\nuid = 1\nin_flight = \"4\"\n",
            "[caller.ann]\nuid = 1\nlimit.\"git.*\" = { rate = \"x/1s\" }\n",
            "[caller.ann]\noauth = {}\n",
            "[view.v]\nnames = \"short\"\n",
            "[view.v]\nhints = { readonly = true }\n",
        ]),
        expect![[r#"
            error: `toolbus.toml` line 4: `view.v.tool.git.log.fixed.day` must be a string, number, boolean, array or table

            error: `toolbus.toml` line 4: `caller.ann.token_sha256` must be 64 hexadecimal digits

            error: `toolbus.toml` line 4: `caller.ann.cert_sha256` must be 64 hexadecimal digits

            error: `toolbus.toml` line 5: `caller.ann.rate`: `60` is not a rate
            hint: write `60/1m`: so many calls in so much time

            error: `toolbus.toml` line 5: `caller.ann.rate`: `60/1` is not a rate
            hint: write `60/1m`: so many calls in so much time

            error: `toolbus.toml` line 5: `caller.ann.rate`: `0/1m` is not a rate
            hint: write `60/1m`: so many calls in so much time

            error: `toolbus.toml` line 5: `caller.ann.rate`: `1000001/1m` is not a rate
            hint: write `60/1m`: so many calls in so much time

            error: `toolbus.toml` line 5: `caller.ann.rate`: `60/0s` is not a rate
            hint: write `60/1m`: so many calls in so much time

            error: `toolbus.toml` line 5: `caller.ann.rate`: `+60/1m` is not a rate
            hint: write `60/1m`: so many calls in so much time

            error: `toolbus.toml` line 5: `caller.ann.in_flight` must be a whole number from 1 to 1000000

            error: `toolbus.toml` line 5: `caller.ann.in_flight` must be a whole number from 1 to 1000000

            error: `toolbus.toml` line 5: `caller.ann.in_flight` must be a whole number from 1 to 1000000

            error: `toolbus.toml` line 5: `caller.ann.limit.git.*.rate`: `x/1s` is not a rate
            hint: write `60/1m`: so many calls in so much time

            error: `toolbus.toml` line 4: `caller.ann.oauth` is empty
            hint: give `oauth` a value, see that the variable or file it names has one, or take it out of the config

            error: `toolbus.toml` line 4: `view.v.names` must be "back", "plain" or "full"

            error: `toolbus.toml` line 4: there is no key `view.v.hints.readonly`
            hint: did you mean `read_only`?

        "#]],
    );
}

#[test]
fn callers_that_a_front_cannot_have() {
    let sum = "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab";
    let front = |serve: &str, callers: &str| {
        format!("[front.t]\nserve = \"{serve}\"\ncallers = [\"{callers}\"]\n")
    };
    check(
        &[
            format!("{ANN}[caller.bob]\ntoken = \"abcdefgh\"\n"),
            format!("{ANN}[caller.bob]\ntoken_sha256 = \"{sum}\"\n"),
            "[caller.ann]\nuid = [4, 5]\n[caller.bob]\nuid = 5\n".to_owned(),
            "[caller.ann]\ncert_subject = \"O=A, CN=b\"\n[caller.bob]\ncert_subject = \"o = A,cn=b\"\n"
                .to_owned(),
            format!("[caller.bob]\nuid = 1\n{WEB}callers = [\"bob\"]\n"),
            format!("{ANN}{}", front("mediocre+unix:a.sock", "ann")),
            format!("{ANN}{}", front("mediocre+tcp://127.0.0.1:0", "ann")),
            format!("{ANN}{}", front("nats://127.0.0.1:4222", "ann")),
            format!("{ANN}{}", front("mediocre+tls://127.0.0.1:0?cert=a&key=b", "ann")),
            format!("{ANN}{WEB}callers = []\n"),
            format!("{ANN}{WEB}callers = [\"ann\"]\ntoken_env = \"TOKEN\"\n"),
            format!("{ANN}{WEB}callers = [\"ann\"]\ntoken = \"a-token-of-all\"\n"),
        ],
        expect![[r#"
            error: `toolbus.toml` line 6: `caller.bob.token`: `caller.ann` has the same

            error: `toolbus.toml` line 6: `caller.bob.token_sha256`: `caller.ann` has the same

            error: `toolbus.toml` line 6: `caller.bob.uid`: `caller.ann` has the same

            error: `toolbus.toml` line 6: `caller.bob.cert_subject`: `caller.ann` has the same

            error: `toolbus.toml` line 7: `front.web.callers`: caller `bob` has nothing to show there
            hint: it needs `token` or `token_sha256`

            error: `toolbus.toml` line 7: `front.t.callers`: caller `ann` has nothing to show there
            hint: it needs `uid`

            error: `toolbus.toml` line 7: `front.t.callers` is only for fronts that can tell callers apart

            error: `toolbus.toml` line 7: `front.t.callers` is only for fronts that can tell callers apart

            error: `toolbus.toml` line 7: `front.t.callers`: `serve` has no `client_ca`

            error: `toolbus.toml` line 7: `front.web.callers` is empty
            hint: take it out to let in whom the front lets in by itself

            error: `toolbus.toml` line 8: `front.web.token_env` and `front.web.callers` do not go together
            hint: give the token to a caller

            error: `toolbus.toml` line 8: `front.web.token` and `front.web.callers` do not go together
            hint: give the token to a caller

        "#]],
    );
    // Matched by a wildcard, a caller with nothing to show there is passed over.
    let scratch = Scratch::new();
    let path = scratch.file("toolbus.toml");
    let fine = format!("{GIT}{ANN}[caller.bob]\nuid = 1\n{WEB}callers = [\"*\"]\n");
    fs::write(&path, fine).unwrap();
    let page = Page::of(&["tools", "--config", &path]).inside().run();
    assert_eq!(page.status.code(), Some(0), "{page}");
}
