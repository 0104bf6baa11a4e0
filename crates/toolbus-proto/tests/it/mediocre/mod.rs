//! mediocre-rpc: vectors and conversations of `transcripts/mediocre/`, faults and chance.

mod vectors;
