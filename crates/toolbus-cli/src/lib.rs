//! The `toolbus` program as a function: arguments in, answers on standard output, everything else
//! for people on standard error, and an exit code that scripts can trust.
//!
//! [`run`] is all there is. The program itself calls it with its own standard streams; tests and
//! other programs give it bytes to read and something to write to.

mod args;
mod clients;
mod command;
mod config;
mod edited;
mod exit;
mod failed;
mod logging;
mod observers;
mod peers;
mod render;
mod runtime;
mod schema;
mod service;
mod spans;
mod state_file;
mod stderr;
mod stdio;

use std::ffi::OsString;
use std::io;

pub use crate::exit::Exit;
pub use crate::stdio::{Input, Output};

use crate::args::Parsed;
use crate::failed::Failed;

/// Does what a command line says, and tells how that ended.
///
/// The first word is the name that the program was started under, as in [`std::env::args_os`]:
/// under that of a wire's own program (`godex`, `orchard`) it is that program.
///
/// With [`Input::Own`] and [`Output::Own`] it is the whole program: it catches signals and logs for
/// the rest of the process, so it is called once. Where a stream is given it is a guest: it
/// leaves signals, panics and the log of other threads alone, sends no spans, takes no stream that
/// is given for a terminal, and may run on several threads at once. Environment, current folder and
/// the secrets that must not be shown are those of the process in any case.
///
/// Commands that read and print (help, `decode`, `log`, `describe`, `call`, `orchard plan` …) then
/// do the same as the program does. A guest cannot do what needs a process of its own, and says so
/// with [`Exit::Failed`]: to serve or talk on standard output (`mcp`, `oracle serve`, `exec` …),
/// and to start itself (`demo`). One that listens on an address (`serve`, `mcp --http` …) is not
/// ended by signals, and so never.
pub fn run(
    words: impl IntoIterator<Item = impl Into<OsString>>,
    stdin: Input,
    stdout: Output,
    stderr: Output,
) -> Exit {
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    let _streams = stdio::take(stdin, stdout, stderr);
    if !stdio::is_guest() {
        logging::tell_waits_as_tests_want();
    }
    let ended = parse_and_run(&words);
    if !stdio::is_guest() {
        // A refresh token that was used and whose answer is lost is a sign-in that is lost.
        toolbus::oauth::renewal::see_through();
    }
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
    exit
}

fn parse_and_run(words: &[OsString]) -> Result<(), Failed> {
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
