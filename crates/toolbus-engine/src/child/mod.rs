//! Child processes: start one, watch it, end it and all it started.
//!
//! *When* to do any of this is decided by [`supervisor`], a state machine without hands. A
//! [`Process`] can be driven by a reactor (every wait is a descriptor that becomes readable) or
//! by a loop that blocks. A [`Running`] program is one on the reactor with its pipes, for who
//! starts it for a while and reads what it writes.

mod patience;
pub mod supervisor;

mod cgroup;
mod process;
mod program;
mod running;
mod session;

mod fork;
pub mod guard;
pub mod scratch;

pub mod diagnose;
pub mod shell;
pub mod stderr;
pub mod words;

pub use diagnose::SpawnError;
pub use patience::wait_is_told;
pub use patience::{Abrupt, Meanwhile, Patience, tell_waits_after};
pub(crate) use process::Pipes;
pub use process::{Process, Signal};
pub use program::{CLEAN_ENVIRONMENT, EnvPolicy, Program};
pub use running::{Event, RunLimits, Running, Stopped, Stream, Survivors};
pub(crate) use session::Session;
pub use toolbus_proto::tool::Exit;
