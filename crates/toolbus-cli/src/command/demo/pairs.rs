//! Every kind of peer, called through every kind of front.

use std::time::Instant;

use super::peers::Peers;
use super::{Tour, broken, call, millis, open};
use crate::exit::Exit;
use crate::failed::Failed;

/// The wires that are there, each with the words that make this program a peer of it: one that
/// serves the tools at an address.
const WIRES: [(&str, &str, &[&str]); 3] = [
    ("oracle", "stdio:", &["oracle", "serve"]),
    ("mediocre", "mediocre+stdio:", &["rpc", "serve", "--listen", "stdio:"]),
    ("mcp", "mcp+stdio:", &["mcp"]),
];

pub(super) async fn all(tour: &Tour, peers: &Peers) -> Result<(), Failed> {
    tour.step("Every front before every back")?;
    let names = WIRES.map(|(name, ..)| format!("{name:>12}")).concat();
    tour.say(format!("  {:<12}{names}", "front \\ back"))?;
    let mut answered = 0;
    for (name, scheme, front) in WIRES {
        let mut row = format!("  {name:<12}");
        for (_, back_scheme, back) in WIRES {
            let back = format!("{back_scheme}{}", peers.ourselves(&[back, &["builtin:"]].concat()));
            let front = format!("{scheme}{}", peers.ourselves(&[front, &[&back]].concat()));
            let begun = Instant::now();
            let bus = open(&front)?;
            let answer = call(&bus, "upper", r#"{"text":"hello"}"#).await;
            row.push_str(&format!("{:>12}", millis(begun.elapsed())));
            bus.shutdown().await;
            match answer {
                Ok(answer) if answer.as_str() == r#""HELLO""# => answered += 1,
                Ok(answer) => {
                    let message = format!("{name} answered {answer}");
                    return Err(Failed::new(Exit::Failed, message));
                }
                Err(failure) => return Err(broken(name, &failure)),
            }
        }
        tour.say(row)?;
    }
    let pairs = WIRES.len() * WIRES.len();
    tour.say(format!("  {answered} of {pairs} answered, each through two processes"))
}
