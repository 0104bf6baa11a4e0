//! Values as people type them: times and sizes.

pub(crate) use toolbus_engine::units::{duration, duration_or_none, held_size, size};
