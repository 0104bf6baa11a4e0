//! The parts of the testkit that need real processes, and data that is judged.

mod faulty_tool;
mod judged;
