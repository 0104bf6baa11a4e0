//! What of a provider is pinned: its actions.

use std::cell::RefCell;
use std::rc::Rc;

use toolbus_proto::channel::Notice;
use toolbus_proto::json::{Json, edit};
use toolbus_proto::orchard::pin;
use toolbus_proto::pin::Layouts;
use toolbus_proto::tool::{Failure, ToolSpec};

use crate::bus::back::{Back, LocalFuture};
use crate::peer::pins::{Pins, Seen, Survey, Who};

/// For the registry.
pub(super) static PINS: OrchardPins = OrchardPins;

pub(super) struct OrchardPins;

impl Pins for OrchardPins {
    fn layouts(&self) -> Layouts {
        pin::LAYOUTS
    }

    fn definition(&self, spec: &ToolSpec) -> Option<Json> {
        pin::definition(spec)
    }

    fn read(&self, object: &Json) -> Option<ToolSpec> {
        pin::read_definition(object)
    }

    fn survey<'a>(
        &'a self,
        back: &'a dyn Back,
        who: Who,
    ) -> LocalFuture<'a, Result<Survey, Failure>> {
        Box::pin(async move {
            // Its name is of no interest but in the file; who listens does so for good.
            let described: Rc<RefCell<Option<Json>>> = Rc::default();
            if who == Who::All {
                let heard = described.clone();
                back.listen(Rc::new(move |notice| {
                    if let Notice::Described(schema) = notice {
                        heard.replace(Some(schema.clone()));
                    }
                }));
            }
            let tools = back.tools().await?;
            let tools = tools.iter().filter_map(pin::definition).collect();
            let described = described.take();
            let text = |name: &str| {
                let schema = described.as_ref()?;
                edit::text(schema.as_str(), name).map(std::borrow::Cow::into_owned)
            };
            let (server_name, server_version) = (text("name"), text("version"));
            let seen = Seen { tools, ..Seen::default() };
            Ok(Survey { server_name, server_version, seen, ..Survey::default() })
        })
    }
}
