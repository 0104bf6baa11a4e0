//! The schema of a tool's arguments, without those that a view fills in.

use super::Fixed;
use crate::json::edit;
use crate::jsonrpc::string;

/// The same schema for callers who must not give the fixed arguments: they leave `properties` and
/// `required`, which goes, too, if nothing else is required. Nothing else changes.
pub fn without_fixed(schema: &str, fixed: &Fixed) -> String {
    let mut schema = schema.to_owned();
    if let Some(properties) = edit::member(&schema, "properties") {
        let mut left = properties.to_owned();
        for name in fixed.names() {
            while let Some(less) = edit::removed(&left, name) {
                left = less;
            }
        }
        if left != properties
            && let Some(changed) = edit::replaced(&schema, "properties", &left)
        {
            schema = changed;
        }
    }
    let Some(required) = edit::member(&schema, "required") else { return schema };
    let is_fixed = |name: &str| string(name).is_some_and(|name| fixed.has(&name));
    if !edit::elements(required).any(is_fixed) {
        return schema;
    }
    let changed = match edit::elements(required).all(is_fixed) {
        true => edit::removed(&schema, "required"),
        false => {
            let left = edit::kept(required, |name| (!is_fixed(name)).then_some(name.into()));
            edit::replaced(&schema, "required", &left)
        }
    };
    changed.unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;

    #[test]
    fn fixed_arguments_are_not_asked_for() {
        let fixed = |names: &[&str]| -> Fixed {
            names.iter().map(|name| ((*name).to_owned(), Json::null())).collect()
        };
        for (schema, names, expected) in [
            (
                r#"{"type":"object", "properties":{"a":{"x":1e400} , "b" : {}},"required":["b","a"]}"#,
                &["a"][..],
                r#"{"type":"object", "properties":{"b" : {}},"required":["b"]}"#,
            ),
            (
                r#"{"properties":{"a":{},"b":{}},"required":["b"],"x":[]}"#,
                &["b"],
                r#"{"properties":{"a":{}},"x":[]}"#,
            ),
            (r#"{"properties":{"a":{}},"required":["a"]}"#, &["a"], r#"{"properties":{}}"#),
            (r#"{"properties":{"\u0061":{}}}"#, &["a"], r#"{"properties":{}}"#),
            (
                r#"{"properties":{"b":{}},"required":["b"]}"#,
                &["a"],
                r#"{"properties":{"b":{}},"required":["b"]}"#,
            ),
            (r#"{ "required" : [ "a" , "b", "c" ] }"#, &["b"], r#"{ "required" : [ "a", "c" ] }"#),
            (r#"{"required": ["a", "b", "c"]}"#, &["a"], r#"{"required": ["b", "c"]}"#),
            (r#"{"required": ["a", "b", "c"]}"#, &["c"], r#"{"required": ["a", "b"]}"#),
            ("true", &["a"], "true"),
            ("{}", &["a"], "{}"),
        ] {
            assert_eq!(without_fixed(schema, &fixed(names)), expected, "{schema}");
        }
    }
}
