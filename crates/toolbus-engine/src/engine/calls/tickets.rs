//! Maps by ticket, which is a number that we count up ourselves.

use toolbus_proto::channel::Ticket;
use toolbus_proto::counted::{Counted, CountedSet};

/// What is known of each ticket.
pub type ByTicket<T> = Counted<Ticket, T>;
/// Some tickets.
pub type Tickets = CountedSet<Ticket>;
