//! A node as a micro service: what it answers to `$SRV`, and its own list of tools.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use super::wire::ListRequest;
use super::{VERSION, digest, subject};
use crate::json::{Json, write_string};
use crate::listing;
use crate::tool::ToolSpec;

/// The queue group of all endpoints.
pub(crate) const QUEUE: &str = "q";
/// How long INFO, STATS and a page of the list may be.
const PAGE_BYTES_MAX: usize = 256 << 10;
/// The endpoint that every node has.
const LIST_ENDPOINT: &str = "toolbus_tools";

/// Who a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeIdentity {
    /// The name of the service.
    pub name: String,
    /// What tells it from the others of that name: 22 letters and digits.
    pub id: String,
    /// What its subjects begin with.
    pub prefix: String,
    /// When it was started, as RFC 3339 has it.
    pub started: String,
}

/// What is known of a tool besides its description.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The back that has it.
    pub back: String,
    /// That back keeps state between calls.
    pub pinned: bool,
}

/// A tool as a node offers it.
#[derive(Debug, Clone)]
pub(crate) struct Offered {
    pub(crate) spec: ToolSpec,
    pub(crate) subject: String,
    pub(crate) digest: String,
    pub(crate) about: About,
    pub(crate) stats: Stats,
}

/// What was seen of an endpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stats {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) last_error: String,
    pub(crate) time: Duration,
}

/// All that a node offers, by the names of the tools.
#[derive(Debug, Default)]
pub(crate) struct Offer {
    pub(crate) tools: Vec<Offered>,
    pub(crate) digest: String,
    pub(crate) list_stats: Stats,
}

/// Why a list cannot be given: its number and its words.
pub(crate) type Refusal = (u16, &'static str);

impl Offer {
    /// These tools from now on; those that were there before keep their counts. Tells which are
    /// left out, and why.
    pub(crate) fn set(
        &mut self,
        identity: &NodeIdentity,
        payload_max: usize,
        specs: &[ToolSpec],
        about: impl Fn(&ToolSpec) -> Option<About>,
    ) -> Vec<(String, String)> {
        let mut left_out = Vec::new();
        let mut subjects = BTreeSet::new();
        let before = std::mem::take(&mut self.tools);
        let own = format!("{}.", subject::OWN);
        for spec in specs {
            let Some(about) = about(spec) else { continue };
            let name = spec.name.as_str();
            let subject = format!("{}.{}", identity.prefix, subject::of_tool(name));
            let why = if name.starts_with(&own) {
                Some(format!("names that begin with `{own}` are our own"))
            } else if subject::SUBJECT_BYTES_MAX < subject.len() {
                let max = subject::SUBJECT_BYTES_MAX;
                Some(format!("its subject would be longer than {max} bytes"))
            } else if !subjects.insert(subject.clone()) {
                Some(format!("another tool has the subject `{subject}`"))
            } else {
                None
            };
            let known = before.iter().find(|tool| tool.spec.name == spec.name);
            let stats = known.map(|tool| tool.stats.clone()).unwrap_or_default();
            let digest = digest::of_tool(spec);
            let tool = Offered { spec: spec.clone(), subject, digest, about, stats };
            let why = why.or_else(|| {
                let bytes = tool.listed().len();
                (payload_max < bytes + 128)
                    .then(|| format!("its description has {bytes} bytes, and this NATS server takes {payload_max}"))
            });
            match why {
                Some(why) => left_out.push((name.to_owned(), why)),
                None => self.tools.push(tool),
            }
        }
        self.tools.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        self.digest = digest::of_list(self.tools.iter().map(|tool| tool.digest.as_str()));
        left_out
    }

    /// A page of the list.
    pub(crate) fn page(
        &self,
        request: &ListRequest,
        payload_max: usize,
    ) -> Result<Vec<u8>, Refusal> {
        let digest = &self.digest;
        let mut out = format!("{{\"digest\":\"{digest}\"").into_bytes();
        if request.known.iter().flatten().any(|known| known == digest) {
            out.push(b'}');
            return Ok(out);
        }
        let from = match &request.cursor {
            None => 0,
            Some(cursor) => {
                let (of, at) = cursor.split_once('.').ok_or((400, "unknown cursor"))?;
                let at = at.parse().map_err(|_| (400, "unknown cursor"))?;
                if of != digest {
                    return Err((409, "the list has changed: begin again"));
                }
                if self.tools.len() <= at {
                    return Err((400, "unknown cursor"));
                }
                at
            }
        };
        let bytes_max = PAGE_BYTES_MAX.min(payload_max.saturating_sub(128));
        out.extend_from_slice(br#","tools":["#);
        let mut next = None;
        for (at, tool) in self.tools.iter().enumerate().skip(from) {
            let listed = tool.listed();
            if from < at {
                if bytes_max < out.len() + listed.len() {
                    next = Some(at);
                    break;
                }
                out.push(b',');
            }
            out.extend_from_slice(&listed);
        }
        out.push(b']');
        if let Some(next) = next {
            out.extend_from_slice(format!(",\"next\":\"{digest}.{next}\"").as_bytes());
        }
        out.push(b'}');
        Ok(out)
    }

    /// The answer to INFO.
    pub(crate) fn info(&self, identity: &NodeIdentity) -> Vec<u8> {
        let (mut out, endpoints) = self.endpoints(identity);
        let left_out = self.tools.len() - endpoints.len();
        let metadata = match left_out {
            0 => "{}".to_owned(),
            count => format!("{{\"left_out\":\"{count}\"}}"),
        };
        let prefix = &identity.prefix;
        let _ = write!(
            Text(&mut out),
            r#"{{"name":"{LIST_ENDPOINT}","subject":"{prefix}.toolbus.tools","queue_group":"{QUEUE}","metadata":{metadata}}}"#
        );
        for endpoint in &endpoints {
            out.push(b',');
            out.extend_from_slice(endpoint);
        }
        out.extend_from_slice(b"]}");
        out
    }

    /// How INFO begins, and the endpoints of tools for which there is room in it.
    fn endpoints(&self, identity: &NodeIdentity) -> (Vec<u8>, Vec<Vec<u8>>) {
        let mut out = head("info_response", identity);
        out.extend_from_slice(br#","description":"tools served by toolbus","endpoints":["#);
        let briefly = |is_brief: bool| -> Vec<Vec<u8>> {
            self.tools.iter().map(|tool| tool.endpoint(is_brief)).collect()
        };
        let fits = |endpoints: &[Vec<u8>]| {
            let bytes: usize = endpoints.iter().map(|endpoint| endpoint.len() + 1).sum();
            out.len() + bytes + 256 <= PAGE_BYTES_MAX
        };
        let mut endpoints = briefly(false);
        if !fits(&endpoints) {
            endpoints = briefly(true);
        }
        while !fits(&endpoints) && endpoints.pop().is_some() {}
        (out, endpoints)
    }

    /// The answer to STATS.
    pub(crate) fn stats(&self, identity: &NodeIdentity) -> Vec<u8> {
        let mut out = head("stats_response", identity);
        out.extend_from_slice(br#","endpoints":["#);
        let list = format!("{}.toolbus.tools", identity.prefix);
        self.list_stats.write(&mut out, LIST_ENDPOINT, &list);
        // The same endpoints as in INFO, whatever that leaves out.
        let count = self.endpoints(identity).1.len();
        for tool in &self.tools[..count] {
            out.push(b',');
            // Texts of errors are what can be done without.
            let is_long = PAGE_BYTES_MAX < out.len() + tool.stats.last_error.len();
            let briefly = Stats { last_error: String::new(), ..tool.stats.clone() };
            let stats = if is_long { &briefly } else { &tool.stats };
            stats.write(&mut out, &tool.endpoint_name(), &tool.subject);
        }
        let _ = write!(Text(&mut out), r#"],"started":"{}"}}"#, identity.started);
        out
    }
}

/// The answer to PING.
pub(crate) fn ping(identity: &NodeIdentity) -> Vec<u8> {
    let mut out = head("ping_response", identity);
    out.push(b'}');
    out
}

fn head(kind: &str, identity: &NodeIdentity) -> Vec<u8> {
    let NodeIdentity { name, id, prefix, .. } = identity;
    let version = env!("CARGO_PKG_VERSION");
    format!(
        r#"{{"type":"io.nats.micro.v1.{kind}","name":"{name}","id":"{id}","version":"{version}","metadata":{{"toolbus":"{VERSION}","prefix":"{prefix}"}}"#
    )
    .into_bytes()
}

impl Offered {
    fn endpoint_name(&self) -> String {
        subject::endpoint_name(self.spec.name.as_str())
    }

    fn endpoint(&self, is_brief: bool) -> Vec<u8> {
        let ToolSpec { name, title, description, input, output, hints, .. } = &self.spec;
        let mut out = Vec::new();
        let endpoint = self.endpoint_name();
        let _ = write!(
            Text(&mut out),
            r#"{{"name":"{endpoint}","subject":"{}","queue_group":"{QUEUE}","metadata":{{"tool":"#,
            self.subject
        );
        write_string(&mut out, name.as_str());
        let _ = write!(Text(&mut out), r#","digest":"{}""#, self.digest);
        if !is_brief {
            let hints = hints.map(|hints| listing::hints(&hints));
            let texts = [
                ("title", title.clone()),
                ("description", description.clone()),
                ("input", Some(input.compact().to_string())),
                ("output", output.as_ref().map(|output| output.compact().to_string())),
                ("hints", hints.map(|hints| hints.to_string())),
            ];
            for (name, text) in texts {
                if let Some(text) = text {
                    let _ = write!(Text(&mut out), r#","{name}":"#);
                    write_string(&mut out, &text);
                }
            }
        }
        out.extend_from_slice(b"}}");
        out
    }

    /// The tool as it stands in the list.
    fn listed(&self) -> Vec<u8> {
        let mut out = vec![b'{'];
        listing::write_members(&mut out, &self.spec);
        let Offered { subject, digest, about, .. } = self;
        let _ = write!(Text(&mut out), r#","subject":"{subject}","digest":"{digest}","back":"#);
        write_string(&mut out, &about.back);
        if about.pinned {
            out.extend_from_slice(br#","pinned":true"#);
        }
        let native = self.spec.native.as_ref();
        let native =
            native.and_then(|native| Some((native.wire, Json::parse(native.text.clone()).ok()?)));
        if let Some((wire, spec)) = native {
            let _ =
                write!(Text(&mut out), r#","native":{{"wire":"{}","spec":{spec}}}"#, wire.name());
        }
        out.push(b'}');
        out
    }
}

impl Stats {
    /// A request was answered.
    pub(crate) fn count(&mut self, took: Duration, error: Option<String>) {
        self.requests += 1;
        self.time += took;
        if let Some(error) = error {
            self.errors += 1;
            self.last_error = error;
        }
    }

    fn write(&self, out: &mut Vec<u8>, name: &str, subject: &str) {
        let Stats { requests, errors, last_error, time } = self;
        let nanos = time.as_nanos();
        let average = nanos.checked_div(u128::from(*requests)).unwrap_or_default();
        let _ = write!(
            Text(out),
            r#"{{"name":"{name}","subject":"{subject}","queue_group":"{QUEUE}","num_requests":{requests},"num_errors":{errors},"last_error":"#
        );
        write_string(out, last_error);
        let _ = write!(
            Text(out),
            r#","processing_time":{nanos},"average_processing_time":{average}}}"#
        );
    }
}

/// Bytes that are written like a text.
struct Text<'a>(&'a mut Vec<u8>);

impl std::fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> NodeIdentity {
        let text = |text: &str| text.to_owned();
        NodeIdentity {
            name: text("team"),
            id: text("ID"),
            prefix: text("team"),
            started: text("2026-11-16T10:00:00.000000Z"),
        }
    }

    fn offer(count: usize, bytes: usize) -> Offer {
        let mut offer = Offer::default();
        let spec = |at| {
            let mut spec = ToolSpec::new(format!("b.t{at:04}"), Json::parse("{}").unwrap());
            spec.description = Some("x".repeat(bytes));
            spec
        };
        let specs: Vec<_> = (0..count).map(spec).collect();
        let about = |_: &ToolSpec| Some(About { back: "b".to_owned(), pinned: true });
        assert_eq!(offer.set(&identity(), 1 << 20, &specs, about), []);
        offer
    }

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_node_says_who_it_is() {
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            text(ping(&identity())),
            format!(
                r#"{{"type":"io.nats.micro.v1.ping_response","name":"team","id":"ID","version":"{version}","metadata":{{"toolbus":"1","prefix":"team"}}}}"#
            )
        );
        let mut offer = offer(1, 1);
        let digest = offer.tools[0].digest.clone();
        let info = text(offer.info(&identity()));
        let endpoints = format!(
            r#""endpoints":[{{"name":"toolbus_tools","subject":"team.toolbus.tools","queue_group":"q","metadata":{{}}}},{{"name":"b_t0000","subject":"team.b.t0000","queue_group":"q","metadata":{{"tool":"b.t0000","digest":"{digest}","description":"x","input":"{{}}"}}}}]}}"#
        );
        assert!(info.ends_with(&endpoints), "{info}");
        offer.tools[0].stats.count(Duration::from_nanos(10), None);
        offer.tools[0].stats.count(Duration::from_nanos(20), Some("500:no".to_owned()));
        let stats = text(offer.stats(&identity()));
        assert!(stats.ends_with(r#"{"name":"b_t0000","subject":"team.b.t0000","queue_group":"q","num_requests":2,"num_errors":1,"last_error":"500:no","processing_time":30,"average_processing_time":15}],"started":"2026-11-16T10:00:00.000000Z"}"#), "{stats}");
        assert!(Json::parse(stats).is_ok());
    }

    #[test]
    fn what_does_not_fit_into_info_is_left_out() {
        let brief = text(offer(100, 10 << 10).info(&identity()));
        assert!(brief.len() < PAGE_BYTES_MAX && !brief.contains("description\":\"x"));
        assert!(brief.contains("b.t0099") && !brief.contains("left_out"));
        let cut = text(offer(3000, 1).info(&identity()));
        assert!(cut.len() <= PAGE_BYTES_MAX && cut.contains(r#"{"left_out":"#));
        let count = |said: &str| said.matches(r#""queue_group""#).count();
        assert_eq!(count(&text(offer(3000, 1).stats(&identity()))), count(&cut));
        assert!(Json::parse(cut).is_ok());
    }

    #[test]
    fn the_list_has_pages() {
        let offer = offer(50, 20 << 10);
        let (mut request, mut pages, mut tools) = (ListRequest::default(), 0, 0);
        loop {
            let page = offer.page(&request, 1 << 20).unwrap();
            assert!(page.len() <= PAGE_BYTES_MAX + 128);
            let page: super::super::wire::ListPage = serde_json::from_slice(&page).unwrap();
            tools += page.tools.unwrap().len();
            pages += 1;
            request.cursor = page.next;
            if request.cursor.is_none() {
                break;
            }
        }
        assert_eq!((tools, pages), (50, 5));
        let known = Some(vec![offer.digest.clone()]);
        let short = offer.page(&ListRequest { known, cursor: None }, 1 << 20).unwrap();
        assert_eq!(text(short), format!(r#"{{"digest":"{}"}}"#, offer.digest));
        for (cursor, number) in [("x", 400), ("x.y", 400), ("x.1", 409)] {
            let cursor = Some(cursor.to_owned());
            let refused = offer.page(&ListRequest { known: None, cursor }, 1 << 20);
            assert_eq!(refused.unwrap_err().0, number);
        }
    }

    #[test]
    fn what_has_no_subject_is_left_out() {
        let specs =
            ["toolbus.x", "a", "a.%41"].map(|name| ToolSpec::new(name, Json::parse("{}").unwrap()));
        let long = ToolSpec::new("x".repeat(300), Json::parse("{}").unwrap());
        let mut offer = Offer::default();
        let specs = [&specs[..], &[long]].concat();
        let left_out = offer.set(&identity(), 1 << 20, &specs, |_| Some(About::default()));
        let names: Vec<_> = left_out.iter().map(|(name, _)| name.len()).collect();
        assert_eq!((names, offer.tools.len()), (vec![9, 300], 2));
        assert_eq!(offer.tools[1].subject, "team.a.%2541");
    }
}
