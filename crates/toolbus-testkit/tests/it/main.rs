//! The parts of the testkit that need real processes.

mod faulty_tool;
