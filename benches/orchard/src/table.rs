//! Contenders taking turns, round after round; ratios are taken within a round.

use std::time::{Duration, Instant};

/// Makes calls until so many are answered.
pub(crate) trait Contender {
    fn calls(&mut self, count: u32);
}

pub(crate) struct Table {
    title: String,
    rows: Vec<(&'static str, Box<dyn Contender>)>,
}

/// How long each contender runs in a round.
const TURN: Duration = Duration::from_millis(100);

impl Table {
    pub(crate) fn new(title: String) -> Table {
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
        println!("| | µs a call | ratio | best turn, µs | ratio |\n|---|---|---|---|---|");
        for ((name, _), times) in self.rows.iter().zip(&nanos) {
            let ratios = nanos[0].iter().zip(times).map(|(limit, time)| limit / time);
            let (middle, ratio) = (median(times.clone()) / 1000.0, median(ratios.collect()));
            let (best, best_ratio) = (best(times) / 1000.0, best(&nanos[0]) / best(times));
            println!("| {name} | {middle:.2} | {ratio:.2} | {best:.2} | {best_ratio:.2} |");
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

/// What a machine with other work to do is least in the way of.
fn best(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
