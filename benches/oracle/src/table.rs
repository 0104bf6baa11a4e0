//! Contenders taking turns, round after round; ratios are taken within a round.

use std::time::{Duration, Instant};

/// Makes calls one after the other, each answered before the next.
pub(crate) trait Contender {
    fn calls(&mut self, count: u32);
}

pub(crate) struct Table {
    title: &'static str,
    rows: Vec<(&'static str, Box<dyn Contender>)>,
}

/// How long each contender runs in a round.
const TURN: Duration = Duration::from_millis(100);

impl Table {
    pub(crate) fn new(title: &'static str) -> Table {
        Table { title, rows: Vec::new() }
    }

    pub(crate) fn add(&mut self, name: &'static str, contender: impl Contender + 'static) {
        self.rows.push((name, Box::new(contender)));
    }

    /// Prints a table; the first contender is what the others are compared with.
    pub(crate) fn measure(mut self, rounds: usize) {
        let counts: Vec<u32> = self.rows.iter_mut().map(|(_, row)| calibrate(&mut **row)).collect();
        let mut nanos = vec![Vec::new(); self.rows.len()];
        for _ in 0..rounds {
            for (at, (_, row)) in self.rows.iter_mut().enumerate() {
                let before = Instant::now();
                row.calls(counts[at]);
                nanos[at].push(before.elapsed().as_nanos() as f64 / f64::from(counts[at]));
            }
        }
        println!("\n{}\n", self.title);
        println!("| | µs a call | ratio |\n|---|---|---|");
        for ((name, _), times) in self.rows.iter().zip(&nanos) {
            let ratios = nanos[0].iter().zip(times).map(|(limit, time)| limit / time);
            let (times, ratios) = (spread(times.iter().map(|nanos| nanos / 1e3)), spread(ratios));
            println!("| {name} | {times} | {ratios} |");
        }
    }
}

fn calibrate(contender: &mut dyn Contender) -> u32 {
    let mut count = 1;
    loop {
        let before = Instant::now();
        contender.calls(count);
        let took = before.elapsed();
        if TURN / 4 < took {
            let a_turn = TURN.as_secs_f64() / took.as_secs_f64() * f64::from(count);
            return (a_turn as u32).max(1);
        }
        count *= 2;
    }
}

/// The middle one, with the least and the most.
fn spread(values: impl Iterator<Item = f64>) -> String {
    let [least, middle, most] = three(values);
    format!("{middle:.2} ({least:.2} to {most:.2})")
}

/// The least, the middle one and the most.
fn three(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}
