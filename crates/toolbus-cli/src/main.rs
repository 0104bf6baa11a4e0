//! The `toolbus` program: arguments in, answers on standard output, everything else for
//! people on standard error, and an exit code that scripts can trust.

mod args;
mod command;
mod config;
mod exit;
mod failed;
mod logging;
mod peers;
mod render;
mod runtime;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::args::Parsed;
use crate::exit::Exit;
use crate::failed::Failed;

fn main() -> ExitCode {
    toolbus::child::guard::run_if_asked();
    let words: Vec<OsString> = std::env::args_os().collect();
    let Err(failed) = run(&words) else {
        return Exit::Done.into();
    };
    if let Some(report) = &failed.report {
        let paint = args::color_when(&words).paint(&io::stderr());
        // If even this cannot be written, the exit code has to do.
        let _ = io::stderr().write_all(render::report::text(report, paint).as_bytes());
    }
    failed.exit.into()
}

fn run(words: &[OsString]) -> Result<(), Failed> {
    match args::parse(words)? {
        Parsed::Show(text) => render::print(&text),
        Parsed::Run(command, globals) => {
            let paint = globals.color.paint(&io::stderr());
            logging::start(globals.log_level(), globals.log_format, paint);
            command.run(&globals)
        }
    }
}
