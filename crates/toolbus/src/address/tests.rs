use expect_test::{Expect, expect};

use super::*;
use crate::wire::oracle::connection;

/// The places of some addresses, or why they have none.
#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn check(texts: &[&str], expect: Expect) {
    expect.assert_eq(&shown(Purpose::Call, texts));
}

fn shown(purpose: Purpose, texts: &[&str]) -> String {
    let line = |text: &&str| match Address::parse_for(purpose, text) {
        Ok(address) => {
            assert_eq!(address.as_str(), *text);
            format!("{} {:?}\n", address.kind().name(), address.place())
        }
        Err(error) => {
            let hint = error.hint().map(|hint| format!("  hint: {hint}\n"));
            format!("error: {error}\n{}", hint.unwrap_or_default())
        }
    };
    texts.iter().map(line).collect()
}

#[test]
fn places_on_this_machine() {
    check(
        &[
            "builtin:",
            "shell:",
            "stdio:./o a 'b c'",
            "oracle+stdio:o",
            "orchard+stdio:o",
            "mcp+stdio:o",
            "mediocre+stdio:o",
            "godex+stdio:o",
            "stdio://x",
            "mediocre+unix:/run/a b?c",
        ],
        expect![[r#"
            builtin Inside
            shell Inside
            oracle Command(["./o", "a", "b c"])
            oracle Command(["o"])
            orchard Command(["o"])
            mcp Command(["o"])
            mediocre Command(["o"])
            godex Command(["o"])
            oracle Command(["//x"])
            mediocre Unix("/run/a b?c")
        "#]],
    );
}

#[test]
fn places_elsewhere() {
    check(
        &[
            "mcp+http://127.0.0.1:8932/mcp",
            "mcp+https://weather.example?key=%41",
            "http://127.0.0.1:8932/mcp",
            "https://weather.example",
            "mediocre+tcp://[::1]:7420",
            "mediocre+tls://h:1?ca=a%20b.pem&cert=&key=k",
            "mediocre+http://h",
            "mediocre+https://h/x?ca=c",
            "orchestra+quic://localhost:50100?certs=/etc/c%26d&idle_timeout=15",
        ],
        expect![[r#"
            mcp Url(Url { carrier: Http, host: "127.0.0.1", port: 8932, path: "/mcp", parameters: [] })
            mcp Url(Url { carrier: Https, host: "weather.example", port: 443, path: "/?key=***", parameters: [] })
            mcp Url(Url { carrier: Http, host: "127.0.0.1", port: 8932, path: "/mcp", parameters: [] })
            mcp Url(Url { carrier: Https, host: "weather.example", port: 443, path: "/", parameters: [] })
            mediocre Url(Url { carrier: Tcp, host: "::1", port: 7420, path: "", parameters: [] })
            mediocre Url(Url { carrier: Tls, host: "h", port: 1, path: "", parameters: [("ca", "a b.pem"), ("cert", ""), ("key", "k")] })
            mediocre Url(Url { carrier: Http, host: "h", port: 80, path: "/rpc", parameters: [] })
            mediocre Url(Url { carrier: Https, host: "h", port: 443, path: "/x", parameters: [("ca", "c")] })
            orchestra Url(Url { carrier: Quic, host: "localhost", port: 50100, path: "", parameters: [("certs", "/etc/c&d"), ("idle_timeout", "15")] })
        "#]],
    );
}

#[test]
fn parameters_depend_on_the_purpose() {
    let text = "orchestra+quic://h:1?certs=d&hub=a&id=i";
    assert!(Address::parse(text).is_err());
    let address = Address::parse_for(Purpose::Serve, text).unwrap();
    let Place::Url(url) = address.place() else { panic!("{:?}", address.place()) };
    assert_eq!(url.parameter("hub"), Some("a"));
    assert_eq!(url.parameter("name"), None);
}

#[test]
fn what_is_no_address() {
    check(
        &[
            "mpc+stdio:x",
            "mcp+stdoi:x y",
            "STDIO:x",
            "MCP+stdio:x",
            " stdio:x",
            "",
            "buildin:",
            "builtin",
            "mcp:ls -l",
            "mcp://h/mcp",
            "mcp+http:127.0.0.1:80",
            "mcp+htp://h/mcp",
            "127.0.0.1:7420",
            "localhost:80/mcp",
            "tcp://h:1",
            "unix:/run/x",
            "ftp:x",
            "stdio:",
            "stdio: # nothing",
            "mcp+stdio:",
            "stdio:'x",
            "mcp+stdio:\"x",
            "sh -c 'x",
            "builtin:x",
            "shell:ls",
            "mediocre+unix:",
            "mediocre+tcp://h",
            "mediocre+tcp://:1",
            "mediocre+tcp://h:99999",
            "mediocre+tcp://h:+1",
            "mediocre+tcp://h:",
            "mediocre+tcp://::1:7420",
            "mediocre+tcp://[::1:7420",
            "mediocre+tcp://u:p@h:1",
            "mediocre+tcp://h:1/path",
            "mediocre+tcp://h:1?ca=x",
            "mediocre+tls://h:1?cx=x",
            "mediocre+tls://h:1?ca=x&ca=y",
            "mediocre+tls://h:1?ca=%4",
            "mediocre+tls://h:1?ca=%ff",
            "mcp+http://h/a#b",
            "mcp+http://h/a b",
        ],
        expect![[r#"
            error: unsupported connection scheme: "mpc+stdio:x"
              hint: did you mean `mcp+stdio:x`?
            error: unsupported connection scheme: "mcp+stdoi:x y"
              hint: did you mean `mcp+stdio:x y`?
            error: unsupported connection scheme: "STDIO:x"
              hint: did you mean `stdio:x`?
            error: unsupported connection scheme: "MCP+stdio:x"
              hint: did you mean `mcp+stdio:x`?
            error: unsupported connection scheme: " stdio:x"
              hint: did you mean `stdio:x`?
            error: unsupported connection scheme: ""
              hint: `toolbus --help` lists what an address can be
            error: unsupported connection scheme: "buildin:"
              hint: did you mean `builtin:`?
            error: unsupported connection scheme: "builtin"
              hint: did you mean `builtin:`?
            error: unsupported connection scheme: "mcp:ls -l"
              hint: did you mean `mcp+stdio:ls -l`?
            error: unsupported connection scheme: "mcp://h/mcp"
              hint: did you mean `http://h/mcp`?
            error: unsupported connection scheme: "mcp+http:127.0.0.1:80"
              hint: did you mean `mcp+http://127.0.0.1:80`?
            error: unsupported connection scheme: "mcp+htp://h/mcp"
              hint: did you mean `mcp+http://h/mcp`?
            error: unsupported connection scheme: "127.0.0.1:7420"
              hint: did you mean `http://127.0.0.1:7420` or `mediocre+tcp://127.0.0.1:7420`?
            error: unsupported connection scheme: "localhost:80/mcp"
              hint: did you mean `http://localhost:80/mcp` or `mediocre+http://localhost:80/mcp`?
            error: unsupported connection scheme: "tcp://h:1"
              hint: did you mean `mediocre+tcp://h:1`?
            error: unsupported connection scheme: "unix:/run/x"
              hint: did you mean `mediocre+unix:/run/x`?
            error: unsupported connection scheme: "ftp:x"
              hint: `toolbus --help` lists what an address can be
            error: empty oracle command
            error: empty oracle command
            error: empty mcp command
            error: failed to parse oracle command: missing closing quote
            error: failed to parse mcp command: missing closing quote
            error: the command `sh -c 'x` has a quote that is not closed
            error: `builtin:x` is no address: nothing may stand behind `builtin:`
            error: `shell:ls` is no address: nothing may stand behind `shell:`
            error: `mediocre+unix:` is no address: the path of the socket is missing
            error: `mediocre+tcp://h` is no address: the port is missing
            error: `mediocre+tcp://:1` is no address: the host is missing
            error: `mediocre+tcp://h:99999` is no address: `99999` is no port
            error: `mediocre+tcp://h:+1` is no address: `+1` is no port
            error: `mediocre+tcp://h:` is no address: `` is no port
            error: `mediocre+tcp://::1:7420` is no address: an IPv6 address stands in brackets, as in `[::1]:7420`
            error: `mediocre+tcp://[::1:7420` is no address: the host is missing
            error: `mediocre+tcp://…` is no address: a user or password cannot stand in it
            error: `mediocre+tcp://h:1/path` is no address: the path `/path` means nothing here
            error: `mediocre+tcp://h:1?ca=x` is no address: there is no parameter `ca`; it takes none
            error: `mediocre+tls://h:1?cx=x` is no address: there is no parameter `cx`; it can be ca, cert, key
            error: `mediocre+tls://h:1?ca=x&ca=y` is no address: parameter `ca` stands twice
            error: `mediocre+tls://h:1?ca=%4` is no address: `%4` is not percent-encoded text
            error: `mediocre+tls://h:1?ca=%ff` is no address: `%ff` is not percent-encoded text
            error: `mcp+http://h/a#b` is no address: a `#` cannot stand in it
            error: `mcp+http://h/a b` is no address: blanks cannot stand in it; write them as `%20`
        "#]],
    );
}

#[test]
fn names_of_peers() {
    for (text, name) in [
        ("builtin:", "builtin"),
        ("shell:", "shell"),
        ("stdio:./bin/math-oracle -v", "math-oracle"),
        ("mcp+stdio:python3 -u srv/weather.py --fast", "weather"),
        ("mcp+stdio:/usr/bin/python3.12 -m weather_server", "weather-server"),
        ("mcp+stdio:npx -y @scope/server", "server"),
        ("mcp+stdio:python3", "python3"),
        ("stdio:node.exe x.js", "x"),
        ("stdio:tool.v1.sh", "tool-v1"),
        ("stdio:.hidden", "-hidden"),
        ("mediocre+tcp://a.example:1", "a-example"),
        ("mediocre+unix:/run/x.sock", "x"),
    ] {
        assert_eq!(Address::parse(text).unwrap().peer_name(), name, "{text}");
    }
}

#[test]
fn addresses_are_told_from_tools() {
    for word in [
        "builtin:",
        "stdio:./o",
        "oracle+stdio:x y",
        "shell:",
        "mpc+stdio:x",
        "MCP+stdio:x",
        "STDIO:x",
        "mcp:ls",
        "buildin:",
        "http://h/mcp",
        "https:h",
        "ftp://h",
        "127.0.0.1:7420",
        "localhost:80",
    ] {
        assert!(Address::begins_like_one(word), "{word}");
    }
    for word in [
        "add",
        "math.add",
        "std:sort",
        "+:",
        "a+:",
        "A+b:",
        "x:stdio:",
        "stdio",
        "math.at:80",
        "sort:",
    ] {
        assert!(!Address::begins_like_one(word), "{word}");
    }
}

#[test]
fn equal_is_who_is_written_the_same() {
    let parse = |text| Address::parse(text).unwrap();
    assert_eq!(parse("stdio:x"), parse("stdio:x"));
    assert_ne!(parse("stdio:x"), parse("stdio: x"));
}

#[test]
fn an_oracle_is_named_by_its_own_schemes_alone() {
    for text in ["stdio:a b", "oracle+stdio:a b", "shell:"] {
        assert!(connection(text).is_ok(), "{text}");
    }
    for text in ["Stdio:x", " stdio:x", "stdio", "oracle+shell:", "builtin:", "mcp+stdio:x"] {
        let error = connection(text).unwrap_err().to_string();
        let wanted = format!(
            "unsupported connection scheme: {text:?}; supported are stdio:, oracle+stdio:, shell:"
        );
        assert_eq!(error, wanted);
    }
    for (text, wanted) in [
        ("stdio:'x", "failed to parse oracle command: missing closing quote"),
        ("stdio:", "empty oracle command"),
        ("shell:ls", "`shell:ls` is no address: nothing may stand behind `shell:`"),
    ] {
        assert_eq!(connection(text).unwrap_err().to_string(), wanted);
    }
}
