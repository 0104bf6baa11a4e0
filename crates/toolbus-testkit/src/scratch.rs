//! A folder of a test's own, gone when the test is.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// An empty folder that is removed with all in it when this is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes a folder that no other test has.
    #[expect(clippy::new_without_default, reason = "two folders are not the same")]
    pub fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("toolbus-test-{}-{count}", process::id()));
        // A process of the same number may have been killed before it could remove its own.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder can be made where temporary ones are");
        Scratch(path)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A path in it, as text.
    pub fn file(&self, name: &str) -> String {
        let path = self.0.join(name);
        path.to_str().expect("temporary folders have names in UTF-8").to_owned()
    }

    /// Writes a program into it, and gives its path.
    ///
    /// Another process does: a descriptor of ours could be copied by a fork in another test, and a
    /// file that is open for writing cannot be run.
    #[track_caller]
    pub fn program(&self, name: &str, text: &str) -> String {
        let path = self.file(name);
        let mut shell = Command::new("sh");
        shell.args(["-c", "cat > \"$0\" && chmod 755 \"$0\"", &path]).stdin(Stdio::piped());
        let mut shell = shell.spawn().expect("there is a shell");
        let stdin = shell.stdin.take();
        let written = stdin.expect("is piped").write_all(text.as_bytes());
        let ended = shell.wait().expect("it can be waited for");
        assert!(written.is_ok() && ended.success(), "cannot write `{path}`");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
