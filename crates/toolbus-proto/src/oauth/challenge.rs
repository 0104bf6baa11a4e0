//! What a server that answers 401 or 403 asks for: the challenges of `WWW-Authenticate`.

use crate::http::ResponseHead;

/// What the first challenge for a bearer token says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Challenge {
    /// Where the server says who signs in for it.
    pub resource_metadata: Option<String>,
    /// The scopes that it wants.
    pub scope: Option<String>,
    /// What is wrong with the token that came.
    pub error: Option<String>,
}

impl Challenge {
    /// The first challenge for a bearer token in all that stands in an answer's head.
    pub fn of(head: &ResponseHead) -> Option<Challenge> {
        head.headers.all("www-authenticate").find_map(bearer)
    }

    /// The scopes one by one.
    pub fn scopes(&self) -> Vec<String> {
        words(self.scope.as_deref().unwrap_or_default())
    }
}

/// Scopes one by one, without doubles.
pub fn words(scope: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in scope.split_ascii_whitespace() {
        if !words.iter().any(|known| known == word) {
            words.push(word.to_owned());
        }
    }
    words
}

/// The first challenge for a bearer token in one header field.
fn bearer(field: &str) -> Option<Challenge> {
    let mut rest = Rest(field);
    let mut found: Option<Challenge> = None;
    loop {
        rest.skip(|c| c == ' ' || c == '\t' || c == ',');
        if rest.0.is_empty() {
            return found;
        }
        let word = rest.word();
        if word.is_empty() {
            // What no challenge can hold is passed over.
            rest.drop_one();
            continue;
        }
        rest.skip(is_blank);
        if !rest.0.starts_with('=') {
            // A scheme: what follows is its own.
            if found.is_some() {
                return found;
            }
            found = word.eq_ignore_ascii_case("bearer").then(Challenge::default);
            continue;
        }
        rest.skip(|c| c == '=');
        rest.skip(is_blank);
        let value = match rest.0.starts_with('"') {
            true => rest.quoted(),
            false => rest.value().to_owned(),
        };
        if let Some(challenge) = &mut found {
            let place = match word.to_ascii_lowercase().as_str() {
                "resource_metadata" => &mut challenge.resource_metadata,
                "scope" => &mut challenge.scope,
                "error" => &mut challenge.error,
                _ => continue,
            };
            place.get_or_insert(value);
        }
    }
}

fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn skip(&mut self, is_it: impl Fn(char) -> bool) {
        self.0 = self.0.trim_start_matches(is_it);
    }

    fn drop_one(&mut self) {
        let mut chars = self.0.chars();
        chars.next();
        self.0 = chars.as_str();
    }

    /// Up to the next separator.
    fn word(&mut self) -> &'a str {
        self.until(|c| is_blank(c) || matches!(c, ',' | '=' | '"'))
    }

    /// A value that should have been quoted, such as a URL.
    fn value(&mut self) -> &'a str {
        self.until(|c| is_blank(c) || c == ',')
    }

    fn until(&mut self, ends: impl Fn(char) -> bool) -> &'a str {
        let (word, rest) = self.0.split_at(self.0.find(ends).unwrap_or(self.0.len()));
        self.0 = rest;
        word
    }

    fn quoted(&mut self) -> String {
        self.drop_one();
        let mut value = String::new();
        let mut chars = self.0.chars();
        while let Some(c) = chars.next() {
            match c {
                '"' => break,
                '\\' => value.extend(chars.next()),
                c => value.push(c),
            }
        }
        self.0 = chars.as_str();
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(fields: &[&str]) -> String {
        let mut head = ResponseHead::new(401);
        head.headers.extend(fields.iter().map(|field| ("WWW-Authenticate", *field)));
        match Challenge::of(&head) {
            Some(Challenge { resource_metadata, scope, error }) => {
                let shown = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
                format!("{} | {} | {}", shown(resource_metadata), shown(scope), shown(error))
            }
            None => "none".to_owned(),
        }
    }

    #[test]
    fn the_first_bearer_challenge_counts_wherever_it_stands() {
        assert_eq!(told(&[]), "none");
        assert_eq!(told(&["Basic realm=\"x\""]), "none");
        assert_eq!(told(&["Bearer"]), "- | - | -");
        let given = r#"bEARER resource_metadata="https://a/x", scope="a b", error="invalid_token""#;
        assert_eq!(told(&[given]), "https://a/x | a b | invalid_token");
        assert_eq!(told(&["Basic realm=x", "Bearer scope=a"]), "- | a | -");
        assert_eq!(
            told(&[r#"Basic realm="x, Bearer scope=no", Bearer scope="yes""#]),
            "- | yes | -"
        );
        assert_eq!(told(&[r#"Bearer scope="a", Basic realm="b", Bearer scope="c""#]), "- | a | -");
        assert_eq!(told(&["Negotiate YWJj==, Bearer scope=a"]), "- | a | -");
        assert_eq!(told(&[r#"Digest qop="a,b", scope="no", Bearer error=x"#]), "- | - | x");
    }

    #[test]
    fn values_are_quoted_or_not() {
        assert_eq!(
            told(&["Bearer resource_metadata=https://a/b?c=d, scope=x"]),
            "https://a/b?c=d | x | -"
        );
        assert_eq!(told(&[r#"Bearer scope="a \"b\" \\c""#]), r#"- | a "b" \c | -"#);
        assert_eq!(told(&[r#"Bearer scope = "a,b" ,error = x"#]), "- | a,b | x");
        assert_eq!(told(&[r#"Bearer scope="never ends"#]), "- | never ends | -");
        assert_eq!(told(&[r#"Bearer scope="first", scope="second""#]), "- | first | -");
    }

    #[test]
    fn scopes_have_no_doubles() {
        assert_eq!(words(" a  b a c "), ["a", "b", "c"]);
    }
}
