//! Values as people type them: times and sizes.

pub(crate) use toolbus::units::{duration, held_size, size};
