//! What is asked and shown around the calls of a tool loop: who may run, and what waits for whom.

use std::iter;
use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use toolbus_proto::channel::{
    Asked, Down, Flow, Machine as _, Serving as _, StreamId, Streams as _, Ticket, Up, Writing,
};
use toolbus_proto::godex::auth::Credential;
use toolbus_proto::godex::base_url::BaseUrl;
use toolbus_proto::godex::flags::message;
use toolbus_proto::godex::{Function, Note, Permission, Request, Run, RunSettings, Signal, Wanted};
use toolbus_proto::http::ResponseHead;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Hints, Outcome, ToolSpec, What};

/// A run that has asked its server, with a tool that changes nothing and one that may.
fn run(now: Instant, asks_user: bool) -> Run {
    let mut request = Request::new("s1", vec![message("hi", &[])]);
    request.runs_tools = true;
    for (name, read_only) in [("look", true), ("write", false)] {
        let hints = Some(Hints { read_only: Some(read_only), ..Hints::default() });
        let tool = ToolSpec { hints, ..ToolSpec::new(name, Json::null()) };
        request.functions.push(Function::of_tool(&tool).unwrap());
    }
    let settings = RunSettings {
        request,
        wanted: Wanted { text: true, ..Wanted::default() },
        base_url: BaseUrl::parse("https://example.com/v1").unwrap(),
        user_agent: "toolbus/VERSION".to_owned(),
        credential: Credential::None,
        refresh_url: None,
        timeout: Some(Duration::from_secs(1000)),
        idle_timeout: Duration::from_secs(120),
        retries: 0,
        max_turns: 8,
        tool_timeout: Duration::from_secs(60),
        asks_user,
        mock: None,
    };
    let mut run = Run::new(settings, |bytes: &mut [u8]| bytes.fill(0));
    run.start(now, SystemTime::UNIX_EPOCH);
    assert_eq!(shown(&mut run), [""; 0]);
    run
}

/// The server answers by these calls.
fn answer(run: &mut Run, now: Instant, tools: &[&str]) -> StreamId {
    let (stream, _) = run.poll_open().unwrap();
    run.handle_answered(now, stream, ResponseHead::new(200));
    let mut events = String::new();
    for (index, tool) in tools.iter().enumerate() {
        let item = format!(
            r#"{{"type":"function_call","id":"f{index}","call_id":"c{index}","name":"{tool}","arguments":"{{}}"}}"#
        );
        events += &format!("data: {{\"type\":\"response.output_item.done\",\"item\":{item}}}\n\n");
    }
    events += "data: {\"type\":\"response.completed\"}\n\n";
    assert_eq!(run.handle_bytes(now, stream, &mut BytesMut::from(&*events)), Flow::Close);
    stream
}

/// The tools that it says begin or end, once all it said is taken.
fn shown(run: &mut Run) -> Vec<String> {
    while run.said().poll_text().is_some() {}
    let notes: Vec<_> = iter::from_fn(|| run.said().poll_note()).collect();
    let tool = |note| match note {
        Note::Calling(Ticket(ticket), call) => Some(format!("{} runs as {ticket}", call.tool)),
        Note::Called(Ticket(ticket)) => Some(format!("{ticket} is done")),
        _ => None,
    };
    notes.into_iter().filter_map(tool).collect()
}

/// The calls that it makes.
fn made(run: &mut Run) -> Vec<String> {
    let asked = iter::from_fn(|| run.poll_up());
    asked
        .map(|(Ticket(ticket), asked)| match asked {
            Asked::Call(call) => match call.what {
                What::Tool { name, .. } => format!("{ticket} {name}"),
                what => panic!("what is {what:?}?"),
            },
            Asked::Up(Up::Cancel(_)) => format!("{ticket} cancelled"),
            Asked::Up(up) => panic!("what is {up:?}?"),
        })
        .collect()
}

fn done(run: &mut Run, now: Instant, ticket: u64) {
    run.down(now, Ticket(ticket), Down::Done(Ok(Outcome::Text("fine".to_owned()))));
}

#[test]
fn what_may_change_something_waits_for_the_user_one_question_at_a_time() {
    let now = Instant::now();
    let mut run = run(now, true);
    answer(&mut run, now, &["write", "look", "write", "write"]);
    assert_eq!(run.poll_question(), None, "what was said before is shown first");
    assert_eq!(shown(&mut run), ["look runs as 0"]);
    assert_eq!(made(&mut run), ["0 look"]);
    let call_id = |run: &mut Run| run.poll_question().map(|call| call.call_id);
    assert_eq!(call_id(&mut run).as_deref(), Some("c0"));
    assert_eq!(call_id(&mut run), None, "it has asked, and waits");
    run.handle_permission(now, Permission::No);
    assert_eq!(call_id(&mut run).as_deref(), Some("c2"));
    // What is allowed for good is not asked about again, in this turn or any other.
    run.handle_permission(now, Permission::Always);
    assert_eq!(shown(&mut run), ["write runs as 1", "write runs as 2"]);
    assert_eq!(call_id(&mut run), None);
    assert_eq!(made(&mut run), ["1 write", "2 write"]);
    (0..3).for_each(|ticket| done(&mut run, now, ticket));
    assert_eq!(shown(&mut run), ["0 is done", "1 is done", "2 is done"]);
    answer(&mut run, now, &["write"]);
    assert_eq!(shown(&mut run), ["write runs as 3"]);
    assert_eq!((call_id(&mut run), made(&mut run)), (None, vec!["3 write".to_owned()]));
}

#[test]
fn once_is_for_one_call() {
    let now = Instant::now();
    let mut run = run(now, true);
    answer(&mut run, now, &["write", "write"]);
    for ticket in [0, 1] {
        assert!(run.poll_question().is_some());
        run.handle_permission(now, Permission::Once);
        assert_eq!(shown(&mut run), [format!("write runs as {ticket}")]);
        assert_eq!(made(&mut run), [format!("{ticket} write")]);
    }
}

#[test]
fn calls_under_way_are_cancelled_with_the_run() {
    let now = Instant::now();
    let mut run = run(now, false);
    answer(&mut run, now, &["write", "look"]);
    shown(&mut run);
    assert_eq!(made(&mut run), ["0 write", "1 look"]);
    done(&mut run, now, 0);
    run.interrupt(Signal::Interrupt);
    assert_eq!(made(&mut run), ["1 cancelled"]);
    done(&mut run, now, 1);
    assert!(run.poll_open().is_none() && made(&mut run).is_empty());
}

#[test]
fn while_what_was_said_is_being_shown_nothing_goes_on_and_no_time_passes() {
    let start = Instant::now();
    let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
    let mut run = run(start, false);
    let (stream, _) = run.poll_open().unwrap();
    run.handle_answered(start, stream, ResponseHead::new(200));
    let delta = "data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n";
    let read = |run: &mut Run| run.handle_bytes(start, stream, &mut BytesMut::from(delta));
    assert_eq!(read(&mut run), Flow::Pause);
    shown(&mut run);
    run.handle_taken(start);
    assert_eq!((read(&mut run), run.poll_timeout()), (Flow::Pause, None));
    shown(&mut run);
    run.handle_shown(start + hour);
    // It is to be read on, and has the time that it had.
    assert_eq!(run.poll_ready(), Some(stream));
    assert_eq!(run.poll_timeout(), Some(start + hour + 120 * second));
    assert_eq!(run.handle_bytes(start + hour, stream, &mut BytesMut::new()), Flow::More);
    for _ in 0..9 {
        let heard = run.poll_timeout().unwrap() - second;
        run.handle_bytes(heard, stream, &mut BytesMut::from(": alive\n\n"));
    }
    assert_eq!(run.poll_timeout(), Some(start + hour + 1000 * second));
}

#[test]
fn a_server_that_is_silent_is_left_and_the_stream_with_it() {
    let now = Instant::now();
    let mut run = run(now, false);
    let (stream, _) = run.poll_open().unwrap();
    assert_eq!(run.writing(stream), Writing::Finish);
    run.handle_timeout(run.poll_timeout().unwrap());
    assert!(run.ended().is_some());
    assert_eq!((run.poll_ready(), run.writing(stream)), (Some(stream), Writing::Reset(0)));
    assert_eq!(run.handle_bytes(now, stream, &mut BytesMut::from("late")), Flow::Close);
}
