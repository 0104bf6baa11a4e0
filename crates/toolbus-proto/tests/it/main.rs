//! What users of the crate can see, checked against the transcripts of the repository.

// The lint knows tests, but not the functions they share.
#![allow(clippy::unwrap_used)]

mod oracle_serving;
mod oracle_vectors;
