//! Orchestra: vectors and conversations of `transcripts/orchestra/`, faults and chance.

mod vectors;
