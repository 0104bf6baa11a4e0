//! An author's tools by name, and how they are called in place.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, ToolName, ToolSpec, What};

use super::context::{Asked, Context};
use super::tool::{Function, Tool, arguments};
use crate::did_you_mean::unknown_tool;
use crate::engine::blocking::serving::Caller;
#[cfg(feature = "bus")]
use crate::engine::local_call::LocalCalls;

/// An author's tools, to be put behind a bus or a front.
pub struct Authored {
    pub(super) specs: Arc<[ToolSpec]>,
    pub(super) functions: BTreeMap<ToolName, Rc<Function>>,
    #[cfg(feature = "bus")]
    pub(super) running: LocalCalls,
}

impl Authored {
    pub(super) fn new(tools: Vec<Tool>) -> Authored {
        let specs = tools.iter().map(|tool| tool.spec.clone()).collect();
        let named = |tool: Tool| (tool.spec.name, Rc::new(tool.function));
        let functions = tools.into_iter().map(named).collect();
        Authored {
            specs,
            functions,
            #[cfg(feature = "bus")]
            running: LocalCalls::default(),
        }
    }

    /// Can all calls be answered in place?
    #[cfg(feature = "bus")]
    pub(crate) fn is_in_place(&self) -> bool {
        self.functions.values().all(|function| matches!(**function, Function::InPlace(_)))
    }

    /// Answers in place, where that can be done.
    pub(super) fn answer(&self, call: Call, caller: &mut dyn Caller) -> Result<Outcome, Failure> {
        let asked = Asked::of(&call);
        let (function, given) = match call.what {
            What::Tool { name, args } => (self.function(&name)?, args),
            other => return self.about(&other),
        };
        match &**function {
            Function::InPlace(answer) => answer(arguments(given), &mut Context::new(asked, caller)),
            #[cfg(feature = "bus")]
            Function::Async(_) => {
                let message = "the tool needs a runtime, and there is none";
                Err(Failure::new(FailureKind::Unavailable, message))
            }
        }
    }

    fn function(&self, name: &ToolName) -> Result<&Rc<Function>, Failure> {
        let known = self.specs.iter().map(|spec| spec.name.as_str());
        self.functions.get(name).ok_or_else(|| unknown_tool(name, known))
    }

    /// What is asked that is no tool.
    fn about(&self, what: &What) -> Result<Outcome, Failure> {
        match what {
            What::Tools => Ok(Outcome::Tools(self.specs.clone())),
            What::Tool { .. } | What::Native { .. } => {
                let message = "tools inside a program speak no wire of their own";
                Err(Failure::new(FailureKind::BrokeProtocol, message))
            }
        }
    }
}
