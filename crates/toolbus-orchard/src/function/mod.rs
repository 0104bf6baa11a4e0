//! What expressions may call.
