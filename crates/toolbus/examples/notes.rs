//! Tools with state, progress and errors of their own. Run it as `notes --mcp`.

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;

use schemars::JsonSchema;
use serde::Deserialize;
use toolbus::author::{Context, Tool, Tools};
use toolbus::{Code, Failure, FailureKind};

/// Keep a note.
#[derive(Deserialize, JsonSchema)]
struct Keep {
    /// What to keep.
    text: String,
    /// Where it goes; at the end if it is left out.
    place: Option<usize>,
}

/// Find the notes with a word in them.
#[derive(Deserialize, JsonSchema)]
struct Find {
    /// The word.
    word: String,
}

fn main() -> ExitCode {
    // State is what the functions share. They are called one after the other, so no lock is needed.
    let notes = Rc::new(RefCell::new(Vec::<String>::new()));
    let kept = notes.clone();
    let keep = move |Keep { text, place }: Keep| -> Result<usize, Failure> {
        let mut notes = kept.borrow_mut();
        let place = place.unwrap_or(notes.len());
        if notes.len() < place {
            // The caller sees the kind as its wire tells it, and the code as it is.
            let message = format!("there are only {} notes", notes.len());
            let code = Some(Code::Word("NO_PLACE".to_owned()));
            return Err(Failure { code, ..Failure::new(FailureKind::Failed, message) });
        }
        notes.insert(place, text);
        Ok(notes.len())
    };
    let find = move |Find { word }: Find, context: &mut Context<'_>| {
        let notes = notes.borrow();
        for (done, note) in (1..).zip(notes.iter()) {
            // The caller has changed its mind: whatever is found now has no reader.
            if context.is_cancelled() {
                return;
            }
            context.progress(done, Some(notes.len() as u64), "looking");
            if note.contains(&word) {
                context.text(note);
            }
        }
    };
    Tools::new("notes", "1.0.0")
        .instructions("Notes are kept in their order, and gone when the program ends.")
        .tool("keep", keep)
        .with(Tool::with_context("find", find).read_only())
        .run()
}
