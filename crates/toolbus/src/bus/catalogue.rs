//! Which tools are offered, under which names, and whose they are. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;
use toolbus_proto::tool::{ToolName, ToolSpec};

use crate::address::Address;

/// How tools are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Where it is.
    pub address: Address,
    /// Its tools by their own names.
    pub tools: Arc<[ToolSpec]>,
}

/// All tools that are offered, by the names they are offered under.
#[derive(Debug, Default)]
pub struct Catalogue {
    entries: BTreeMap<ToolName, Entry>,
    /// Tools of backs that are away: not offered, but it is known whose they are.
    away: BTreeMap<ToolName, (usize, ToolName)>,
    /// The second tools of a name.
    left_out: Vec<NameTaken>,
}

#[derive(Debug)]
struct Entry {
    /// Which of the offers.
    back: usize,
    spec: ToolSpec,
}

impl Catalogue {
    /// Puts offers together; a name that two of them have is an error, unless it is only spelled
    /// alike.
    pub fn new(naming: Naming, offers: &[(usize, Offer)]) -> Result<Catalogue, NameTaken> {
        let catalogue = Catalogue::lenient(naming, offers);
        match catalogue.left_out.iter().find(|taken| matches!(taken, NameTaken::Offered { .. })) {
            Some(taken) => Err(taken.clone()),
            None => Ok(catalogue),
        }
    }

    /// Puts offers together; of a name that two of them have, the first keeps it.
    pub fn lenient(naming: Naming, offers: &[(usize, Offer)]) -> Catalogue {
        let mut left_out = Vec::new();
        let mut entries: BTreeMap<ToolName, Entry> = BTreeMap::new();
        let owner = |back: usize| offers.iter().find(|(of, _)| *of == back).map(|(_, offer)| offer);
        let is_generic = |entry: &Entry| {
            owner(entry.back).is_some_and(|offer| offer.is_generic(&entry.spec.name))
        };
        for (back, offer) in offers {
            for spec in offer.tools.iter() {
                let name = naming.name(&offer.back, &spec.name);
                match entries.get(&name) {
                    None => {
                        let entry = Entry { back: *back, spec: spec.clone() };
                        entries.insert(name, entry);
                    }
                    // A caller that wants the one of another back names that back.
                    Some(taken) if offer.is_generic(&spec.name) && is_generic(taken) => {}
                    // Listed twice by its own server, it is still one tool.
                    Some(taken) if taken.back == *back && taken.spec.name == spec.name => {}
                    Some(taken) => {
                        let first = owner(taken.back).unwrap_or(offer);
                        left_out.push(match naming {
                            Naming::Plain | Naming::Dotted => NameTaken::Offered {
                                name,
                                first: first.address.clone(),
                                second: offer.address.clone(),
                            },
                            Naming::Underscored => NameTaken::Spelled {
                                name,
                                first: Naming::Dotted.name(&first.back, &taken.spec.name),
                                second: Naming::Dotted.name(&offer.back, &spec.name),
                            },
                        });
                    }
                }
            }
        }
        Catalogue { entries, away: BTreeMap::new(), left_out }
    }

    /// The names that a second tool would have had.
    pub fn left_out(&self) -> &[NameTaken] {
        &self.left_out
    }

    /// Remembers what backs offered that are away. A name that is offered stays with who offers
    /// it, one that two of them had with the first.
    #[must_use]
    pub fn with_away(mut self, naming: Naming, away: &[(usize, Offer)]) -> Catalogue {
        for (back, offer) in away {
            for spec in offer.tools.iter() {
                let name = naming.name(&offer.back, &spec.name);
                if !self.entries.contains_key(&name) {
                    self.away.entry(name).or_insert_with(|| (*back, spec.name.clone()));
                }
            }
        }
        self
    }

    /// Whose tool it is, and what its owner calls it. The owner may be away.
    pub fn find(&self, name: &ToolName) -> Option<(usize, &ToolName)> {
        let offered = self.entries.get(name).map(|entry| (entry.back, &entry.spec.name));
        offered.or_else(|| self.away.get(name).map(|(back, own)| (*back, own)))
    }

    /// Is it a tool that is offered now?
    pub fn offers(&self, name: &ToolName) -> bool {
        self.entries.contains_key(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.entries.keys()
    }

    /// The tools under the names they are offered by, sorted.
    pub fn tools(&self) -> impl Iterator<Item = ToolSpec> {
        self.entries
            .iter()
            .map(|(name, entry)| ToolSpec { name: name.clone(), ..entry.spec.clone() })
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
}

impl NameTaken {
    /// What the reader can do about it.
    pub fn hint(&self) -> String {
        match self {
            NameTaken::Offered { .. } => {
                "name the backs in a config: there their tools are `<back>.<tool>`".to_owned()
            }
            NameTaken::Spelled { .. } => "give one of the backs another name".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use toolbus_proto::json::Json;

    use super::*;

    fn offer(address: &str, tools: &[&str]) -> Offer {
        let spec = |name: &&str| ToolSpec::new(*name, Json::from_trusted("{}"));
        let address = Address::parse(address).unwrap();
        let back = address.peer_name().into();
        Offer { back, address, tools: tools.iter().map(spec).collect() }
    }

    fn names(naming: Naming, offers: &[Offer]) -> Result<String, String> {
        let offers: Vec<_> = offers.iter().cloned().enumerate().collect();
        let catalogue = Catalogue::new(naming, &offers).map_err(|taken| taken.to_string())?;
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
        let offers: Vec<_> = offers.into_iter().enumerate().collect();
        let taken = "tool name a_b_c stands for both a.b_c and a_b.c";
        let left_out = Catalogue::lenient(Naming::Underscored, &offers).left_out()[0].to_string();
        assert_eq!(left_out, taken);
    }

    #[test]
    fn the_tools_of_a_back_that_is_away_are_known_and_not_offered() {
        let there = [(0, offer("stdio:a", &["f"]))];
        let away = [(1, offer("stdio:b", &["f", "g"]))];
        let catalogue = Catalogue::new(Naming::Plain, &there).unwrap();
        let catalogue = catalogue.with_away(Naming::Plain, &away);
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
