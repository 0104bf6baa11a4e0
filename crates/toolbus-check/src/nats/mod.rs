//! Is it a micro service as the services API of NATS asks for, whoever wrote it?

mod rules;

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, timeout_at};
use toolbus::address::Address;
use toolbus::bus::back::LocalFuture;
use toolbus::peer::OpenError;
use toolbus::wire::nats::reach::{Connected, Reach};
use toolbus::wire::nats::{self, reach_of};
use toolbus_engine::chance::OsRandom;
use toolbus_engine::transport::io::Source as _;
use toolbus_proto::channel::Outbox;
use toolbus_proto::nats::headers::Headers;
use toolbus_proto::nats::protocol::{Message, Op, OpReader, put_pub, put_sub};
use toolbus_proto::nats::{JudgedList, random_id, subject};
use toolbus_proto::tool::{Failure, FailureKind};

use crate::{CheckKind, CheckOption, Finding, Target, TargetError, Verdict, Wanted};

/// How long an answer may take, and how long is waited for what should not come.
const PATIENCE: Duration = Duration::from_secs(5);
const IN_VAIN: Duration = Duration::from_millis(500);
/// How long a service may take to count a request that it has answered.
const COUNTED_WITHIN: Duration = Duration::from_secs(2);
/// So many pages may a list have.
const PAGES_MAX: usize = 1000;

/// How a service is tested.
pub(crate) struct NatsCheck;

struct Service {
    reach: Reach,
    name: String,
    method: Option<String>,
}

impl CheckKind for NatsCheck {
    fn rules(&self) -> &'static [(&'static str, &'static str)] {
        rules::RULES
    }

    fn options(&self) -> &'static [CheckOption] {
        &[CheckOption {
            name: "method",
            value_name: "NAME",
            help: "Endpoint of a micro service that may be called with an empty payload",
            only_for: "micro services",
        }]
    }

    fn target(&self, text: &str, wanted: &Wanted) -> Result<Box<dyn Target>, TargetError> {
        let address = Address::parse(text)?;
        if address.wire() != nats::WIRE {
            let error = TargetError::new(format!("`{text}` is no address of NATS"));
            return Err(error.hint("name a service: `nats://HOST:PORT/NAME`"));
        }
        let unfit =
            |error: OpenError| TargetError { hint: error.hint(), message: error.to_string() };
        let (reach, name) = reach_of(&address, &wanted.settings).map_err(unfit)?;
        let Some(name) = name else {
            let error = TargetError::new(format!("`{text}` names no service"));
            return Err(error.hint("its name stands behind the host: `nats://HOST:PORT/NAME`"));
        };
        let method = wanted.option("method").map(str::to_owned);
        Ok(Box::new(Service { reach, name, method }))
    }
}

impl Target for Service {
    fn check<'a>(
        &'a self,
        tell: &'a mut dyn FnMut(Finding),
    ) -> LocalFuture<'a, Result<(), Failure>> {
        Box::pin(check(self, tell))
    }
}

async fn check(subject: &Service, tell: &mut dyn FnMut(Finding)) -> Result<(), Failure> {
    let inbox = format!("{}.{}", subject.reach.inbox(), random_id(&mut OsRandom::new()));
    let mut talk = HandTalk::open(subject.reach.connect().await?, inbox).await?;
    let name = &subject.name;
    let Some(ping) = talk.ask(&format!("$SRV.PING.{name}"), PATIENCE).await? else {
        let message = format!("no service `{name}` answers on {}", subject.reach.shown());
        return Err(Failure::new(FailureKind::Unavailable, message));
    };
    let mut told = |rule, kept| tell(Finding { rule, verdict: Verdict::demanded(kept) });
    let first = read(&ping);
    let id = first.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut answers = Vec::new();
    for (rule, verb) in [("ping", "PING"), ("info", "INFO"), ("stats", "STATS")] {
        let mut kept = Ok(());
        for place in [String::new(), format!(".{name}"), format!(".{name}.{id}")] {
            let asked = format!("$SRV.{verb}{place}");
            let all = talk.ask_all(&asked).await?;
            // Of several instances it is one that is tested.
            let own = all.iter().map(read).find(|said| said["id"].as_str() == Some(&id));
            let judged = match &own {
                None => Err(format!("`{asked}` is not answered")),
                Some(said) => complete(said, &format!("io.nats.micro.v1.{rule}_response")),
            };
            kept = kept.and(judged);
            answers.extend(own.map(|said| (rule, said)));
        }
        told(rule, kept);
    }
    let differs = answers.iter().find(|(_, said)| {
        ["name", "id", "version"].iter().any(|member| said[member] != first[member])
            || metadata(said) != metadata(&first)
    });
    told("identity", differs.map_or(Ok(()), |(rule, _)| Err(format!("{rule} says another one"))));
    let is_good = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    told(
        "name",
        match first["name"].as_str() {
            Some(name) if is_good(name) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    );
    let version = first["version"].as_str().unwrap_or_default();
    told(
        "version",
        match is_semver(version) {
            true => Ok(()),
            false => Err(format!("`{version}` is no version")),
        },
    );
    let mut kept = Ok(());
    for other in [format!("{name}-other"), format!("{name}.{id}-other")] {
        if talk.ask(&format!("$SRV.PING.{other}"), IN_VAIN).await?.is_some() {
            kept = Err(format!("`$SRV.PING.{other}` is answered"));
        }
    }
    told("other-name", kept);
    let of = |kind| answers.iter().rev().find(|(rule, _)| *rule == kind).map(|(_, said)| said);
    let empty = Value::Null;
    let (info, stats) = (of("info").unwrap_or(&empty), of("stats").unwrap_or(&empty));
    told("endpoints", endpoints(info, stats));
    told("counters", counters(stats));
    let wished = |rule, kept| Finding { rule, verdict: Verdict::wished(kept) };
    let mut findings = Vec::new();
    if let Some(method) = &subject.method {
        let counted = |stats: &Value| {
            let all = stats["endpoints"].as_array().into_iter().flatten();
            let own = all.filter(|endpoint| endpoint["name"] == *method.as_str());
            own.filter_map(|endpoint| endpoint["num_requests"].as_u64()).sum::<u64>()
        };
        let all = talk.ask_all(&format!("$SRV.STATS.{name}")).await?;
        let before: u64 = all.iter().map(|stats| counted(&read(stats))).sum();
        let place = listed(info).find(|endpoint| endpoint["name"] == *method.as_str());
        let place = place.and_then(|endpoint| endpoint["subject"].as_str().map(str::to_owned));
        let answer = match &place {
            Some(place) => talk.ask(place, PATIENCE).await?,
            None => None,
        };
        told(
            "answers",
            match &answer {
                Some(_) => Ok(()),
                None => Err(format!("`{method}` does not answer")),
            },
        );
        // Any of several instances may get the request, and many count it once they have
        // answered.
        let until = Instant::now() + COUNTED_WITHIN;
        let after = loop {
            let all = talk.ask_all(&format!("$SRV.STATS.{name}")).await?;
            let after = all.iter().map(|stats| counted(&read(stats))).sum();
            if before < after || until < Instant::now() {
                break after;
            }
        };
        told(
            "counted",
            match before < after {
                true => Ok(()),
                false => Err(format!("num_requests was {before} and is {after}")),
            },
        );
        if let Some(answer) = &answer {
            findings.extend(error_headers(answer));
        }
    }
    if metadata(&first)["toolbus"].is_string() {
        let prefix = metadata(&first)["prefix"].as_str().unwrap_or(name).to_owned();
        let subject = format!("{prefix}.toolbus.node.{id}.toolbus.tools");
        told("tools", talk.tools(&subject).await?);
    }
    let alone =
        listed(info).find(|endpoint| endpoint["queue_group"].as_str().is_none_or(str::is_empty));
    findings.push(wished(
        "queue-group",
        match alone {
            Some(endpoint) => Err(format!("{} has none", endpoint["name"])),
            None => Ok(()),
        },
    ));
    let bare = listed(info).find(|endpoint| {
        let said = metadata(endpoint);
        endpoint["name"] != "toolbus_tools" && said["input"].is_null() && said["schema"].is_null()
    });
    findings.push(wished(
        "schemas",
        match bare {
            Some(endpoint) => Err(format!("{} has no `input`", endpoint["name"])),
            None => Ok(()),
        },
    ));
    findings.into_iter().for_each(tell);
    Ok(())
}

fn read(message: &Message) -> Value {
    serde_json::from_slice(&message.payload).unwrap_or_default()
}

/// What is `null` or absent is empty.
fn metadata(said: &Value) -> Value {
    match &said["metadata"] {
        Value::Null => Value::Object(serde_json::Map::default()),
        other => other.clone(),
    }
}

fn complete(said: &Value, kind: &str) -> Result<(), String> {
    if said["type"] != kind {
        return Err(format!("its type is {}, not {kind:?}", said["type"]));
    }
    if let Some(member) =
        ["name", "id", "version"].into_iter().find(|member| !said[member].is_string())
    {
        return Err(format!("`{member}` is no text"));
    }
    match metadata(said).as_object() {
        Some(all) if all.values().all(Value::is_string) => Ok(()),
        _ => Err("`metadata` is no object of texts".to_owned()),
    }
}

fn is_semver(text: &str) -> bool {
    let core = text.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<&str> = core.split('.').collect();
    numbers.len() == 3
        && numbers.iter().all(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
}

fn listed(info: &Value) -> impl Iterator<Item = &Value> {
    info["endpoints"].as_array().into_iter().flatten()
}

fn endpoints(info: &Value, stats: &Value) -> Result<(), String> {
    let all = |said: &Value| -> BTreeSet<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        listed(said).map(|it| (text(&it["name"]), text(&it["subject"]))).collect()
    };
    let (by_info, by_stats) = (all(info), all(stats));
    if by_info != by_stats {
        let other = by_info.symmetric_difference(&by_stats).next();
        let name = other.map(|(name, _)| name.as_str()).unwrap_or_default();
        return Err(format!("INFO and STATS differ in `{name}`"));
    }
    let is_valid = |subject: &str| {
        let plain = subject.replace('*', "x");
        let plain = plain.strip_suffix('>').map_or(plain.clone(), |rest| format!("{rest}x"));
        subject::is_literal(&plain)
    };
    match by_info.iter().find(|(_, subject)| !is_valid(subject)) {
        Some((name, subject)) => Err(format!("`{name}` has the subject \"{subject}\"")),
        None => Ok(()),
    }
}

fn counters(stats: &Value) -> Result<(), String> {
    for endpoint in listed(stats) {
        let number = |member: &str| {
            let number = endpoint[member].as_u64();
            number.ok_or_else(|| format!("`{member}` of {} is no number", endpoint["name"]))
        };
        let (requests, _) = (number("num_requests")?, number("num_errors")?);
        let (time, average) = (number("processing_time")?, number("average_processing_time")?);
        let expected = time.checked_div(requests).unwrap_or_default();
        if expected.abs_diff(average) > 1 {
            return Err(format!(
                "the average of {} is {average}, not {expected}",
                endpoint["name"]
            ));
        }
    }
    Ok(())
}

/// A note if the answer is an error as it should be, a fault if it has one of the headers alone.
fn error_headers(answer: &Message) -> Option<Finding> {
    let headers = answer.head.as_ref().and_then(Headers::read)?;
    let rule = "error-headers";
    let (text, code) = (headers.get("Nats-Service-Error"), headers.get("Nats-Service-Error-Code"));
    let verdict = match (text, code) {
        (None, None) => return None,
        (Some(_), Some(code)) if code.parse::<u32>().is_ok() => Verdict::Ok,
        (Some(_), Some(code)) => Verdict::Note(format!("its code is `{code}`")),
        _ => Verdict::Fail("only one of the two headers is there".to_owned()),
    };
    Some(Finding { rule, verdict })
}

/// A connection on which is asked by hand.
struct HandTalk {
    connected: Connected,
    reader: OpReader,
    input: BytesMut,
    inbox: String,
    asked: usize,
}

impl HandTalk {
    async fn open(connected: Connected, inbox: String) -> Result<HandTalk, Failure> {
        let (reader, input) = (OpReader::default(), BytesMut::new());
        let mut talk = HandTalk { connected, reader, input, inbox, asked: 0 };
        let mut out = Outbox::new();
        put_sub(&mut out, &format!("{}.*", talk.inbox), None, 1);
        talk.say(out).await?;
        Ok(talk)
    }

    async fn say(&mut self, mut out: Outbox) -> Result<(), Failure> {
        let gone = |_| Failure::new(FailureKind::Gone, "the connection to NATS broke");
        let sink = &mut self.connected.sink;
        sink.write_all(&out.take()).await.map_err(gone)?;
        sink.flush().await.map_err(gone)
    }

    /// Asks with an empty payload; nothing if nobody is there, or nobody answers.
    async fn ask(&mut self, subject: &str, patience: Duration) -> Result<Option<Message>, Failure> {
        self.ask_with(subject, &Bytes::new(), patience).await
    }

    async fn ask_with(
        &mut self,
        subject: &str,
        payload: &Bytes,
        patience: Duration,
    ) -> Result<Option<Message>, Failure> {
        let reply = self.publish(subject, payload).await?;
        let answer = self.heard(&reply, Instant::now() + patience).await?;
        Ok(answer.filter(|answer| !is_nobody(answer)))
    }

    /// The same for all who answer.
    async fn ask_all(&mut self, subject: &str) -> Result<Vec<Message>, Failure> {
        let reply = self.publish(subject, &Bytes::new()).await?;
        let mut answers = Vec::new();
        let mut until = Instant::now() + PATIENCE;
        while let Some(answer) = self.heard(&reply, until).await? {
            if is_nobody(&answer) {
                break;
            }
            answers.push(answer);
            until = until.min(Instant::now() + IN_VAIN / 2);
        }
        Ok(answers)
    }

    /// Judges the list of a node, page by page.
    async fn tools(&mut self, subject: &str) -> Result<Result<(), String>, Failure> {
        let (mut list, mut request) = (JudgedList::default(), Bytes::new());
        for _ in 0..PAGES_MAX {
            let Some(page) = self.ask_with(subject, &request, PATIENCE).await? else {
                return Ok(Err("no list".to_owned()));
            };
            match list.take(&page.payload) {
                Ok(Some(cursor)) => {
                    request = serde_json::json!({ "cursor": cursor }).to_string().into();
                }
                Ok(None) => return Ok(list.judge()),
                Err(why) => return Ok(Err(why)),
            }
        }
        Ok(Err(format!("more than {PAGES_MAX} pages")))
    }

    async fn publish(&mut self, subject: &str, payload: &Bytes) -> Result<String, Failure> {
        self.asked += 1;
        let reply = format!("{}.{}", self.inbox, self.asked);
        let mut out = Outbox::new();
        put_pub(&mut out, subject, Some(&reply), None, payload);
        self.say(out).await?;
        Ok(reply)
    }

    async fn heard(&mut self, reply: &str, until: Instant) -> Result<Option<Message>, Failure> {
        let gone = || Failure::new(FailureKind::Gone, "the connection to NATS broke");
        loop {
            match self.reader.next(&mut self.input).map_err(|_| gone())? {
                Some(Op::Msg(message)) if message.subject == reply => return Ok(Some(message)),
                Some(Op::Ping) => {
                    let mut out = Outbox::new();
                    out.put(b"PONG\r\n");
                    self.say(out).await?;
                }
                Some(_) => {}
                None => {
                    match timeout_at(until, self.connected.source.read(&mut self.input)).await {
                        Err(_) => return Ok(None),
                        Ok(Ok(0) | Err(_)) => return Err(gone()),
                        Ok(Ok(_)) => {}
                    }
                }
            }
        }
    }
}

fn is_nobody(message: &Message) -> bool {
    let headers = message.head.as_ref().and_then(Headers::read);
    headers.is_some_and(|headers| headers.status == Some(503))
}
