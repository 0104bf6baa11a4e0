//! What a service manager and its service tell each other: the datagrams of `sd_notify`, and the
//! variables by which sockets, a watchdog and a place for the datagrams are passed on.
//!
//! Texts alone: who has the environment, the clock and the socket stands elsewhere.

use std::time::Duration;

/// The variables that are meant for this process, and for none that it starts.
pub const VARIABLES: [&str; 6] =
    [NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID, LISTEN_FDS, LISTEN_PID, LISTEN_FDNAMES];

const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
const WATCHDOG_USEC: &str = "WATCHDOG_USEC";
const WATCHDOG_PID: &str = "WATCHDOG_PID";
const LISTEN_FDS: &str = "LISTEN_FDS";
const LISTEN_PID: &str = "LISTEN_PID";
const LISTEN_FDNAMES: &str = "LISTEN_FDNAMES";

/// The descriptor of the first socket that is passed.
const FIRST_SOCKET: i32 = 3;
/// More are not believed: no process has as many open.
const SOCKETS_MAX: i32 = 4096;

/// What a service tells its manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice<'a> {
    /// It serves, and this is how people are told of it.
    Ready {
        /// One line.
        status: &'a str,
    },
    /// It reads its config again, since this moment of the system's monotonic clock.
    Reloading {
        /// In microseconds.
        since: u128,
    },
    /// It ends.
    Stopping,
    /// It is alive.
    Alive,
}

impl Notice<'_> {
    /// The datagram that says so.
    pub fn datagram(&self) -> String {
        match self {
            // What follows a line end would be another assignment.
            Notice::Ready { status } => {
                let line = status.lines().next().unwrap_or_default();
                format!("READY=1\nSTATUS={line}")
            }
            Notice::Reloading { since } => format!("RELOADING=1\nMONOTONIC_USEC={since}"),
            Notice::Stopping => "STOPPING=1".to_owned(),
            Notice::Alive => "WATCHDOG=1".to_owned(),
        }
    }
}

/// How people are told what is served: `2 fronts, 3 backs`.
pub fn serving(fronts: usize, backs: usize) -> String {
    let counted = |count: usize, what: &str| {
        let plural = if count == 1 { "" } else { "s" };
        format!("{count} {what}{plural}")
    };
    format!("{}, {}", counted(fronts, "front"), counted(backs, "back"))
}

/// How people are told why a config was not taken.
pub fn not_taken(why: &str) -> String {
    format!("the config was not taken: {}", why.lines().next().unwrap_or_default())
}

/// Where datagrams go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotifySocket {
    /// To a socket file.
    Path(String),
    /// To a socket that has this name and no file.
    Abstract(String),
}

/// A socket that was passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedFd {
    /// Its descriptor.
    pub number: i32,
    /// What it is called, if it has a name.
    pub name: Option<String>,
}

/// What a process was given by its service manager.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FromManager {
    /// Where it tells how it is.
    pub notify: Option<NotifySocket>,
    /// How often it has to say that it is alive: half of the time that it may be silent.
    pub alive_every: Option<Duration>,
    /// The sockets it has to listen on.
    pub sockets: Vec<PassedFd>,
}

impl FromManager {
    /// What the variables say to the process of this number. What makes no sense says nothing.
    pub fn of(process: u32, variable: impl Fn(&str) -> Option<String>) -> FromManager {
        let is_ours = |name: &str| variable(name).is_some_and(|it| it.parse() == Ok(process));
        let notify = variable(NOTIFY_SOCKET).and_then(|at| NotifySocket::of(&at));
        let is_watched = variable(WATCHDOG_PID).is_none() || is_ours(WATCHDOG_PID);
        let silence = variable(WATCHDOG_USEC).and_then(|micros| micros.parse::<u64>().ok());
        let silence = silence.filter(|&micros| is_watched && 1 < micros);
        let sockets = if is_ours(LISTEN_PID) { variable(LISTEN_FDS) } else { None };
        let count = sockets.and_then(|count| count.parse::<i32>().ok()).unwrap_or(0);
        let names = variable(LISTEN_FDNAMES).unwrap_or_default();
        let names = names.split(':').map(Some).chain(std::iter::repeat(None));
        let sockets = (FIRST_SOCKET..FIRST_SOCKET + count.clamp(0, SOCKETS_MAX)).zip(names);
        let passed = |(number, name): (i32, Option<&str>)| {
            let name = name.filter(|name| !name.is_empty()).map(str::to_owned);
            PassedFd { number, name }
        };
        FromManager {
            notify,
            alive_every: silence.map(|micros| Duration::from_micros(micros / 2)),
            sockets: sockets.map(passed).collect(),
        }
    }
}

impl NotifySocket {
    fn of(text: &str) -> Option<NotifySocket> {
        match text.strip_prefix('@') {
            Some(name) if !name.is_empty() => Some(NotifySocket::Abstract(name.to_owned())),
            None if text.starts_with('/') => Some(NotifySocket::Path(text.to_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(variables: &[(&str, &str)]) -> FromManager {
        FromManager::of(7, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn datagrams_are_lines() {
        let ready = Notice::Ready { status: &serving(1, 3) }.datagram();
        assert_eq!(ready, "READY=1\nSTATUS=1 front, 3 backs");
        let status = not_taken("`x` line 1: no\nMAINPID=1");
        assert_eq!(
            Notice::Ready { status: &status }.datagram(),
            "READY=1\nSTATUS=the config was not taken: `x` line 1: no"
        );
        let reloading = Notice::Reloading { since: 12 }.datagram();
        assert_eq!(reloading, "RELOADING=1\nMONOTONIC_USEC=12");
        assert_eq!(Notice::Stopping.datagram(), "STOPPING=1");
        assert_eq!(Notice::Alive.datagram(), "WATCHDOG=1");
        assert_eq!(serving(2, 1), "2 fronts, 1 back");
    }

    #[test]
    fn datagrams_go_to_a_path_or_a_name() {
        let told = |at: &str| given(&[(NOTIFY_SOCKET, at)]).notify;
        assert_eq!(told("/run/x"), Some(NotifySocket::Path("/run/x".to_owned())));
        assert_eq!(told("@x/y"), Some(NotifySocket::Abstract("x/y".to_owned())));
        for none in ["", "@", "run/x", "vsock:1:2"] {
            assert_eq!(told(none), None, "{none}");
        }
    }

    #[test]
    fn a_watchdog_may_be_meant_for_another() {
        let every = |variables: &[(&str, &str)]| given(variables).alive_every;
        let half = Some(Duration::from_millis(500));
        assert_eq!(every(&[(WATCHDOG_USEC, "1000000")]), half);
        assert_eq!(every(&[(WATCHDOG_USEC, "1000000"), (WATCHDOG_PID, "7")]), half);
        assert_eq!(every(&[(WATCHDOG_USEC, "1000000"), (WATCHDOG_PID, "8")]), None);
        for none in ["0", "1", "-1", "x", ""] {
            assert_eq!(every(&[(WATCHDOG_USEC, none)]), None, "{none}");
        }
    }

    #[test]
    fn sockets_are_counted_from_three() {
        let ours = (LISTEN_PID, "7");
        let told = |variables: &[(&str, &str)]| {
            let told = given(variables).sockets;
            told.into_iter().map(|fd| (fd.number, fd.name.unwrap_or_default())).collect::<Vec<_>>()
        };
        let named = [ours, (LISTEN_FDS, "3"), (LISTEN_FDNAMES, "web::admin")];
        let expected = [(3, "web"), (4, ""), (5, "admin")].map(|(fd, name)| (fd, name.to_owned()));
        assert_eq!(told(&named), expected);
        assert_eq!(told(&[ours, (LISTEN_FDS, "1")]), [(3, String::new())]);
        assert!(told(&[(LISTEN_PID, "8"), (LISTEN_FDS, "1")]).is_empty());
        assert!(told(&[(LISTEN_FDS, "1")]).is_empty());
        assert!(told(&[ours, (LISTEN_FDS, "-1")]).is_empty());
        assert_eq!(told(&[ours, (LISTEN_FDS, "2000000000")]).len(), 4096);
    }
}
