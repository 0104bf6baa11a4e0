//! Being a plugin: what one says of itself to its hub (`docs/protocols/orchestra.md` 11).

use bytes::Bytes;

use super::WIRE;
use super::envelope::{Envelope, request_body};
use super::protobuf::message::{Kind, print_name};
use super::wire::{PluginManifest, RegistrationResult, Response};
use crate::capture::Side;
use crate::json::Json;
use crate::tool::{Failure, Outcome, What};

/// The manifest of a toolbus with these tools.
pub fn manifest(id: &str, version: &str, provides_tools: Vec<String>) -> PluginManifest {
    PluginManifest {
        id: id.to_owned(),
        version: version.to_owned(),
        language: "rust".to_owned(),
        provides_tools,
        description: "tools of a toolbus".to_owned(),
        ..PluginManifest::default()
    }
}

/// The manifest as `--manifest` prints it: all keys, lists never null.
pub fn manifest_line(manifest: &PluginManifest) -> Json {
    let mut out = vec![b'{'];
    let mut print = |name: &str, value: &dyn Kind| {
        print_name(&mut out, name);
        value.print(&mut out);
    };
    print("id", &manifest.id);
    print("version", &manifest.version);
    print("description", &manifest.description);
    print("author", &manifest.author);
    print("language", &manifest.language);
    print("provides_tools", &manifest.provides_tools);
    print("provides_storage", &manifest.provides_storage);
    print("provides_transport", &manifest.provides_transport);
    print("provides_ai", &manifest.provides_ai);
    print("provides_prompts", &manifest.provides_prompts);
    print("needs_storage", &manifest.needs_storage);
    print("needs_ai", &manifest.needs_ai);
    print("needs_tools", &manifest.needs_tools);
    out.push(b'}');
    Json::from_trusted(out)
}

/// The request that tells a hub of us.
pub fn register(manifest: PluginManifest) -> What {
    let method = Bytes::from_static(b"register");
    What::Native { wire: WIRE, method, body: request_body(manifest) }
}

/// Does the hub have us? If not, why, for people.
pub fn registered(outcome: &Result<Outcome, Failure>) -> Result<(), String> {
    let reason = match outcome {
        Ok(Outcome::Native(body)) => {
            let response = Envelope::read(Side::Response, body).and_then(|it| it.response());
            match response {
                Ok(Some(Response::Register(RegistrationResult { accepted: true, .. }))) => {
                    return Ok(());
                }
                Ok(Some(Response::Register(result))) => result.reject_reason,
                _ => "unexpected response type".to_owned(),
            }
        }
        Ok(_) => "unexpected response type".to_owned(),
        Err(failure) => failure.message.clone(),
    };
    Err(format!("the orchestrator rejected our registration: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_printed_with_all_its_keys() {
        let line = manifest_line(&manifest("tools.bus", "0.1.0", vec!["echo".into()]));
        let expected = r#"{"id":"tools.bus","version":"0.1.0","description":"tools of a toolbus","author":"","language":"rust","provides_tools":["echo"],"provides_storage":[],"provides_transport":[],"provides_ai":[],"provides_prompts":[],"needs_storage":[],"needs_ai":[],"needs_tools":[]}"#;
        assert_eq!(line.as_str(), expected);
    }
}
