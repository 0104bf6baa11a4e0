//! Maps by ticket, which is a number that we count up ourselves.

use toolbus_proto::channel::Ticket;
use toolbus_proto::counted::{Counted, CountedSet};

/// What is known of each ticket.
pub(crate) type ByTicket<T> = Counted<Ticket, T>;
/// Some tickets.
pub(crate) type Tickets = CountedSet<Ticket>;
