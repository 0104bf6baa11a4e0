//! Contenders taking turns, round after round; ratios are taken within a round.

use std::time::Duration;

use crate::client::Client;

/// How long each contender calls in a round.
const TURN: Duration = Duration::from_millis(100);

pub(crate) struct Table {
    rounds: usize,
    rows: Vec<(String, Client)>,
}

impl Table {
    pub(crate) fn new(rounds: usize) -> Table {
        Table { rounds, rows: Vec::new() }
    }

    /// The first one is what the others are compared with.
    pub(crate) fn add(&mut self, name: String, client: Client) {
        self.rows.push((name, client));
    }

    /// Prints one table: how long a call takes, or how many there are in a second.
    pub(crate) fn measure(&mut self, size: usize, shown: &str, in_flight: usize) {
        for (_, client) in &mut self.rows {
            client.check(size);
            client.turn(TURN, size, in_flight);
        }
        // Times, so that less is better in all tables: with calls in flight it is that of a
        // second divided by its calls.
        let mut times = vec![Vec::new(); self.rows.len()];
        let mut cpus = times.clone();
        for _ in 0..self.rounds {
            for (((_, client), times), cpus) in self.rows.iter_mut().zip(&mut times).zip(&mut cpus)
            {
                let turn = client.turn(TURN, size, in_flight);
                cpus.push(turn.cpu.as_secs_f64() / turn.calls as f64);
                times.push(match in_flight {
                    1 => turn.latency.as_secs_f64(),
                    _ => turn.took.as_secs_f64() / turn.calls as f64,
                });
            }
        }
        let unit = if in_flight == 1 { "µs until the answer" } else { "calls a second" };
        println!(
            "\n| {shown}, {in_flight} in flight | {unit} | ratio | CPU of all, µs a call | ratio |"
        );
        println!("|---|---|---|---|---|");
        for (((name, _), own), cpu) in self.rows.iter().zip(&times).zip(&cpus) {
            let told = |time: &f64| match in_flight {
                1 => time * 1e6,
                _ => 1.0 / time,
            };
            println!(
                "| {name} | {} | {} | {} | {} |",
                spread(own.iter().map(told)),
                spread(ratios(&times[0], own)),
                spread(cpu.iter().map(|time| time * 1e6)),
                spread(ratios(&cpus[0], cpu)),
            );
        }
    }
}

/// The ratios within a round.
fn ratios(limit: &[f64], own: &[f64]) -> impl Iterator<Item = f64> {
    limit.iter().zip(own).map(|(limit, own)| limit / own)
}

/// The middle one, with the least and the most.
fn spread(values: impl Iterator<Item = f64>) -> String {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let shown = |value: f64| match value {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    };
    let (least, most) = (shown(values[0]), shown(values[values.len() - 1]));
    format!("{} ({least} to {most})", shown(values[values.len() / 2]))
}
