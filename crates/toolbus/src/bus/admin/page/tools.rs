//! All tools of all backs, whatever views show of them: as they were listed last.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use sha2::{Digest as _, Sha256};
use toolbus_proto::json::write_string;
use toolbus_proto::listing;
use toolbus_proto::page::{JsonMembers, Parameters};
use toolbus_proto::search::{Document, Index};
use toolbus_proto::tool::ToolSpec;

use super::requests::PageRefusal;
use super::{Page, hex};
use crate::bus::{Bus, Member};
use crate::secrets;
use crate::task::spawn_local;

/// So many characters of a description stand in a list.
const DESCRIPTION_CHARS_MAX: usize = 200;

/// The tools of a bus, and by what they were found.
pub(super) struct KnownTools {
    by: Vec<[usize; 3]>,
    pub(super) digest: String,
    all: Vec<KnownTool>,
    index: OnceCell<Index>,
}

struct KnownTool {
    back: usize,
    back_name: Arc<str>,
    spec: ToolSpec,
    state: Option<&'static str>,
}

impl KnownTool {
    fn name(&self) -> String {
        format!("{}.{}", self.back_name, self.spec.name)
    }
}

impl KnownTools {
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn of_back(&self, index: usize) -> usize {
        self.all.iter().filter(|tool| tool.back == index).count()
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| {
            let document = |tool: &KnownTool| {
                let shown = Some(tool.name());
                Document { shown, ..Document::of(&tool.back_name, &tool.spec) }
            };
            Index::new(&self.all.iter().map(document).collect::<Vec<_>>())
        })
    }
}

impl Bus {
    /// By what it would be seen that the tools of a back are others.
    fn tools_by(&self, index: usize, member: &Member) -> [usize; 3] {
        let address = |tools: Option<Arc<[ToolSpec]>>| tools.map_or(0, |it| it.as_ptr() as usize);
        let guard = member.guard.as_ref();
        let known = self.known.borrow().get(index).and_then(|known| known.tools.clone());
        [
            address(member.health.last_tools()),
            address(known),
            guard.map_or(0, |guard| guard.compared_as()),
        ]
    }

    fn tools_of(&self, index: usize, member: &Member) -> Vec<(ToolSpec, Option<&'static str>)> {
        let listed = match member.is_answered_for() {
            true => {
                let mut tools = self.scope.enter(|| member.back.tools());
                match tools.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(tools) => tools.ok(),
                    Poll::Pending => None,
                }
            }
            false => None,
        };
        let known = || self.known.borrow().get(index).and_then(|known| known.tools.clone());
        let listed = listed.or_else(|| member.health.last_tools()).or_else(known);
        let listed = listed.map(|tools| member.allowed(tools)).unwrap_or_default();
        let mut all: Vec<_> = listed.iter().map(|spec| (spec.clone(), None)).collect();
        for (name, state, held) in member.guard.iter().flat_map(|guard| guard.standings()) {
            match all.iter_mut().find(|(spec, _)| spec.name.as_str() == name) {
                Some((_, known)) => *known = Some(state),
                None => all.extend(held.map(|spec| (spec, Some(state)))),
            }
        }
        all.retain(|(spec, _)| member.allows(&spec.name));
        all.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
        all
    }
}

impl Page {
    /// The tools as they are known now.
    pub(super) fn known_tools(&self) -> Rc<KnownTools> {
        let Some(bus) = self.bus() else { return Rc::new(KnownTools::of(None)) };
        if self.are_tools_stale.take() {
            // Those who changed are asked; what they say is seen the next time.
            let asked = bus.clone();
            drop(spawn_local(async move {
                let _ = asked.list().await;
            }));
        }
        let members = bus.members.iter().enumerate();
        let by: Vec<_> = members.map(|(index, member)| bus.tools_by(index, member)).collect();
        if let Some(known) = self.tools.borrow().as_ref().filter(|known| known.by == by) {
            return known.clone();
        }
        let known = Rc::new(KnownTools { by, ..KnownTools::of(Some(&bus)) });
        self.tools.replace(Some(known.clone()));
        known
    }

    pub(super) fn write_tools(
        &self,
        parameters: &Parameters,
        out: &mut Vec<u8>,
    ) -> Result<(), PageRefusal> {
        let from = parameters.number("from", "an integer from 0")?.unwrap_or_default();
        let limit = parameters.limit()?;
        let search = parameters.get("search").map(str::trim).filter(|words| !words.is_empty());
        let back = parameters.get("back");
        let known = self.known_tools();
        let found: Vec<usize> = match search {
            None => (0..known.all.len()).collect(),
            Some(words) => known.index().search(words).found.iter().map(|it| it.tool).collect(),
        };
        let is_meant = |at: &usize| back.is_none_or(|back| *known.all[*at].back_name == *back);
        let matched: Vec<_> = found.into_iter().filter(is_meant).collect();
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let shown = matched.iter().skip(from).take(limit).map(|at| &known.all[*at]);
        let mut members = JsonMembers::begin(out);
        members.number("total", known.all.len() as u64);
        members.number("matched", matched.len() as u64);
        members.text("digest", &known.digest);
        members.array("tools", shown, |out, tool| {
            let mut members = JsonMembers::begin(out);
            write_name(&mut members, tool);
            let description = tool.spec.description.as_deref().map(beginning);
            write_about(&mut members, tool, description.as_deref(), false);
            members.end();
        });
        members.end();
        Ok(())
    }

    pub(super) fn write_tool(&self, name: &str, out: &mut Vec<u8>) -> Result<(), PageRefusal> {
        let known = self.known_tools();
        let tool = known.all.iter().find(|tool| tool.name() == name);
        let found = tool.zip(self.bus());
        let Some((tool, bus)) = found else {
            return Err(PageRefusal::not_found(format!("there is no tool `{name}`")));
        };
        let mut members = JsonMembers::begin(out);
        write_name(&mut members, tool);
        if let Some(member) = bus.members.get(tool.back) {
            members.text("wire", member.back.wire().name());
            members.text("address", &secrets::masked(&member.address.to_string()));
        }
        let description = tool.spec.description.as_deref().map(secrets::masked);
        write_about(&mut members, tool, description.as_deref(), true);
        members.end();
        Ok(())
    }
}

impl KnownTools {
    fn of(bus: Option<&Bus>) -> KnownTools {
        let mut all = Vec::new();
        for (bus, (index, member)) in
            bus.into_iter().flat_map(|bus| bus.members.iter().enumerate().map(move |it| (bus, it)))
        {
            let tools = bus.tools_of(index, member).into_iter();
            all.extend(tools.map(|(spec, state)| KnownTool {
                back: index,
                back_name: member.name.clone(),
                spec,
                state,
            }));
        }
        let mut hash = Sha256::new();
        for tool in &all {
            let mut line = Vec::new();
            write_string(&mut line, &tool.back_name);
            listing::write_members(&mut line, &tool.spec);
            line.extend_from_slice(tool.state.unwrap_or_default().as_bytes());
            hash.update((line.len() as u64).to_be_bytes());
            hash.update(line);
        }
        let digest = hex(&hash.finalize()[..8]);
        KnownTools { by: Vec::new(), digest, all, index: OnceCell::new() }
    }
}

fn write_name(members: &mut JsonMembers<'_>, tool: &KnownTool) {
    members.text("name", &secrets::masked(&tool.name()));
    members.text("back", &secrets::masked(&tool.back_name));
    members.text("tool", &secrets::masked(tool.spec.name.as_str()));
}

fn write_about(
    members: &mut JsonMembers<'_>,
    tool: &KnownTool,
    description: Option<&str>,
    has_schemas: bool,
) {
    let spec = &tool.spec;
    members.text_if("title", spec.title.as_deref().map(secrets::masked).as_deref());
    members.text_if("description", description);
    if has_schemas {
        members.raw("input", secrets::masked_json(&spec.input.compact()).as_str());
        if let Some(output) = &spec.output {
            members.raw("output", secrets::masked_json(&output.compact()).as_str());
        }
    }
    if let Some(hints) = &spec.hints {
        members.raw("hints", listing::hints(hints).as_str());
    }
    members.text_if("state", tool.state);
}

/// The first characters of a description, without secrets.
fn beginning(description: &str) -> String {
    let masked = secrets::masked(description);
    match masked.char_indices().nth(DESCRIPTION_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &masked[..end]),
        None => masked.into_owned(),
    }
}
