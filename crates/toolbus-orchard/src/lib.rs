//! Orchard scenarios: HCL files that name providers and the actions to execute with them.
//!
//! The core is pure: files, the clock and chance are handed in. [`diagnostic`] is how anything
//! wrong is told; [`value`] has the values and types of HCL; [`expr`] evaluates expressions,
//! the same for plan and run; [`function`] has what expressions may call.

pub mod diagnostic;
pub mod expr;
pub mod function;
pub mod value;
