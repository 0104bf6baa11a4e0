//! Contenders taking turns, round after round; ratios are taken within a round.

use std::time::{Duration, Instant};

/// Does the same thing again and again, each time to its end.
pub(crate) trait Contender {
    fn turns(&mut self, count: u32);
}

impl<F: FnMut(u32)> Contender for F {
    fn turns(&mut self, count: u32) {
        self(count);
    }
}

/// In what a figure is given.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    /// So many bytes are moved each time.
    GibPerSecond(usize),
    /// So many things happen each time.
    PerSecond(usize),
    Micros,
}

pub(crate) struct Table {
    title: &'static str,
    unit: Unit,
    rows: Vec<(&'static str, Box<dyn Contender>)>,
}

/// How long each contender runs in a round.
const TURN: Duration = Duration::from_millis(200);

impl Table {
    pub(crate) fn new(title: &'static str, unit: Unit) -> Table {
        Table { title, unit, rows: Vec::new() }
    }

    pub(crate) fn add(&mut self, name: &'static str, contender: impl Contender + 'static) {
        self.rows.push((name, Box::new(contender)));
    }

    /// Prints a table; the first contender is what the others are compared with.
    pub(crate) fn measure(mut self, rounds: usize) {
        let counts: Vec<u32> = self.rows.iter_mut().map(|(_, row)| calibrate(&mut **row)).collect();
        let mut seconds = vec![Vec::new(); self.rows.len()];
        for _ in 0..rounds {
            for (at, (_, row)) in self.rows.iter_mut().enumerate() {
                let before = Instant::now();
                row.turns(counts[at]);
                seconds[at].push(before.elapsed().as_secs_f64() / f64::from(counts[at]));
            }
        }
        let unit = self.unit.name();
        println!("\n{}\n", self.title);
        println!("| | {unit} | ratio |\n|---|---|---|");
        for ((name, _), times) in self.rows.iter().zip(&seconds) {
            let ratios = seconds[0].iter().zip(times).map(|(first, time)| first / time);
            let [least, middle, most] =
                three(times.iter().copied()).map(|time| self.unit.show(time));
            // What takes less time is more a second.
            let (least, most) = match self.unit {
                Unit::Micros => (least, most),
                Unit::GibPerSecond(_) | Unit::PerSecond(_) => (most, least),
            };
            println!("| {name} | {middle} ({least} to {most}) | {} |", spread(ratios));
        }
    }
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::GibPerSecond(_) => "GiB/s",
            Unit::PerSecond(_) => "a second",
            Unit::Micros => "µs",
        }
    }

    fn show(self, seconds: f64) -> String {
        match self {
            Unit::GibPerSecond(bytes) => {
                format!("{:.2}", bytes as f64 / seconds / f64::from(1 << 30))
            }
            Unit::PerSecond(things) => format!("{:.0} 000", things as f64 / seconds / 1000.0),
            Unit::Micros => format!("{:.1}", seconds * 1e6),
        }
    }
}

fn calibrate(contender: &mut dyn Contender) -> u32 {
    let mut count = 1;
    loop {
        let before = Instant::now();
        contender.turns(count);
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
