//! Fronts that list few tools and let callers search for the others: `search`.
//!
//! It stands before the bus: what is listed is cut down, `toolbus_search` is answered here, and
//! `toolbus_call` becomes the call of the tool that it names. What a view does not show is not
//! found, and what it renames is found by its new name.

use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::{Hash as _, Hasher as _};
use std::rc::Rc;
use std::sync::Arc;

use toolbus_proto::counted::Spread;
use toolbus_proto::json::{Json, Kind, edit, write_string};
use toolbus_proto::search::Index;
use toolbus_proto::tool::{Call, Failure, FailureKind, Hints, Outcome, ToolName, ToolSpec, What};
use toolbus_proto::view::{Pattern, Sort};

use super::Bus;
use crate::peer::Registry;

pub use toolbus_proto::search::Search;

/// The name by which what was found is called.
pub(super) const CALL: &str = "toolbus_call";
/// The name by which tools are searched for.
pub(super) const SEARCH: &str = "toolbus_search";
/// From how many tools on they are many.
const MANY: usize = 100;
/// How many backs are named.
const BACKS_MAX: usize = 50;
/// How long a query may be.
const QUERY_CHARS_MAX: usize = 1000;
const LIMIT: usize = 5;
const LIMIT_MAX: usize = 50;
/// How much is answered at once.
const ANSWER_BYTES_MAX: usize = 256 << 10;
const NOTE: &str =
    "no tool fits; searching again with other words for the same thing will rarely help";

/// What a front says of searching; what it does not say, its view may.
#[derive(Debug, Clone, Default)]
pub(super) struct SearchWish {
    search: Option<Search>,
    always: Option<Rc<[Pattern]>>,
    /// What is not offered cannot be called by `toolbus_call` either.
    is_strict: bool,
}

/// How the tools of a bus are searched for.
pub(super) struct Searching {
    search: Search,
    always: Rc<[Pattern]>,
}

/// The tools of a catalogue as they are looked for.
#[derive(Debug)]
pub(super) struct Indexed {
    pub(super) index: Index,
    /// What each is called.
    pub(super) names: Vec<ToolName>,
}

/// What becomes of a call.
pub(super) enum Sought {
    /// It is made, perhaps in other words.
    Call(Call),
    /// It is answered here.
    Answer(SearchAnswer),
}

/// What was answered in place of a back.
pub(super) struct SearchAnswer {
    pub(super) outcome: Result<Outcome, Failure>,
    /// It was a search: has it found something?
    pub(super) found: Option<bool>,
}

/// The tools that callers search by.
pub(super) fn is_ours(name: &str) -> bool {
    [CALL, SEARCH].contains(&name)
}

impl Bus {
    /// The same bus, for a front whose callers may have to search for its tools; those of `always`
    /// are listed even so. What is not said here, a view says.
    #[must_use]
    pub fn searched(self, search: Option<Search>, always: Option<&[Pattern]>) -> Bus {
        let always = always.map(Rc::from);
        let wanted = SearchWish { search, always, ..self.wanted };
        Bus { wanted, ..self }.searched_as_wanted()
    }

    /// The same bus, by which no tool can be called that it was not given to offer. Tools may also
    /// be called with `_` in place of dots.
    #[must_use]
    pub fn calling_what_it_offers(self) -> Bus {
        Bus {
            wanted: SearchWish { is_strict: true, ..self.wanted },
            lenient: Rc::default(),
            ..self
        }
    }

    /// The same bus, searched as its front and its view want it.
    pub(super) fn searched_as_wanted(self) -> Bus {
        let SearchWish { search, always, is_strict: _ } = &self.wanted;
        let selection = self.selection();
        let search = search.or_else(|| selection?.search()).unwrap_or_default();
        let always = match always {
            Some(always) => always.clone(),
            None => selection.and_then(|selection| selection.always()).unwrap_or_default().into(),
        };
        let searching = (search != Search::Off).then(|| Rc::new(Searching { search, always }));
        Bus { searching, lenient: Rc::default(), ..self }
    }

    /// May its tools be searched for?
    pub(crate) fn may_search(&self) -> bool {
        self.searching.is_some()
    }

    /// Are they, as many as there are?
    fn searches(&self) -> Option<&Rc<Searching>> {
        self.searching.as_ref().filter(|searching| match searching.search {
            Search::Off => false,
            Search::On => true,
            Search::Auto => {
                let catalogue = self.catalogue.borrow();
                MANY < catalogue.names().filter(|name| !is_ours(name.as_str())).count()
            }
        })
    }

    /// What is listed of these tools, which are all that there are.
    pub(super) fn listed_of(&self, mut all: Vec<ToolSpec>) -> Vec<ToolSpec> {
        let Some(searching) = self.searches() else { return all };
        all.retain(|spec| {
            let is_ours = is_ours(spec.name.as_str());
            if is_ours {
                self.warn_of_ours(&spec.name);
            }
            !is_ours
        });
        let mut listed = vec![call_spec(), self.search_spec(&all)];
        let is_always = |spec: &ToolSpec| {
            let Some((back, own)) = self.owned(&spec.name) else { return false };
            let full = format!("{back}.{own}");
            let is_it = |pattern: &Pattern| pattern.sort == Sort::Tool && pattern.matches(&full);
            searching.always.iter().any(is_it)
        };
        all.retain(is_always);
        listed.extend(all);
        listed
    }

    /// The tools that can be called by their names although they are not listed.
    pub(crate) fn unlisted(&self) -> Vec<ToolSpec> {
        if self.searches().is_none() {
            return Vec::new();
        }
        let listed: HashSet<ToolName> = self.offered().into_iter().map(|tool| tool.name).collect();
        let catalogue = self.catalogue.borrow();
        let all = catalogue.tools().map(|(_, tool)| tool);
        all.filter(|tool| !listed.contains(&tool.name)).collect()
    }

    /// By what a list is known again that a caller would see as the same one. The list itself may be
    /// long, and each caller have another. How many tools there are to be searched for is told at the
    /// next list and not before.
    pub(crate) fn sum_of_list(&self, list: &[ToolSpec]) -> u64 {
        let mut sum = Spread::default();
        for tool in list {
            match self.may_search() && tool.name.as_str() == SEARCH {
                true => tool.name.hash(&mut sum),
                false => tool.hash(&mut sum),
            }
        }
        sum.finish()
    }

    /// A back has a tool of our name: said once.
    fn warn_of_ours(&self, name: &ToolName) {
        thread_local! {
            static WARNED: RefCell<HashSet<String>> = RefCell::default();
        }
        let Some((back, own)) = self.owned(name) else { return };
        let told = format!("tool name {name} stands for both {name} and {back}.{own}");
        if WARNED.with_borrow_mut(|warned| warned.insert(told.clone())) {
            tracing::warn!("the second is left out: {told}");
        }
    }

    /// Whose tool it is, and what that calls it.
    fn owned(&self, name: &ToolName) -> Option<(Arc<str>, ToolName)> {
        let catalogue = self.catalogue.borrow();
        let (index, own) = catalogue.find(name)?;
        Some((self.members.get(index)?.name.clone(), own.clone()))
    }

    fn search_spec(&self, all: &[ToolSpec]) -> ToolSpec {
        let mut backs: Vec<Arc<str>> =
            all.iter().filter_map(|spec| Some(self.owned(&spec.name)?.0)).collect();
        backs.sort();
        backs.dedup();
        let more = match backs.len().checked_sub(BACKS_MAX) {
            Some(more) if 0 < more => format!(" and {more} more"),
            _ => String::new(),
        };
        backs.truncate(BACKS_MAX);
        let description = format!(
            "Find tools by words. {} tools of: {}{more}. Say in a few words what is to be done, or \
             give a name; the best matches come with their schemas. Call one with toolbus_call.",
            all.len(),
            backs.join(", ")
        );
        let input = r#"{"type":"object","properties":{"query":{"type":"string","description":"What the tool should do, in a few words"},"limit":{"type":"integer","minimum":1,"maximum":50,"default":5,"description":"How many tools at most"}},"required":["query"]}"#;
        ToolSpec {
            description: Some(description),
            hints: Some(Hints { read_only: Some(true), idempotent: Some(true), destructive: None }),
            ..ToolSpec::new(SEARCH, Json::from_trusted(input))
        }
    }

    /// Must the backs be listed before this call can be made or answered?
    pub(super) fn is_search(&self, call: &Call) -> bool {
        matches!(&call.what, What::Tool { name, .. } if is_ours(name.as_str())) && self.may_search()
    }

    /// What becomes of a call on a front that is searched.
    pub(super) fn sought(&self, call: Call) -> Sought {
        if self.searches().is_none() {
            return Sought::Call(call);
        }
        let What::Tool { name, args } = &call.what else { return Sought::Call(call) };
        match name.as_str() {
            SEARCH => {
                let searched = self.search(&call, args.as_ref());
                let found = Some(searched.as_ref().is_ok_and(|(_, found)| *found));
                let outcome = searched.map(|(answer, _)| Outcome::Value(answer));
                Sought::Answer(SearchAnswer { outcome, found })
            }
            CALL => match self.named(&call, args.as_ref()) {
                Ok(call) => Sought::Call(call),
                Err(failure) => Sought::Answer(SearchAnswer { outcome: Err(failure), found: None }),
            },
            _ => Sought::Call(call),
        }
    }

    /// The call of the tool that `toolbus_call` names, with its arguments.
    fn named(&self, call: &Call, args: Option<&Json>) -> Result<Call, Failure> {
        let given = args.map_or("{}", Json::as_str);
        let name = edit::text(given, "name")
            .ok_or_else(|| invalid("`name` must be a text: the name of a tool"))?;
        let arguments =
            edit::member(given, "arguments").map(|raw| Json::from_trusted(raw.to_owned()));
        let arguments = match arguments {
            None => None,
            Some(json) => match json.kind() {
                Kind::Null => None,
                Kind::Object => Some(json),
                _ => return Err(invalid("`arguments` must be an object")),
            },
        };
        let name = ToolName::new(&*name);
        if is_ours(name.as_str()) {
            return Err(self.unknown(&name));
        }
        let name = self.spelled(name);
        if self.wanted.is_strict && !self.catalogue.borrow().offers(&name) {
            return Err(self.unknown(&name));
        }
        let kind = call.options.native.and_then(|wire| Registry::default().find(wire.name()));
        let request = call
            .request
            .as_ref()
            .and_then(|request| kind?.native_renamed(request, name.as_str(), arguments.as_ref()));
        let spec = self.catalogue.borrow().spec_of(&name);
        let args = match (kind, &spec) {
            (Some(kind), Some(spec)) => kind.own_arguments(spec, arguments),
            _ => arguments,
        };
        Ok(Call { what: What::Tool { name, args }, request, ..call.clone() })
    }

    /// The name as it is spelled here: a tool may also be named in full.
    fn spelled(&self, name: ToolName) -> ToolName {
        let catalogue = self.catalogue.borrow();
        if catalogue.find(&name).is_some() {
            return name;
        }
        let Some((back, own)) = name.as_str().split_once('.') else {
            let is_meant = |known: &&ToolName| known.as_str().replace('.', "_") == name.as_str();
            let meant = catalogue.names().find(is_meant).filter(|_| self.wanted.is_strict);
            return meant.cloned().unwrap_or(name);
        };
        let is_named = |index: &usize| *self.members[*index].name == *back;
        // That there is a back of which nothing is shown must not be told by how it is spelled.
        let Some(index) =
            (0..self.members.len()).find(is_named).filter(|at| self.may_show_tools(*at))
        else {
            return name;
        };
        let spelled = self.naming_at(index).name(back, &own.into());
        match catalogue.find(&spelled) {
            Some((owner, _)) if owner != index => name,
            _ => spelled,
        }
    }

    /// The answer of `toolbus_search`, and whether a tool fits.
    fn search(&self, call: &Call, args: Option<&Json>) -> Result<(Json, bool), Failure> {
        let given = args.map_or("{}", Json::as_str);
        let query = edit::text(given, "query")
            .filter(|query| !query.trim().is_empty() && query.chars().count() <= QUERY_CHARS_MAX);
        let query = query.ok_or_else(|| {
            invalid("`query` must be a text of a few words, of 1,000 characters at most")
        })?;
        let limit = match edit::member(given, "limit").filter(|raw| *raw != "null") {
            None => LIMIT,
            Some(raw) => raw
                .parse()
                .ok()
                .filter(|limit| (1..=LIMIT_MAX).contains(limit))
                .ok_or_else(|| invalid("`limit` must be an integer from 1 to 50"))?,
        };
        let catalogue = self.catalogue.borrow().clone();
        let indexed = catalogue.indexed();
        let matches = indexed.index.search(&query);
        let wire = call.options.native.and_then(|wire| Registry::default().find(wire.name()));
        let mut out = br#"{"tools":["#.to_vec();
        let mut count = 0;
        for found in matches.found.iter().take(limit) {
            let Some(spec) = catalogue.spec_of(&indexed.names[found.tool]) else { continue };
            let object = match wire {
                Some(kind) => kind.listed_as(call, &spec),
                None => toolbus_proto::listing::tool(&spec),
            };
            if 0 < count && ANSWER_BYTES_MAX < out.len() + object.as_bytes().len() {
                break;
            }
            if 0 < count {
                out.push(b',');
            }
            out.extend_from_slice(object.as_bytes());
            count += 1;
        }
        out.extend_from_slice(br#"],"unmatched":"#);
        out.extend_from_slice(Json::of(&matches.unmatched).as_bytes());
        let more = matches.found.len() - count;
        out.extend_from_slice(format!(",\"more\":{more}").as_bytes());
        if count == 0 {
            out.extend_from_slice(br#","note":"#);
            write_string(&mut out, NOTE);
        }
        out.push(b'}');
        Ok((Json::from_trusted(out), 0 < count))
    }
}

fn call_spec() -> ToolSpec {
    let input = r#"{"type":"object","properties":{"name":{"type":"string","description":"Name of the tool, as toolbus_search gave it"},"arguments":{"type":"object","description":"Arguments by the tool's own schema"}},"required":["name"]}"#;
    ToolSpec {
        description: Some("Call a tool that toolbus_search has found.".to_owned()),
        ..ToolSpec::new(CALL, Json::from_trusted(input))
    }
}

fn invalid(message: &str) -> Failure {
    Failure::new(FailureKind::InvalidArguments, message)
}
