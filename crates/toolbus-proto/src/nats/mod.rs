//! The NATS room: short messages by subject, over one connection to a server that many share.
//!
//! [`protocol`] and [`headers`] are the bytes, [`opening`] how a connection begins, [`credentials`]
//! who we are. [`Server`] makes of a bus a micro service that any client can call; [`Client`] calls
//! micro services, those of other toolbuses and foreign ones. Between two toolbuses `flow` cuts a
//! call into messages that are numbered and never more than the other side takes.

pub mod credentials;
mod digest;
mod flow;
pub mod headers;
mod link;
pub mod opening;
pub mod protocol;
mod service;
pub mod subject;
mod translate;
mod wire;

mod calling;
mod serving;

pub mod decode;

pub use calling::{Client, ClientMemory, ClientSettings, Retry, SeenNode, SeenTraffic};
pub use digest::JudgedList;
pub use service::{About, NodeIdentity};
pub use serving::{NodeMemory, Server, ServerSettings, Trusted, trusted_number};
pub use wire::Info;

use crate::chance::Random;
use crate::tool::Wire;

/// This wire, where a call or a reply is native to it.
pub const WIRE: Wire = Wire::new("nats");

/// The version of what two toolbuses say to each other.
pub(crate) const VERSION: &str = "1";

/// So many toolbuses may a call pass through.
pub(crate) const HOPS_MAX: u32 = 8;

/// Letters and digits that cannot be foreseen: the id of a node, the middle of a reply subject.
pub fn random_id(random: &mut impl Random) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut id = String::new();
    while id.len() < 22 {
        let mut bytes = [0; 32];
        random.fill(&mut bytes);
        // What is over the last multiple would make some letters likelier than others.
        let letters = bytes.iter().filter(|byte| usize::from(**byte) < LETTERS.len() * 4);
        let letters = letters.map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]));
        id.extend(letters.take(22 - id.len()));
    }
    id
}
