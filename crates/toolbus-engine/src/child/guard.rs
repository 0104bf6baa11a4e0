//! The guard: a tiny process that kills our children's sessions when we are gone, however we went.
//!
//! It holds nothing but the reading end of a pipe whose writing end only we hold. Each session is
//! told to it before the child's exec and taken back before the child is reaped; when the pipe
//! ends, it kills what is left. It is started with the first child and again if it dies.
//!
//! It also knows the folder of our children's cgroups, kills what is in there and
//! removes it, and so it does with our folder of temporary files. Where there is none, a process that leaves its session by `setsid` escapes. So does,
//! if we are killed between the guard's own death and the start of the next, what a child of ours
//! has started; the child itself dies with us by a signal that the kernel sends, if the main thread
//! has started it.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::session::Session;
use super::{cgroup, fork, scratch};

/// The name the guard goes by; with a blank in it, since no link to a program is called so.
const NAME: &str = "toolbus guard";

/// The guard for programs that are not their own. `$0` is the name to be seen in lists, `$1` our
/// folder of temporary files, `$2` the folder of our cgroups, if there is one.
///
/// TERM, INT and HUP are ignored from before its exec, which a shell cannot undo.
const SCRIPT: &str = r#"
scratch=$1 folder=$2 sessions=
while read -r what session; do
    others=
    for each in $sessions; do [ "$each" = "$session" ] || others="$others $each"; done
    case $what in
        +) sessions="$others $session" ;;
        -) sessions=$others ;;
    esac
done
for each in $sessions; do kill -s KILL -- "-$each"; done
[ "$folder" ] && echo 1 > "$folder/cgroup.kill"
rounds=100
while [ "$rounds" -gt 0 ]; do
    rounds=$((rounds - 1)) left=
    for stat in /proc/[0-9]*/stat; do
        { read -r line < "$stat"; } 2> /dev/null || continue
        set -- "${line%% *}" ${line##*) }
        for each in $sessions; do
            case "$2 $5" in
                [ZX]*) ;;
                *" $each") kill -s KILL "$1" && left=1 ;;
            esac
        done
    done
    [ "$left" ] || break
done
[ "$scratch" ] && rm -rf -- "$scratch"
rounds=200
while [ "$folder" ] && [ -d "$folder" ] && [ "$rounds" -gt 0 ]; do
    rounds=$((rounds - 1))
    for each in "$folder"/*/*/*/ "$folder"/*/*/ "$folder"/*/ "$folder"; do
        [ -d "$each" ] && rmdir "$each"
    done
done
"#;

/// Lets this program be its own guard. Call it first thing in `main`.
///
/// In the guard it does not return; everywhere else it returns at once and from then on the guard
/// is this program, started anew. Without this call the guard is a `sh` script.
pub fn run_if_asked() {
    if std::env::args_os().next().is_some_and(|name| name == NAME) {
        let mut folders = std::env::args_os().skip(1);
        let (scratch, cgroups) = (folders.next(), folders.next());
        watch(io::stdin(), cgroups.as_deref().map(Path::new));
        // Behind those who may still write there.
        if let Some(scratch) = scratch {
            scratch::remove(Path::new(&scratch));
        }
        process::exit(0);
    }
    THIS_PROGRAM_CAN.store(true, Ordering::Relaxed);
}

static THIS_PROGRAM_CAN: AtomicBool = AtomicBool::new(false);

/// The life of the guard.
fn watch(mut hear: impl Read, cgroups: Option<&Path>) {
    let mut sessions: Vec<Pid> = Vec::new();
    let mut record = [0; RECORD_BYTES];
    // Any error ends the watch like the end of the pipe: a guard that cannot hear must not
    // outlive those it guards.
    while hear.read_exact(&mut record).is_ok() {
        let Some((what, session)) = read_record(&record) else {
            continue;
        };
        sessions.retain(|&listed| listed != session);
        if what == b'+' {
            sessions.push(session);
        }
    }
    for session in sessions {
        Session::new(session, None).signal(super::Signal::Kill);
    }
    if let Some(folder) = cgroups {
        cgroup::end(folder);
    }
}

/// `+` or `-`, a blank, the session's id filled up with blanks, a line end: easy for `sh` to read,
/// and short enough to be written as a whole or not at all.
pub(super) const RECORD_BYTES: usize = 13;

/// Allocates nothing, for it is used between fork and exec.
pub(super) fn record(what: u8, session: Pid) -> [u8; RECORD_BYTES] {
    let mut record = [b' '; RECORD_BYTES];
    record[0] = what;
    record[RECORD_BYTES - 1] = b'\n';
    let mut number = session.as_raw_nonzero().get().unsigned_abs();
    let digits = number.ilog10() as usize + 1;
    for digit in record[2..2 + digits].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    record
}

fn read_record(record: &[u8; RECORD_BYTES]) -> Option<(u8, Pid)> {
    let session = str::from_utf8(&record[1..]).ok()?.trim().parse::<i32>().ok()?;
    // To kill session 1 is to kill every process there is.
    let session = if 1 < session {
        Pid::from_raw(session)?
    } else {
        return None;
    };
    Some((record[0], session))
}

/// What we know of the guard; behind one lock, which a spawn holds from before its fork until
/// after its exec. So the thread that starts a guard knows of all children that must be told to it.
struct State {
    guard: Option<Guard>,
    /// The sessions that must not outlive us.
    sessions: Vec<Pid>,
    /// How many guards in a row died young.
    short_lives: u32,
}

struct Guard {
    pid: Pid,
    tell: PipeWriter,
    /// Kept so that a child which tells a dead guard is not killed by SIGPIPE.
    _hear: PipeReader,
    since: Instant,
}

static STATE: Mutex<State> =
    Mutex::new(State { guard: None, sessions: Vec::new(), short_lives: 0 });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lock on the guard, held while a child is started.
pub(super) struct Listening(MutexGuard<'static, State>);

/// A guard that runs and has room to be told of one more session.
pub(super) fn listening() -> io::Result<Listening> {
    let mut state = state();
    if !state.guard.as_ref().is_some_and(Guard::has_room) {
        state.start()?;
    }
    Ok(Listening(state))
}

impl Listening {
    /// Where a child tells its session. As long as it is open the guard does not
    /// see our end: drop it after the exec.
    pub(super) fn tell(&self) -> io::Result<PipeWriter> {
        let guard = self.0.guard.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        guard.tell.try_clone()
    }

    /// The child has told its session and is now ours to take back.
    pub(super) fn remember(mut self, session: Pid) {
        self.0.sessions.push(session);
    }
}

/// Takes a session back, which must be done while its leader is not yet reaped.
pub(super) fn take_back(session: Pid) {
    let mut state = state();
    state.sessions.retain(|&told| told != session);
    let Some(guard) = &state.guard else { return };
    if rustix::io::write(&guard.tell, &record(b'-', session)).is_err() {
        // Stuck with a full pipe. A new guard is told only of those that live.
        if let Err(error) = state.start() {
            tracing::warn!(%error, "cannot start the guard of our child processes");
        }
    }
}

impl Guard {
    fn has_room(&self) -> bool {
        let mut ready = [PollFd::new(&self.tell, PollFlags::OUT)];
        let now = rustix::event::Timespec::default();
        rustix::event::poll(&mut ready, Some(&now)).is_ok()
            && ready[0].revents().contains(PollFlags::OUT)
    }
}

impl State {
    /// Starts a guard, in place of the one there is, and tells it all sessions.
    fn start(&mut self) -> io::Result<()> {
        if let Some(stuck) = self.guard.take() {
            // Before its pipe is closed, or it would wake up and kill the sessions of its old list.
            let _ = rustix::process::kill_process(stuck.pid, Signal::KILL);
        }
        let (hear, tell) = io::pipe()?;
        // A guard that has stopped reading must not stop us.
        rustix::fs::fcntl_setfl(&tell, OFlags::NONBLOCK)?;
        let pid = spawn(&hear)?;
        if let Err(error) = self.tell_all(&tell).and_then(|()| start_keeper(pid)) {
            // It may know half of our sessions, which the end of its pipe would kill.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            let _ = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
            return Err(error);
        }
        self.guard = Some(Guard { pid, tell, _hear: hear, since: Instant::now() });
        Ok(())
    }

    fn tell_all(&self, tell: &PipeWriter) -> io::Result<()> {
        for &session in &self.sessions {
            rustix::io::write(tell, &record(b'+', session))?;
        }
        Ok(())
    }

    fn is_guard(&self, pid: Pid) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.pid == pid)
    }
}

fn spawn(hear: &PipeReader) -> io::Result<Pid> {
    let mut this_program = if cfg!(target_os = "linux") {
        // Not its path: the file may have been replaced since.
        Command::new("/proc/self/exe")
    } else {
        Command::new(std::env::current_exe()?)
    };
    this_program.arg0(NAME);
    let mut script = Command::new("/bin/sh");
    script.args(["-c", SCRIPT, NAME]);
    for command in [&mut this_program, &mut script] {
        command.arg(scratch::name());
        // Made before the first child, whose guard is this one.
        command.args(cgroup::folder());
    }

    let start = |mut command: Command| {
        let command = command.env_clear().current_dir("/").stdin(hear.try_clone()?);
        fork::be_alone(command.stdout(Stdio::null()).stderr(Stdio::null()));
        command.spawn()
    };
    let child = if THIS_PROGRAM_CAN.load(Ordering::Relaxed) {
        start(this_program).or_else(|_| start(script))?
    } else {
        start(script)?
    };
    Pid::from_raw(child.id().cast_signed()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn start_keeper(pid: Pid) -> io::Result<()> {
    let keeper = thread::Builder::new().name("toolbus guard keeper".into()).stack_size(64 * 1024);
    keeper.spawn(move || keep(pid)).map(drop)
}

/// Waits until a guard dies and sees to it that there is another.
fn keep(pid: Pid) {
    // Reaped only under the lock: until then no other process has its number, and it may be
    // killed.
    while let Err(rustix::io::Errno::INTR) =
        rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
    {
    }
    let mut now = state();
    let _ = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
    if !now.is_guard(pid) {
        return; // was replaced
    }
    if let Some(dead) = now.guard.take() {
        let young = dead.since.elapsed() < Duration::from_secs(10);
        now.short_lives = if young { now.short_lives + 1 } else { 0 };
    }
    // Without children the next one will start it.
    while now.guard.is_none() && !now.sessions.is_empty() {
        if 1 < now.short_lives {
            let pause = Duration::from_millis(100) * 2u32.pow(now.short_lives.min(6));
            drop(now);
            thread::park_timeout(pause);
            now = state();
            if now.guard.is_some() {
                return;
            }
        }
        if let Err(error) = now.start() {
            tracing::warn!(%error, "cannot start the guard of our child processes again");
            now.short_lives += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: i32) -> Pid {
        Pid::from_raw(id).unwrap()
    }

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        for id in [2, 9, 10, 4_194_304, i32::MAX] {
            let written = record(b'+', session(id));
            assert_eq!(read_record(&written), Some((b'+', session(id))));
            assert_eq!(written.last(), Some(&b'\n'));
        }
    }

    #[test]
    fn nobody_is_asked_to_kill_everybody() {
        for broken in [b"+ 1         \n", b"+ 0         \n", b"+ -7        \n", b"+           \n"] {
            assert_eq!(read_record(broken), None);
        }
    }
}
