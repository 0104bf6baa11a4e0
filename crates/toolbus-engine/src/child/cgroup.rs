//! A cgroup for each child, from which nothing that it starts can leave, by `setsid` neither.
//!
//! Only on Linux, and only where our own cgroup is delegated to us; elsewhere children are held
//! by their [session](super::session) alone. All cgroups of a program are in one folder, so that
//! the guard can end them by one word. No controller is looked at or changed.

#[cfg(not(target_os = "linux"))]
use std::path::Path;

/// The cgroup of one child, by its name in our folder. No name is given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cgroup(u32);

#[cfg(target_os = "linux")]
pub(super) use linux::{create, end, folder};

#[cfg(not(target_os = "linux"))]
pub(super) fn folder() -> Option<&'static Path> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(super) fn create() -> Option<(Cgroup, std::fs::File)> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(super) fn end(_folder: &Path) {}

#[cfg(not(target_os = "linux"))]
impl Cgroup {
    pub(super) fn kill(self) {}

    pub(super) fn remove(self) {}
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::{self, File, OpenOptions};
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Mutex, OnceLock, PoisonError};
    use std::thread;
    use std::time::Duration;

    use super::Cgroup;

    /// How often the guard looks whether those it has killed are gone, and how long between.
    const ROUNDS_MAX: u32 = 400;
    const LOOK_AGAIN: Duration = Duration::from_millis(5);

    /// The folder of all our cgroups, made by the first who asks; `None` where there can be none.
    pub(in crate::child) fn folder() -> Option<&'static Path> {
        static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
        FOLDER.get_or_init(make_folder).as_deref()
    }

    /// A new, empty cgroup, and the file by which a process enters it.
    pub(in crate::child) fn create() -> Option<(Cgroup, File)> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        remove_left();
        let cgroup = Cgroup(COUNT.fetch_add(1, Ordering::Relaxed));
        let path = cgroup.path()?;
        fs::create_dir(&path).ok()?;
        match OpenOptions::new().write(true).open(path.join("cgroup.procs")) {
            Ok(procs) => Some((cgroup, procs)),
            Err(_) => {
                cgroup.remove();
                None
            }
        }
    }

    impl Cgroup {
        fn path(self) -> Option<PathBuf> {
            Some(folder()?.join(self.0.to_string()))
        }

        /// The numbers of the processes in it.
        pub(in crate::child) fn processes(self) -> Vec<i32> {
            let path = self.path().map(|path| path.join("cgroup.procs"));
            let numbers = path.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
            numbers.lines().filter_map(|line| line.parse().ok()).collect()
        }

        /// Kills every process in it. The kernel sees to it that none is missed which is being
        /// started meanwhile.
        pub(in crate::child) fn kill(self) {
            if let Some(path) = self.path() {
                kill(&path);
            }
        }

        /// To be called when all in it were killed. They may need a moment to be gone: then the
        /// folder goes when the next child is started, or with us.
        pub(in crate::child) fn remove(self) {
            if self.path().is_some_and(|path| remove(&path).is_err()) {
                left().push(self);
            }
        }
    }

    /// Those that were still in use when they should have been removed.
    static LEFT: Mutex<Vec<Cgroup>> = Mutex::new(Vec::new());

    fn left() -> std::sync::MutexGuard<'static, Vec<Cgroup>> {
        LEFT.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove_left() {
        left().retain(|cgroup| cgroup.path().is_some_and(|path| remove(&path).is_err()));
    }

    /// Kills all that is left in the folder and removes it: what the guard does when we are gone.
    #[expect(clippy::disallowed_methods, reason = "how often to look, no guess how long it takes")]
    pub(in crate::child) fn end(folder: &Path) {
        kill(folder);
        for _ in 0..ROUNDS_MAX {
            match remove(folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    thread::sleep(LOOK_AGAIN);
                }
                // Done, or it cannot be helped.
                _ => return,
            }
        }
    }

    fn kill(path: &Path) {
        let is_empty = |events: String| events.lines().any(|line| line == "populated 0");
        // Mostly, for a program that has ended by itself; a look costs less than a kill.
        if fs::read_to_string(path.join("cgroup.events")).is_ok_and(is_empty) {
            return;
        }
        // Fails if there is no such folder any more, and then no process in it.
        let _ = fs::write(path.join("cgroup.kill"), "1");
    }

    /// Removes a cgroup and those that a process in it may have made there.
    fn remove(path: &Path) -> io::Result<()> {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                remove(&entry.path())?;
            }
        }
        fs::remove_dir(path)
    }

    fn make_folder() -> Option<PathBuf> {
        let cgroup = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = own_folder(&cgroup, &mounts)?;
        if is_booted_by_systemd() && !own.ancestors().any(is_marked_as_delegated) {
            return None;
        }
        // A process is moved only by one who may write where it comes from, too.
        OpenOptions::new().write(true).open(own.join("cgroup.procs")).ok()?;
        sweep(&own);
        let pid = std::process::id();
        // One of this number may have been killed together with its guard.
        let free = (0..100).map(|n| own.join(format!("toolbus.{pid}.{n}")));
        let mut made = free.map(|path| (fs::create_dir(&path), path));
        let is_taken = |made: &io::Result<()>| {
            made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
        };
        let (outcome, path) = made.find(|(made, _)| !is_taken(made))?;
        outcome.ok()?;
        // Kernels before 5.14 cannot kill a cgroup; one inside of threads' cgroups takes none.
        let is_domain =
            fs::read_to_string(path.join("cgroup.type")).is_ok_and(|kind| kind.trim() == "domain");
        if is_domain && path.join("cgroup.kill").exists() {
            return Some(path);
        }
        let _ = fs::remove_dir(&path);
        None
    }

    /// Removes the folders of programs that were killed together with their guard, as far as no
    /// process is in them.
    fn sweep(own: &Path) {
        let is_dead = |name: &str| {
            let pid = name.strip_prefix("toolbus.").and_then(|rest| rest.split('.').next());
            pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
        };
        for entry in fs::read_dir(own).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(is_dead) {
                let _ = remove(&entry.path());
            }
        }
    }

    /// Where the files of our own cgroup of version 2 are.
    fn own_folder(cgroup: &str, mounts: &str) -> Option<PathBuf> {
        let own = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
        mounts.lines().find_map(|line| {
            let (mount, filesystem) = line.split_once(" - ")?;
            filesystem.starts_with("cgroup2 ").then_some(())?;
            let mut fields = mount.split(' ').skip(3);
            let (root, mounted_at) = (fields.next()?, fields.next()?);
            let below = Path::new(own).strip_prefix(root).ok()?;
            Some(Path::new(mounted_at).join(below))
        })
    }

    /// systemd takes every cgroup for its own, whoever may write there, but those it was told to
    /// leave to others.
    fn is_booted_by_systemd() -> bool {
        Path::new("/run/systemd/system").is_dir()
    }

    fn is_marked_as_delegated(path: &Path) -> bool {
        ["user.delegate", "trusted.delegate"].into_iter().any(|name| {
            let mut value = [0; 1];
            matches!(rustix::fs::getxattr(path, name, &mut value), Ok(1)) && value == *b"1"
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn our_own_folder_is_found() {
            let check = |cgroup, mounts| own_folder(cgroup, mounts).map(PathBuf::into_os_string);
            let own = "12:pids:/user\n0::/user.slice/me.scope\n";
            let plain = "24 1 0:22 / /proc rw - proc proc rw\n\
                         35 24 0:29 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
            assert_eq!(check(own, plain), Some("/sys/fs/cgroup/user.slice/me.scope".into()));
            let hybrid = "30 25 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
                          31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
            let unified = Some("/sys/fs/cgroup/unified/user.slice/me.scope".into());
            assert_eq!(check(own, hybrid), unified);
            let bound = "31 25 0:27 /user.slice /mnt rw - cgroup2 cgroup2 rw\n";
            assert_eq!(check(own, bound), Some("/mnt/me.scope".into()));
            let elsewhere = "31 25 0:27 /system.slice /mnt rw - cgroup2 cgroup2 rw\n";
            assert_eq!(check(own, elsewhere), None);
            assert_eq!(check("12:pids:/user\n", plain), None);
            assert_eq!(check(own, ""), None);
        }
    }
}
