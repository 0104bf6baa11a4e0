//! The fields of a form as they are shown to the user, and what is typed into them as JSON.
//!
//! Nothing here reads or writes: `question.rs` does.

use toolbus_proto::did_you_mean::nearest;
use toolbus_proto::json::{Json, edit};

use crate::render::printable;
use crate::schema::{Choice, Parameter, Type};

const YES: [&str; 5] = ["yes", "y", "true", "t", "on"];
const NO: [&str; 5] = ["no", "n", "false", "f", "off"];

/// One field of a form.
pub(super) struct Field<'a> {
    parameter: &'a Parameter<'a>,
    /// What can be chosen, if not anything can be typed.
    choices: Vec<Choice>,
    /// Is the answer a list, typed with commas between its elements?
    is_list: bool,
}

/// What yes and no are, however they are typed.
pub(super) fn yes_or_no(typed: &str) -> Option<bool> {
    let is_one_of = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(typed));
    match (is_one_of(&YES), is_one_of(&NO)) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

impl<'a> Field<'a> {
    pub(super) fn of(parameter: &'a Parameter<'a>) -> Field<'a> {
        let is_array = parameter.types() == [Type::Array];
        let choices = match is_array {
            true => parameter.element_choices(),
            false => parameter.choices(),
        };
        let is_list =
            is_array && (!choices.is_empty() || parameter.element_types() == [Type::String]);
        Field { parameter, choices, is_list }
    }

    /// What stands before the cursor, the choices on lines of their own above it.
    pub(super) fn prompt(&self) -> String {
        let title = self.parameter.title();
        let mut about = title.as_deref().unwrap_or(&self.parameter.name).to_owned();
        if let Some(description) = self.parameter.description() {
            about += &format!(" ({description})");
        }
        let default = self.parameter.default().map(|default| format!(" [{}]", self.shown(default)));
        let is_optional = !self.parameter.required && default.is_none();
        let optional = if is_optional { ", may be empty" } else { "" };
        let default = default.unwrap_or_default();
        let (about, kind) = (about.replace('\n', " "), self.kind());
        let prompt = match self.choices.is_empty() {
            true => format!("{about}, {kind}{optional}{default}: "),
            false => {
                let choices = self.choices.iter().enumerate();
                let line = |(at, choice): (usize, &Choice)| {
                    format!("  {} {}\n", at + 1, choice.title.replace('\n', " "))
                };
                let choices: String = choices.map(line).collect();
                format!("{about}\n{choices}{kind}{optional}{default}: ")
            }
        };
        printable(&prompt).into_owned()
    }

    /// What can be typed, in a few words.
    fn kind(&self) -> String {
        let several = "with commas between them";
        match (self.choices.is_empty(), self.is_list) {
            (false, true) => format!("numbers or names, {several}"),
            (false, false) => "number or name".to_owned(),
            (true, true) => format!("texts, {several}"),
            (true, false) if self.is_boolean() => "yes or no".to_owned(),
            (true, false) => match self.format() {
                Some(format) => format.name.to_owned(),
                None => {
                    let limits = self.parameter.limits().map(|limits| format!(" {limits}"));
                    format!("{}{}", self.parameter.type_name(), limits.unwrap_or_default())
                }
            },
        }
    }

    /// The value as JSON, `None` if it is left out; or what is wanted instead of what was typed.
    pub(super) fn read(&self, typed: &str) -> Result<Option<String>, String> {
        let typed = typed.trim();
        if typed.is_empty() {
            return match self.parameter.default() {
                Some(default) => Ok(Some(default.to_owned())),
                None if !self.parameter.required => Ok(None),
                None if self.is_list && self.parameter.wanted("[]").is_none() => {
                    Ok(Some("[]".to_owned()))
                }
                None => Err("an answer is needed here".to_owned()),
            };
        }
        let value = match (self.choices.is_empty(), self.is_list) {
            (false, true) => self.chosen(typed)?,
            (false, false) => self.choice(typed)?.value.clone(),
            (true, true) => list(split(typed).map(|text| Json::of(text).to_string())),
            (true, false) if self.is_boolean() => match yes_or_no(typed) {
                Some(yes) => yes.to_string(),
                None => return Err("that must be yes or no".to_owned()),
            },
            (true, false) => self.parameter.read(typed),
        };
        if let Some(wanted) = self.parameter.wanted(&value) {
            return Err(format!("that must be {wanted}"));
        }
        match self.format() {
            Some(format) if !(format.fits)(typed) => Err(format!("that must be {}", format.wanted)),
            _ => Ok(Some(value)),
        }
    }

    fn is_boolean(&self) -> bool {
        self.parameter.types() == [Type::Boolean]
    }

    /// Several of the choices.
    fn chosen(&self, typed: &str) -> Result<String, String> {
        // A name may have commas in it.
        if let Some(only) = self.found(typed) {
            return Ok(list([only.value.clone()]));
        }
        let mut chosen: Vec<String> = Vec::new();
        for name in split(typed) {
            let value = &self.choice(name)?.value;
            if !chosen.contains(value) {
                chosen.push(value.clone());
            }
        }
        Ok(list(chosen))
    }

    fn choice(&self, typed: &str) -> Result<&Choice, String> {
        self.found(typed).ok_or_else(|| {
            let names = self.choices.iter().map(|choice| choice.title.as_str());
            let way_out = match nearest(typed, names) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("type a number from 1 to {}, or a name", self.choices.len()),
            };
            printable(&format!("`{typed}` is none of them: {way_out}")).into_owned()
        })
    }

    /// By its value, its title or its number, in this order: a value may be a number, too.
    fn found(&self, typed: &str) -> Option<&Choice> {
        let by = |is_it: &dyn Fn(&Choice) -> bool| self.choices.iter().find(|choice| is_it(choice));
        let lower = typed.to_lowercase();
        by(&|choice| shown(&choice.value) == typed)
            .or_else(|| by(&|choice| choice.title == typed))
            .or_else(|| by(&|choice| shown(&choice.value).to_lowercase() == lower))
            .or_else(|| by(&|choice| choice.title.to_lowercase() == lower))
            .or_else(|| self.choices.get(typed.parse::<usize>().ok()?.checked_sub(1)?))
    }

    /// A default as people would type it.
    fn shown(&self, value: &str) -> String {
        let title = |value: &str| {
            let choice = self.choices.iter().find(|choice| shown(&choice.value) == shown(value));
            choice.map_or_else(|| shown(value), |choice| choice.title.clone())
        };
        match value {
            "true" if self.is_boolean() => "yes".to_owned(),
            "false" if self.is_boolean() => "no".to_owned(),
            list if self.is_list => edit::elements(list).map(title).collect::<Vec<_>>().join(", "),
            value => title(value),
        }
    }

    fn format(&self) -> Option<&'static Format> {
        if self.parameter.types() != [Type::String] {
            return None;
        }
        let name = self.parameter.format()?;
        FORMATS.iter().find(|format| format.format == name)
    }
}

fn split(typed: &str) -> impl Iterator<Item = &str> {
    typed.split(',').map(str::trim).filter(|name| !name.is_empty())
}

fn list(values: impl IntoIterator<Item = String>) -> String {
    let values: Vec<_> = values.into_iter().collect();
    format!("[{}]", values.join(","))
}

fn shown(json: &str) -> String {
    Json::parse(json.to_owned()).map_or(String::new(), |json| json.shown())
}

/// A format of texts that forms know.
struct Format {
    format: &'static str,
    /// For the prompt.
    name: &'static str,
    /// For those who typed something else.
    wanted: &'static str,
    fits: fn(&str) -> bool,
}

static FORMATS: [Format; 4] = [
    Format {
        format: "email",
        name: "e-mail address",
        wanted: "an e-mail address, such as ada@example.org",
        fits: is_email,
    },
    Format {
        format: "uri",
        name: "URI",
        wanted: "a URI, such as https://example.org/",
        fits: is_uri,
    },
    Format {
        format: "date",
        name: "date (YYYY-MM-DD)",
        wanted: "a date, such as 2026-07-28",
        fits: is_date,
    },
    Format {
        format: "date-time",
        name: "date and time (YYYY-MM-DDThh:mm:ssZ)",
        wanted: "a date and time with its zone, such as 2026-07-28T09:30:00Z",
        fits: is_date_time,
    },
];

/// Whatever stands around an `@`: who has which address only the mail knows.
fn is_email(text: &str) -> bool {
    let is_blank = text.contains(|c: char| c.is_whitespace() || c.is_control());
    let parts = text.rsplit_once('@');
    !is_blank
        && parts.is_some_and(|(who, domain)| {
            !who.is_empty() && !domain.is_empty() && !domain.split('.').any(str::is_empty)
        })
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme && !rest.is_empty() && !rest.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn is_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let (Some(year), Some(month), Some(day), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2))
    else {
        return false;
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 0,
    };
    1 <= day && day <= days
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else { return false };
    let (time, zone) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, "00:00"),
        None => match time.rfind(['+', '-']) {
            Some(at) => (&time[..at], &time[at + 1..]),
            None => return false,
        },
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    // A minute may have a leap second.
    is_date(date) && is_fraction && is_clock(time, &[23, 59, 60]) && is_clock(zone, &[23, 59])
}

/// Two digits each, up to these, with colons between them.
fn is_clock(text: &str, most: &[u32]) -> bool {
    let parts: Vec<_> = text.split(':').collect();
    parts.len() == most.len()
        && parts.iter().zip(most).all(|(part, most)| digits(part, 2).is_some_and(|n| n <= *most))
}

fn digits(text: &str, count: usize) -> Option<u32> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Parameters;

    fn with<T>(schema: &str, required: bool, then: impl FnOnce(&Field<'_>) -> T) -> T {
        let required = if required { r#"["a"]"# } else { "[]" };
        let schema = format!(r#"{{"properties":{{"a":{schema}}},"required":{required}}}"#);
        let schema = Json::parse(schema).unwrap();
        let parameters = Parameters::of(&schema);
        then(&Field::of(parameters.find("a").unwrap()))
    }

    fn read(schema: &str, typed: &str) -> String {
        with(schema, true, |field| match field.read(typed) {
            Ok(Some(value)) => value,
            Ok(None) => "left out".to_owned(),
            Err(wanted) => wanted,
        })
    }

    const COLORS: &str = r##"{"type":"string","oneOf":[{"const":"#f00","title":"Red"},{"const":"#0f0","title":"Green, light"},{"const":"2","title":"Two"}]}"##;
    const BAND: &str = r#"{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["Guitar","Bass","Drums"]},"default":["Guitar","Bass"]}"#;

    #[test]
    fn what_is_typed_becomes_what_the_form_wants() {
        let number = r#"{"type":"integer","minimum":1,"maximum":5}"#;
        let none_of = "`x` is none of them: type a number from 1 to 3, or a name";
        for (schema, typed, expected) in [
            (r#"{"type":"boolean"}"#, "y", "true"),
            (r#"{"type":"boolean"}"#, "Yes", "true"),
            (r#"{"type":"boolean"}"#, "TRUE", "true"),
            (r#"{"type":"boolean"}"#, "n", "false"),
            (r#"{"type":"boolean"}"#, " no ", "false"),
            (r#"{"type":"boolean"}"#, "false", "false"),
            (r#"{"type":"boolean"}"#, "1", "that must be yes or no"),
            (r#"{"type":"boolean"}"#, "9", "that must be yes or no"),
            (r#"{"type":"boolean"}"#, "", "an answer is needed here"),
            (r#"{"type":"boolean","default":false}"#, "", "false"),
            (number, "5", "5"),
            (number, "9", "that must be an integer from 1 to 5"),
            (number, "2.5", "that must be an integer from 1 to 5"),
            (number, "two", "that must be an integer from 1 to 5"),
            (r#"{"type":"number"}"#, "1.50", "1.50"),
            (r#"{"type":"number"}"#, "true", "that must be a number"),
            (r#"{"type":"string"}"#, "12", r#""12""#),
            (r#"{"type":"string"}"#, "true", r#""true""#),
            (
                r#"{"type":"string","minLength":3}"#,
                "ab",
                "that must be a string of at least 3 characters",
            ),
            (
                r#"{"type":"string","maxLength":1}"#,
                "ab",
                "that must be a string of at most 1 character",
            ),
            (COLORS, "1", r##""#f00""##),
            (COLORS, "red", r##""#f00""##),
            (COLORS, "#f00", r##""#f00""##),
            // It is a value.
            (COLORS, "2", r#""2""#),
            (COLORS, "3", r#""2""#),
            (COLORS, "Rad", "`Rad` is none of them: did you mean `Red`?"),
            (COLORS, "0", "`0` is none of them: type a number from 1 to 3, or a name"),
            (r#"{"enum":["a","b"],"enumNames":["Ann","Bob"]}"#, "Bob", r#""b""#),
            (r#"{"enum":[10,20]}"#, "20", "20"),
            (r#"{"enum":[10,20]}"#, "1", "10"),
            (BAND, "1, drums", r#"["Guitar","Drums"]"#),
            (BAND, "Bass,Bass,2", r#"["Bass"]"#),
            (BAND, "1,2,3", "that must be an array of 1 to 2 elements"),
            (BAND, "1,x", none_of),
            (BAND, "", r#"["Guitar","Bass"]"#),
            (
                r#"{"type":"array","items":{"anyOf":[{"const":"a","title":"A, first"},{"const":"b","title":"B"}]}}"#,
                "A, first",
                r#"["a"]"#,
            ),
            (r#"{"type":"array","items":{"enum":["a"]}}"#, "", "[]"),
            (r#"{"type":"array","items":{"type":"string"}}"#, "a, b,", r#"["a","b"]"#),
            (r#"{"type":"array","items":{"type":"integer"}}"#, "[1]", "[1]"),
            (r#"{"type":"array","items":{"type":"integer"}}"#, "1", "that must be an array"),
        ] {
            assert_eq!(read(schema, typed), expected, "{schema} {typed}");
        }
        let left_out = with(r#"{"type":"string"}"#, false, |field| field.read(""));
        assert_eq!(left_out, Ok(None));
    }

    #[test]
    fn texts_have_their_formats() {
        for (format, fitting, others, wanted) in [
            (
                "email",
                &["ada@example.org", "a+b@localhost"][..],
                &["ada", "@example.org", "ada@", "a b@c", "ada@example..org"][..],
                "that must be an e-mail address, such as ada@example.org",
            ),
            (
                "uri",
                &["https://example.org/a?b", "mailto:ada@example.org", "urn:x"],
                &["example.org", "https:", "a b://c", "1x:y"],
                "that must be a URI, such as https://example.org/",
            ),
            (
                "date",
                &["2024-02-29", "2026-12-31"],
                &["2026-02-29", "2026-13-01", "26-01-01", "2026-1-1", "2026-01-00", "tomorrow"],
                "that must be a date, such as 2026-07-28",
            ),
            (
                "date-time",
                &["2026-07-28T09:30:00Z", "2026-07-28t09:30:00.25+02:00", "2026-07-28 23:59:60z"],
                &["2026-07-28", "2026-07-28T09:30Z", "2026-07-28T24:00:00Z", "2026-07-28T09:30:00"],
                "that must be a date and time with its zone, such as 2026-07-28T09:30:00Z",
            ),
        ] {
            let schema = format!(r#"{{"type":"string","format":"{format}"}}"#);
            for typed in fitting {
                assert_eq!(read(&schema, typed), Json::of(typed).to_string(), "{format}");
            }
            for typed in others {
                assert_eq!(read(&schema, typed), wanted, "{typed}");
            }
        }
        assert_eq!(read(r#"{"type":"string","format":"new"}"#, "x"), r#""x""#);
    }

    #[test]
    fn a_prompt_says_what_can_be_typed() {
        fn prompted(field: &Field<'_>) -> String {
            field.prompt()
        }
        let prompt = |schema: &str, required| with(schema, required, prompted);
        for (schema, expected) in [
            (r#"{"type":"string"}"#, "a, string, may be empty: "),
            (
                r#"{"type":"string","title":"Name","description":"Yours"}"#,
                "Name (Yours), string, may be empty: ",
            ),
            (r#"{"type":"boolean","default":true}"#, "a, yes or no [yes]: "),
            (
                r#"{"type":"integer","minimum":1,"maximum":5,"default":3}"#,
                "a, integer from 1 to 5 [3]: ",
            ),
            (
                r#"{"type":"string","minLength":2,"maxLength":9,"default":"x"}"#,
                "a, string of 2 to 9 characters [x]: ",
            ),
            (r#"{"type":"string","format":"date"}"#, "a, date (YYYY-MM-DD), may be empty: "),
            (r#"{"type":"string","title":"x\u001b[2J"}"#, "x\\x1b[2J, string, may be empty: "),
            (COLORS, "a\n  1 Red\n  2 Green, light\n  3 Two\nnumber or name, may be empty: "),
            (
                BAND,
                "a\n  1 Guitar\n  2 Bass\n  3 Drums\nnumbers or names, with commas between them [Guitar, Bass]: ",
            ),
        ] {
            assert_eq!(prompt(schema, false), expected, "{schema}");
        }
        let required = prompt(r#"{"enum":["a"],"default":"a"}"#, true);
        assert_eq!(required, "a\n  1 a\nnumber or name [a]: ");
    }
}
