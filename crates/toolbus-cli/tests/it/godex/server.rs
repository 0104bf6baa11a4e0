//! Servers and proxies, over real connections.

use toolbus_testkit::page::Program;
use toolbus_testkit::responses::{Answer, Server};

use super::command;

#[test]
fn the_tools_of_a_bus_are_run_and_their_outputs_sent_back() {
    let call = |id: &str, name: &str, arguments: &str| {
        let arguments = serde_json::Value::from(arguments);
        format!(
            r#"{{"type":"response.output_item.done","item":{{"type":"function_call","id":"{id}","call_id":"{id}","name":"{name}","arguments":{arguments}}}}}"#
        )
    };
    let completed = r#"{"type":"response.completed","response":{"usage":{"input_tokens":1}}}"#;
    let calls = [
        call("a", "upper", r#"{"text":"hi"}"#),
        call("b", "add", r#"{"a":1,"b":2}"#),
        call("c", "fail", r#"{"message":"no luck"}"#),
        call("d", "nonesuch", "{}"),
    ];
    let first = calls.iter().map(String::as_str).chain([completed]);
    let second = [r#"{"type":"response.output_text.delta","delta":"done"}"#, completed];
    let server = Server::start(vec![Answer::events(first), Answer::events(second)]);
    let words = ["exec", "hi", "--tools-from", "builtin:", "--base-url", &server.url()];
    let page = Program::of(command(&words)).run();
    assert_eq!((page.status.code(), page.stdout.as_str()), (Some(0), "done"), "{page}");
    assert_eq!(page.stderr, "", "a run that goes well says nothing else");
    let body: serde_json::Value = serde_json::from_str(&server.asked()[1].body).unwrap();
    let input = body["input"].as_array().unwrap();
    let outputs: Vec<_> = input.iter().filter_map(|item| item["output"].as_str()).collect();
    assert_eq!(outputs[..2], ["HI", "3"]);
    assert!(outputs[2].starts_with("error: failed: no luck"), "{outputs:?}");
    assert!(outputs[3].starts_with("error: unknown_tool: "), "{outputs:?}");
}

#[test]
fn a_proxy_of_the_environment_is_asked_for_others_and_never_for_this_machine() {
    let completed = r#"{"type":"response.completed"}"#;
    let proxy = Server::start(vec![Answer::events([completed])]);
    let words =
        ["exec", "hi", "--base-url", "http://models.invalid/v1", "--retries", "0", "--json"];
    let mut asked = command(&words);
    asked.env("HTTP_PROXY", proxy.url().replace("http://", "http://user:word@"));
    asked.env("OPENAI_API_KEY", "sk-12345678");
    let page = Program::of(asked).run();
    assert_eq!(page.status.code(), Some(0), "{page}");
    let seen = proxy.asked();
    assert_eq!(seen[0].line, "POST http://models.invalid/v1/responses HTTP/1.1");
    assert_eq!(seen[0].header("host"), Some("models.invalid"));
    assert_eq!(seen[0].header("proxy-authorization"), Some("Basic dXNlcjp3b3Jk"));

    let server = Server::start(vec![Answer::events([completed])]);
    let url = server.url();
    let mut direct = command(&["exec", "hi", "--base-url", &url]);
    direct.env("HTTP_PROXY", proxy.url()).env("ALL_PROXY", proxy.url());
    assert_eq!(Program::of(direct).run().status.code(), Some(0));
    assert_eq!((server.asked().len(), proxy.asked().len()), (1, 1));

    // A safe connection needs a tunnel, which this one does not give.
    let words = ["exec", "hi", "--base-url", "https://models.invalid", "--retries", "0", "--json"];
    let refusing = Server::start(vec![Answer::new(403, "text/plain")]);
    let mut tunnel = command(&words);
    tunnel.env("https_proxy", refusing.url()).env("OPENAI_API_KEY", "sk-12345678");
    let page = Program::of(tunnel).run();
    assert_eq!(page.status.code(), Some(3), "{page}");
    assert!(page.stdout.contains("unreachable") && page.stdout.contains("403"), "{page}");
    assert_eq!(refusing.asked()[0].line, "CONNECT models.invalid:443 HTTP/1.1");
}
