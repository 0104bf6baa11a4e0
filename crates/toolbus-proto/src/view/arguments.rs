//! Arguments of a call, with those filled in that a view has fixed.

use super::Fixed;
use crate::json::{Json, edit};
use crate::tool::{Failure, FailureKind, ToolName};

/// What is changed about a call of a tool in the words of a wire, once its limits have let it through.
#[derive(Debug)]
pub struct Changed {
    /// What its back calls the tool.
    pub own: ToolName,
    /// The parameters that the back gets, if they are others than those of the caller; or what is
    /// wrong with these.
    pub params: Result<Option<String>, Failure>,
}

/// The arguments of a call of the tool that its caller knows as `name`, with the fixed ones behind
/// its own, which keep their bytes. A caller may give none that is fixed.
pub fn filled_in(name: &str, given: Option<&Json>, fixed: &Fixed) -> Result<Json, Failure> {
    let text = given.filter(|given| !given.is_null()).map_or("{}", Json::as_str);
    let room = room_for_fixed(name, text, fixed)?;
    let (before, behind) = text.as_bytes().split_at(room.at);
    let mut filled = Vec::with_capacity(text.len() + 1 + fixed.as_members().len());
    filled.extend_from_slice(before);
    if room.is_behind_others && !fixed.is_empty() {
        filled.push(b',');
    }
    filled.extend_from_slice(fixed.as_members().as_bytes());
    filled.extend_from_slice(behind);
    Ok(Json::from_trusted(filled))
}

/// Where fixed arguments go in.
pub(crate) struct Room {
    /// Behind the last member of the caller, or behind the brace.
    pub(crate) at: usize,
    /// There is a member before them.
    pub(crate) is_behind_others: bool,
}

/// Where fixed arguments go into what a caller gives; or what is wrong with that. It is looked
/// through once.
pub(crate) fn room_for_fixed(name: &str, given: &str, fixed: &Fixed) -> Result<Room, Failure> {
    let wrong = |message: String| Failure::new(FailureKind::InvalidArguments, message);
    // No value of JSON that we hold has blanks around it.
    if !given.starts_with('{') {
        return Err(wrong(format!("`{name}` takes an object of arguments")));
    }
    let mut room = Room { at: 1, is_behind_others: false };
    for (key, value) in edit::raw_members(given) {
        if let Some(key) = crate::jsonrpc::string(key).filter(|key| fixed.has(key)) {
            return Err(wrong(format!("`{name}` takes no argument `{key}`")));
        }
        room = Room { at: edit::offset(given, value) + value.len(), is_behind_others: true };
    }
    Ok(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(all: &[(&str, &str)]) -> Fixed {
        let json = |text: &str| Json::parse(text.to_owned()).unwrap();
        all.iter().map(|(name, value)| ((*name).to_owned(), json(value))).collect()
    }

    #[test]
    fn fixed_arguments_follow_those_of_the_caller_sorted() {
        let fixed = fixed(&[("repo", r#""/srv""#), ("deep", r#"{"a":[1]}"#)]);
        let tail = r#""deep":{"a":[1]},"repo":"/srv""#;
        for (given, expected) in [
            (None, format!("{{{tail}}}")),
            (Some("null"), format!("{{{tail}}}")),
            (Some("{}"), format!("{{{tail}}}")),
            (Some("{ }"), format!("{{{tail} }}")),
            (Some(r#"{"n":1e400}"#), format!(r#"{{"n":1e400,{tail}}}"#)),
            (Some(r#"{ "\u006e" : 1.0 }"#), format!(r#"{{ "\u006e" : 1.0,{tail} }}"#)),
        ] {
            let given = given.map(|given| Json::parse(given.to_owned()).unwrap());
            assert_eq!(filled_in("t", given.as_ref(), &fixed).unwrap().as_str(), expected);
        }
    }

    #[test]
    fn a_caller_cannot_say_what_is_fixed() {
        let fixed = fixed(&[("repo", "1")]);
        for given in [
            r#"{"repo":1}"#,
            r#"{"rep\u006f":null}"#,
            r#"{"a":{},"a":1,"\u0072\u0065\u0070\u006f":2}"#,
        ] {
            let given = Json::parse(given).unwrap();
            let failure = filled_in("history", Some(&given), &fixed).unwrap_err();
            assert_eq!(failure.kind, FailureKind::InvalidArguments);
            assert_eq!(failure.message, "`history` takes no argument `repo`");
        }
        for given in ["[]", "1", r#""repo""#, "true"] {
            let given = Json::parse(given).unwrap();
            let failure = filled_in("history", Some(&given), &fixed).unwrap_err();
            assert_eq!(failure.message, "`history` takes an object of arguments");
        }
        // What only looks like it is another.
        let given = Json::parse(r#"{"Repo":1,"repo ":{"repo":1},"re":["repo"]}"#).unwrap();
        assert!(filled_in("history", Some(&given), &fixed).is_ok());
    }
}
