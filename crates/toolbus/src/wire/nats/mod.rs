//! NATS: the tools of a bus as a micro service, and micro services as tools.

#[cfg(all(feature = "bus", not(feature = "unstable")))]
mod back;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod back;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
mod decode;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod decode;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
mod front;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod front;
#[cfg(feature = "bus")]
mod kind;
#[cfg(feature = "bus")]
mod numbers;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
mod reach;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod reach;
#[cfg(feature = "bus")]
mod sessions;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
mod settings;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod settings;
#[cfg(feature = "bus")]
mod trusted;

#[cfg(all(feature = "bus", feature = "unstable"))]
pub use back::{back, reach_of};
#[cfg(feature = "bus")]
pub(crate) use kind::NATS;
pub use toolbus_proto::nats::WIRE;
