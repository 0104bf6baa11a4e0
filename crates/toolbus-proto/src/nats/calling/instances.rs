//! Who is there: the instances of services, what each offers, and what is made of all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::json::{Json, Kind};
use crate::nats::wire::{self, HintsSay, ListedTool, Ping, ServiceInfo};
use crate::nats::{VERSION, digest, subject, translate};
use crate::tool::{ToolName, ToolSpec, Wire};

/// How many instances one service may have, and how many services there may be.
const INSTANCES_MAX: usize = 256;
const SERVICES_MAX: usize = 256;

/// The name of a service, and the id of one of its instances: each call has it.
pub(super) type Key = (Rc<str>, Rc<str>);

/// The versions of one tool by their digests: how many instances have each, and one of them.
type Versions<'a> = BTreeMap<&'a str, (usize, &'a InstanceTool)>;

/// One running service: a node, or a foreign one.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) version: String,
    /// What the subjects of a node begin with; none of a foreign one.
    pub(super) prefix: Option<String>,
    pub(super) is_draining: bool,
    pub(super) heard: Instant,
    /// When it was last asked alone whether it is there, and how often in a row.
    pub(super) asked: Option<(Instant, u32)>,
    /// The digest of its list, once that is known.
    pub(super) digest: Option<String>,
    /// By their digests; nothing as long as it has not said what it offers.
    tools: Option<Vec<InstanceTool>>,
    /// Calls of ours, and what it may send in all of them, in bytes.
    pub(super) calls: usize,
    pub(super) given: u64,
    /// Calls of all, as it said last.
    pub(super) in_flight: Option<usize>,
    /// How long it took to answer.
    pub(super) rtt: Option<Duration>,
    /// When it was last asked what it offers.
    pub(super) listed: Option<Instant>,
}

/// A tool as one instance offers it.
#[derive(Debug, Clone)]
pub(super) struct InstanceTool {
    pub(super) spec: ToolSpec,
    pub(super) digest: String,
    pub(super) subject: String,
    pub(super) back: String,
    pub(super) is_pinned: bool,
}

/// A tool as it is offered here.
#[derive(Debug, Clone)]
pub(super) struct Offered {
    pub(super) spec: ToolSpec,
    pub(super) service: String,
    pub(super) digest: String,
    pub(super) subject: String,
    pub(super) back: String,
    pub(super) is_pinned: bool,
    pub(super) is_of_node: bool,
}

impl Offered {
    /// What takes the requests of the sessions of a node; `to` is what its subjects begin with, as
    /// long as it did not say otherwise, and its id.
    pub(super) fn session(to: &str) -> Offered {
        let prefix = to.rsplit_once(' ').map_or(to, |(prefix, _)| prefix);
        Offered {
            spec: ToolSpec::new(subject::SESSIONS, Json::from_trusted("{}")),
            service: String::new(),
            digest: String::new(),
            subject: format!(".{}", subject::SESSIONS),
            back: prefix.to_owned(),
            is_pinned: false,
            is_of_node: true,
        }
    }
}

/// All instances that are known.
#[derive(Debug, Default)]
pub(super) struct Instances {
    pub(super) all: BTreeMap<Key, Instance>,
    /// What was warned of.
    warned: BTreeSet<String>,
}

impl Instances {
    /// An instance answered; tells whether it is new, or why it is passed over.
    pub(super) fn heard(&mut self, now: Instant, ping: &Ping) -> Result<bool, String> {
        let key: Key = (ping.name.as_str().into(), ping.id.as_str().into());
        if let Some(known) = self.all.get_mut(&key) {
            (known.heard, known.asked) = (now, None);
            return Ok(false);
        }
        let of_service = self.all.keys().filter(|(name, _)| **name == *ping.name).count();
        let services: BTreeSet<&str> = self.all.keys().map(|(name, _)| &**name).collect();
        if INSTANCES_MAX <= of_service {
            return Err(format!("more than {INSTANCES_MAX} instances of `{}`", ping.name));
        }
        if of_service == 0 && SERVICES_MAX <= services.len() {
            return Err(format!("more than {SERVICES_MAX} services"));
        }
        let metadata = ping.metadata.as_ref();
        let of_node = metadata.filter(|said| said.get("toolbus").is_some_and(|is| is == VERSION));
        let prefix = of_node.map(|said| said.get("prefix").unwrap_or(&ping.name).clone());
        if prefix.as_ref().is_some_and(|prefix| !subject::is_prefix(prefix)) {
            return Err(format!("the node {} has no prefix that can be one", ping.id));
        }
        let instance = Instance {
            version: ping.version.clone(),
            prefix,
            is_draining: false,
            heard: now,
            asked: None,
            digest: None,
            tools: None,
            calls: 0,
            given: 0,
            in_flight: None,
            rtt: None,
            listed: None,
        };
        self.all.insert(key, instance);
        Ok(true)
    }

    /// What all of them offer together. `is_all` if that is of all services: then names begin with
    /// the service.
    pub(super) fn merge(&mut self, is_all: bool) -> (BTreeMap<ToolName, Rc<Offered>>, Vec<String>) {
        let (mut offer, mut warnings) = (BTreeMap::new(), Vec::new());
        let mut versions: BTreeMap<(&str, &str), Versions<'_>> = BTreeMap::new();
        let mut foreign: BTreeMap<(&str, &str), &InstanceTool> = BTreeMap::new();
        for ((service, _), instance) in &self.all {
            if instance.is_draining {
                continue;
            }
            for tool in instance.tools.iter().flatten() {
                let name = tool.spec.name.as_str();
                if instance.prefix.is_some() {
                    let versions = versions.entry((service, name)).or_default();
                    versions.entry(&tool.digest).or_insert((0, tool)).0 += 1;
                } else {
                    foreign.entry((service, name)).or_insert(tool);
                }
            }
        }
        let mut offered = |service: &str, listed: &InstanceTool, is_of_node| {
            let mut spec = listed.spec.clone();
            if is_all {
                spec.name = ToolName::new(format!("{service}.{}", spec.name));
            }
            let InstanceTool { digest, subject, back, is_pinned, .. } = listed.clone();
            let service = service.to_owned();
            let name = spec.name.clone();
            let tool = Offered { spec, service, digest, subject, back, is_pinned, is_of_node };
            offer.insert(name, Rc::new(tool));
        };
        for ((service, name), tool) in &foreign {
            match versions.contains_key(&(*service, *name)) {
                true => warnings.push(format!(
                    "`{name}` of `{service}` is offered by nodes and by others: the nodes are called"
                )),
                false => offered(service, tool, false),
            }
        }
        for ((service, name), versions) in &versions {
            // Most nodes decide; of equals the lower digest.
            let by_count = versions.iter().rev().max_by_key(|(_, (count, _))| *count);
            if 1 < versions.len() {
                warnings.push(format!(
                    "the nodes of `{service}` have `{name}` in {} versions: the one that most have \
                     is used",
                    versions.len()
                ));
            }
            if let Some((_, (_, tool))) = by_count {
                offered(service, tool, true);
            }
        }
        warnings.retain(|warning| self.warned.insert(warning.clone()));
        (offer, warnings)
    }
}

impl Instances {
    /// The tools that nodes have in several versions, by their services, and in how many.
    pub(super) fn in_versions(&self) -> Vec<(&str, &str, usize)> {
        let mut digests: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        for ((service, _), instance) in &self.all {
            let is_counted = instance.prefix.is_some() && !instance.is_draining;
            for tool in instance.tools.iter().flatten().filter(|_| is_counted) {
                let known = digests.entry((service, tool.spec.name.as_str())).or_default();
                known.insert(&tool.digest);
            }
        }
        let several = digests.into_iter().filter(|(_, digests)| 1 < digests.len());
        several.map(|((service, tool), digests)| (service, tool, digests.len())).collect()
    }
}

impl Instance {
    /// The tool with this digest, which its name is part of.
    pub(super) fn tool(&self, digest: &str) -> Option<&InstanceTool> {
        let tools = self.tools.as_ref()?;
        let at = tools.binary_search_by(|tool| tool.digest.as_str().cmp(digest)).ok()?;
        tools.get(at)
    }

    /// How many tools it offers.
    pub(super) fn tool_count(&self) -> usize {
        self.tools.as_ref().map_or(0, Vec::len)
    }

    /// Has it said what it offers?
    pub(super) fn is_listed(&self) -> bool {
        self.tools.is_some()
    }

    /// What it said cannot be taken: it offers what it did before, or nothing.
    pub(super) fn passed_over(&mut self) {
        self.tools.get_or_insert_default();
    }

    /// It offers these, and no others.
    pub(super) fn offers(&mut self, mut tools: Vec<InstanceTool>) {
        tools.sort_unstable_by(|one, other| one.digest.cmp(&other.digest));
        self.tools = Some(tools);
    }
}

impl InstanceTool {
    /// A tool of a node's list; `None` if it cannot be one.
    pub(super) fn of_node(says: &ListedTool, wires: &[Wire]) -> Option<InstanceTool> {
        Some(InstanceTool {
            spec: translate::spec(says, wires)?,
            digest: says.digest.clone(),
            subject: subject::is_literal(&says.subject).then(|| says.subject.clone())?,
            back: says.back.clone(),
            is_pinned: says.pinned,
        })
    }
}

impl ServiceInfo {
    /// Is it the answer of this instance, by the services API?
    pub(super) fn is_of(&self, (name, id): &Key) -> bool {
        let is_info = |kind: &str| kind == "io.nats.micro.v1.info_response";
        self.kind.as_deref().is_none_or(is_info) && *self.name == **name && *self.id == **id
    }
}

/// The endpoints of a foreign service as tools, and which are not offered.
pub(super) fn of_foreign(info: &ServiceInfo) -> (Vec<InstanceTool>, Vec<String>) {
    let (mut tools, mut passed_over) = (Vec::new(), Vec::new());
    let endpoints = info.endpoints.as_deref().unwrap_or_default();
    for endpoint in endpoints {
        if !subject::is_literal(&endpoint.subject) {
            passed_over.push(endpoint.subject.clone());
            continue;
        }
        let subjects = endpoints.iter().filter(|other| other.name == endpoint.name);
        let is_twice = subjects.into_iter().any(|other| other.subject != endpoint.subject);
        let name = if is_twice { &endpoint.subject } else { &endpoint.name };
        let said = |name: &str| endpoint.metadata.as_ref()?.get(name);
        let object = |name: &str| {
            let json = Json::parse(said(name)?.clone()).ok()?;
            (json.kind() == Kind::Object).then_some(json)
        };
        let input = object("input").or_else(|| object("schema"));
        let empty = || Json::from_trusted("{}");
        let mut spec = ToolSpec::new(name.as_str(), input.unwrap_or_else(empty));
        spec.title = said("title").cloned();
        spec.description = said("description").cloned();
        spec.output = object("output");
        spec.hints = object("hints").and_then(|hints| {
            let says: HintsSay = hints.read().ok()?;
            Some(translate::hints(says))
        });
        let digest = digest::of_tool(&spec);
        let subject = endpoint.subject.clone();
        tools.push(InstanceTool { spec, digest, subject, back: String::new(), is_pinned: false });
    }
    (tools, passed_over)
}

/// What an instance said of itself; `None` if that is not what the services API has.
pub(super) fn read_ping(payload: &[u8]) -> Option<Ping> {
    let ping: wire::Ping = serde_json::from_slice(payload).ok()?;
    let is_good = |text: &str| !text.is_empty() && subject::is_literal(text) && !text.contains('.');
    let is_ping = ping.kind.as_deref().is_none_or(|kind| kind == "io.nats.micro.v1.ping_response");
    (is_ping && is_good(&ping.name) && is_good(&ping.id)).then_some(ping)
}
