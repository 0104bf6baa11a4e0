//! Which tools are offered, under which names, and whose they are. Pure.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use thiserror::Error;
use toolbus_proto::search::{Document, Index};
use toolbus_proto::tool::{ToolName, ToolSpec};
use toolbus_proto::view::{Rule, Selection};

use super::searching::{Indexed, is_ours};
use super::view::seen_as;
use crate::address::Address;

/// How tools are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Naming {
    /// By their own names, for addresses on a command line.
    Plain,
    /// `<back>.<tool>`, for the config.
    Dotted,
    /// `<back>_<tool>`, for callers whose names of tools have no dots. Two such names may fall
    /// together, so one is never taken apart again.
    Underscored,
}

/// What one back offers.
#[derive(Debug, Clone)]
pub struct Offer {
    /// Its name.
    pub back: Arc<str>,
    /// How its tools are named.
    pub naming: Naming,
    /// Does a view hold for it? Not for what stands beside a config.
    pub is_seen: bool,
    /// Where it is.
    pub address: Address,
    /// Its tools by their own names.
    pub tools: Arc<[ToolSpec]>,
    /// What they are called by this naming, if that is known: many views show the same tools, and
    /// need not keep their names as often.
    pub names: Option<Arc<[ToolName]>>,
}

/// All tools that are offered, by the names they are offered under.
#[derive(Debug, Default)]
pub struct Catalogue {
    entries: HashMap<ToolName, Entry>,
    /// What it was made of, with the number of each back.
    offers: Vec<(usize, Offer)>,
    /// Tools of backs that are away: not offered, but it is known whose they are.
    away: HashMap<ToolName, Away>,
    /// The second tools of a name.
    left_out: Vec<NameTaken>,
    /// The tools in the order of their backs, as long as a client has that list.
    list: RefCell<Option<Weak<[ToolSpec]>>>,
    /// How its tools are searched for, made by the first search.
    indexed: OnceCell<Rc<Indexed>>,
}

/// One tool. Its spec stays where its back has listed it: many views may show it.
#[derive(Debug)]
struct Entry {
    /// Which of the offers.
    offer: u32,
    /// Which of its tools.
    at: u32,
    /// What a view changes about it.
    rule: Option<Rc<Rule>>,
}

#[derive(Debug)]
struct Away {
    back: usize,
    own: ToolName,
    rule: Option<Rc<Rule>>,
}

/// A tool that was looked up.
pub(super) struct LookedUp<'a> {
    /// Whose it is.
    pub(super) back: usize,
    /// What its owner calls it.
    pub(super) own: &'a ToolName,
    /// What a view changes about it.
    pub(super) rule: Option<&'a Rc<Rule>>,
}

impl Catalogue {
    /// Puts offers together; a name that two of them have is an error, unless it is only spelled
    /// alike.
    #[cfg(test)]
    fn new(offers: &[(usize, Offer)]) -> Result<Catalogue, NameTaken> {
        Catalogue::lenient(offers).strictly()
    }

    /// The same; a name that two tools have is an error, unless it is only spelled alike.
    pub(super) fn strictly(self) -> Result<Catalogue, NameTaken> {
        let catalogue = self;
        match catalogue.left_out.iter().find(|taken| !matches!(taken, NameTaken::Spelled { .. })) {
            Some(taken) => Err(taken.clone()),
            None => Ok(catalogue),
        }
    }

    /// Puts offers together; of a name that two of them have, the first keeps it.
    #[cfg(test)]
    fn lenient(offers: &[(usize, Offer)]) -> Catalogue {
        Catalogue::seen_in(None, offers)
    }

    /// Puts together what a selection shows of offers, or all of them. Of a name that two tools have,
    /// one that was given it keeps it, else the first.
    pub(super) fn seen_in(selection: Option<&Selection>, offers: &[(usize, Offer)]) -> Catalogue {
        let offers = offers.to_vec();
        let mut catalogue = Catalogue { offers, ..Catalogue::default() };
        let Some(selection) = selection else {
            for (offer, (_, of)) in catalogue.offers.clone().iter().enumerate() {
                for at in 0..of.tools.len() {
                    catalogue.add(None, of.name(at), offer, at, None);
                }
            }
            return catalogue;
        };
        let mut own = Vec::new();
        for (offer, (_, of)) in catalogue.offers.clone().iter().enumerate() {
            for at in 0..of.tools.len() {
                let Some((name, rule)) = of.shown(selection, at) else { continue };
                match rule.as_ref().is_some_and(|rule| rule.rename.is_some()) {
                    true => catalogue.add(Some(selection), name, offer, at, rule),
                    false => own.push((name, offer, at, rule)),
                }
            }
        }
        for (name, offer, at, rule) in own {
            catalogue.add(Some(selection), name, offer, at, rule);
        }
        catalogue
    }

    fn add(
        &mut self,
        selection: Option<&Selection>,
        name: ToolName,
        offer: usize,
        at: usize,
        rule: Option<Rc<Rule>>,
    ) {
        let Some(taken) = self.entries.get(&name) else {
            // As many as one peer may list, and fewer peers.
            let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            let entry = Entry { offer: number(offer), at: number(at), rule };
            self.entries.insert(name, entry);
            return;
        };
        let (first, their) = self.spec(taken);
        let (second, our) = (&self.offers[offer].1, &self.offers[offer].1.tools[at]);
        // A caller that wants the one of another back names that back.
        if second.is_generic(&our.name) && first.is_generic(&their.name) {
            return;
        }
        // Listed twice by its own server, it is still one tool.
        if taken.offer as usize == offer && their.name == our.name {
            return;
        }
        let [theirs, ours] = [(first, their), (second, our)]
            .map(|(offer, spec)| Naming::Dotted.name(&offer.back, &spec.name));
        let left_out = match (selection, second.naming) {
            (Some(selection), _) => {
                let view = selection.label();
                NameTaken::Seen { view, name, first: theirs, second: ours }
            }
            (None, Naming::Plain | Naming::Dotted) => NameTaken::Offered {
                name,
                first: first.address.clone(),
                second: second.address.clone(),
            },
            (None, Naming::Underscored) => NameTaken::Spelled { name, first: theirs, second: ours },
        };
        self.left_out.push(left_out);
    }

    /// The spec of an entry, and whose it is.
    fn spec(&self, entry: &Entry) -> (&Offer, &ToolSpec) {
        let (_, offer) = &self.offers[entry.offer as usize];
        (offer, &offer.tools[entry.at as usize])
    }

    /// Was it made of the same? Then it would be made again as it is.
    pub(super) fn is_of(&self, offers: &[(usize, Offer)]) -> bool {
        let is_same = |(ours, theirs): (&(usize, Offer), &(usize, Offer))| {
            ours.0 == theirs.0
                && ours.1.back == theirs.1.back
                && (Arc::ptr_eq(&ours.1.tools, &theirs.1.tools) || ours.1.tools == theirs.1.tools)
        };
        self.offers.len() == offers.len() && self.offers.iter().zip(offers).all(is_same)
    }

    /// The names that a second tool would have had.
    pub fn left_out(&self) -> &[NameTaken] {
        &self.left_out
    }

    /// Remembers what backs offered that are away. A name that is offered stays with who offers
    /// it, one that two of them had with the first.
    #[must_use]
    #[cfg(test)]
    fn with_away(self, away: &[(usize, Offer)]) -> Catalogue {
        self.with_away_seen_in(None, away)
    }

    /// The same of what a selection shows.
    #[must_use]
    pub(super) fn with_away_seen_in(
        mut self,
        selection: Option<&Selection>,
        away: &[(usize, Offer)],
    ) -> Catalogue {
        for (back, offer) in away {
            for (at, spec) in offer.tools.iter().enumerate() {
                let shown = match selection {
                    None => Some((offer.name(at), None)),
                    Some(selection) => offer.shown(selection, at),
                };
                let Some((name, rule)) = shown else { continue };
                if !self.entries.contains_key(&name) {
                    let own = spec.name.clone();
                    self.away.entry(name).or_insert(Away { back: *back, own, rule });
                }
            }
        }
        self
    }

    /// Whose tool it is, and what its owner calls it. The owner may be away.
    pub fn find(&self, name: &ToolName) -> Option<(usize, &ToolName)> {
        self.look_up(name).map(|found| (found.back, found.own))
    }

    /// The same, with what a view changes about it.
    pub(super) fn look_up(&self, name: &ToolName) -> Option<LookedUp<'_>> {
        let Some(entry) = self.entries.get(name) else {
            let Away { back, own, rule } = self.away.get(name)?;
            return Some(LookedUp { back: *back, own, rule: rule.as_ref() });
        };
        let (back, _) = self.offers[entry.offer as usize];
        Some(LookedUp { back, own: &self.spec(entry).1.name, rule: entry.rule.as_ref() })
    }

    /// Is it a tool that is offered now?
    pub fn offers(&self, name: &ToolName) -> bool {
        self.entries.contains_key(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.sorted().into_iter().map(|(name, _)| name)
    }

    /// By name: a call looks one up, and few want all in order.
    fn sorted(&self) -> Vec<(&ToolName, &Entry)> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_unstable_by_key(|(name, _)| *name);
        entries
    }

    /// The tools under the names they are offered by, sorted, each with the back whose it is.
    pub fn tools(&self) -> impl Iterator<Item = (usize, ToolSpec)> {
        self.sorted()
            .into_iter()
            .map(|(name, entry)| (self.offers[entry.offer as usize].0, self.shown(name, entry)))
    }

    /// The same in the order of the backs, each in its own.
    pub(super) fn list(&self) -> Arc<[ToolSpec]> {
        if let Some(list) = self.list.borrow().as_ref().and_then(Weak::upgrade) {
            return list;
        }
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(_, entry)| (entry.offer, entry.at));
        let list: Arc<[ToolSpec]> =
            entries.into_iter().map(|(name, entry)| self.shown(name, entry)).collect();
        self.list.replace(Some(Arc::downgrade(&list)));
        list
    }

    /// The tool that is offered by this name.
    pub(super) fn spec_of(&self, name: &ToolName) -> Option<ToolSpec> {
        self.entries.get(name).map(|entry| self.shown(name, entry))
    }

    /// Its tools as they are searched for, as they are shown.
    pub(super) fn indexed(&self) -> Rc<Indexed> {
        let index = || {
            let entries = self.sorted().into_iter();
            let entries = entries.filter(|(name, _)| !is_ours(name.as_str()));
            let documents = entries.clone().map(|(name, entry)| {
                let (offer, spec) = self.spec(entry);
                let renamed = entry.rule.as_ref().and_then(|rule| rule.rename.as_deref());
                let own = renamed.map_or_else(|| spec.name.clone(), ToolName::from);
                let shown = seen_as(spec, own, entry.rule.as_deref());
                Document { shown: Some(name.to_string()), ..Document::of(&offer.back, &shown) }
            });
            let index = Index::new(&documents.collect::<Vec<_>>());
            Rc::new(Indexed { index, names: entries.map(|(name, _)| name.clone()).collect() })
        };
        self.indexed.get_or_init(index).clone()
    }

    fn shown(&self, name: &ToolName, entry: &Entry) -> ToolSpec {
        seen_as(self.spec(entry).1, name.clone(), entry.rule.as_deref())
    }
}

impl Naming {
    /// What the tool of a back is called.
    pub fn name(self, back: &str, tool: &ToolName) -> ToolName {
        match self {
            Naming::Plain => tool.clone(),
            Naming::Dotted => ToolName::new(format!("{back}.{tool}")),
            Naming::Underscored => ToolName::new(format!("{back}_{tool}")),
        }
    }
}

impl Offer {
    /// Is it a tool that every back of this kind has, besides its own?
    fn is_generic(&self, tool: &ToolName) -> bool {
        self.address.kind().generic_tools().contains(&tool.as_str())
    }

    /// What one of its tools is called, if no view says otherwise.
    fn name(&self, at: usize) -> ToolName {
        match &self.names {
            Some(names) => names[at].clone(),
            None => self.naming.name(&self.back, &self.tools[at].name),
        }
    }

    /// What one of its tools is called by those who see a selection, and what that changes about it;
    /// `None` if it is not shown.
    fn shown(&self, selection: &Selection, at: usize) -> Option<(ToolName, Option<Rc<Rule>>)> {
        if !self.is_seen {
            return Some((self.name(at), None));
        }
        let spec = &self.tools[at];
        let (own, hints) = (spec.name.as_str(), spec.hints.as_ref());
        if !selection.shows_tool(&self.back, own, hints, self.is_generic(&spec.name)) {
            return None;
        }
        let rule = selection.rule(&self.back, own).map(Rc::new);
        let renamed = rule.as_ref().and_then(|rule| rule.rename.as_deref()).map(ToolName::from);
        let name = match &renamed {
            Some(renamed) => self.naming.name(&self.back, renamed),
            None => self.name(at),
        };
        Some((name, rule))
    }
}

/// Two tools would have one name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameTaken {
    /// Two backs offer it.
    #[error("tool `{name}` is offered by both `{first}` and `{second}`")]
    Offered {
        /// The name.
        name: ToolName,
        /// Who offers it.
        first: Address,
        /// Who offers it too.
        second: Address,
    },
    /// Two names of a back and its tool are written alike.
    #[error("tool name {name} stands for both {first} and {second}")]
    Spelled {
        /// The name.
        name: ToolName,
        /// What it stands for.
        first: ToolName,
        /// What it stands for, too.
        second: ToolName,
    },
    /// Two tools of a view are called alike.
    #[error("view {view}: tool name {name} stands for both {first} and {second}")]
    Seen {
        /// The view.
        view: Arc<str>,
        /// The name.
        name: ToolName,
        /// What it stands for, by the names of its back and its own.
        first: ToolName,
        /// What it stands for, too.
        second: ToolName,
    },
}

impl NameTaken {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            NameTaken::Offered { .. } => {
                "name the backs in a config: there their tools are `<back>.<tool>`"
            }
            NameTaken::Spelled { .. } => "give one of the backs another name",
            NameTaken::Seen { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toolbus_proto::json::Json;
    use toolbus_proto::view::{Names, Pattern, View};

    use super::*;

    fn offer(address: &str, tools: &[&str]) -> Offer {
        let spec = |name: &&str| ToolSpec::new(*name, Json::from_trusted("{}"));
        let address = Address::parse(address).unwrap();
        let back = address.peer_name().into();
        let (naming, is_seen) = (Naming::Plain, true);
        let tools = tools.iter().map(spec).collect();
        Offer { back, naming, is_seen, address, tools, names: None }
    }

    fn names(naming: Naming, offers: &[Offer]) -> Result<String, String> {
        let offers = offers.iter().map(|offer| Offer { naming, ..offer.clone() });
        let offers: Vec<_> = offers.enumerate().collect();
        let catalogue = Catalogue::new(&offers).map_err(|taken| taken.to_string())?;
        let line = |name: &ToolName| {
            let (back, own) = catalogue.find(name).unwrap();
            format!("{name}={back}:{own}")
        };
        Ok(catalogue.names().map(line).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn names_are_plain_or_dotted() {
        let offers = [offer("stdio:a", &["f", "a.b"]), offer("builtin:", &["add"])];
        assert_eq!(names(Naming::Plain, &offers).unwrap(), "a.b=0:a.b add=1:add f=0:f");
        let dotted = "a.a.b=0:a.b a.f=0:f builtin.add=1:add";
        assert_eq!(names(Naming::Dotted, &offers).unwrap(), dotted);
    }

    #[test]
    fn one_name_of_two_is_an_error_that_names_both() {
        let offers = [offer("stdio:a", &["f"]), offer("stdio:b", &["f"])];
        let taken = "tool `f` is offered by both `stdio:a` and `stdio:b`";
        assert_eq!(names(Naming::Plain, &offers).unwrap_err(), taken);
        assert_eq!(names(Naming::Dotted, &offers).unwrap(), "a.f=0:f b.f=1:f");
    }

    #[test]
    fn names_with_underscores_may_fall_together() {
        let offers = [offer("stdio:a", &["b"]), offer("builtin:", &["add"])];
        assert_eq!(names(Naming::Underscored, &offers).unwrap(), "a_b=0:b builtin_add=1:add");
        let offers = [offer("stdio:a", &["b_c"]), offer("stdio:a_b", &["c"])];
        // What an address is called has no underscores; what a config names may.
        let offers =
            offers.map(|offer| Offer { back: offer.back.replace('-', "_").into(), ..offer });
        assert_eq!(names(Naming::Underscored, &offers).unwrap(), "a_b_c=0:b_c");
        let offers = offers.map(|offer| Offer { naming: Naming::Underscored, ..offer });
        let offers: Vec<_> = offers.into_iter().enumerate().collect();
        let taken = "tool name a_b_c stands for both a.b_c and a_b.c";
        let left_out = Catalogue::lenient(&offers).left_out()[0].to_string();
        assert_eq!(left_out, taken);
    }

    #[test]
    fn the_tools_of_a_back_that_is_away_are_known_and_not_offered() {
        let there = [(0, offer("stdio:a", &["f"]))];
        let away = [(1, offer("stdio:b", &["f", "g"]))];
        let catalogue = Catalogue::new(&there).unwrap();
        let catalogue = catalogue.with_away(&away);
        let find = |name: &str| catalogue.find(&name.into()).map(|(back, _)| back);
        assert_eq!((find("f"), find("g"), find("h")), (Some(0), Some(1), None));
        assert_eq!(catalogue.names().collect::<Vec<_>>(), [&ToolName::new("f")]);
        assert!(catalogue.offers(&"f".into()) && !catalogue.offers(&"g".into()));
    }

    #[test]
    fn a_tool_that_its_server_lists_twice_is_one() {
        let offers = [offer("mcp+stdio:a", &["f", "g", "f"]), offer("builtin:", &["add"])];
        assert_eq!(names(Naming::Plain, &offers).unwrap(), "add=1:add f=0:f g=0:g");
        let underscored = "a_f=0:f a_g=0:g builtin_add=1:add";
        assert_eq!(names(Naming::Underscored, &offers).unwrap(), underscored);
    }

    /// A view of few words, so that many of them meet.
    fn any_view(name: &'static str) -> impl Strategy<Value = Arc<View>> {
        let pattern =
            prop::sample::select(&["*", "a.*", "*.f", "b.?", "*.g*", "b_c.h", "*.*f"][..]);
        let patterns = |most| prop::collection::vec(pattern.clone(), 0..most);
        let tool = prop::sample::select(&["a.f", "a.g", "b.f", "b.gf", "b_c.h", "a.nope"][..]);
        let rename = prop::sample::select(&[None, Some("f"), Some("new"), Some("g")][..]);
        let names = [None, Some(Names::Plain), Some(Names::Full), Some(Names::Back)];
        (
            prop::option::of(patterns(3)),
            patterns(2),
            prop::collection::btree_map(tool, rename, 0..3),
            prop::sample::select(names.to_vec()),
        )
            .prop_map(move |(show, hide, tools, names)| {
                let read = |all: Vec<&str>| all.into_iter().map(Pattern::new).collect();
                let rule = |(tool, rename): (&str, Option<&str>)| {
                    let rename = rename.map(str::to_owned);
                    (tool.to_owned(), Rule { rename, ..Rule::default() })
                };
                let tools = tools.into_iter().map(rule).collect();
                let (show, hide) = (show.map(read), read(hide));
                Arc::new(View { name: name.into(), show, hide, names, tools, ..View::default() })
            })
    }

    proptest! {
        /// What is listed is what can be called, each name is one tool, and each tool one that both
        /// views show.
        #[test]
        fn what_is_listed_can_be_called_and_nothing_else(
            front in prop::option::of(any_view("f")),
            caller in prop::option::of(any_view("c")),
            naming in prop::sample::select(vec![Naming::Plain, Naming::Dotted, Naming::Underscored]),
        ) {
            let named = |back: &str, tools: &[&str]| {
                Offer { back: back.into(), ..offer("builtin:", tools) }
            };
            let backs = [
                named("a", &["f", "g", "b", "new"]),
                named("b", &["f", "gf", "c_h", "h"]),
                named("b_c", &["h", "f"]),
            ];
            let selection = Selection::new(front.clone(), caller.clone());
            let naming = match selection.as_ref().map_or(Names::Back, Selection::names) {
                Names::Plain => Naming::Plain,
                Names::Full if naming == Naming::Plain => Naming::Underscored,
                _ => naming,
            };
            let backs = backs.map(|offer| Offer { naming, ..offer });
            let offers: Vec<_> = backs.into_iter().enumerate().collect();
            let catalogue = Catalogue::seen_in(selection.as_ref(), &offers);
            let listed: Vec<_> = catalogue.list().iter().map(|spec| spec.name.clone()).collect();
            let mut reached = Vec::new();
            for name in &listed {
                let found = catalogue.look_up(name).expect("it is listed");
                prop_assert!(catalogue.offers(name));
                let own = found.own.as_str();
                let back = &offers[found.back].1.back;
                for view in [&front, &caller].into_iter().flatten() {
                    let alone = Selection::new(Some(view.clone()), None).unwrap();
                    prop_assert!(alone.shows_tool(back, own, None, false), "{name}");
                }
                reached.push((found.back, own.to_owned()));
            }
            let all = |list: &[ToolName]| list.iter().cloned().collect::<std::collections::BTreeSet<_>>();
            prop_assert_eq!(all(&listed).len(), listed.len());
            prop_assert_eq!(catalogue.names().cloned().collect::<Vec<_>>().len(), listed.len());
            reached.sort();
            reached.dedup();
            prop_assert_eq!(reached.len(), listed.len(), "one tool under two names");
            // Whatever else it might be called: its own name, one that it had, one in full.
            for (_, offer) in &offers {
                for spec in offer.tools.iter() {
                    for naming in [Naming::Plain, Naming::Dotted, Naming::Underscored] {
                        let name = naming.name(&offer.back, &spec.name);
                        prop_assert_eq!(catalogue.look_up(&name).is_some(), all(&listed).contains(&name));
                    }
                }
            }
        }
    }

    #[test]
    fn of_generic_tools_the_first_is_offered() {
        let offers = [
            offer("stdio:a", &["invoke"]),
            offer("stdio:b", &["invoke"]),
            offer("mediocre+tcp://h:1", &["call"]),
            offer("mediocre+tcp://h:2", &["call"]),
        ];
        assert_eq!(names(Naming::Plain, &offers).unwrap(), "call=2:call invoke=0:invoke");
        let mut offers = [offer("stdio:a", &["invoke"]), offer("mcp+stdio:b", &["invoke"])];
        assert!(names(Naming::Plain, &offers).is_err());
        offers.reverse();
        assert!(names(Naming::Plain, &offers).is_err());
        let offers = [offer("godex+stdio:a", &["ask"]), offer("godex+stdio:b", &["ask"])];
        assert!(names(Naming::Plain, &offers).is_err());
    }
}
