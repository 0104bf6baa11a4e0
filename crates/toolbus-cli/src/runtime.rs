//! The one thread that commands run on, and the signals that end them.

use std::env;
use std::fs::{self, File};
use std::future::Future;
use std::path::PathBuf;

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::LocalSet;
use toolbus_engine::transport::descriptors;
use toolbus_engine::wake::when_woken;

use crate::exit::Exit;
use crate::failed::Failed;
use crate::stdio;

/// Runs a command on a current-thread runtime, where everything of a bus lives.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    if !stdio::is_guest() {
        descriptors::raise();
    }
    check_descriptors()?;
    if let Some(folder) = cache() {
        toolbus::wire::found::remember_in(folder);
    }
    let cannot = |error: std::io::Error| {
        Failed::new(Exit::Failed, "cannot start the event loop").caused_by(&error)
    };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    LocalSet::new().block_on(&runtime, when_woken(command))
}

/// Where we keep what only saves time.
pub(crate) fn cache() -> Option<PathBuf> {
    // A path that is not absolute is to be ignored, its specification says.
    let folder =
        |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(caches.join("toolbus"))
}

/// Where the run sockets of our user are.
pub(crate) fn sockets() -> Option<PathBuf> {
    let folder =
        |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(folder) = folder("XDG_RUNTIME_DIR") {
        return Some(folder.join("toolbus"));
    }
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("toolbus/run"))
}

/// So many files we open before the first peer: those of the event loop, of signals and of the
/// guard, and the pipes of a program that is being started.
const DESCRIPTORS_MIN: usize = 24;

/// Can so many files be opened? Without them the event loop would panic, and not say why.
fn check_descriptors() -> Result<(), Failed> {
    let open = |_| rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), 3);
    // Looked at and closed again.
    match (0..DESCRIPTORS_MIN).map(open).collect::<Result<Vec<_>, _>>() {
        // Without a standard error there is nothing that could be opened once more.
        Ok(_) | Err(rustix::io::Errno::BADF) => Ok(()),
        Err(error) => {
            let message =
                format!("cannot have {DESCRIPTORS_MIN} more files open, which toolbus needs");
            let failed = Failed::new(Exit::Failed, message).caused_by(&error);
            Err(failed.hint("raise the limit of open files, e.g. by `ulimit -n 1024`"))
        }
    }
}

/// SIGINT and SIGTERM, which ask us to end.
pub(crate) struct Signals {
    /// `None` inside another program, which they are meant for.
    caught: Option<Caught>,
}

struct Caught {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From now on the signals do not kill us any more.
    pub(crate) fn listen() -> Result<Signals, Failed> {
        if stdio::is_guest() {
            return Ok(Signals { caught: None });
        }
        let interrupt = listen(SignalKind::interrupt())?;
        let terminate = listen(SignalKind::terminate())?;
        Ok(Signals { caught: Some(Caught { interrupt, terminate }) })
    }

    /// Waits for the next of them.
    pub(crate) async fn next(&mut self) -> Exit {
        let Some(Caught { interrupt, terminate }) = &mut self.caught else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => Exit::Interrupted,
            _ = terminate.recv() => Exit::Terminated,
        }
    }

    /// Waits for `goodbye`, and cuts it short by `kill` if another signal comes. Tells whether it
    /// was said to its end.
    pub(crate) async fn or_kill(
        &mut self,
        goodbye: impl Future<Output = ()>,
        kill: impl FnOnce(),
    ) -> bool {
        let mut goodbye = std::pin::pin!(goodbye);
        tokio::select! {
            () = &mut goodbye => return true,
            _ = self.next() => kill(),
        }
        goodbye.await;
        false
    }
}

/// SIGHUP, which asks us to read the config again, or says that our terminal is gone.
pub(crate) struct Hangups {
    signal: Signal,
    /// We end with the terminal that we were started on.
    on_terminal: bool,
}

/// What a SIGHUP means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hangup {
    Reload,
    TerminalClosed,
}

impl Hangups {
    /// From now on the signal does not kill us any more.
    pub(crate) fn listen() -> Result<Hangups, Failed> {
        // Looked at before it is caught: `nohup` has us ignore it.
        let on_terminal = has_terminal() && !is_ignored();
        Ok(Hangups { signal: listen(SignalKind::hangup())?, on_terminal })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Hangup {
        self.signal.recv().await;
        match self.on_terminal && !has_terminal() {
            true => Hangup::TerminalClosed,
            false => Hangup::Reload,
        }
    }
}

/// Do we have a controlling terminal that is not hung up?
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

/// Was SIGHUP ignored when we were started? Where there is no `/proc`, it is taken for not.
fn is_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    // Signals are counted from 1, and SIGHUP is that.
    ignored.is_some_and(|set| set & 1 == 1)
}

/// A limit of file sizes is told like a full disk and does not kill us: its signal is caught from
/// now on. Programs that we start have it as usual.
pub(crate) fn survive_file_limits() {
    if stdio::is_guest() {
        return;
    }
    // Where it cannot be caught, it is as it always was.
    let _ = listen(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
}

fn listen(kind: SignalKind) -> Result<Signal, Failed> {
    signal(kind)
        .map_err(|error| Failed::new(Exit::Failed, "cannot listen for signals").caused_by(&error))
}
