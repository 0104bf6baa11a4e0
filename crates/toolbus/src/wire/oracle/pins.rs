//! What of an oracle is pinned: its signatures.

use toolbus_proto::json::Json;
use toolbus_proto::oracle::pin;
use toolbus_proto::pin::Layouts;
use toolbus_proto::tool::ToolSpec;

use crate::peer::pins::Pins;

/// For the registry.
pub(super) static PINS: OraclePins = OraclePins;

pub(super) struct OraclePins;

impl Pins for OraclePins {
    fn layouts(&self) -> Layouts {
        pin::LAYOUTS
    }

    fn definition(&self, spec: &ToolSpec) -> Option<Json> {
        pin::definition(spec)
    }

    fn read(&self, object: &Json) -> Option<ToolSpec> {
        pin::read_definition(object)
    }

    fn generic(&self) -> Vec<ToolSpec> {
        vec![pin::generic()]
    }
}
