//! What a hub decides where no conversation shows it: routes, lists, events, lives.

use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus_proto::capture::Side;
use toolbus_proto::channel::{Asked, Down, Ticket, Up};
use toolbus_proto::orchestra::envelope::{Envelope, request_body, response_body};
use toolbus_proto::orchestra::hub::{Asker, Comeback, Gone, Hub, HubSettings, Order, PluginConfig};
use toolbus_proto::orchestra::structure::Struct;
use toolbus_proto::orchestra::wire::{
    BootResult, HealthResult, ListPromptsResponse, ListToolsRequest, ListToolsResponse,
    PluginManifest, Publish, RegistrationResult, Request, Response, Status, StreamStart, Subscribe,
    ToolDefinition, ToolRequest,
};
use toolbus_proto::orchestra::{Timestamp, WIRE};
use toolbus_proto::tool::{Call, CallerId, Failure, FailureKind, Outcome, Part, What};

use super::ids;

const SECOND: Duration = Duration::from_secs(1);

/// A hub, and what it ordered that is not yet looked at.
struct Ours {
    now: Instant,
    hub: Hub,
    tickets: u64,
    said: Vec<String>,
    /// What plugins were asked: which, by which ticket, what.
    calls: Vec<(usize, Ticket, String)>,
    /// What callers learned.
    answers: Vec<(u64, Response)>,
    /// What is to be done to processes.
    orders: Vec<String>,
}

impl Ours {
    fn new(plugins: Vec<PluginConfig>) -> Ours {
        let mut ours = Ours {
            now: Instant::now(),
            hub: Hub::new(HubSettings::default(), plugins, ids("hop").0),
            tickets: 0,
            said: Vec::new(),
            calls: Vec::new(),
            answers: Vec::new(),
            orders: Vec::new(),
        };
        ours.hub.start();
        ours.look();
        ours
    }

    fn look(&mut self) {
        while let Some(order) = self.hub.poll_order() {
            match order {
                Order::Say(line) => self.said.push(line),
                Order::Call(plugin, ticket, call) => {
                    let What::Native { method, .. } = call.what else { panic!("{call:?}") };
                    let method = String::from_utf8(method.to_vec()).unwrap();
                    self.calls.push((plugin, ticket, method));
                }
                Order::Down(asker, Down::Done(Ok(Outcome::Native(body)))) => {
                    let response = Envelope::read(Side::Response, &body).unwrap().response();
                    let response = response.unwrap();
                    self.answers.extend(response.map(|response| (asker.ticket.0, response)));
                }
                Order::Down(..) | Order::Log(_) | Order::Warn(_) => {}
                order => self.orders.push(format!("{order:?}")),
            }
        }
    }

    /// The plugin comes up with these tools.
    fn boot(&mut self, plugin: usize, tools: &[&str]) {
        self.hub.handle_line(plugin, "READY  127.0.0.1:1 ");
        self.hub.handle_dialled(self.now, plugin);
        self.look();
        self.answer(RegistrationResult { accepted: true, ..Default::default() });
        self.answer(BootResult { ready: true, ..Default::default() });
        let definition = |name: &&str| ToolDefinition {
            name: (*name).to_owned(),
            description: format!("of {plugin}"),
            ..Default::default()
        };
        let tools = tools.iter().map(definition).collect();
        self.answer(ListToolsResponse { tools, ..Default::default() });
        self.answer(ListPromptsResponse::default());
        self.orders.clear();
    }

    /// Answers the oldest request to a plugin.
    fn answer(&mut self, response: impl Into<Response>) {
        let (_, ticket, _) = self.calls.remove(0);
        let done = Down::Done(Ok(Outcome::Native(response_body(response))));
        self.hub.down(self.now, ticket, done);
        self.look();
    }

    fn fail(&mut self, message: &str) {
        let (_, ticket, _) = self.calls.remove(0);
        let failure = Failure::new(FailureKind::TimedOut, message);
        self.hub.down(self.now, ticket, Down::Done(Err(failure)));
        self.look();
    }

    /// The process of a plugin is of no use any more.
    fn gone(&mut self, plugin: usize, gone: Gone, next: Comeback) {
        self.hub.handle_gone(self.now, plugin, gone, next);
        self.look();
    }

    fn ask(&mut self, connection: u64, request: impl Into<Request>) -> Asker {
        let request = request.into();
        let method = Request::name_of(request.number()).unwrap();
        let method = Bytes::from_static(method.as_bytes());
        let what = What::Native { wire: WIRE, method, body: request_body(request) };
        self.tickets += 1;
        let asker = Asker { connection: CallerId(connection), ticket: Ticket(self.tickets) };
        let call = Asked::Call(Call::of(self.now, what));
        self.hub.ask(self.now, Timestamp::default(), asker, call);
        self.look();
        asker
    }

    /// Which plugin a call of this tool goes to, or the code of its refusal.
    fn routed(&mut self, tool: &str, provider: &str) -> Result<usize, String> {
        let (tool_name, provider) = (tool.to_owned(), provider.to_owned());
        self.calls.clear();
        self.answers.clear();
        self.ask(1, ToolRequest { tool_name, provider, ..Default::default() });
        match (self.calls.first(), self.answers.first()) {
            (Some((plugin, ..)), None) => Ok(*plugin),
            (None, Some((_, Response::ToolCall(refused)))) => Err(refused.error_code.clone()),
            other => panic!("neither routed nor refused: {other:?}"),
        }
    }

    fn wait(&mut self, passed: Duration) {
        self.now += passed;
        self.hub.handle_timeout(self.now);
        self.look();
    }

    fn said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    fn orders(&mut self) -> Vec<String> {
        std::mem::take(&mut self.orders)
    }
}

fn plugin(id: &str, ai: &[&str]) -> PluginConfig {
    let provides_ai = ai.iter().map(|ai| (*ai).to_owned()).collect();
    PluginConfig { says_enabled: true, provides_ai, ..PluginConfig::new(id) }
}

#[test]
fn a_tool_is_looked_for_by_provider_alias_default_and_then_in_general() {
    let mut ours = Ours::new(vec![
        plugin("general", &[]),
        plugin("claude", &["claude"]),
        plugin("openai", &["openai", "gemini"]),
        plugin("later", &[]),
    ]);
    ours.boot(0, &["a", "g", "x"]);
    ours.boot(1, &["a", "c"]);
    ours.boot(2, &["a", "o"]);
    ours.boot(3, &["x"]);
    assert_eq!(ours.routed("a", ""), Ok(1), "the default before the others");
    assert_eq!(ours.routed("g", ""), Ok(0));
    assert_eq!(ours.routed("o", ""), Err("tool_not_found".into()), "not in the general table");
    assert_eq!(ours.routed("o", "openai"), Ok(2));
    assert_eq!(ours.routed("a", "gemini"), Ok(2));
    for alias in ["grok", "perplexity", "deepseek", "qwen", "kimi"] {
        assert_eq!(ours.routed("a", alias), Ok(2));
    }
    assert_eq!(ours.routed("c", "openai"), Ok(1));
    assert_eq!(ours.routed("g", "nobody"), Ok(0));
    assert_eq!(ours.routed("x", ""), Ok(3), "the later in the file");
    let twice = r#"duplicate tool "x": provided by "general" and "later"; calls go to "later""#;
    assert_eq!(ours.said().iter().filter(|line| *line == twice).count(), 1);
    // One that is away is named, unless another has the tool.
    ours.gone(3, Gone::Exited("signal 9".into()), Comeback::In(SECOND));
    assert_eq!(ours.routed("x", ""), Ok(0));
    ours.gone(0, Gone::Exited("status 1".into()), Comeback::In(SECOND));
    assert_eq!(ours.routed("x", ""), Err("routing_error".into()));
}

#[test]
fn a_list_has_each_name_once_and_the_last_known_tools_of_who_is_silent() {
    let mut ours = Ours::new(vec![plugin("a", &[]), plugin("b", &["claude"]), plugin("c", &["x"])]);
    ours.boot(0, &["t", "z"]);
    ours.boot(1, &["t"]);
    ours.boot(2, &["z", "o"]);
    let ready = "orchestrator ready: 3 of 3 plugins, 3 tools";
    assert_eq!(ours.said().last().map(String::as_str), Some(ready));
    ours.ask(1, ListToolsRequest::default());
    assert_eq!(ours.calls.len(), 3);
    ours.fail("no answer within 5s");
    ours.fail("no answer within 5s");
    assert!(ours.answers.is_empty());
    ours.answer(ListToolsResponse::default());
    let Some((_, Response::ListTools(list))) = ours.answers.pop() else { panic!() };
    let listed: Vec<_> =
        list.tools.iter().map(|tool| (tool.name.as_str(), tool.description.as_str())).collect();
    // `t` as a call would reach it; the third has nothing any more.
    assert_eq!(listed, [("t", "of 1"), ("z", "of 0")]);
}

#[test]
fn who_gives_up_is_not_answered_and_its_plugin_is_told() {
    let mut ours = Ours::new(vec![plugin("a", &[])]);
    ours.boot(0, &["t"]);
    let asker = ours.ask(1, ToolRequest { tool_name: "t".into(), ..Default::default() });
    ours.hub.ask(ours.now, Timestamp::default(), asker, Asked::Up(Up::Cancel(None)));
    ours.look();
    assert!(ours.orders().iter().any(|order| order.starts_with("Up(0,")));
    ours.answer(toolbus_proto::orchestra::translate::refused("late", ""));
    assert!(ours.answers.is_empty());
    // A stream is cancelled by a request of its own, and ends as the plugin ends it.
    let start = StreamStart { stream_id: "s".into(), tool_name: "t".into(), ..Default::default() };
    let asker = ours.ask(1, start);
    ours.hub.ask(ours.now, Timestamp::default(), asker, Asked::Up(Up::Cancel(None)));
    ours.look();
    let methods: Vec<_> = ours.calls.iter().map(|(.., method)| method.as_str()).collect();
    assert_eq!(methods, ["stream_start", "stream_cancel"]);
    ours.fail("gone");
    let Some((_, Response::StreamEnd(end))) = ours.answers.pop() else { panic!() };
    assert_eq!((end.success, end.error_code.as_str()), (false, "routing_error"));
}

#[test]
fn a_plugin_is_told_one_event_after_the_other() {
    let mut ours = Ours::new(vec![plugin("a", &[])]);
    ours.boot(0, &[]);
    ours.hub.handle_connected(CallerId(7), Some("a-client".into()));
    let needs_events = vec!["news".to_owned()];
    ours.ask(7, PluginManifest { id: "a".into(), needs_events, ..Default::default() });
    // Wanted twice, it is told once; with filters it must match.
    let filters = [("k".to_owned(), "v".to_owned())].into();
    ours.ask(7, Subscribe { topic: "more".into(), filters, ..Default::default() });
    ours.ask(
        7,
        Subscribe { subscription_id: "2".into(), topic: "news".into(), ..Default::default() },
    );
    let publish = |topic: &str, value: &str| Publish {
        topic: topic.to_owned(),
        payload: Struct::of_json(&format!("{{\"k\":{value}}}")).ok(),
        ..Publish::default()
    };
    for (topic, value) in [("news", "1"), ("news", "2"), ("more", "\"v\""), ("more", "\"w\"")] {
        ours.ask(1, publish(topic, value));
        assert_eq!(ours.calls.len(), 1, "one at a time");
    }
    for left in [1, 1, 0] {
        ours.fail("whatever it says");
        assert_eq!(ours.calls.len(), left);
    }
    // With its process go its subscriptions.
    ours.gone(0, Gone::Exited("status 0".into()), Comeback::In(SECOND));
    ours.ask(1, publish("news", "1"));
    assert!(ours.calls.is_empty());
}

#[test]
fn only_a_plugin_itself_can_say_what_it_provides() {
    let mut ours = Ours::new(vec![plugin("a", &[]), plugin("b", &[])]);
    ours.boot(0, &["t"]);
    ours.boot(1, &[]);
    let manifest = |id: &str| PluginManifest {
        id: id.to_owned(),
        provides_tools: vec!["new".into()],
        ..Default::default()
    };
    for (connection, name) in [(1, None), (2, Some("b-client")), (3, Some("x"))] {
        ours.hub.handle_connected(CallerId(connection), name.map(str::to_owned));
        ours.ask(connection, manifest("a"));
        assert_eq!(ours.routed("new", ""), Err("tool_not_found".into()));
    }
    ours.hub.handle_connected(CallerId(4), Some("a".into()));
    ours.ask(4, manifest("a"));
    assert_eq!(ours.routed("new", ""), Ok(0));
}

#[test]
fn what_becomes_of_a_plugin_is_told() {
    let mut ours = Ours::new(vec![plugin("a", &[])]);
    assert_eq!(ours.orders(), ["Start(0)"]);
    ours.gone(0, Gone::Exited("status 1".into()), Comeback::In(SECOND));
    let why = r#"failed to start plugin "a": plugin "a" exited without printing READY"#;
    assert_eq!(ours.said()[..2], [r#"plugin "a" exited with status 1"#, why]);
    ours.hub.handle_spawned(0, 7);
    ours.boot(0, &["t"]);
    ours.said();
    ours.gone(0, Gone::Exited("status 3".into()), Comeback::In(SECOND / 2));
    assert_eq!(ours.said(), [r#"plugin "a" exited with status 3; restarting in 0.5s"#]);
    // It cannot even be run again.
    let next = Comeback::GivenUp(5);
    ours.gone(0, Gone::Unfit("there is no program \"x\"".into()), next);
    let said = [
        r#"failed to start plugin "a": there is no program "x""#,
        r#"giving up on plugin "a" after 5 failed starts"#,
    ];
    assert_eq!(ours.said(), said);
    ours.hub.handle_spawned(0, 8);
    ours.boot(0, &["t"]);
    ours.said();
    ours.gone(0, Gone::Exited("signal 9".into()), Comeback::Never);
    assert_eq!(ours.said(), [r#"plugin "a" exited with signal 9"#]);
}

#[test]
fn an_unwell_plugin_is_of_no_use() {
    let mut ours = Ours::new(vec![plugin("a", &[])]);
    ours.boot(0, &["t"]);
    let health = |status| HealthResult { status, ..HealthResult::default() };
    for answered in [Some(Status::DEGRADED), None, Some(Status::HEALTHY), None, None, None] {
        assert!(ours.orders().is_empty());
        ours.wait(30 * SECOND);
        assert_eq!(ours.calls[0].2, "health");
        match answered {
            Some(status) => ours.answer(health(status)),
            None => ours.fail("no answer within 30s"),
        }
    }
    assert_eq!(ours.orders(), [r#"Break(0, "does not answer")"#]);
    ours.gone(0, Gone::Unfit("does not answer".into()), Comeback::In(SECOND));
    ours.hub.handle_spawned(0, 7);
    ours.boot(0, &["t"]);
    ours.wait(30 * SECOND);
    ours.answer(health(Status::UNHEALTHY));
    assert_eq!(ours.orders(), [r#"Break(0, "is unhealthy: ")"#]);
}

#[test]
fn a_lost_connection_is_dialled_once_more() {
    let mut ours = Ours::new(vec![plugin("a", &[])]);
    ours.boot(0, &["t"]);
    ours.hub.handle_connection_lost(0);
    ours.look();
    assert_eq!(ours.orders(), [r#"Dial(0, "127.0.0.1:1")"#]);
    assert_eq!(ours.routed("t", ""), Err("routing_error".into()));
    ours.hub.handle_dialled(ours.now, 0);
    ours.look();
    assert_eq!(ours.routed("t", ""), Ok(0));
    ours.hub.handle_connection_lost(0);
    ours.hub.handle_dial_failed(0, "refused");
    ours.look();
    assert_eq!(ours.orders(), [r#"Dial(0, "127.0.0.1:1")"#, r#"Break(0, "lost: refused")"#]);
}

#[test]
fn who_depends_on_others_waits_for_them() {
    let second = PluginConfig { depends_on: vec!["a".into()], ..plugin("b", &[]) };
    let off = PluginConfig { is_enabled: false, ..plugin("c", &[]) };
    let mut ours = Ours::new(vec![plugin("a", &[]), second, off]);
    assert_eq!(ours.said(), ["skipping disabled plugin \"c\""]);
    assert_eq!(ours.orders(), ["Start(0)"]);
    ours.gone(0, Gone::Exited("status 1".into()), Comeback::In(SECOND));
    assert_eq!(ours.orders(), ["Start(1)"], "that it failed is enough");
    ours.boot(1, &["t"]);
    let ready = "orchestrator ready: 1 of 2 plugins, 1 tools";
    assert_eq!(ours.said().last().map(String::as_str), Some(ready));
}

#[test]
fn the_hub_ends_when_nothing_is_left_of_its_plugins() {
    let mut ours = Ours::new(vec![plugin("a", &[]), plugin("b", &[]), plugin("c", &[])]);
    ours.boot(0, &[]);
    ours.gone(2, Gone::Exited("status 1".into()), Comeback::In(SECOND));
    ours.hub.stop(ours.now, "interrupt");
    ours.look();
    assert_eq!(ours.orders(), ["Stop(0)", "Stop(1)", "Stop(2)"]);
    assert_eq!(ours.calls[0].2, "shutdown");
    ours.fail("no answer within 5s");
    assert_eq!(ours.orders(), ["EndGoodbye(0)"]);
    ours.said();
    for index in [2, 1, 0] {
        assert!(ours.orders().is_empty());
        ours.hub.handle_stopped(ours.now, index);
        ours.look();
    }
    assert_eq!(ours.orders(), ["Close", "Exit"]);
    let said = ["stopped plugin \"b\"", "stopped plugin \"a\"", "orchestrator stopped"];
    assert_eq!(ours.said(), said, "one that was away is not told of");
}

#[test]
fn the_same_subscription_twice_replaces_the_first() {
    let mut ours = Ours::new(vec![]);
    let subscribe =
        || Subscribe { topic: "t".into(), subscription_id: "i".into(), ..Default::default() };
    let first = ours.ask(1, subscribe());
    let mut orders = Vec::new();
    let second = {
        let what = What::Native {
            wire: WIRE,
            method: Bytes::from_static(b"subscribe"),
            body: request_body(subscribe()),
        };
        let asker = Asker { connection: CallerId(1), ticket: Ticket(99) };
        let call = Asked::Call(Call::of(ours.now, what));
        ours.hub.ask(ours.now, Timestamp::default(), asker, call);
        orders.extend(std::iter::from_fn(|| ours.hub.poll_order()));
        asker
    };
    let is_ended = |order: &Order| matches!(order, Order::Down(asker, Down::Done(Ok(Outcome::End(None)))) if *asker == first);
    let goes_on = |order: &Order| matches!(order, Order::Down(asker, Down::Part(Part::Bytes(_))) if *asker == second);
    assert!(matches!(&orders[..], [one, two] if is_ended(one) && goes_on(two)), "{orders:?}");
}
