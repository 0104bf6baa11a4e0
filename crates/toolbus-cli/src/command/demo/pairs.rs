//! Every kind of peer, called through every kind of front.

use std::time::Instant;

use toolbus::wire::Registry;
use toolbus::wire::fixture::Fixture;

use super::peers::Peers;
use super::{Tour, broken, call, millis, open};
use crate::exit::Exit;
use crate::failed::Failed;

pub(super) async fn all(tour: &Tour, peers: &Peers) -> Result<(), Failed> {
    tour.step("Every front before every back")?;
    let registry = Registry::default();
    let wires: Vec<(&str, &Fixture)> =
        registry.wires().filter_map(|kind| Some((kind.name(), kind.fixture()?))).collect();
    let names: String = wires.iter().map(|(name, _)| format!("{name:>12}")).collect();
    tour.say(format!("  {:<12}{names}", "front \\ back"))?;
    let mut answered = 0;
    for (name, front) in &wires {
        let mut row = format!("  {name:<12}");
        for (_, back) in &wires {
            let address = peers.serving(front, &peers.serving(back, "builtin:"));
            let begun = Instant::now();
            let bus = open(&address)?;
            let answer = call(&bus, back.hello.tool, back.hello.args).await;
            row.push_str(&format!("{:>12}", millis(begun.elapsed())));
            bus.shutdown().await;
            match answer {
                Ok(answer) if back.hello.is_answered_by(answer.as_str()) => answered += 1,
                Ok(answer) => {
                    let message = format!("{name} answered {answer}");
                    return Err(Failed::new(Exit::Failed, message));
                }
                Err(failure) => return Err(broken(name, &failure)),
            }
        }
        tour.say(row)?;
    }
    let planned = registry.planned_len().pow(2);
    tour.say(format!("  {answered} of {planned} answered, each through two processes"))
}
