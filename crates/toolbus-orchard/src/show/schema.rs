//! What a provider has, for reading and as JSON Schema.

use std::fmt::Write as _;

use toolbus_proto::json::write_string;
use toolbus_proto::orchard::schema::{Attr, Attrs, ProviderSchema, json_schema_of};
use toolbus_proto::orchard::translate::tool;

/// The provider's config and actions, for reading.
pub fn schema_text(schema: &ProviderSchema) -> String {
    let mut out = format!("provider: {} {}\n", schema.name, schema.version).replace(" \n", "\n");
    if !schema.extensions.is_empty() {
        let _ = writeln!(out, "extensions: {}", schema.extensions.join(", "));
    }
    if !schema.config.is_empty() {
        out.push_str("\nconfig:\n");
        attrs(&mut out, "  ", &schema.config);
    }
    for (name, action) in &schema.actions {
        let _ = writeln!(out, "\naction {name}{}", described(action.description.as_deref()));
        attrs(&mut out, "  ", &action.attrs);
        if let Some(outputs) = &action.outputs {
            let sensitive = if outputs.sensitive { ", sensitive" } else { "" };
            let _ = writeln!(out, "  -> {}{sensitive}", outputs.ty);
        }
    }
    out
}

fn attrs(out: &mut String, indent: &str, attrs: &Attrs) {
    for (name, Attr { ty, required, default, description, sensitive }) in attrs {
        let _ = write!(out, "{indent}{name} {ty}");
        if *required {
            out.push_str(", required");
        }
        if let Some(default) = default {
            let _ = write!(out, " = {default}");
        }
        if *sensitive {
            out.push_str(", sensitive");
        }
        let _ = writeln!(out, "{}", described(description.as_deref()));
    }
}

fn described(description: Option<&str>) -> String {
    // One line each: what a description says on further lines is for others.
    let first = description.and_then(|description| description.lines().next());
    first.map_or(String::new(), |first| format!(": {first}"))
}

/// The same as one line of JSON, with JSON Schemas.
pub fn json_schema(schema: &ProviderSchema) -> String {
    let mut out = Vec::new();
    let push = |out: &mut Vec<u8>, text: &str| out.extend_from_slice(text.as_bytes());
    push(&mut out, "{\"name\":");
    write_string(&mut out, &schema.name);
    push(&mut out, ",\"version\":");
    write_string(&mut out, &schema.version);
    push(&mut out, ",\"config\":");
    push(&mut out, json_schema_of(&schema.config).as_str());
    push(&mut out, ",\"actions\":{");
    for (index, (name, action)) in schema.actions.iter().enumerate() {
        push(&mut out, if index == 0 { "" } else { "," });
        write_string(&mut out, name);
        let spec = tool(name, action);
        push(&mut out, ":{");
        if let Some(description) = &spec.description {
            push(&mut out, "\"description\":");
            write_string(&mut out, description);
            push(&mut out, ",");
        }
        push(&mut out, "\"input\":");
        push(&mut out, spec.input.as_str());
        if let Some(output) = &spec.output {
            push(&mut out, ",\"output\":");
            push(&mut out, output.as_str());
        }
        push(&mut out, "}");
    }
    push(&mut out, "}}\n");
    String::from_utf8_lossy(&out).into_owned()
}
