//! The hands.
