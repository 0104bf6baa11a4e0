//! The tool that is called, as its peer describes it; and what is said of a name that none has.

use toolbus::bus::Bus;
use toolbus_proto::did_you_mean::unknown_tool;
use toolbus_proto::tool::{Code, Deadline, Failure, FailureKind, ToolName, ToolSpec};

/// What is known of a name, once its peer was asked.
#[derive(Debug)]
pub(crate) enum Described {
    Tool(ToolSpec),
    /// It is not in the list, but the peer may have more than it lists; or it could not list.
    Unlisted,
    /// The peer has no such tool.
    Unknown(Failure),
}

/// All that the peers of a bus list, under the names they are called by.
struct Listing {
    specs: Vec<ToolSpec>,
    /// A peer with generic tools can be asked for more than it lists.
    may_have_more: bool,
}

impl Listing {
    async fn of(bus: &Bus, deadline: Deadline) -> Result<Listing, Failure> {
        let mut listing = Listing { specs: Vec::new(), may_have_more: false };
        let is_seen = bus.selection().is_some();
        for listed in bus.list_by(deadline).await {
            match &listed.tools {
                Ok(tools) => listing.may_have_more |= listed.address.kind().may_have_more(tools),
                // Whose tool it is does not depend on those that a view shows besides.
                Err(_) if is_seen => continue,
                Err(failure) => return Err(failure.clone()),
            }
            listing.specs.extend(bus.shown_of(&listed));
        }
        listing.may_have_more &= !is_seen;
        Ok(listing)
    }

    fn find(&self, name: &ToolName) -> Option<&ToolSpec> {
        self.specs.iter().find(|spec| spec.name == *name)
    }

    fn unknown(&self, name: &ToolName) -> Failure {
        unknown_tool(name, self.specs.iter().map(|spec| spec.name.as_str()))
    }
}

/// The tool of this name with its address, as it was typed or stands in the config.
pub(crate) async fn listed(
    bus: &Bus,
    name: &ToolName,
    deadline: Deadline,
) -> Result<(ToolSpec, String), Failure> {
    let mut names = Vec::new();
    let mut failed = None;
    for listed in bus.list_by(deadline).await {
        if let Err(failure) = &listed.tools {
            failed.get_or_insert_with(|| failure.clone());
            continue;
        }
        for spec in bus.shown_of(&listed) {
            if spec.name == *name {
                return Ok((spec, listed.address.to_string()));
            }
            names.push(spec.name);
        }
    }
    // Perhaps it is a tool of the peer that could not be asked.
    let unknown = || {
        let refusal = bus.lock_refusal(name);
        refusal.unwrap_or_else(|| unknown_tool(name, names.iter().map(ToolName::as_str)))
    };
    Err(failed.unwrap_or_else(unknown))
}

/// Asks for the tool of this name. A peer that is not there, or does not answer in time, is a
/// failure: a call would fail as well.
pub(crate) async fn described(
    bus: &Bus,
    name: &ToolName,
    deadline: Deadline,
) -> Result<Described, Failure> {
    // The bus itself says what is wrong with a name that leads nowhere.
    if bus.resolve(name).is_none() {
        return Ok(Described::Unlisted);
    }
    let listing = Listing::of(bus, deadline).await;
    match listing {
        Ok(listing) => Ok(match listing.find(name) {
            Some(spec) => Described::Tool(spec.clone()),
            None if listing.may_have_more => Described::Unlisted,
            None => {
                let refusal = bus.lock_refusal(name);
                Described::Unknown(refusal.unwrap_or_else(|| listing.unknown(name)))
            }
        }),
        Err(failure) => match failure.kind {
            FailureKind::Gone | FailureKind::Unavailable | FailureKind::TimedOut => Err(failure),
            // It will say itself what it thinks of the call.
            _ => Ok(Described::Unlisted),
        },
    }
}

/// The failure as it is told where the peer turns out not to have the tool: the same on every
/// wire, whatever words the peer has for it.
pub(crate) async fn explained(
    bus: &Bus,
    name: &ToolName,
    failure: Failure,
    deadline: Deadline,
) -> Failure {
    let Some((_, own)) = bus.resolve(name) else { return failure };
    // The lock has said what there is to say.
    if bus.lock_refusal(name).is_some() {
        return failure;
    }
    let is_doubtful = match failure.kind {
        FailureKind::UnknownTool => true,
        // Some servers answer like that.
        FailureKind::InvalidArguments | FailureKind::Failed => {
            // What a protocol's own error is about can only be seen from the list.
            let is_refused = matches!(failure.code, Some(Code::Number(_)));
            is_refused || names(&failure.message, own.as_str())
        }
        _ => false,
    };
    let is_ours = failure.kind != FailureKind::UnknownTool && !failure.from_peer;
    if !is_doubtful || is_ours {
        return failure;
    }
    match Listing::of(bus, deadline).await {
        Ok(listing) if listing.find(name).is_none() => {
            match listing.may_have_more && failure.kind != FailureKind::UnknownTool {
                true => failure,
                false => {
                    let mut unknown = listing.unknown(name);
                    // Perhaps it speaks another wire, where the name is known.
                    if let Some(words) = failure.last_words.filter(|words| words.is_unproven) {
                        let told = unknown.last_words.get_or_insert_default();
                        (told.is_unproven, told.said) = (true, words.said);
                    }
                    unknown
                }
            }
        }
        _ => failure,
    }
}

/// Does the message name the tool, and not just have its letters in other words?
fn names(message: &str, tool: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    message.match_indices(tool).any(|(at, _)| {
        let (before, behind) = (&message[..at], &message[at + tool.len()..]);
        !before.ends_with(is_word) && !behind.starts_with(is_word)
    })
}
