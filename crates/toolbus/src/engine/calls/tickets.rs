//! Maps by ticket, which is a number that we count up ourselves.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use toolbus_proto::channel::Ticket;
use toolbus_proto::counted::{Counted, Spread};

/// What is known of each ticket.
pub(crate) type ByTicket<T> = Counted<Ticket, T>;
/// Some tickets.
pub(crate) type Tickets = HashSet<Ticket, BuildHasherDefault<Spread>>;
