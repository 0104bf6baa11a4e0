//! Spans of calls: what a collector gets, and that calls wait for none.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolbus::bus::otel::{Exporter, OtelSettings};
use toolbus::{
    Back, Bus, Call, Down, Failure, FailureKind, LocalFuture, Outcome, ReplyTo, RunningCall,
    ToolSpec, Trace, What,
};

use crate::PATIENCE;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A collector, as small as can be: it takes what it is sent and says so.
struct Collector {
    url: String,
    /// Heads and bodies.
    taken: Receiver<(String, Value)>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, taken) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let tell = tell.clone();
                thread::spawn(move || {
                    while let Some(request) = take(&stream) {
                        if tell.send(request).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Collector { url, taken }
    }

    fn spans(&self) -> (String, Vec<Value>) {
        let (head, body) = self.taken.recv_timeout(PATIENCE).expect("spans were sent");
        let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array();
        (head, spans.expect("spans").clone())
    }
}

/// One request, answered with 200.
fn take(mut stream: &TcpStream) -> Option<(String, Value)> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).ok().filter(|count| 0 < *count)?;
    }
    let head = head.to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1)?.split('\r').next()?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    stream.write_all(answer.as_bytes()).ok()?;
    Some((head, serde_json::from_slice(&body).ok()?))
}

/// Keeps the trace of each call; `no` fails.
#[derive(Clone, Default)]
struct Traced(Arc<Mutex<Vec<Option<Trace>>>>);

impl Back for Traced {
    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        Box::pin(async { Ok(Arc::from([])) })
    }

    fn start(&self, call: Call, reply: ReplyTo) -> RunningCall {
        self.0.lock().unwrap().push(call.trace);
        let done = match &call.what {
            What::Tool { name, .. } if name.as_str() == "no" => {
                Err(Failure::new(FailureKind::Failed, "it said no"))
            }
            _ => Ok(Outcome::Text("yes".to_owned())),
        };
        let _ = reply.send(Down::Done(done));
        RunningCall::ended()
    }
}

fn exporter(url: &str) -> Exporter {
    let settings = OtelSettings::read(|name| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(url.to_owned()),
        "OTEL_EXPORTER_OTLP_HEADERS" => Some("api-key=a%20key".to_owned()),
        "OTEL_SERVICE_NAME" => Some("mine".to_owned()),
        _ => None,
    });
    Exporter::start(settings.unwrap().unwrap()).unwrap()
}

/// Makes calls on a bus whose spans go to `exporter`; gives the traces that its back saw.
fn calls(exporter: &Exporter, calls: &[(&str, Option<&str>)]) -> Vec<Option<Trace>> {
    let back = Traced::default();
    let seen = back.0.clone();
    let spans = Rc::new(exporter.spans());
    let bus = Bus::builder().foreign("there", move || back);
    let made = bus.run(async |bus| {
        let bus = bus.clone().observed_by(spans).for_front("door");
        for (tool, parent) in calls {
            let call = bus.call(*tool, json!({"a": 1}));
            let call = match parent {
                Some(parent) => call.trace(Trace::read(parent, Some("s=1")).unwrap()),
                None => call,
            };
            let _ = call.await;
        }
    });
    made.unwrap();
    std::mem::take(&mut *seen.lock().unwrap())
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == key);
    found.map_or(&Value::Null, |found| &found["value"])
}

#[test]
fn each_call_is_one_span_whose_id_is_passed_on() {
    let collector = Collector::start();
    let exporter = exporter(&collector.url);
    let unrecorded = PARENT.replace("-01", "-00");
    let seen = calls(
        &exporter,
        &[
            ("there.yes", Some(PARENT)),
            ("there.no", None),
            ("nowhere", None),
            ("there.yes", Some(&unrecorded)),
        ],
    );
    exporter.finish();
    let (head, spans) = collector.spans();
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\napi-key: a key\r\n"), "{head}");
    assert!(head.contains("\r\ncontent-type: application/json\r\n"), "{head}");
    // The caller that began the last one does not record it.
    assert_eq!(spans.len(), 3, "{spans:#?}");
    let [good, bad, lost] = spans.as_slice() else { panic!("three") };

    let passed_on = seen[0].as_ref().expect("passed on");
    assert_eq!(good["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(good["parentSpanId"], "b7ad6b7169203331");
    assert_eq!(good["traceState"], "s=1");
    assert_eq!(passed_on.id(), good["traceId"]);
    assert_eq!(passed_on.parent_id(), good["spanId"]);
    assert_eq!((&good["name"], &good["kind"]), (&json!("there.yes"), &json!(2)));
    assert_eq!(attribute(good, "toolbus.front")["stringValue"], "door");
    assert_eq!(attribute(good, "toolbus.back")["stringValue"], "there");
    assert_eq!(attribute(good, "toolbus.tool")["stringValue"], "yes");
    assert_eq!(attribute(good, "toolbus.outcome")["stringValue"], "ok");
    assert_eq!(attribute(good, "toolbus.request.bytes")["intValue"], "7");
    assert_eq!(good["status"], Value::Null);
    let nanos = |key: &str| good[key].as_str().unwrap().parse::<u128>().unwrap();
    assert!(nanos("startTimeUnixNano") <= nanos("endTimeUnixNano"));

    // A call that is a part of nothing begins a trace of its own.
    let begun = seen[1].as_ref().expect("begun");
    assert_eq!(
        (begun.id(), begun.parent_id()),
        (bad["traceId"].as_str().unwrap(), bad["spanId"].as_str().unwrap())
    );
    assert_eq!(bad["parentSpanId"], Value::Null);
    assert_eq!(bad["status"], json!({"code": 2, "message": "it said no"}));
    assert_eq!(attribute(bad, "error.type")["stringValue"], "failed");

    assert_eq!(lost["name"], "unknown tool");
    assert_eq!(attribute(lost, "toolbus.outcome")["stringValue"], "unknown_tool");
    assert_eq!(attribute(lost, "toolbus.back"), &Value::Null);
}

#[test]
fn without_spans_no_trace_begins() {
    let back = Traced::default();
    let seen = back.0.clone();
    let bus = Bus::builder().foreign("there", move || back);
    bus.run(async |bus| bus.call("there.yes", ()).await.unwrap()).unwrap();
    assert_eq!(*seen.lock().unwrap(), [None]);
}

#[test]
fn a_collector_that_is_gone_or_silent_keeps_no_call_waiting() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // Takes connections, and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for at in [gone, silent.local_addr().unwrap()] {
        let exporter = exporter(&format!("http://{at}"));
        // More than there is room for.
        let many = vec![("there.yes", None); 3_000];
        assert_eq!(calls(&exporter, &many).len(), 3_000);
        let begun = Instant::now();
        exporter.finish();
        // Its patience is two seconds; what is more is the machine's.
        assert!(begun.elapsed() < Duration::from_secs(2) + PATIENCE, "{at}");
    }
}
