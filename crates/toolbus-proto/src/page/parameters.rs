//! The query of a request: known parameters, each once, percent-encoded.

use thiserror::Error;

/// So long a query may be.
pub const QUERY_BYTES_MAX: usize = 8192;

/// What a request says behind its `?`.
#[derive(Debug, Default)]
pub struct Parameters(Vec<(&'static str, String)>);

/// What is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum ParameterError {
    #[error("there is no parameter `{name}`; it can be {known}")]
    Unknown { name: String, known: String },
    #[error("there is no parameter `{name}`: there is none at all")]
    None { name: String },
    #[error("the parameter `{0}` stands there twice")]
    Twice(&'static str),
    #[error("the parameter `{0}` is not percent-encoded UTF-8")]
    NotText(String),
    #[error("the parameter `{0}` is missing")]
    Missing(&'static str),
    #[error("the parameter `{name}` must be {expected}")]
    NotIt { name: &'static str, expected: &'static str },
}

impl Parameters {
    /// Reads a query that may have these.
    pub fn read(query: Option<&str>, known: &[&'static str]) -> Result<Parameters, ParameterError> {
        let mut read = Parameters::default();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let named = decoded(name).ok_or_else(|| ParameterError::NotText(name.to_owned()))?;
            let Some(name) = known.iter().find(|known| **known == named) else {
                return Err(match known {
                    [] => ParameterError::None { name: named },
                    _ => ParameterError::Unknown { name: named, known: known.join(", ") },
                });
            };
            if read.get(name).is_some() {
                return Err(ParameterError::Twice(name));
            }
            let value = decoded(value).ok_or(ParameterError::NotText(named))?;
            read.0.push((name, value));
        }
        Ok(read)
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// One that has to be there.
    pub fn need(&self, name: &'static str) -> Result<&str, ParameterError> {
        self.get(name).ok_or(ParameterError::Missing(name))
    }

    /// A whole number.
    pub fn number(
        &self,
        name: &'static str,
        expected: &'static str,
    ) -> Result<Option<u64>, ParameterError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| is_number);
        number.map(Some).ok_or(ParameterError::NotIt { name, expected })
    }

    /// How much is asked for at once: 100, unless said otherwise.
    pub fn limit(&self) -> Result<usize, ParameterError> {
        let expected = "an integer from 1 to 500";
        match self.number("limit", expected)? {
            None => Ok(100),
            Some(limit @ 1..=500) => Ok(limit as usize),
            Some(_) => Err(ParameterError::NotIt { name: "limit", expected }),
        }
    }

    /// Yes or no; no, unless it is said.
    pub fn flag(&self, name: &'static str) -> Result<bool, ParameterError> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(ParameterError::NotIt { name, expected: "`true` or `false`" }),
        }
    }
}

/// The text, or `None` if it is not percent-encoded UTF-8. A `+` is a blank, as forms write it.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = rest.split_at_checked(2)?;
                let is_hex = digits.0.iter().all(u8::is_ascii_hexdigit);
                let digit = str::from_utf8(digits.0).ok().filter(|_| is_hex)?;
                bytes.push(u8::from_str_radix(digit, 16).ok()?);
                rest = digits.1;
            }
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_ones_are_read_and_others_are_told() {
        const KNOWN: [&str; 3] = ["filter", "limit", "values"];
        let read = Parameters::read(Some("filter=back%3Agit+%C3%BC&limit=7&"), &KNOWN).unwrap();
        assert_eq!(read.get("filter"), Some("back:git ü"));
        assert_eq!((read.limit(), read.flag("values")), (Ok(7), Ok(false)));
        assert_eq!(Parameters::read(None, &[]).unwrap().limit(), Ok(100));
        for (query, expected) in [
            ("x=1", "there is no parameter `x`; it can be filter, limit, values"),
            ("token=secret", "there is no parameter `token`; it can be filter, limit, values"),
            ("filter", ""),
            ("filter=a&filter=b", "the parameter `filter` stands there twice"),
            ("filter=%zz", "the parameter `filter` is not percent-encoded UTF-8"),
            ("filter=%", "the parameter `filter` is not percent-encoded UTF-8"),
            ("filter=%+1", "the parameter `filter` is not percent-encoded UTF-8"),
            ("filter=%ff", "the parameter `filter` is not percent-encoded UTF-8"),
        ] {
            let told = Parameters::read(Some(query), &KNOWN);
            let told = told.map_or_else(|error| error.to_string(), |_| String::new());
            assert_eq!(told, expected, "{query}");
        }
        for query in ["limit=0", "limit=501", "limit=-1", "limit=x", "limit=", "limit=+5"] {
            let read = Parameters::read(Some(query), &KNOWN).unwrap();
            let told = read.limit().unwrap_err().to_string();
            assert_eq!(told, "the parameter `limit` must be an integer from 1 to 500", "{query}");
        }
        let told = Parameters::read(Some("values=yes"), &KNOWN).unwrap().flag("values");
        assert_eq!(
            told.unwrap_err().to_string(),
            "the parameter `values` must be `true` or `false`"
        );
        let told = Parameters::read(Some("x"), &[]).unwrap_err().to_string();
        assert_eq!(told, "there is no parameter `x`: there is none at all");
    }
}
