//! Our back before our front.

use std::time::Instant;

use toolbus::bus::back::Back;
use toolbus::peer::open;
use toolbus::peer::settings::{Secret, WireSettings};
use toolbus::wire::mcp::settings::McpSettings;
use toolbus_engine::calls::Inbox;
use toolbus_proto::tool::{Failure, FailureKind};

use super::*;

#[test]
fn tools_are_listed_and_called() {
    run(async {
        let served = Served::builtin().await;
        let back = back(&served, &Settings::default());
        let tools = back.tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(&names[..2], ["add", "blob"]);
        let sum = call(&*back, "add", r#"{"a":1,"b":2}"#).await.unwrap();
        assert_eq!(sum, Outcome::Value(Json::parse("3").unwrap()));
        let failure = call(&*back, "nobody", "{}").await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::UnknownTool, "{failure}");
        back.shutdown().await;
        served.stop().await;
    });
}

#[test]
fn a_server_that_is_not_there_is_not_tried_by_every_call() {
    run(async {
        let gone = Served::builtin().await;
        let back = back(&gone, &Settings::default());
        gone.stop().await;
        let first = back.tools().await.unwrap_err();
        assert_eq!(first.kind, FailureKind::Unavailable, "{first}");
        assert!(!first.message.contains("next try"), "{first}");
        // Each try that fails makes the next wait longer, so a call comes too early soon.
        for _ in 0..20 {
            let failure = back.tools().await.unwrap_err();
            if failure.message.starts_with(&format!("{}; next try in ", first.message)) {
                assert_eq!(failure.kind, FailureKind::Unavailable);
                return;
            }
        }
        panic!("it was tried by every call");
    });
}

#[test]
fn many_calls_at_once_get_each_its_own_answer() {
    run(async {
        let served = Served::builtin().await;
        let back = back(&served, &Settings::default());
        let calls = (0..200).map(|number| {
            let back = back.clone();
            spawn_local(async move {
                let args = format!(r#"{{"a":{number},"b":1000}}"#);
                let sum = call(&*back, "add", &args).await.unwrap();
                assert_eq!(sum, Outcome::Value(Json::parse((number + 1000).to_string()).unwrap()));
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        back.shutdown().await;
        served.stop().await;
    });
}

#[test]
fn a_call_that_nobody_waits_for_is_cancelled_there() {
    run(async {
        let (route, mut strings) = puppet();
        let served = Served::with(Options::default(), route).await;
        let back = back(&served, &Settings::default());
        let (_inbox, slot) = Inbox::new();
        let uplink = back.start(Call::tool(Instant::now(), "work", None), slot);
        let _there = strings.calls.recv().await.unwrap();
        drop(uplink);
        strings.cancels.recv().await.unwrap();
        served.stop().await;
    });
}

/// A legacy client, our front, our back, our front once more, and the tools.
#[test]
fn a_session_that_the_server_forgot_is_begun_anew() {
    run(async {
        let far = Served::builtin().await;
        let port = far.address.port();
        let near = Served::with_server(Rc::new(Passing(back(&far, &Settings::default())))).await;
        let session = session(&near).await;
        let session = borrowed(&session);
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"upper","arguments":{"text":"so"}}}"#;
        let answer =
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"SO"}]}}"#;
        near.post(&session, call).await.is(200, answer);

        far.stop().await;
        let listener = Listener::tcp("127.0.0.1", port).await.unwrap();
        let far = Served::on(listener, Options::default(), builtin().await, Behind::Hub);
        near.post(&session, call).await.is(200, answer);
        near.stop().await;
        far.stop().await;
    });
}

#[test]
fn progress_passes_through_both() {
    run(async {
        let (route, mut strings) = puppet();
        let far = Served::with(Options::default(), route).await;
        let near = Served::with_server(Rc::new(Passing(back(&far, &Settings::default())))).await;
        let (headers, call) = modern("work", "");
        let (mut answer, slot) = tokio::join!(near.send(post(&headers, &call)), async {
            let slot = strings.calls.recv().await.unwrap();
            let _ = slot.send(progress(1));
            slot
        });
        let event = read_until(answer.body_mut(), "\n\n").await;
        assert!(event.contains(r#""progressToken":"t""#), "{event}");
        let _ = slot.send(Down::Done(Ok(Outcome::Text("done".into()))));
        let rest = whole(answer).await.body;
        assert!(rest.contains(r#""text":"done""#), "{rest}");
        near.stop().await;
        far.stop().await;
    });
}

#[test]
fn a_token_is_shown_and_the_lack_of_one_is_told() {
    run(async {
        // A variable that everybody has.
        let token = Some(Secret::new(std::env::var("PATH").unwrap()));
        let access = Access { token, ..Access::default() };
        let served = Served::with(Options { access, ..Options::default() }, builtin().await).await;
        let failure = call(&*back(&served, &Settings::default()), "add", "{}").await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unavailable);
        let (server, login) =
            failure.message.split_once(" needs a sign-in: run `toolbus login ").unwrap();
        assert!(server.starts_with("`http://127.0.0.1:"), "{failure}");
        assert_eq!(format!("`{login}"), server);
        assert!(hint(&failure).contains("token_env"));

        let mcp = McpSettings { token_env: Some("PATH".into()), ..McpSettings::default() };
        let with_token =
            back(&served, &Settings { wire: WireSettings::of(mcp), ..Settings::default() });
        assert!(call(&*with_token, "add", r#"{"a":1,"b":2}"#).await.is_ok());
        served.stop().await;
    });
}

#[test]
fn whoever_is_not_there_is_unavailable_and_may_come_later() {
    run(async {
        let served = Served::builtin().await;
        let port = served.address.port();
        let back = back(&served, &Settings::default());
        served.stop().await;
        let failure = call(&*back, "add", "{}").await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert!(failure.message.contains(&format!("127.0.0.1:{port}")), "{failure}");

        let listener = Listener::tcp("127.0.0.1", port).await.unwrap();
        let served = Served::on(listener, Options::default(), builtin().await, Behind::Hub);
        assert!(call(&*back, "add", r#"{"a":1,"b":2}"#).await.is_ok());
        served.stop().await;
    });
}

#[test]
fn a_token_does_not_travel_in_clear() {
    let token_env = Some("PATH".to_owned());
    let mcp = McpSettings { token_env, ..McpSettings::default() };
    let settings = Settings { wire: WireSettings::of(mcp), ..Settings::default() };
    let address = Address::parse("mcp+http://tools.example/mcp").unwrap();
    let error = open(&address, &settings).err().unwrap();
    assert_eq!(
        error.to_string(),
        "cannot open `mcp+http://tools.example/mcp`: will not send a token to `tools.example` in clear"
    );
    assert!(error.hint().unwrap().contains("insecure"));
    let mcp = McpSettings {
        token_env: Some("TOOLBUS_NO_SUCH_VARIABLE".into()),
        ..McpSettings::default()
    };
    let address = Address::parse("mcp+http://localhost/mcp").unwrap();
    let error = open(&address, &Settings { wire: WireSettings::of(mcp), ..Settings::default() })
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "cannot open `mcp+http://localhost/mcp`: the environment variable `TOOLBUS_NO_SUCH_VARIABLE` holds no token"
    );
}

/// One back, and nothing between it and whoever asks.
pub(super) struct Passing(pub(super) Rc<dyn Back>);

impl Route for Passing {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        self.0.start(call, down)
    }
}

impl Served {
    /// A front before one MCP server.
    pub(super) async fn with_server(route: Rc<dyn Route>) -> Served {
        let options = Options::default();
        let listener = mcp_http::listen(&"0".parse().unwrap(), &options).await.unwrap();
        Served::on(listener, options, route, Behind::Server)
    }
}

fn back(served: &Served, settings: &Settings) -> Rc<dyn Back> {
    back_at(&format!("mcp+http://{}/mcp", served.address), settings)
}

pub(super) fn back_at(address: &str, settings: &Settings) -> Rc<dyn Back> {
    open(&Address::parse(address).unwrap(), settings).unwrap()
}

pub(super) async fn call(back: &dyn Back, tool: &str, args: &str) -> Result<Outcome, Failure> {
    let (inbox, slot) = Inbox::new();
    let args = Some(Json::parse(args.to_owned()).unwrap());
    let uplink = back.start(Call::tool(Instant::now(), tool, args), slot);
    inbox.whole(uplink).await
}

fn hint(failure: &Failure) -> &str {
    let words = failure.last_words.as_ref().unwrap();
    words.hint.as_ref().unwrap()
}
