//! What programs get of our environment, and what goes with requests over HTTP.

use expect_test::expect;

use crate::listening::Server;
use crate::page::{Page, our_command};

/// An MCP server that dies at once, of what it says.
fn dying(says: &str) -> String {
    format!("mcp+stdio:sh -c 'echo \"{says}\" >&2; exit 3'")
}

#[test]
fn programs_get_what_runners_and_certificates_need_and_nothing_else() {
    let says = "$SSL_CERT_FILE $https_proxy $LC_ALL $npm_config_registry $UV_INDEX $SECRET.";
    let mut page = Page::of(&["tools", &dying(says)]);
    for (name, value) in [
        ("SSL_CERT_FILE", "cert"),
        ("https_proxy", "proxy"),
        ("LC_ALL", "C"),
        ("npm_config_registry", "npm"),
        ("UV_INDEX", "uv"),
        ("SECRET", "not for you"),
    ] {
        page = page.env(name, value);
    }
    page.check(expect![[r#"
        stderr
        error: cannot list the tools of `mcp+stdio:sh -c 'echo "$SSL_CERT_FILE $https_proxy $LC_ALL $npm_config_registry $UV_INDEX $SECRET." >&2; exit 3'`: `sh` ended with exit status 3 before it was ready
          | cert proxy C npm uv .
        hint: it did not get 1 of our environment variables; if it needs one, pass it on by `--env-pass NAME` (`env_pass` in the config)
        exit 3
    "#]]);
}

#[test]
fn variables_are_set_and_passed_on_by_flags() {
    let says = "$A $B $C.";
    let words = ["tools", "--env", "A=1", "--env=B=x=y", "--env-pass", "C", &dying(says)];
    Page::of(&words).env("C", "3").env("B", "ours").check(expect![[r#"
        stderr
        error: cannot list the tools of `mcp+stdio:sh -c 'echo "$A $B $C." >&2; exit 3'`: `sh` ended with exit status 3 before it was ready
          | 1 x=y 3.
        exit 3
    "#]]);
}

#[test]
fn variables_are_set_for_the_backs_of_a_config_too() {
    let config = format!(
        "[back.x]\nconnect = \"\"\"{}\"\"\"\nenv = {{ A = \"1\", B = \"2\" }}\n",
        dying("$A $B $C.")
    );
    Page::of(&["tools", "--env", "B=3", "--env-pass=C"])
        .env("C", "4")
        .config("surroundings", &config)
        .check(expect![[r#"
            stderr
            error: cannot list the tools of `mcp+stdio:sh -c 'echo "$A $B $C." >&2; exit 3'`: `x` ended with exit status 3 before it was ready
              | 1 3 4.
            exit 3
        "#]]);
}

#[test]
fn a_program_that_dies_is_told_of_the_variables_that_it_names() {
    Page::of(&["call", &dying("set WEATHER_KEY first"), "f"])
        .env("WEATHER_KEY", "k")
        .env("OTHER", "o")
        .check(expect![[r#"
            stderr
            error: `sh` ended with exit status 3 before it was ready
              | set WEATHER_KEY first
            hint: `WEATHER_KEY` was not passed on to it: write `--env-pass WEATHER_KEY` (`env_pass` in the config)
            exit 3
        "#]]);
    Page::of(&["call", &dying("no luck"), "f"])
        .env("WEATHER_KEY", "k")
        .env("OTHER", "o")
        .check(expect![[r#"
            stderr
            error: `sh` ended with exit status 3 before it was ready
              | no luck
            hint: it did not get 2 of our environment variables; if it needs one, pass it on by `--env-pass NAME` (`env_pass` in the config)
            exit 3
        "#]]);
}

#[test]
fn flags_that_make_no_sense() {
    Page::of(&["tools", "--env", "A", "builtin:"]).check(expect![[r#"
        stderr
        error: `--env` needs a name, a `=` and a value
        hint: write `--env NAME=VALUE`; `--env-pass NAME` passes on one of ours
        exit 2
    "#]]);
    Page::of(&["tools", "--env-pass", "A=b", "builtin:"]).check(expect![[r#"
        stderr
        error: `--env-pass` takes the name alone: `A`
        hint: `--env NAME=VALUE` sets a variable
        exit 2
    "#]]);
    Page::of(&["tools", "--header", "A", "builtin:"]).check(expect![[r#"
        stderr
        error: `--header` needs a name, a `:` and a value
        hint: write `--header 'NAME: VALUE'`
        exit 2
    "#]]);
    Page::of(&["tools", "--header", "A: ${NOT_SET}", "builtin:"]).check(expect![[r#"
        stderr
        error: `--header` asks for the environment variable `NOT_SET`, which is not set
        hint: set it: `export NOT_SET=…`
        exit 2
    "#]]);
}

#[test]
fn other_commands_take_them_too() {
    let own = our_command(&["mcp", "--env", "A=1", "builtin:"]);
    for words in [
        ["oracle", "invoke", "--env", "A=1", "stdio:sh -c 'echo $A >&2; exit 3'", "f"],
        ["rpc", "call", "--env", "A=1", "stdio:sh -c 'echo $A >&2; exit 3'", "f"],
    ] {
        let page = Page::of(&words).run().to_string();
        assert!(page.contains("| 1\n"), "{page}");
    }
    let us = format!("A={}", env!("CARGO_BIN_EXE_toolbus"));
    let page = Page::of(&["check", "mcp", "--env", &us, "mcp+stdio:sh -c 'exec $A mcp builtin:'"]);
    assert!(page.run().to_string().starts_with("stdout\nok handshake\n"));
    let page = Page::of(&["call", &format!("mcp+stdio:{own}"), "add", "a=1", "b=2"]).run();
    assert_eq!(page.to_string(), "stdout\n3\nexit 0\n");
}

#[test]
fn a_token_is_shown_to_an_mcp_server_that_asks_for_one() {
    let words = ["mcp", "--http", "0", "--token-env", "T", "builtin:"];
    let server = Server::start_with(&words, 1, &[("T", "open-sesame")]);
    let url = server.url();
    let page = Page::of(&["call", url, "add", "a=1", "b=2"]).run();
    expect![[r#"
        stderr
        error: `URL` needs a sign-in: run `toolbus login URL`
        hint: if it takes a fixed token, name its variable by `--token-env` (`token_env` in the config)
        exit 3
    "#]].assert_eq(&page.to_string().replace(url, "URL"));
    for words in [
        ["call", "--token-env", "T", url, "add", "a=1", "b=2"],
        ["call", "--header", "Authorization: Bearer ${T}", url, "add", "a=1", "b=2"],
    ] {
        let page = Page::of(&words).env("T", "open-sesame").run();
        assert_eq!(page.to_string(), "stdout\n3\nexit 0\n");
    }
}

#[test]
fn a_token_is_shown_to_a_mediocre_server_that_asks_for_one() {
    let words = ["rpc", "serve", "--listen", "http://127.0.0.1:0", "--token-env", "T", "builtin:"];
    let server = Server::start_with(&words, 1, &[("T", "open-sesame")]);
    let url = server.url();
    let page = Page::of(&["rpc", "call", url, "add", "[1,2]"]).run();
    expect![[r#"
        stderr
        error: a bearer token is needed: send it as `Authorization: Bearer TOKEN`
        meta: {"code":"unavailable","reason":"unauthorized"}
        hint: name the variable that holds a token by `--token-env` (`token_env` in the config), or give what else it asks for by `--header` (`headers`)
        exit 1
    "#]].assert_eq(&page.to_string());
    let words = ["rpc", "call", "--token-env", "T", url, "add", r#"{"a":1,"b":2}"#];
    let page = Page::of(&words).env("T", "open-sesame").run();
    assert_eq!(page.to_string(), "stdout\n3\nexit 0\n");
    let config = format!("[back.x]\nconnect = \"{url}\"\ntoken_env = \"T\"\n");
    let page = Page::of(&["call", "x.add", "a=1", "b=2"])
        .env("T", "open-sesame")
        .config("credentials", &config)
        .run();
    assert_eq!(page.to_string(), "stdout\n3\nexit 0\n");
}
