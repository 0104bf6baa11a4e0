//! The run socket: a command of toolbus on one end, a `toolbus serve` of the same config on the
//! other.
//!
//! [`Greeting`] is the one line that the serving end says first, by which the command sees whether
//! it would make the same bus itself. What follows is one [`Client`] and one [`Server`]: requests
//! that run side by side, with all that a call between a front and a bus may say. What a request
//! asks for is [`RemoteCall`] and the other methods; both ends are of one version of toolbus, or
//! their [`PROTOCOL`] differs.

mod calling;
mod serving;
mod translate;
mod wire;

use crate::tool::{Failure, FailureKind, Wire};

pub use calling::Client;
pub use serving::Server;
pub use translate::{Destination, RemoteCall, read_tools, write_tools};
pub use wire::Greeting;

/// What the two ends speak.
pub const WIRE: Wire = Wire::new("run");

/// Which form of it: any change of what follows the greeting is another number.
pub const PROTOCOL: u32 = 1;

/// The method of a [`RemoteCall`].
pub const CALL: &[u8] = b"call";
/// Lists the tools of one back, by its name.
pub const TOOLS: &[u8] = b"tools";
/// The same, whatever the lock has of it.
pub const FRESH_TOOLS: &[u8] = b"fresh_tools";
/// Which wire each back speaks, found out where that is not said.
pub const WIRES: &[u8] = b"wires";
/// Where the fronts listen.
pub const FRONTS: &[u8] = b"fronts";

/// What a call is told whose server has gone away.
fn gone(pid: u32) -> Failure {
    let message = format!("toolbus serve (pid {pid}) ended before it answered");
    Failure::new(FailureKind::Gone, message)
}
