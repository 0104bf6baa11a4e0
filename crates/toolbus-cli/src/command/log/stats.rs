//! Calls summed up by tool: how many, how many failed, and how long they took.

use std::collections::HashMap;

use toolbus::bus::journal::read::Entry;
use toolbus_proto::json::Json;

use super::is_for_people;
use super::rows::duration;
use crate::args::Globals;
use crate::render::style::Paint;
use crate::render::{grouped, printable, width};

#[derive(Default)]
pub(super) struct Stats {
    /// By name, so that a call of a tool that is known costs no new name.
    tools: HashMap<String, usize>,
    all: Vec<Tool>,
    name: String,
}

struct Tool {
    name: String,
    back: Option<String>,
    tool: String,
    failures: u64,
    /// In milliseconds, one for each call.
    durations: Vec<f32>,
}

/// One tool, summed up.
struct Sum {
    name: String,
    back: Option<String>,
    tool: String,
    count: u64,
    failures: u64,
    p50: f64,
    p99: f64,
}

impl Stats {
    pub(super) fn add(&mut self, entry: &Entry<'_>) {
        self.name.clear();
        if let Some(back) = &entry.back {
            self.name.push_str(back);
            self.name.push('.');
        }
        self.name.push_str(&entry.tool);
        let index = match self.tools.get(&self.name) {
            Some(index) => *index,
            None => {
                self.all.push(Tool {
                    name: self.name.clone(),
                    back: entry.back.as_deref().map(str::to_owned),
                    tool: entry.tool.clone().into_owned(),
                    failures: 0,
                    durations: Vec::new(),
                });
                self.tools.insert(self.name.clone(), self.all.len() - 1);
                self.all.len() - 1
            }
        };
        let tool = &mut self.all[index];
        tool.failures += u64::from(entry.outcome != "ok");
        // Seven digits are more than any clock has.
        tool.durations.push(entry.duration as f32);
    }

    /// The tools that were called most come first.
    pub(super) fn shown(self, globals: &Globals) -> String {
        let mut sums: Vec<_> = self.all.into_iter().map(Tool::summed_up).collect();
        sums.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        if globals.json {
            return sums.iter().map(Sum::json).collect();
        }
        let width = width::of_stdout().unwrap_or(width::USUAL);
        table(&sums, width, is_for_people(), globals.color.paint(&std::io::stdout()))
    }
}

impl Tool {
    fn summed_up(mut self) -> Sum {
        let (p50, p99) = (percentile(&mut self.durations, 50), percentile(&mut self.durations, 99));
        let Tool { name, back, tool, failures, durations } = self;
        Sum { name, back, tool, count: durations.len() as u64, failures, p50, p99 }
    }
}

/// The least of the values that so many of a hundred are not above.
fn percentile(values: &mut [f32], percent: usize) -> f64 {
    let rank = (values.len() * percent).div_ceil(100).max(1) - 1;
    match values.is_empty() {
        true => 0.0,
        false => f64::from(*values.select_nth_unstable_by(rank, f32::total_cmp).1),
    }
}

impl Sum {
    fn json(&self) -> String {
        let back = self.back.as_ref().map(|back| format!("\"back\":{},", Json::of(back)));
        format!(
            "{{{}\"tool\":{},\"count\":{},\"failures\":{},\"p50\":{:.3},\"p99\":{:.3}}}\n",
            back.unwrap_or_default(),
            Json::of(&self.tool),
            self.count,
            self.failures,
            self.p50,
            self.p99,
        )
    }
}

const BAR_MAX: usize = 30;
const BAR_MIN: usize = 8;

/// Columns, and a bar as long as there were calls, the failed ones at its end.
fn table(sums: &[Sum], width: usize, for_people: bool, paint: Paint) -> String {
    let title = ["TOOL", "CALLS", "FAILED", "P50", "P99"].map(str::to_owned);
    let cells = |sum: &Sum| {
        let name = printable(&sum.name).into_owned();
        [name, grouped(sum.count), grouped(sum.failures), duration(sum.p50), duration(sum.p99)]
    };
    let rows: Vec<_> = sums.iter().map(cells).collect();
    let widest = |at: usize| {
        let cells = rows.iter().chain([&title]).map(|row| row[at].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: [usize; 5] = std::array::from_fn(widest);
    let taken: usize = widths.iter().map(|width| width + 2).sum();
    let bar_max = width.saturating_sub(taken + 1).clamp(BAR_MIN, BAR_MAX);
    let line = |[name, count, failures, p50, p99]: &[String; 5], is_failing: bool| {
        let [w0, w1, w2, w3, w4] = widths;
        let failures = format!("{failures:>w2$}");
        let failures = if is_failing { paint.error(&failures) } else { failures };
        format!("{name:w0$}  {count:>w1$}  {failures}  {p50:>w3$}  {p99:>w4$}")
    };
    let most = sums.iter().map(|sum| sum.count).max().unwrap_or(1);
    let mut text = String::new();
    if for_people && !sums.is_empty() {
        text.push_str(&paint.title(&line(&title, false)));
        text.push('\n');
    }
    for (sum, row) in sums.iter().zip(&rows) {
        let bar = bar(sum, most, bar_max, paint);
        text.push_str(&format!("{}  {bar}\n", line(row, 0 < sum.failures)));
    }
    text
}

fn bar(sum: &Sum, most: u64, max: usize, paint: Paint) -> String {
    let part = |count: u64| (count as f64 / most as f64 * max as f64).round() as usize;
    // What is there is seen.
    let at_least_one = |count: u64| if count == 0 { 0 } else { part(count).max(1) };
    let whole = at_least_one(sum.count);
    let failed = at_least_one(sum.failures).min(whole);
    let ok = paint.ok(&"█".repeat(whole - failed));
    if failed == 0 { ok } else { ok + &paint.error(&"░".repeat(failed)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_there() {
        let mut values: Vec<f32> = (1..=200_u8).rev().map(f32::from).collect();
        assert_eq!(percentile(&mut values, 50), 100.0);
        assert_eq!(percentile(&mut values, 99), 198.0);
        assert_eq!(percentile(&mut [7.0], 99), 7.0);
        assert_eq!(percentile(&mut [], 50), 0.0);
    }
}
