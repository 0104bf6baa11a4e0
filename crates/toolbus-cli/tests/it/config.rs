//! `toolbus config`: all that is wrong with a config, and what may stand in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};
use serde_json::Value;
use toolbus::bus::config::described::{self, DescribedKey};
use toolbus::peer::Registry;
use toolbus_testkit::scratch::Scratch;

use crate::page::Page;

/// A page in this folder, which stands as FOLDER in it.
#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn check(folder: &Path, words: &[&str], expect: Expect) {
    let page = Page::of(words).folder(folder).run().to_string();
    expect.assert_eq(&page.replace(folder.to_str().unwrap(), "FOLDER"));
}

fn folder(config: &str) -> Scratch {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("toolbus.toml"), config).unwrap();
    scratch
}

const GOOD: &str = "[back.a]\nconnect = \"builtin:\"\n[back.b]\nconnect = \"mcp+stdio:sh -c :\"\n\
                    [front.web]\nserve = \"mcp+http://127.0.0.1:0/mcp\"\n";

#[test]
fn a_config_without_mistakes_is_counted() {
    let scratch = folder(GOOD);
    let words = ["config", "check"];
    check(
        scratch.path(),
        &words,
        expect![[r#"
            stdout
            ok toolbus.toml: 2 backs, 1 front
            exit 0
        "#]],
    );
    let more = "[view.v]\nshow = [\"a.*\"]\n[caller.c]\ntoken = \"secret-token\"\n";
    let scratch = folder(&format!("{GOOD}{more}"));
    check(
        scratch.path(),
        &["config", "check", "--strict"],
        expect![[r#"
            stdout
            ok toolbus.toml: 2 backs, 1 front, 1 view, 1 caller
            exit 0
        "#]],
    );
    check(
        scratch.path(),
        &["config", "check", "--json"],
        expect![[r#"
            stdout
            {"errors":0,"warnings":0,"backs":2,"fronts":1}
            exit 0
        "#]],
    );
}

#[test]
fn all_mistakes_and_warnings_are_told_in_the_order_of_their_lines() {
    let scratch = folder(
        "[back.try]\nconnect = \"builtin:\"\ntimout = \"30s\"\n\
         [back.p]\nconnect = \"mcp+stdio:no-such-program-of-any-machine x\"\nenv = { KEY = \"${NO_SUCH_KEY}\" }\n\
         [back.q]\nconnect = \"mcp+stdio:./x\"\n\
         [back.far]\nconnect = \"https://tools.example/mcp\"\ntoken_env = \"NO_SUCH_TOKEN\"\n\
         headers = { K = \"${file:no-such-file}\" }\n\
         [front.web]\nserve = \"mcp+http://127.0.0.1:0/mcp\"\ntoken_env = \"NO_SUCH_TOKEN\"\n\
         [front.tls]\nserve = \"mediocre+https://127.0.0.1:0/x?cert=no.pem&key=no.pem\"\n\
         [view.v]\nshown = []\n",
    );
    check(
        scratch.path(),
        &["config", "check"],
        expect![[r#"
            stderr
            error: `toolbus.toml` line 3: there is no key `back.try.timout`
            hint: did you mean `timeout`?
            warning: `toolbus.toml` line 5: `back.p.connect`: there is no program `no-such-program-of-any-machine` in PATH
            warning: `toolbus.toml` line 6: `back.p.env.KEY` asks for the environment variable `NO_SUCH_KEY`, which is not set
            warning: `toolbus.toml` line 8: `back.q.connect`: there is no program `./x`
            warning: `toolbus.toml` line 11: `back.far.token_env` asks for the environment variable `NO_SUCH_TOKEN`, which is not set
            warning: `toolbus.toml` line 12: `back.far.headers.K` asks for the file `no-such-file`, which cannot be read: No such file or directory (os error 2)
            error: `front.web.token_env`: the environment variable `NO_SUCH_TOKEN` holds no token
            hint: set it, and not to nothing: `export NO_SUCH_TOKEN=…`
            error: cannot listen on `mediocre+https://127.0.0.1:0/x?cert=no.pem&key=no.pem`: cannot read the certificate in `no.pem`: No such file or directory (os error 2)
            error: `toolbus.toml` line 19: there is no key `view.v.shown`
            hint: did you mean `show`?
            exit 2
        "#]],
    );
    check(
        scratch.path(),
        &["config", "check", "--json"],
        expect![[r#"
            stdout
            {"severity":"error","line":3,"key":"back.try.timout","message":"there is no key `back.try.timout`","hint":"did you mean `timeout`?"}
            {"severity":"warning","line":5,"key":"back.p.connect","message":"`back.p.connect`: there is no program `no-such-program-of-any-machine` in PATH"}
            {"severity":"warning","line":6,"key":"back.p.env.KEY","message":"`back.p.env.KEY` asks for the environment variable `NO_SUCH_KEY`, which is not set"}
            {"severity":"warning","line":8,"key":"back.q.connect","message":"`back.q.connect`: there is no program `./x`"}
            {"severity":"warning","line":11,"key":"back.far.token_env","message":"`back.far.token_env` asks for the environment variable `NO_SUCH_TOKEN`, which is not set"}
            {"severity":"warning","line":12,"key":"back.far.headers.K","message":"`back.far.headers.K` asks for the file `no-such-file`, which cannot be read: No such file or directory (os error 2)"}
            {"severity":"error","line":15,"key":"front.web.token_env","message":"`front.web.token_env`: the environment variable `NO_SUCH_TOKEN` holds no token","hint":"set it, and not to nothing: `export NO_SUCH_TOKEN=…`"}
            {"severity":"error","line":16,"key":"front.tls","message":"cannot listen on `mediocre+https://127.0.0.1:0/x?cert=no.pem&key=no.pem`: cannot read the certificate in `no.pem`: No such file or directory (os error 2)"}
            {"severity":"error","line":19,"key":"view.v.shown","message":"there is no key `view.v.shown`","hint":"did you mean `show`?"}
            {"errors":4,"warnings":5,"backs":4,"fronts":2}
            exit 2
        "#]],
    );
}

#[test]
fn warnings_alone_are_no_failure_unless_it_is_strict() {
    let scratch = folder("[back.q]\nconnect = \"mcp+stdio:./x\"\n");
    check(
        scratch.path(),
        &["config", "check"],
        expect![[r#"
        stdout
        ok toolbus.toml: 1 back, 0 fronts
        stderr
        warning: `toolbus.toml` line 2: `back.q.connect`: there is no program `./x`
        exit 0
    "#]],
    );
    check(
        scratch.path(),
        &["config", "check", "--strict", "-q"],
        expect![[r#"
        stdout
        ok toolbus.toml: 1 back, 0 fronts
        exit 1
    "#]],
    );
    fs::write(scratch.path().join("x"), "").unwrap();
    check(
        scratch.path(),
        &["config", "check", "--strict"],
        expect![[r#"
        stdout
        ok toolbus.toml: 1 back, 0 fronts
        exit 0
    "#]],
    );
}

#[test]
fn what_is_no_toml_has_one_mistake_and_what_is_not_there_none() {
    let scratch = folder("[back.q\nconnect = 1\n[back.r]\nx = 1");
    check(
        scratch.path(),
        &["config", "check"],
        expect![[r#"
        stderr
        error: `toolbus.toml` line 1: not TOML: unclosed table, expected `]`
        exit 2
    "#]],
    );
    check(
        scratch.path(),
        &["config", "check", "--json"],
        expect![[r#"
        stdout
        {"severity":"error","line":1,"message":"not TOML: unclosed table, expected `]`"}
        {"errors":1,"warnings":0,"backs":0,"fronts":0}
        exit 2
    "#]],
    );
    fs::remove_file(scratch.path().join("toolbus.toml")).unwrap();
    check(
        scratch.path(),
        &["config", "check"],
        expect![[r#"
        stderr
        error: there is no `toolbus.toml` here or above
        hint: name a config by `--config FILE`; `toolbus init` writes one
        exit 2
    "#]],
    );
    check(
        scratch.path(),
        &["config", "check", "--config", "no.toml"],
        expect![[r#"
        stderr
        error: cannot read the config `no.toml`
          caused by: No such file or directory (os error 2)
        exit 2
    "#]],
    );
}

#[test]
fn the_lock_is_read_and_the_config_of_a_client_is_checked_likewise() {
    let scratch = folder("[back.a]\nconnect = \"builtin:\"\n[lock]\n");
    check(
        scratch.path(),
        &["config", "check"],
        expect![[r#"
        stderr
        error: there is no `toolbus.lock`
        hint: `toolbus lock` writes it
        exit 2
    "#]],
    );
    fs::write(scratch.path().join("toolbus.lock"), "version = \"x\"\n").unwrap();
    check(
        scratch.path(),
        &["config", "check"],
        expect![[r#"
        stderr
        error: `toolbus.lock` line 1: `version` must be 1, all that this toolbus reads
        hint: delete it and run `toolbus lock` to write it anew
        exit 2
    "#]],
    );
    let client = r#"{"mcpServers": {"a": {"command": "no-such-program-of-any-machine"},
        "b": {"command": "sh", "env": {"KEY": "${NO_SUCH_KEY}"}}}}"#;
    fs::write(scratch.path().join("x.json"), client).unwrap();
    check(
        scratch.path(),
        &["config", "check", "--config", "x.json"],
        expect![[r#"
        stdout
        ok x.json: 2 backs, 0 fronts
        stderr
        warning: `x.json`: `back.b.env.KEY` asks for the environment variable `NO_SUCH_KEY`, which is not set
        warning: `x.json`: `back.a.connect`: there is no program `no-such-program-of-any-machine` in PATH
        exit 0
    "#]],
    );
}

#[test]
fn of_very_many_mistakes_other_commands_tell_the_first() {
    let mistakes: String = (0..23).map(|number| format!("x{number} = 1\n")).collect();
    let scratch = folder(&format!("[back.a]\nconnect = \"builtin:\"\n{mistakes}"));
    let page = Page::of(&["tools"]).folder(scratch.path()).run().to_string();
    assert_eq!(page.matches("error: `toolbus.toml` line ").count(), 20, "{page}");
    assert!(page.ends_with("error: and 3 more\nexit 2\n"), "{page}");
    let page = Page::of(&["config", "check"]).folder(scratch.path()).run().to_string();
    assert_eq!(page.matches("error: `toolbus.toml` line ").count(), 23, "{page}");
}

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

#[test]
fn the_schema_in_the_documents_is_what_is_printed() {
    let page = Page::of(&["config", "schema"]).run().to_string();
    let schema = page.strip_prefix("stdout\n").and_then(|page| page.strip_suffix("exit 0\n"));
    expect_test::expect_file![docs("toolbus.schema.json")].assert_eq(schema.unwrap());
}

/// Does the schema take a value? What of JSON Schema it is written in, and no more.
fn takes(schema: &Value, value: &Value) -> bool {
    let known = [
        "$id",
        "$schema",
        "additionalProperties",
        "anyOf",
        "const",
        "default",
        "description",
        "enum",
        "items",
        "maximum",
        "minimum",
        "not",
        "pattern",
        "properties",
        "propertyNames",
        "required",
        "title",
        "type",
    ];
    let schema = schema.as_object().unwrap();
    let is_kept = |(word, wanted): (&String, &Value)| match word.as_str() {
        "type" => match wanted.as_str().unwrap() {
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("no type is {other}"),
        },
        "const" => wanted == value,
        "enum" => wanted.as_array().unwrap().contains(value),
        "anyOf" => wanted.as_array().unwrap().iter().any(|schema| takes(schema, value)),
        "not" => !takes(wanted, value),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|it| takes(wanted, it))),
        "minimum" => value.as_i64().is_none_or(|number| wanted.as_i64().unwrap() <= number),
        "maximum" => value.as_i64().is_none_or(|number| number <= wanted.as_i64().unwrap()),
        "pattern" => value.as_str().is_none_or(|text| fits(wanted.as_str().unwrap(), text)),
        "required" => value.as_object().is_none_or(|members| {
            wanted
                .as_array()
                .unwrap()
                .iter()
                .all(|name| members.contains_key(name.as_str().unwrap()))
        }),
        "propertyNames" => value.as_object().is_none_or(|members| {
            members.keys().all(|name| takes(wanted, &Value::from(name.as_str())))
        }),
        "additionalProperties" => value.as_object().is_none_or(|members| {
            let own = schema.get("properties").and_then(Value::as_object);
            let mut others =
                members.iter().filter(|(name, _)| own.is_none_or(|own| !own.contains_key(*name)));
            others.all(|(_, value)| match wanted {
                Value::Bool(allowed) => *allowed,
                schema => takes(schema, value),
            })
        }),
        "properties" => value.as_object().is_none_or(|members| {
            let mut own = wanted.as_object().unwrap().iter();
            own.all(|(name, schema)| members.get(name).is_none_or(|value| takes(schema, value)))
        }),
        other => {
            assert!(known.contains(&other), "{other} is not known here");
            true
        }
    };
    schema.iter().all(is_kept)
}

/// The patterns of the schema, by hand.
fn fits(pattern: &str, text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = |text: &str| {
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        ["ms", "s", "m"].contains(&&text[number.len()..])
            && number.starts_with(|c: char| c.is_ascii_digit())
            && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    match pattern {
        "^[0-9][0-9.]*(ms|s|m)$" => is_time(text),
        "^[0-9]+/[0-9][0-9.]*(ms|s|m)$" => {
            text.split_once('/').is_some_and(|(calls, time)| digits(calls) && is_time(time))
        }
        "^[0-9]+([KMG]iB)?$" => digits(
            ["KiB", "MiB", "GiB"].iter().find_map(|it| text.strip_suffix(it)).unwrap_or(text),
        ),
        "^[A-Za-z0-9_-]+$" => {
            let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            !text.is_empty() && text.bytes().all(is_fine)
        }
        other => panic!("{other} is not known here"),
    }
}

fn as_json(text: &str) -> Value {
    let table: toml::de::DeValue<'_> =
        toml::de::DeValue::Table(toml::de::DeTable::parse(text).unwrap().into_inner());
    json_of(&table)
}

fn json_of(value: &toml::de::DeValue<'_>) -> Value {
    use toml::de::DeValue;
    match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(number) => {
            Value::from(i64::from_str_radix(number.as_str(), number.radix()).unwrap())
        }
        DeValue::Float(number) => Value::from(number.as_str().parse::<f64>().unwrap()),
        DeValue::Boolean(value) => Value::from(*value),
        DeValue::Datetime(time) => Value::from(time.to_string()),
        DeValue::Array(items) => items.iter().map(|item| json_of(item.get_ref())).collect(),
        DeValue::Table(members) => {
            let member = |(name, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
                let name: &std::borrow::Cow<'_, str> = name.get_ref();
                (name.to_string(), json_of(value.get_ref()))
            };
            Value::Object(members.iter().map(member).collect())
        }
    }
}

#[test]
fn the_schema_takes_every_config_of_the_documents_and_refuses_what_is_none() {
    let schema = fs::read_to_string(docs("toolbus.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let mut configs = 0;
    for entry in fs::read_dir(docs("")).unwrap().flatten() {
        if entry.path().extension().is_none_or(|end| end != "md") {
            continue;
        }
        let text = fs::read_to_string(entry.path()).unwrap();
        for block in text.split("```toml ").skip(1) {
            let block = block.split_once('\n').unwrap().1.split("```").next().unwrap();
            if !block.contains("[back.") && !block.contains("[front.") || block.contains("timout") {
                continue;
            }
            configs += 1;
            let config = as_json(block);
            assert!(takes(&schema, &config), "{}: {block}", entry.path().display());
        }
    }
    assert!(5 < configs, "only {configs} were found");
    let all = "[back.x]\nconnect = \"mcp+stdio:x\"\ntimeout = \"1.5m\"\nreply_bytes_max = \"64MiB\"\n\
               rate = \"60/1m\"\nin_flight = 3\nenv = { A = \"b\" }\n[back.x.config]\nat = 2026-01-02\n\
               [front.y]\nserve = \"x\"\nlist_timeout = \"0s\"\nsearch = \"auto\"\n\
               [view.v]\nhints = { read_only = true }\n[view.v.tool.\"a.b\"]\nrename = \"c\"\nfixed = { a = [1] }\n\
               [caller.c]\nuid = [1, 2]\ntoken = [\"a\"]\nlimit = { \"a.*\" = { rate = \"1/1s\" } }\n\
               [lock]\nnew = \"allow\"\n[journal]\npath = \"p\"\nbytes_max = 65536\n[admin]\nlisten = \"h:1\"\n";
    assert!(takes(&schema, &as_json(all)));
    for wrong in [
        "[back.x]\n",
        "[back.x]\nconnect = \"a\"\ntimout = \"1s\"\n",
        "[back.x]\nconnect = \"a\"\ntimeout = 30\n",
        "[back.x]\nconnect = \"a\"\ntimeout = \"30\"\n",
        "[back.toolbus]\nconnect = \"a\"\n",
        "[back.\"a b\"]\nconnect = \"a\"\n",
        "[front.x]\n",
        "[backs.x]\nconnect = \"a\"\n",
        "[lock]\nnew = \"never\"\n",
        "[view.v.hints]\nreadonly = true\n",
    ] {
        assert!(!takes(&schema, &as_json(wrong)), "{wrong}");
    }
}

/// The tables of keys in docs/config.md stand between marks, and are made of what the schema is made
/// of: `UPDATE_EXPECT=1` writes them anew.
#[test]
fn the_tables_of_keys_in_the_documents_are_made_of_the_same() {
    let path = docs("config.md");
    let before = fs::read_to_string(&path).unwrap();
    let mut after = before.clone();
    for table in described::tables(&Registry::default()) {
        let (begin, end) = (format!("<!-- keys: {} -->\n", table.name), "<!-- end of keys -->");
        let Some(at) = after.find(&begin).map(|at| at + begin.len()) else {
            panic!("docs/config.md has no table of the keys of `{}`", table.name);
        };
        let until = at + after[at..].find(end).expect("a table has an end");
        after.replace_range(at..until, &drawn(&table.keys));
    }
    expect_test::expect_file![path].assert_eq(&after);
}

fn drawn(keys: &[DescribedKey]) -> String {
    // One row for all who share a key and what it means.
    let mut rows: Vec<(&DescribedKey, Vec<&str>)> = Vec::new();
    for key in keys {
        let is_same = |(other, _): &&mut (&DescribedKey, Vec<&str>)| {
            other.name == key.name && other.default == key.default && other.doc == key.doc
        };
        match rows.iter_mut().find(is_same) {
            Some((_, whose)) => whose.push(key.whose),
            None => rows.push((key, vec![key.whose])),
        }
    }
    // Those of one name stand together, where the first of them stands.
    let mut places = BTreeMap::new();
    for (at, (key, _)) in rows.iter().enumerate() {
        places.entry(key.name).or_insert(at);
    }
    rows.sort_by_key(|(key, _)| places[key.name]);
    let mut drawn = "\n| key | for | default | meaning |\n|---|---|---|---|\n".to_owned();
    for (key, whose) in rows {
        let default = match (key.is_required, key.default) {
            (true, _) => "required".to_owned(),
            (false, "") => String::new(),
            (false, text) if text.parse::<i64>().is_ok() => format!("`{text}`"),
            (false, text @ ("true" | "false" | "[]" | "{}")) => format!("`{text}`"),
            (false, text) => format!("`\"{text}\"`"),
        };
        let (name, doc) = (key.name, key.doc.replace('|', "\\|"));
        drawn += &format!("| `{name}` | {} | {default} | {doc} |\n", whose.join(", "));
    }
    drawn + "\n"
}
