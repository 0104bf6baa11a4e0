//! What was probably meant by text that is no address, and whether a word was meant as one.

use std::net::IpAddr;

use super::Purpose;
use super::scheme::{Form, Scheme};
use super::url::Transport;
use crate::did_you_mean::nearest;
use crate::peer::{PeerKind, Registry};

/// So few schemes are listed where one is not known; of more the likely one is named.
const LISTED_MAX: usize = 4;

/// The schemes there are, if they are few: `; supported are stdio:, shell:`.
pub(super) fn listed(registry: &Registry) -> String {
    let mut schemes: Vec<&Scheme> = schemes(registry).collect();
    if LISTED_MAX < schemes.len() {
        return String::new();
    }
    schemes.sort_by_key(|scheme| scheme.form.rank());
    let prefixes: Vec<_> = schemes.iter().map(|scheme| scheme.prefix).collect();
    format!("; supported are {}", prefixes.join(", "))
}

/// What to write in place of `text`, which begins with no scheme of the registry.
pub(super) fn hint(registry: &Registry, purpose: Purpose, text: &str) -> Option<String> {
    let meant = meant(registry, purpose, text.trim());
    match meant.as_slice() {
        [] if schemes(registry).count() <= LISTED_MAX => None,
        [] => Some("`toolbus --help` lists what an address can be".to_owned()),
        [one] => Some(format!("did you mean `{one}`?")),
        [first, others @ ..] => {
            let others: Vec<_> = others.iter().map(|other| format!(" or `{other}`")).collect();
            Some(format!("did you mean `{first}`{}?", others.concat()))
        }
    }
}

fn meant(registry: &Registry, purpose: Purpose, text: &str) -> Vec<String> {
    let Some((name, rest)) = text.split_once(':') else {
        // `builtin` without its colon.
        let known = schemes(registry).find(|scheme| scheme.name() == text);
        return known.map(|scheme| scheme.prefix.to_owned()).into_iter().collect();
    };
    if is_host_and_port(name, rest) {
        return at_host(registry, purpose, text);
    }
    let name = name.trim().to_ascii_lowercase();
    let scheme = schemes(registry)
        .find(|scheme| scheme.name() == name)
        .or_else(|| of_wire(registry, purpose, &name, rest))
        .or_else(|| by_transport(registry, &name))
        .or_else(|| {
            let near = nearest(&name, schemes(registry).map(Scheme::name))?;
            schemes(registry).find(|scheme| scheme.name() == near)
        });
    let written = |scheme: &Scheme| match scheme.form {
        Form::Alone => scheme.prefix.to_owned(),
        Form::Url(_) => format!("{}{}", scheme.prefix, rest.trim_start_matches('/')),
        Form::Command | Form::Unix => format!("{}{rest}", scheme.prefix),
    };
    scheme.map(written).into_iter().collect()
}

/// `mcp:COMMAND` and `mcp://HOST` name a wire and leave the rest to us.
fn of_wire(
    registry: &Registry,
    purpose: Purpose,
    name: &str,
    rest: &str,
) -> Option<&'static Scheme> {
    let kind = registry.find(name)?;
    let is_url = rest.starts_with("//");
    let fits = |scheme: &&Scheme| {
        matches!(scheme.form, Form::Url(_)) == is_url && says_enough(purpose, scheme)
    };
    kind.schemes().iter().find(fits)
}

/// What is to be served should say its wire: `http://` goes without it only for a peer to call.
fn says_enough(purpose: Purpose, scheme: &Scheme) -> bool {
    purpose == Purpose::Call || scheme.name().contains('+')
}

/// `tcp://HOST` leaves out the wire, where only one goes over it.
fn by_transport(registry: &Registry, name: &str) -> Option<&'static Scheme> {
    let goes_over = |scheme: &&Scheme| {
        scheme.name().split_once('+').is_some_and(|(_, transport)| transport == name)
    };
    let mut all = schemes(registry).filter(goes_over);
    all.next().filter(|_| all.next().is_none())
}

/// The addresses that a host and port may be meant to be.
fn at_host(registry: &Registry, purpose: Purpose, text: &str) -> Vec<String> {
    let has_path = text.contains('/');
    let at = |kind: &'static dyn PeerKind| {
        let mut schemes = kind.schemes().iter().filter(|scheme| says_enough(purpose, scheme));
        schemes.find(|scheme| match scheme.form {
            Form::Url(url) => match url.transport {
                Transport::Http => has_path || url.path == Some("/"),
                // One with a port of its own is meant by that port.
                Transport::Tcp if url.port.is_some_and(|port| !is_at(text, port)) => false,
                Transport::Tcp => !has_path,
                _ => false,
            },
            _ => false,
        })
    };
    let schemes = registry.kinds().filter_map(at);
    schemes.map(|scheme| format!("{}{text}", scheme.prefix)).collect()
}

/// Is this the port of `HOST:PORT/PATH`?
fn is_at(text: &str, port: u16) -> bool {
    let authority = text.split('/').next().unwrap_or_default();
    authority.rsplit_once(':').is_some_and(|(_, found)| found.parse() == Ok(port))
}

/// `127.0.0.1:7420`, `localhost:80/mcp` or `[::1]:7420`.
fn is_host_and_port(name: &str, rest: &str) -> bool {
    let port = rest.split('/').next().unwrap_or_default();
    let is_port = port.parse::<u16>().is_ok() || name.starts_with('[');
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b".-[:]".contains(&byte);
    is_port && name.bytes().all(is_letter)
}

/// Whether the first word of `[ADDRESS] TOOL` is meant as an address. A misspelled one is, if it
/// cannot well be the name of a tool: that is a mistake to be told, and no tool to be looked for.
pub(super) fn begins_like_one(registry: &Registry, word: &str) -> bool {
    if is_command(registry, word) {
        return true;
    }
    let Some((name, rest)) = word.split_once(':') else { return false };
    let is_known = |name: &str| schemes(registry).any(|scheme| scheme.name() == name);
    let is_word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase());
    let has_two_parts =
        name.split_once('+').is_some_and(|(wire, transport)| is_word(wire) && is_word(transport));
    let is_near = || nearest(name, schemes(registry).map(Scheme::name)).is_some();
    let is_here = || name == "localhost" || name.parse::<IpAddr>().is_ok();
    has_two_parts
        || is_known(&name.to_ascii_lowercase())
        || registry.find(name).is_some()
        || rest.starts_with("//")
        || rest.is_empty() && is_near()
        || is_here() && is_host_and_port(name, rest)
}

/// Whether a word before a tool is a command: it has a blank, or is a path. A tool of a back may
/// have a slash in its name, too, but behind the dot of the back.
fn is_command(registry: &Registry, word: &str) -> bool {
    let program = word.split([' ', '\t', '\n']).next().unwrap_or_default();
    let folder = program.split_once('/').map(|(folder, _)| folder);
    let is_path = |folder: &str| !folder.trim_start_matches('.').contains('.');
    let is_here = || std::path::Path::new(program).is_file();
    let has_blank = program.len() < word.len();
    registry.kinds().any(PeerKind::is_found_out)
        && super::is_command(Purpose::Call, word)
        && (has_blank || folder.is_some_and(|folder| is_path(folder) || is_here()))
}

/// The scheme that a word is spelled like, if one is near.
pub(super) fn near_scheme(registry: &Registry, word: &str) -> Option<&'static str> {
    let name = nearest(word, schemes(registry).map(Scheme::name))?;
    schemes(registry).find(|scheme| scheme.name() == name).map(|scheme| scheme.prefix)
}

fn schemes(registry: &Registry) -> impl Iterator<Item = &'static Scheme> {
    registry.kinds().flat_map(PeerKind::schemes)
}
