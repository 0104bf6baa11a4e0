//! A tool that panics fails its own call and no other.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use toolbus_proto::tool::{Failure, FailureKind};

/// What `tool` answers, or what its panic said. Whatever it left half-done is its own affair.
pub fn caught<T>(tool: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(tool)).unwrap_or_else(|panic| {
        let message = format!("the tool panicked: {}", words_of(&*panic));
        Err(Failure::new(FailureKind::Failed, message))
    })
}

fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason")
}
