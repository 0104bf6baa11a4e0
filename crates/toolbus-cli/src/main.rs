//! The program: its words and its own standard streams go to the library of this crate.

use std::process::ExitCode;

use toolbus_cli::{Input, Output};

fn main() -> ExitCode {
    toolbus_engine::child::guard::run_if_asked();
    toolbus::oauth::leave_no_core_with_tokens();
    toolbus_cli::run(std::env::args_os(), Input::Own, Output::Own, Output::Own).into()
}
