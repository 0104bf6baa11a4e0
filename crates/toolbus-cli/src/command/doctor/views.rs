//! What `toolbus doctor` says of views and callers.

use toolbus::bus::config::{CallerConfig, Config};
use toolbus::bus::view::{ViewOrCaller, Warning};
use toolbus::bus::{Bus, Listed};
use toolbus_engine::secrets::masked;
use toolbus_proto::json::Json;

use crate::args::Globals;
use crate::failed::Failed;
use crate::render::{self, printable};

/// A line for each view and each caller, in the order of the file, and one for each note about it.
/// Tells whether that is good.
pub(super) fn tell(
    bus: &Bus,
    config: &Config,
    listed: &[Listed],
    globals: &Globals,
) -> Result<bool, Failed> {
    let mut all_well = true;
    let mut text = String::new();
    for told in &config.views_and_callers {
        match told {
            ViewOrCaller::View(name) => {
                all_well &= view(&mut text, bus, config, listed, name, globals.json);
            }
            ViewOrCaller::Caller(name) => {
                let of_name = |caller: &&CallerConfig| caller.name == *name;
                if let Some(caller) = config.callers.iter().find(of_name) {
                    let notes = bus.limits_told(caller, listed);
                    put_caller(&mut text, config, caller, notes, globals.json);
                }
            }
        }
    }
    render::print(&masked(&text))?;
    Ok(all_well)
}

fn view(
    text: &mut String,
    bus: &Bus,
    config: &Config,
    listed: &[Listed],
    name: &str,
    json: bool,
) -> bool {
    let Some(view) = config.views.iter().find(|view| *view.name == *name) else { return true };
    let told = bus.view_told(view, listed);
    let what = Of { kind: "view", name };
    match (&told.taken, json) {
        (None, false) => {
            text.push_str(&format!("ok view {name}: {} of {} tools\n", told.shown, told.of));
        }
        (None, true) => {
            let (tools, of) = (told.shown, told.of);
            text.push_str(&what.json(&format!(r#""outcome":"ok","tools":{tools},"of":{of}"#)));
        }
        (Some(taken), false) => {
            let taken = taken.strip_prefix(&format!("view {name}: ")).unwrap_or(taken);
            text.push_str(&format!("FAIL view {name}: {}\n", printable(taken)));
        }
        (Some(taken), true) => {
            let taken = taken.strip_prefix(&format!("view {name}: ")).unwrap_or(taken);
            text.push_str(&what.json(&format!(r#""outcome":"fail","why":{}"#, Json::of(taken))));
        }
    }
    told.warnings.iter().for_each(|warning| what.put_note(text, &warning.what, json));
    told.taken.is_none()
}

fn put_caller(
    text: &mut String,
    config: &Config,
    caller: &CallerConfig,
    notes: Vec<Warning>,
    json: bool,
) {
    let name = caller.name.as_str();
    let lets_in = |front: &&toolbus::bus::config::FrontConfig| {
        front.callers.as_ref().is_some_and(|callers| callers.contains(&caller.name))
    };
    let fronts = config.fronts.iter().filter(lets_in);
    let fronts: Vec<&str> = fronts.map(|front| front.name.as_str()).collect();
    let what = Of { kind: "caller", name };
    if json {
        let credentials = Json::of(&caller.known_by);
        let view = caller.view.as_ref().map(|view| format!(r#","view":{}"#, Json::of(view)));
        text.push_str(&what.json(&format!(
            r#""outcome":"ok","credentials":{credentials}{},"fronts":{}"#,
            view.unwrap_or_default(),
            Json::of(&fronts)
        )));
    } else {
        let mut parts: Vec<String> = caller.known_by.iter().map(ToString::to_string).collect();
        parts.extend(caller.view.as_ref().map(|view| format!("view {view}")));
        if !fronts.is_empty() {
            parts.push(format!("fronts {}", fronts.join(", ")));
        }
        let colon = if parts.is_empty() { "" } else { ": " };
        text.push_str(&format!("ok caller {name}{colon}{}\n", parts.join(", ")));
    }
    if fronts.is_empty() {
        what.put_note(text, "no front lets it in", json);
    }
    notes.iter().for_each(|note| what.put_note(text, &note.what, json));
}

/// What a line is about.
struct Of<'a> {
    kind: &'static str,
    name: &'a str,
}

impl Of<'_> {
    fn put_note(&self, text: &mut String, note: &str, json: bool) {
        text.push_str(&match json {
            true => self.json(&format!(r#""outcome":"note","why":{}"#, Json::of(note))),
            false => format!("note {} {}: {}\n", self.kind, self.name, printable(note)),
        });
    }

    fn json(&self, members: &str) -> String {
        format!("{{\"{}\":{},{members}}}\n", self.kind, Json::of(self.name))
    }
}
