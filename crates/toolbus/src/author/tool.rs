//! One tool: what is known of it before a call, and the function that answers.

#[cfg(feature = "bus")]
use std::rc::Rc;

use toolbus_proto::json::Json;
use toolbus_proto::tool::{Failure, Hints, Outcome, ToolSpec};

use super::arguments::Raw;
#[cfg(feature = "bus")]
use super::async_context::AsyncContext;
use super::context::Context;
use super::{Arguments, Reply};
#[cfg(feature = "bus")]
use crate::bus::back::LocalFuture;

/// A tool: a function with a name, a description and schemas.
///
/// The name is what it is called by. The description is the doc comment of what the function
/// takes, unless another is given.
pub struct Tool {
    pub(super) spec: ToolSpec,
    pub(super) function: Function,
}

/// Answers the calls of one tool.
pub(super) enum Function {
    InPlace(Box<InPlace>),
    #[cfg(feature = "bus")]
    Async(Box<Async>),
}

type InPlace = dyn Fn(Raw, &mut Context<'_>) -> Answer;
#[cfg(feature = "bus")]
type Async = dyn Fn(Raw, AsyncContext) -> LocalFuture<'static, Answer>;
type Answer = Result<Outcome, Failure>;

impl Tool {
    /// A function that is called in place.
    pub fn new<A: Arguments, R: Reply>(name: &str, function: impl Fn(A) -> R + 'static) -> Tool {
        Tool::with_context(name, move |arguments: A, _: &mut Context<'_>| function(arguments))
    }

    /// A function that is called in place and talks to its caller meanwhile.
    pub fn with_context<A: Arguments, R: Reply>(
        name: &str,
        function: impl Fn(A, &mut Context<'_>) -> R + 'static,
    ) -> Tool {
        let answer = move |arguments: Raw, context: &mut Context<'_>| {
            let outcome = function(A::read(arguments)?, context).outcome()?;
            Ok(context.end(outcome))
        };
        Tool::of::<A, R>(name, Function::InPlace(Box::new(answer)))
    }

    /// A function that may wait while others run. It needs a runtime,
    /// and so the feature `bus`.
    #[cfg(feature = "bus")]
    pub fn new_async<A: Arguments + 'static, R: Reply>(
        name: &str,
        function: impl AsyncFn(A) -> R + 'static,
    ) -> Tool {
        Tool::async_with_context(name, async move |arguments: A, _| function(arguments).await)
    }

    /// A function that may wait while others run, and talks to its caller meanwhile. It needs a runtime,
    /// and so the feature `bus`.
    #[cfg(feature = "bus")]
    pub fn async_with_context<A: Arguments + 'static, R: Reply>(
        name: &str,
        function: impl AsyncFn(A, AsyncContext) -> R + 'static,
    ) -> Tool {
        let function = Rc::new(function);
        let answer = move |arguments: Raw, context: AsyncContext| -> LocalFuture<'static, Answer> {
            let function = function.clone();
            Box::pin(async move {
                let arguments = A::read(arguments)?;
                let outcome = function(arguments, context.clone()).await.outcome()?;
                Ok(context.end(outcome))
            })
        };
        Tool::of::<A, R>(name, Function::Async(Box::new(answer)))
    }

    fn of<A: Arguments, R: Reply>(name: &str, function: Function) -> Tool {
        let arguments = A::described();
        let spec = ToolSpec {
            description: arguments.description,
            output: R::schema(),
            ..ToolSpec::new(name, arguments.schema)
        };
        Tool { spec, function }
    }

    /// A name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Tool {
        self.spec.title = Some(title.into());
        self
    }

    /// What it does, for people and models.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Tool {
        self.spec.description = Some(description.into());
        self
    }

    /// The JSON Schema of what it takes, where the type does not say it all.
    #[must_use]
    pub fn input_schema(mut self, schema: Raw) -> Tool {
        self.spec.input = schema.0;
        self
    }

    /// It changes nothing.
    #[must_use]
    pub fn read_only(self) -> Tool {
        self.hint(|hints| hints.read_only = Some(true))
    }

    /// Calling it twice does no more than calling it once.
    #[must_use]
    pub fn idempotent(self) -> Tool {
        self.hint(|hints| hints.idempotent = Some(true))
    }

    /// It may destroy something.
    #[must_use]
    pub fn destructive(self) -> Tool {
        self.hint(|hints| hints.destructive = Some(true))
    }

    fn hint(mut self, set: impl FnOnce(&mut Hints)) -> Tool {
        set(self.spec.hints.get_or_insert_default());
        self
    }
}

/// The arguments of a call; who gave none gave an empty object.
pub(super) fn arguments(given: Option<Json>) -> Raw {
    Raw(given.unwrap_or_else(|| Json::from_trusted("{}")))
}
