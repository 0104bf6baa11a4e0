//! Runs of `godex exec` and the children that speak it, replayed from `transcripts/godex`.

mod ask;
mod framing;
mod hold;
mod limits;
mod run;
mod tools;
mod words;
