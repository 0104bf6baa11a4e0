//! `toolbus.lock`, as whoever can write to the folder may have left it.

use toolbus_proto::pin::{Layouts, Lock, SPEC};
use toolbus_proto::{mcp, oracle, orchard};

/// The text of a lock: what is understood is written so that it is understood again.
pub fn file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(lock) = Lock::read(text, &layouts) else { return };
    let written = lock.write();
    let again = Lock::read(&written, &layouts).expect("what we write can be read");
    assert_eq!(again, lock, "{written}");
    assert_eq!(again.write(), written);
}

fn layouts(wire: &str) -> Layouts {
    match wire {
        "mcp" => mcp::pin::LAYOUTS,
        "oracle" => oracle::pin::LAYOUTS,
        "orchard" => orchard::pin::LAYOUTS,
        _ => SPEC,
    }
}
