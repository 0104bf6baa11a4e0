//! What users of the crate can see, checked against the transcripts of the repository.

mod oracle_serving;
mod oracle_vectors;
