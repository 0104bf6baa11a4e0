//! What tells two versions of a tool apart: a digest of its description, as the lock has them.

use std::collections::BTreeSet;

use super::translate;
use super::wire::{ListPage, ListedTool};
use crate::listing;
use crate::pin::{Digest, canonical};
use crate::tool::ToolSpec;

/// How many hexadecimal digits are told.
const DIGITS: usize = 32;

/// The digest of a tool, under the name that it has here.
pub(super) fn of_tool(spec: &ToolSpec) -> String {
    let text = listing::tool(spec);
    let canonical = canonical(text.as_str()).unwrap_or_else(|_| text.as_str().to_owned());
    shortened(canonical.as_bytes())
}

/// That of a list: of the digests in it, sorted.
pub(super) fn of_list<'a>(digests: impl Iterator<Item = &'a str>) -> String {
    let mut sorted: Vec<&str> = digests.collect();
    sorted.sort_unstable();
    shortened(sorted.join("\n").as_bytes())
}

fn shortened(bytes: &[u8]) -> String {
    let mut digits = Digest::of_bytes(bytes).hex();
    digits.truncate(DIGITS);
    digits
}

/// The list of a node that is read page by page by those who judge it.
#[derive(Debug, Default)]
pub struct JudgedList {
    digest: Option<String>,
    tools: Vec<ListedTool>,
}

impl JudgedList {
    /// One more page; gives the cursor of the next.
    pub fn take(&mut self, page: &[u8]) -> Result<Option<String>, String> {
        let page: ListPage = serde_json::from_slice(page).map_err(|why| why.to_string())?;
        let known = self.digest.get_or_insert_with(|| page.digest.clone());
        if *known != page.digest {
            return Err("its digest is another on another page".to_owned());
        }
        self.tools.extend(page.tools.ok_or("a page has no `tools`")?);
        Ok(page.next)
    }

    /// What is wrong with it, now that it is whole.
    pub fn judge(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for tool in &self.tools {
            let name = &tool.name;
            if !names.insert(name) {
                return Err(format!("`{name}` stands twice"));
            }
            let spec = translate::spec(tool, &[]);
            let spec = spec.ok_or_else(|| format!("`{name}` is no tool"))?;
            let (said, is) = (&tool.digest, of_tool(&spec));
            if *said != is {
                return Err(format!("the digest of `{name}` is \"{said}\", not \"{is}\""));
            }
        }
        let is = of_list(self.tools.iter().map(|tool| tool.digest.as_str()));
        match &self.digest {
            Some(said) if *said == is => Ok(()),
            said => Err(format!(
                "the digest of the list is \"{}\", not \"{is}\"",
                said.as_deref().unwrap_or_default()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;

    #[test]
    fn blanks_order_and_escapes_make_no_difference() {
        let spec = |input: &str| ToolSpec::new("x", Json::parse(input.to_owned()).unwrap());
        let digest = of_tool(&spec(r#"{"a":1,"b":2}"#));
        // `{"input":{"a":1,"b":2},"name":"x"}`
        assert_eq!(digest, "fc2c9b93749fdf8fa96de8550ab8b324");
        assert_eq!(of_tool(&spec(r#"{"b": 2, "\u0061": 1}"#)), digest);
        assert_ne!(of_tool(&spec(r#"{"a":1,"b":2.0}"#)), digest);
        assert_eq!(of_list(["b", "a"].into_iter()), of_list(["a", "b"].into_iter()));
    }

    #[test]
    fn a_list_is_judged_by_its_digests() {
        let spec = ToolSpec::new("x", Json::parse("{}").unwrap());
        let (tool, bad) = (of_tool(&spec), "0".repeat(DIGITS));
        let judged = |of_tool: &str, of_list: &str| {
            let mut list = JudgedList::default();
            let page = format!(
                r#"{{"digest":"{of_list}","tools":[{{"name":"x","input":{{}},"subject":"t.x","digest":"{of_tool}","back":"b"}}]}}"#
            );
            list.take(page.as_bytes()).unwrap();
            list.judge()
        };
        let list = of_list([tool.as_str()].into_iter());
        assert_eq!(judged(&tool, &list), Ok(()));
        assert!(judged(&bad, &list).unwrap_err().contains("the digest of `x`"));
        assert!(judged(&tool, &bad).unwrap_err().contains("the digest of the list"));
    }
}
