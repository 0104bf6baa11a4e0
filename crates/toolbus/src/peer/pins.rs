//! What of a kind of peer can be pinned in `toolbus.lock`, and how it is asked for.

use std::time::Instant;

use bytes::Bytes;
use toolbus_proto::json::Json;
use toolbus_proto::listing;
use toolbus_proto::pin::{Layouts, PinKind, Pinned, SPEC};
use toolbus_proto::tool::{Call, CallerId, Failure, ToolSpec};

use crate::bus::back::{Back, LocalFuture};

/// What a kind of peer says about pinning its tools.
pub trait Pins: Sync {
    /// How its definitions stand in the file.
    fn layouts(&self) -> Layouts {
        SPEC
    }

    /// The definition of a tool, by which it is compared.
    fn definition(&self, spec: &ToolSpec) -> Option<Json> {
        Some(listing::tool(spec))
    }

    /// The tool of a definition.
    fn read(&self, object: &Json) -> Option<ToolSpec> {
        listing::read(object)
    }

    /// The tools that every back of this kind has besides its own.
    fn generic(&self) -> Vec<ToolSpec> {
        Vec::new()
    }

    /// All that a model can see of a back, asked for now, as `who` sees it.
    fn survey<'a>(
        &'a self,
        back: &'a dyn Back,
        _who: Who,
    ) -> LocalFuture<'a, Result<Survey, Failure>> {
        Box::pin(async move {
            let tools = back.tools().await?;
            let tools = tools.iter().filter_map(|spec| self.definition(spec)).collect();
            Ok(Survey { seen: Seen { tools, ..Seen::default() }, ..Survey::default() })
        })
    }

    /// What a native request asks for.
    fn asked(&self, _method: &[u8], _body: &Bytes) -> AskedOf {
        AskedOf::Other
    }

    /// Which generation of callers a call is of.
    fn is_legacy(&self, _call: &Call) -> bool {
        false
    }

    /// What a lasting call is told first that is for a back which is not there yet; `None` if it
    /// does not last.
    fn told(&self, _method: &[u8], _body: &Bytes) -> Option<Json> {
        None
    }

    /// Must this be said again to a back that was started after it was said?
    fn is_repeated(&self, _method: &[u8]) -> bool {
        false
    }

    /// Does this make the back keep something for its caller, or keep it no longer?
    fn keeps(&self, _method: &[u8]) -> Option<Keeps> {
        None
    }

    /// Does the back keep something for its caller as long as this call lasts?
    fn keeps_while_heard(&self, _method: &[u8], _body: &Bytes) -> bool {
        false
    }

    /// How a native list is answered that holds these.
    fn native_list(&self, _is_legacy: bool, _of: WhichList, _entries: &[String]) -> Bytes {
        Bytes::new()
    }

    /// A native list without the entries that are not to be shown.
    fn native_filtered(
        &self,
        result: &Bytes,
        _of: PinKind,
        _is_shown: &dyn Fn(&str) -> bool,
    ) -> Bytes {
        result.clone()
    }

    /// What a back said of itself when it was pinned.
    fn greeting(&self, _is_legacy: bool, _pinned: &Pinned) -> Json {
        Json::from_trusted("{}")
    }

    /// How its tools are to be used, as a back says of itself.
    fn instructions(&self, _greeting: &Json) -> Option<String> {
        None
    }

    /// What a back says of itself, with these instructions in place of its own.
    fn with_instructions(&self, greeting: &Json, _instructions: Option<&str>) -> Json {
        greeting.clone()
    }
}

/// A kind whose tools are known as toolbus itself describes them.
pub struct OfSpecs {
    /// The tools that every back of the kind has besides its own.
    pub generic: fn() -> Vec<ToolSpec>,
}

impl Pins for OfSpecs {
    fn generic(&self) -> Vec<ToolSpec> {
        (self.generic)()
    }
}

/// Has none besides its own.
pub static OF_SPECS: OfSpecs = OfSpecs { generic: Vec::new };

/// As whom a back is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// As all are, and as legacy callers are if that makes a difference: all that can be known.
    All,
    /// As a caller of the newer generation, or of none.
    Modern,
    /// As this caller of the older one, whose session there is.
    Legacy(CallerId),
}

/// What a native request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskedOf {
    /// Who it is and what it can do. The session of a legacy client lasts as long as this call.
    Greeting {
        /// The client is of the older generation.
        is_legacy: bool,
    },
    /// A list.
    List(WhichList),
    /// A tool or prompt of this name.
    Entry(PinKind, String),
    /// Nothing for which it would have to be there; it is told again when it is.
    Told,
    /// Anything else.
    Other,
}

/// Whether something is kept for a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// From now on.
    Begins,
    /// No longer.
    Ends,
}

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichList {
    /// What is pinned.
    Pinned(PinKind),
    /// Resources, which are data.
    Resources,
}

/// All that is known of a back that was asked.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// The revision it was asked in.
    pub era: Option<String>,
    /// As it calls itself.
    pub server_name: Option<String>,
    /// As it calls itself.
    pub server_version: Option<String>,
    /// Whether it has resources; `None` if it cannot have any.
    pub has_resources: Option<bool>,
    /// What it can do.
    pub capabilities: Option<Json>,
    /// What models see.
    pub seen: Seen,
    /// What legacy callers are shown.
    pub legacy: Option<Seen>,
}

/// What models see of a back.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// How its tools are to be used.
    pub instructions: Option<String>,
    /// The objects of its tools.
    pub tools: Vec<Json>,
    /// The objects of its prompts.
    pub prompts: Vec<Json>,
    /// The objects of its templates.
    pub templates: Vec<Json>,
}

impl Seen {
    /// Those of a kind.
    pub fn of(&self, kind: PinKind) -> &[Json] {
        match kind {
            PinKind::Tool => &self.tools,
            PinKind::Prompt => &self.prompts,
            PinKind::Template => &self.templates,
        }
    }

    /// Those of a kind.
    pub fn of_mut(&mut self, kind: PinKind) -> &mut Vec<Json> {
        match kind {
            PinKind::Tool => &mut self.tools,
            PinKind::Prompt => &mut self.prompts,
            PinKind::Template => &mut self.templates,
        }
    }
}

/// A call of ours.
pub(crate) fn call_of(what: toolbus_proto::tool::What) -> Call {
    Call::of(Instant::now(), what)
}
