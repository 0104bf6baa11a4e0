//! How long calls took, counted so that percentiles can be told: 8 buckets to a doubling, from a
//! microsecond to an hour.

use std::time::Duration;

/// Buckets to a doubling.
const STEPS: u64 = 8;
/// From 1 µs: 32 doublings are more than an hour.
const DOUBLINGS: usize = 32;
const BUCKETS: usize = DOUBLINGS * STEPS as usize;

/// Counts of durations.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Box<[u32; BUCKETS]>,
    count: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: Box::new([0; BUCKETS]), count: 0 }
    }
}

impl Histogram {
    /// One more.
    pub fn add(&mut self, duration: Duration) {
        let bucket = &mut self.counts[bucket(duration)];
        *bucket = bucket.saturating_add(1);
        self.count += 1;
    }

    /// All of another one.
    pub fn add_all(&mut self, other: &Histogram) {
        for (own, more) in self.counts.iter_mut().zip(&*other.counts) {
            *own = own.saturating_add(*more);
        }
        self.count += other.count;
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        if 0 < self.count {
            self.counts.fill(0);
            self.count = 0;
        }
    }

    /// Within how many microseconds so many of a hundred ended; `None` if there was none.
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut before = 0;
        let reached = self.counts.iter().position(|count| {
            before += u64::from(*count);
            rank <= before
        });
        Some(middle(reached.unwrap_or(BUCKETS - 1)))
    }
}

/// In eighths of a microsecond, so that the first doubling has as many buckets as the others.
fn bucket(duration: Duration) -> usize {
    let eighths = u64::try_from(duration.as_nanos() / 125).unwrap_or(u64::MAX).max(STEPS);
    let doubling = eighths.ilog2() - STEPS.ilog2();
    let step = (eighths >> doubling) - STEPS;
    // A step is below 8.
    let bucket = doubling as usize * STEPS as usize + step as usize;
    bucket.min(BUCKETS - 1)
}

/// The middle of a bucket, in microseconds.
fn middle(bucket: usize) -> u64 {
    let (doubling, step) = (bucket / STEPS as usize, bucket as u64 % STEPS);
    let from = (STEPS + step) << doubling;
    let to = (STEPS + step + 1) << doubling;
    // Of the shortest nothing finer is known than a microsecond.
    ((from + to) / 2 / STEPS).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_at_most_nine_percent_off() {
        let mut micros = 8_u64;
        while micros < 3_600_000_000 {
            let mut histogram = Histogram::default();
            histogram.add(Duration::from_micros(micros));
            let told = histogram.percentile(50).unwrap();
            let off = (told as f64 - micros as f64).abs() / micros as f64;
            assert!(off <= 0.09, "{micros} µs is told as {told}");
            micros += micros / 7 + 1;
        }
    }

    #[test]
    fn what_is_too_short_or_too_long_is_counted_all_the_same() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(99), None);
        histogram.add(Duration::ZERO);
        histogram.add(Duration::from_secs(1_000_000));
        assert_eq!(histogram.percentile(50), Some(1));
        assert!(3_600_000_000 <= histogram.percentile(99).unwrap());
        let mut both = Histogram::default();
        both.add_all(&histogram);
        both.add_all(&histogram);
        assert_eq!(both.percentile(50), Some(1));
        both.clear();
        assert_eq!(both.percentile(50), None);
    }

    #[test]
    fn ranks_are_those_of_a_sorted_list() {
        let mut histogram = Histogram::default();
        (1..=100).for_each(|ms| histogram.add(Duration::from_millis(ms)));
        for (percent, ms) in [(50, 50.0), (99, 99.0), (100, 100.0), (1, 1.0)] {
            let told = histogram.percentile(percent).unwrap() as f64 / 1000.0;
            assert!((told - ms).abs() / ms <= 0.09, "p{percent} is {told}");
        }
    }
}
