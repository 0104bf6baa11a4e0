//! No child process is left, however we end. The test looks into `/proc`, so it is for Linux alone.

// Without a harness it does not count as a test, but a panic is the report here too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(target_os = "linux")]
mod kill;

fn main() {
    #[cfg(target_os = "linux")]
    kill::main();
}
