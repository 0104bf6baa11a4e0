//! What a front and its caller show together: a thing must be shown by both.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::pattern::{Pattern, Sort};
use super::{Names, Rule, View, WantedHints};
use crate::json::Json;
use crate::search::Search;
use crate::tool::Hints;

/// The view of a front, that of a caller, or both. Where both speak of one tool, the caller's wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// That of the front first.
    views: Vec<Arc<View>>,
}

impl Selection {
    /// What these show together; `None` if there is no view.
    pub fn new(front: Option<Arc<View>>, caller: Option<Arc<View>>) -> Option<Selection> {
        let views: Vec<_> = front.into_iter().chain(caller).collect();
        (!views.is_empty()).then_some(Selection { views })
    }

    /// What it is called: `reader`, or `reader+ann` if there are two views.
    pub fn label(&self) -> Arc<str> {
        match self.views.as_slice() {
            [only] => only.name.clone(),
            views => views.iter().map(|view| &*view.name).collect::<Vec<_>>().join("+").into(),
        }
    }

    /// Is this tool shown? A generic tool reaches everything that its back has.
    pub fn shows_tool(
        &self,
        back: &str,
        own: &str,
        hints: Option<&Hints>,
        is_generic: bool,
    ) -> bool {
        let name = format!("{back}.{own}");
        let is_shown = |view: &Arc<View>| {
            let shows = match &view.show {
                None => !is_generic,
                Some(show) => tools(show).any(|pattern| match is_generic {
                    true => pattern.matches_generic(&name, own),
                    false => pattern.matches(&name),
                }),
            };
            shows
                && !tools(&view.hide).any(|pattern| pattern.matches(&name))
                && view.hints.fit(hints)
        };
        self.views.iter().all(is_shown)
    }

    /// Is this prompt of the back shown?
    pub fn shows_prompt(&self, back: &str, prompt: &str) -> bool {
        self.shows(Sort::Prompt, &format!("{back}.{prompt}"))
    }

    /// Is this resource of the back shown, or a template of this text?
    pub fn shows_resource(&self, back: &str, uri: &str) -> bool {
        self.shows(Sort::Resource, &format!("{back}.{uri}"))
    }

    /// Is a method of this name shown, which no revision of its wire has?
    pub fn shows_method(&self, method: &str) -> bool {
        self.shows(Sort::Method, method)
    }

    fn shows(&self, sort: Sort, name: &str) -> bool {
        let of_sort = |pattern: &&Pattern| pattern.sort == sort;
        self.views.iter().all(|view| {
            let shows = match &view.show {
                None => sort != Sort::Method,
                Some(show) => show.iter().filter(of_sort).any(|pattern| pattern.matches(name)),
            };
            shows && !view.hide.iter().filter(of_sort).any(|pattern| pattern.matches(name))
        })
    }

    /// Can anything of this sort be shown?
    pub fn may_show(&self, sort: Sort) -> bool {
        self.views.iter().all(|view| match &view.show {
            None => sort != Sort::Method,
            Some(show) => show.iter().any(|pattern| pattern.sort == sort),
        })
    }

    /// Can anything of this sort be shown of this back?
    pub fn may_match(&self, sort: Sort, back: &str) -> bool {
        let of_sort = |pattern: &&Pattern| pattern.sort == sort;
        self.views.iter().all(|view| {
            let may_show = match &view.show {
                None => sort != Sort::Method,
                Some(show) => {
                    show.iter().filter(of_sort).any(|pattern| pattern.may_match_back(back))
                }
            };
            let hides_all = |pattern: &Pattern| pattern.matches_all_of_back(back);
            may_show && !view.hide.iter().filter(of_sort).any(hides_all)
        })
    }

    /// Can a tool, a prompt or a resource of this back be shown?
    pub fn may_match_any(&self, back: &str) -> bool {
        let sorts = [Sort::Tool, Sort::Prompt, Sort::Resource];
        sorts.into_iter().any(|sort| self.may_match(sort, back))
    }

    /// What is changed about a tool, if anything is.
    pub fn rule(&self, back: &str, own: &str) -> Option<Rule> {
        self.rule_of(&format!("{back}.{own}"))
    }

    fn rule_of(&self, tool: &str) -> Option<Rule> {
        let rules = self.views.iter().filter_map(|view| view.tools.get(tool));
        rules.cloned().reduce(|front, caller| {
            let fixed = front.fixed.into_iter().chain(caller.fixed).collect();
            Rule {
                rename: caller.rename.or(front.rename),
                title: caller.title.or(front.title),
                description: caller.description.or(front.description),
                append: caller.append.or(front.append),
                fixed,
            }
        })
    }

    /// The own name of the tool of this back that is called so, as far as no list is needed for that;
    /// `None` for the old name of one that is renamed.
    pub fn own_name(&self, back: &str, called: &str) -> Option<String> {
        let of_back = self.spoken_of().filter_map(|tool| {
            let own = tool.strip_prefix(back)?.strip_prefix('.')?;
            Some((own, self.rule_of(tool)?.rename?))
        });
        let mut renamed = of_back.filter(|(own, rename)| rename == called || *own == called);
        match renamed.next() {
            None => Some(called.to_owned()),
            Some((own, rename)) if rename == called => Some(own.to_owned()),
            // Another may have taken its name.
            Some(_) => renamed.find(|(_, rename)| rename == called).map(|(own, _)| own.to_owned()),
        }
    }

    /// The tools that it says something of, as `<back>.<tool>`.
    pub fn spoken_of(&self) -> impl Iterator<Item = &str> {
        self.views.iter().flat_map(|view| view.tools.keys()).map(String::as_str)
    }

    /// How tools are named.
    pub fn names(&self) -> Names {
        self.views.iter().rev().find_map(|view| view.names).unwrap_or_default()
    }

    /// What clients are told in place of the servers' instructions.
    pub fn instructions(&self) -> Option<&str> {
        self.views.iter().rev().find_map(|view| view.instructions.as_deref())
    }

    /// Whether tools are searched for, if a view says so: the caller's word wins.
    pub fn search(&self) -> Option<Search> {
        self.views.iter().rev().find_map(|view| view.search)
    }

    /// Which tools are listed although they are searched for, if a view says so.
    pub fn always(&self) -> Option<&[Pattern]> {
        self.views.iter().rev().find_map(|view| view.always.as_deref())
    }

    /// Two tools that would be given one name, if there are such, sorted.
    pub fn same_name(&self) -> Option<SameName> {
        let mut named: BTreeMap<(&str, String), &str> = BTreeMap::new();
        let mut spoken_of: Vec<_> = self.spoken_of().collect();
        spoken_of.sort_unstable();
        spoken_of.dedup();
        for tool in spoken_of {
            let Some(name) = self.rule_of(tool).and_then(|rule| rule.rename) else { continue };
            let back = tool.split_once('.').map_or(tool, |(back, _)| back);
            let back = if self.names() == Names::Plain { "" } else { back };
            match named.entry((back, name)) {
                Entry::Vacant(entry) => {
                    entry.insert(tool);
                }
                Entry::Occupied(entry) => {
                    let tools = [(*entry.get()).to_owned(), tool.to_owned()];
                    return Some(SameName { tools, name: entry.key().1.clone() });
                }
            }
        }
        None
    }

    /// A tool and an argument of its that its views fix to different values, if there is one.
    pub fn fixed_twice(&self) -> Option<(String, String)> {
        let [front, caller] = self.views.as_slice() else { return None };
        front.tools.iter().find_map(|(tool, rule)| {
            let other = caller.tools.get(tool)?;
            let differs = |(argument, value): &(&str, &Json)| {
                other.fixed.get(argument).is_some_and(|theirs| theirs != *value)
            };
            let (argument, _) = rule.fixed.iter().find(differs)?;
            Some((tool.clone(), argument.to_owned()))
        })
    }
}

/// Two tools that would be given one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SameName {
    /// As `<back>.<tool>`, sorted.
    pub tools: [String; 2],
    /// The name.
    pub name: String,
}

fn tools(patterns: &[Pattern]) -> impl Iterator<Item = &Pattern> {
    patterns.iter().filter(|pattern| pattern.sort == Sort::Tool)
}

impl WantedHints {
    /// Does a back say so of its tool?
    fn fit(&self, told: Option<&Hints>) -> bool {
        let told = told.copied().unwrap_or_default();
        let harmless = (told.read_only == Some(true)).then_some(false);
        let fits = |wanted: Option<bool>, told: Option<bool>| {
            wanted.is_none_or(|wanted| told == Some(wanted))
        };
        fits(self.read_only, told.read_only)
            && fits(self.idempotent, told.idempotent)
            && fits(self.destructive, told.destructive.or(harmless))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(name: &str, show: &[&str], hide: &[&str]) -> Arc<View> {
        let patterns = |all: &[&str]| all.iter().map(|text| Pattern::new(text)).collect();
        let show = (!show.is_empty()).then(|| patterns(show));
        Arc::new(View { name: name.into(), show, hide: patterns(hide), ..View::default() })
    }

    fn of(view: Arc<View>) -> Selection {
        Selection::new(Some(view), None).unwrap()
    }

    #[test]
    fn hide_wins_and_both_views_must_show() {
        let front = view("f", &["git.*", "files.read_*"], &["git.push*"]);
        let caller = view("c", &["*.read_*", "git.log"], &[]);
        let shown = |selection: &Selection| {
            let tools = ["git.log", "git.push", "git.push.force", "files.read_text", "files.write"];
            let shows = |tool: &&&str| {
                let (back, own) = tool.split_once('.').unwrap();
                selection.shows_tool(back, own, None, false)
            };
            tools.iter().filter(shows).copied().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(&of(front.clone())), "git.log files.read_text");
        let both = Selection::new(Some(front), Some(caller)).unwrap();
        assert_eq!((shown(&both), &*both.label()), ("git.log files.read_text".into(), "f+c"));
        assert_eq!(shown(&of(view("v", &[], &[]))).split(' ').count(), 5);
        assert_eq!(shown(&of(view("v", &["prompt:*"], &[]))), "");
    }

    #[test]
    fn what_reaches_everything_is_shown_only_by_its_name() {
        for (show, hide, shows) in [
            (&[][..], &[][..], false),
            (&["*"], &[], false),
            (&["math.*"], &[], false),
            (&["*invoke"], &[], false),
            (&["math.invoke"], &[], true),
            (&["*.invoke"], &[], true),
            (&["*.invoke"], &["math.*"], false),
        ] {
            let selection = of(view("v", show, hide));
            assert_eq!(selection.shows_tool("math", "invoke", None, true), shows, "{show:?}");
        }
    }

    #[test]
    fn hints_have_to_be_told() {
        let wants = |hints| of(Arc::new(View { hints, ..View::default() }));
        let told = |read_only, destructive| Hints { read_only, destructive, idempotent: None };
        let shows = |selection: &Selection, hints: Option<Hints>| {
            selection.shows_tool("b", "t", hints.as_ref(), false)
        };
        let reads = wants(WantedHints { read_only: Some(true), ..WantedHints::default() });
        assert!(shows(&reads, Some(told(Some(true), None))));
        assert!(!shows(&reads, Some(told(Some(false), None))));
        assert!(!shows(&reads, Some(told(None, None))) && !shows(&reads, None));
        let spares = wants(WantedHints { destructive: Some(false), ..WantedHints::default() });
        assert!(shows(&spares, Some(told(Some(true), None))));
        assert!(!shows(&spares, Some(told(Some(true), Some(true)))));
        assert!(!shows(&spares, Some(told(Some(false), None))));
    }

    #[test]
    fn other_sorts_have_patterns_of_their_own() {
        let selection = of(view("v", &["git.*", "prompt:git.*", "resource:f.file:///a/*"], &[]));
        assert!(selection.shows_prompt("git", "x") && !selection.shows_prompt("f", "x"));
        assert!(selection.shows_resource("f", "file:///a/b"));
        assert!(!selection.shows_resource("f", "file:///b"));
        assert!(!selection.shows_method("acme/x") && !selection.may_show(Sort::Method));
        assert!(of(view("v", &["method:acme/*"], &[])).shows_method("acme/x"));
        let back = |back| Sort::ALL.map(|sort| selection.may_match(sort, back));
        assert_eq!(back("git"), [true, true, false, false]);
        assert_eq!(back("f"), [false, false, true, false]);
        assert_eq!(back("gi"), [false; 4]);
        let hidden = of(view("v", &[], &["git.*", "resource:*"]));
        assert!(!hidden.may_match(Sort::Tool, "git") && hidden.may_match(Sort::Prompt, "git"));
        assert!(!hidden.may_match(Sort::Resource, "f"));
    }

    #[test]
    fn the_callers_word_wins_and_both_fix() {
        let with = |name: &str, rule: Rule| {
            let tools = BTreeMap::from([("git.log".to_owned(), rule)]);
            Some(Arc::new(View { name: name.into(), tools, ..View::default() }))
        };
        let json = |text: &'static str| crate::json::Json::parse(text).unwrap();
        let fixed = |all: &[(&str, &'static str)]| {
            all.iter().map(|(name, value)| ((*name).to_owned(), json(value))).collect()
        };
        let text = |text: &str| Some(text.to_owned());
        let front = Rule {
            rename: text("a"),
            description: text("front"),
            fixed: fixed(&[("x", "1"), ("y", "2")]),
            ..Rule::default()
        };
        let caller = Rule {
            rename: text("b"),
            append: text("more"),
            fixed: fixed(&[("y", "2"), ("z", "3")]),
            ..Rule::default()
        };
        let both = Selection::new(with("f", front.clone()), with("c", caller.clone())).unwrap();
        let rule = both.rule("git", "log").unwrap();
        assert_eq!(rule.rename.as_deref(), Some("b"));
        assert_eq!(rule.description_of(Some("own")).unwrap(), "front\n\nmore");
        assert_eq!(rule.fixed.names().collect::<Vec<_>>(), ["x", "y", "z"]);
        assert_eq!((both.fixed_twice(), both.same_name()), (None, None));
        let other = Rule { fixed: fixed(&[("y", "3")]), ..caller };
        let both = Selection::new(with("f", front), with("c", other)).unwrap();
        assert_eq!(both.fixed_twice(), Some(("git.log".to_owned(), "y".to_owned())));
    }

    #[test]
    fn two_tools_of_one_name_are_found() {
        let with = |names: Option<Names>, tools: &[(&str, &str)]| {
            let rule = |name: &str| Rule { rename: Some(name.to_owned()), ..Rule::default() };
            let tools = tools.iter().map(|(tool, name)| ((*tool).to_owned(), rule(name)));
            let view = View { names, tools: tools.collect(), ..View::default() };
            let same = of(Arc::new(view)).same_name()?;
            Some(format!("{} {} {}", same.tools[0], same.tools[1], same.name))
        };
        let two = [("git.log", "history"), ("files.show", "history")];
        assert_eq!(with(None, &two), None);
        assert_eq!(with(Some(Names::Plain), &two).unwrap(), "files.show git.log history");
        let two = [("git.show", "history"), ("git.log", "history")];
        assert_eq!(with(None, &two).unwrap(), "git.log git.show history");
    }
}
