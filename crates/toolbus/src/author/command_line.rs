//! The command line of an author's program.

use std::env;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use toolbus_proto::channel::Ended;

use super::console::{USAGE, failed, print, say};
use super::{AuthorKind, AuthorKinds, Tools};

/// Nothing could be served, for a reason that is not the caller's.
const FAILED: u8 = 1;
/// The caller broke the protocol, or would not have us.
const BROKE: u8 = 3;

pub(super) fn run(tools: Tools) -> ExitCode {
    let words = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let words: Vec<_> = words.collect();
    let mut tools = Some(tools);
    if let Some(exit) =
        AuthorKinds::default().started.iter().find_map(|kind| kind.serve(&mut tools, &words))
    {
        return exit;
    }
    let Some(tools) = tools else { return ExitCode::FAILURE };
    let known: Vec<_> = listening_flags().iter().map(|(flag, ..)| *flag).collect();
    if let Some(feature) = words.iter().find_map(|word| left_out(word, &known)) {
        let why = format!("this program was built without `{feature}`");
        let hint = format!("build it with the feature `{feature}` of `toolbus`");
        return failed(why, &[], Some(&hint), USAGE);
    }
    match listened_on(&words) {
        Some(Ok(urls)) => return listen(tools, &urls),
        Some(Err(missing)) => return misused(&missing, &tools),
        None => {}
    }
    match &*words {
        [] => match AuthorKinds::default().served.iter().find(|author| author.is_without_flag()) {
            Some(author) if !io::stdin().is_terminal() => serve(tools, *author),
            _ => {
                say(help(&tools).trim_end());
                ExitCode::from(USAGE)
            }
        },
        [word] => match &**word {
            "--help" | "-h" => print(&help(&tools)),
            "--version" | "-V" => print(&format!("{} {}\n", tools.name, tools.version)),
            word => match flags().into_iter().find(|(flag, _)| flag == word) {
                Some((_, author)) => serve(tools, author),
                None => match AuthorKinds::default()
                    .served
                    .iter()
                    .find_map(|author| author.printed(word, &tools))
                {
                    Some(Ok(text)) => print(&text),
                    Some(Err(error)) => failed(error, &[], None, USAGE),
                    None => unexpected(&tools, word),
                },
            },
        },
        [_, second, ..] => unexpected(&tools, second),
    }
}

/// The flags by which a program may listen, each with the feature that it needs.
const FEATURES: [(&str, &str); 2] = [("--http", "http"), ("--listen", "bus")];

/// The feature that a word needs, if it is a flag that this program was built without.
fn left_out(word: &str, known: &[&str]) -> Option<&'static str> {
    let flag = word.split_once('=').map_or(word, |(flag, _)| flag);
    let (flag, feature) = FEATURES.iter().find(|(name, _)| *name == flag)?;
    (!known.contains(flag)).then_some(feature)
}

/// The flags by which callers that connect are served, each with what stands behind it and what
/// it does.
fn listening_flags() -> Vec<(&'static str, &'static str, &'static str)> {
    let mut flags = Vec::new();
    if cfg!(feature = "http")
        && AuthorKinds::default().served.iter().any(|author| author.listens_at("").is_some())
    {
        flags.push(("--http", "HOST:PORT", "Serve over HTTP, for editors and agents elsewhere"));
    }
    if cfg!(feature = "bus") {
        flags.push((
            "--listen",
            "URL",
            "Serve where and how URL says, as a front of toolbus; may repeat",
        ));
    }
    flags
}

/// What these words want to be listened on, if they want that and nothing else.
fn listened_on(words: &[String]) -> Option<Result<Vec<String>, String>> {
    let known = listening_flags();
    let is_known = |word: &str| known.iter().any(|(flag, ..)| *flag == word);
    let mut urls = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        if !is_known(flag) {
            let why = format!("unexpected argument `{word}`");
            return (!urls.is_empty()).then_some(Err(why));
        }
        let Some(value) = value.or_else(|| words.next().cloned()) else {
            return Some(Err(format!("`{flag}` needs a value")));
        };
        let url = match flag {
            "--listen" => Some(value),
            // A port alone is one of this machine.
            _ => {
                let at = if value.contains(':') { value } else { format!("127.0.0.1:{value}") };
                AuthorKinds::default().served.iter().find_map(|author| author.listens_at(&at))
            }
        };
        urls.extend(url);
    }
    (!urls.is_empty()).then_some(Ok(urls))
}

#[cfg(feature = "bus")]
fn listen(tools: Tools, urls: &[String]) -> ExitCode {
    super::listen::serve(tools, urls)
}

#[cfg(not(feature = "bus"))]
fn listen(tools: Tools, _urls: &[String]) -> ExitCode {
    misused("this program serves standard streams alone", &tools)
}

/// The flag of each wire that tools can be served in.
fn flags() -> Vec<(String, &'static dyn AuthorKind)> {
    AuthorKinds::default()
        .served
        .iter()
        .map(|author| (format!("--{}", author.wire().name()), *author))
        .collect()
}

fn serve(tools: Tools, author: &dyn AuthorKind) -> ExitCode {
    match author.serve(tools) {
        Ok(Ended::Well) => ExitCode::SUCCESS,
        Ok(Ended::Refused(why)) => {
            failed(format_args!("the caller would not have us: {why}"), &[], None, BROKE)
        }
        Ok(Ended::Broke(why)) => {
            failed(format_args!("the caller broke the protocol: {why}"), &[], None, BROKE)
        }
        // The client that closed our output knows that it did.
        Ok(Ended::PeerStoppedReading) => ExitCode::FAILURE,
        Err(error) => {
            let why = format_args!("cannot serve on standard input and output: {error}");
            failed(why, &[], None, FAILED)
        }
    }
}

fn unexpected(tools: &Tools, word: &str) -> ExitCode {
    misused(&format!("unexpected argument `{word}`"), tools)
}

fn misused(why: &str, tools: &Tools) -> ExitCode {
    failed(why, &[], Some(&format!("`{} --help` tells more", tools.name)), USAGE)
}

fn help(tools: &Tools) -> String {
    let specs = tools.specs();
    let mut help = format!("{} {}\n\n", tools.name, tools.version);
    if let Some(instructions) = &tools.instructions {
        let _ = write!(help, "{}\n\n", instructions.trim_end());
    }
    let known = flags();
    let flags = known.iter().map(|(flag, _)| flag.as_str()).collect::<Vec<_>>().join(" | ");
    // A string takes whatever it is given.
    let _ = writeln!(help, "Usage: {} {flags}", tools.name);
    let listening = listening_flags();
    if !listening.is_empty() {
        let flags = listening.iter().map(|(flag, value, _)| format!("{flag} {value}"));
        let flags = flags.collect::<Vec<_>>().join(" | ");
        let _ = writeln!(help, "       {} {flags}", tools.name);
    }
    help.push_str("\nServes on standard input and output:\n");
    for (flag, author) in known {
        let _ = writeln!(help, "  {flag:<10}  {}", author.help());
    }
    if !listening.is_empty() {
        help.push_str("\nServes callers that connect:\n");
    }
    for (flag, value, what) in listening {
        let _ = writeln!(help, "  {:<16}  {what}", format!("{flag} {value}"));
    }
    help.push_str("\nTools:\n");
    let width = specs.iter().map(|spec| spec.name.as_str().len()).max().unwrap_or(0);
    for spec in &*specs {
        let first_line = spec.description.as_deref().and_then(|text| text.lines().next());
        let line = format!("  {:<width$}  {}", spec.name.as_str(), first_line.unwrap_or(""));
        let _ = writeln!(help, "{}", line.trim_end());
    }
    help
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_was_left_out_names_its_feature() {
        assert_eq!(left_out("--http", &["--listen"]), Some("http"));
        assert_eq!(left_out("--http=8000", &[]), Some("http"));
        assert_eq!(left_out("--listen", &[]), Some("bus"));
        assert_eq!(left_out("--http", &["--http"]), None);
        assert_eq!(left_out("--htp", &[]), None);
        assert_eq!(left_out("127.0.0.1:0", &[]), None);
    }
}
