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
mod schema;
mod spans;
mod stderr;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use crate::args::Parsed;
use crate::exit::Exit;
use crate::failed::Failed;

fn main() -> ExitCode {
    toolbus::child::guard::run_if_asked();
    let words: Vec<OsString> = std::env::args_os().collect();
    let ended = run(&words);
    spans::finish();
    logging::finish();
    let exit = match ended {
        Ok(()) => Exit::Done,
        Err(failed) => {
            if let Some(report) = &failed.report {
                let paint = args::color_when(&words).paint(&io::stderr());
                let format = args::log_format(&words);
                stderr::write(&render::report::told(report, format, paint));
            }
            failed.exit
        }
    };
    stderr::flush();
    exit.into()
}

fn run(words: &[OsString]) -> Result<(), Failed> {
    let parsed = args::parse(words).inspect_err(|failed| {
        if let Some(line) = command::wire::complaint(words, failed) {
            // If it cannot be written, the report has to do.
            let _ = render::print_own(&line);
        }
    });
    match parsed? {
        Parsed::Show(text) => render::print_own(&text),
        Parsed::Run(command, globals) => {
            let paint = globals.color.paint(&io::stderr());
            logging::start(globals.log_level(), globals.log_format, paint);
            command.run(&globals)
        }
    }
}
