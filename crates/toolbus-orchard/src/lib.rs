//! Orchard scenarios: HCL files that name providers and the actions to execute with them.
//!
//! The core is pure: files, the clock and chance are handed in. [`diagnostic`] is how anything
//! wrong is told; [`value`] has the values and types of HCL; [`expr`] evaluates expressions,
//! the same for plan and run; [`function`] has what expressions may call.

pub mod builtin;
pub mod diagnostic;
pub mod disk;
pub mod duration;
pub mod expr;
pub mod function;
pub mod model;
pub mod plan;
pub mod project;
pub mod provider;
pub mod record;
pub mod run;
pub mod secrets;
pub mod show;
pub mod source;
pub mod value;
