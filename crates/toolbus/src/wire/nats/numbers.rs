//! What is counted of this wire.

use crate::bus::meters::{Measure, MeterReading};

pub(super) static CONNECTED: Measure = Measure {
    name: "toolbus_nats_connected",
    help: "Whether there is a connection to a NATS server: 1 if there is.",
    is_counter: false,
};
pub(super) static RECONNECTS: Measure = Measure {
    name: "toolbus_nats_reconnects_total",
    help: "How often a connection to NATS was made again.",
    is_counter: true,
};
pub(super) static NODES: Measure = Measure {
    name: "toolbus_nats_nodes",
    help: "Instances that answer for a back.",
    is_counter: false,
};
pub(super) static RESENT: Measure = Measure {
    name: "toolbus_nats_resent_total",
    help: "Calls that were sent once more, by why.",
    is_counter: true,
};
pub(super) static WINDOWS: Measure = Measure {
    name: "toolbus_nats_windows_bytes",
    help: "What others may send before they are given more.",
    is_counter: false,
};

/// One number of a front or a back.
pub(super) fn reading(
    measure: &'static Measure,
    labels: &[(&'static str, &str)],
    value: u64,
) -> MeterReading {
    let labels = labels.iter().map(|(name, of)| (*name, (*of).to_owned())).collect();
    MeterReading { measure, labels, value }
}
