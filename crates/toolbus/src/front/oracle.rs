//! Being an oracle: the tools of the bus for a Cairo program.
