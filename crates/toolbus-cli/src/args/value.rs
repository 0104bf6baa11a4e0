//! Values as people type them: times and sizes.

pub(crate) use toolbus::units::{duration, duration_or_none, held_size, size};
