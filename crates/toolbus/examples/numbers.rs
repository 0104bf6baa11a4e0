//! Tools that answer values, fail, tell their progress and stop when nobody waits any more.

use std::process::ExitCode;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus::author::{Context, Json, Tool, Tools};

/// Divide one whole number by another.
#[derive(Deserialize, JsonSchema)]
struct Divide {
    /// What is divided.
    dividend: i64,
    /// What it is divided by; not zero.
    divisor: i64,
}

/// How often it fits, and what is left.
#[derive(Serialize, JsonSchema)]
struct Divided {
    quotient: i64,
    remainder: i64,
}

fn divide(Divide { dividend, divisor }: Divide) -> Result<Json<Divided>, String> {
    if divisor == 0 {
        return Err("cannot divide by zero".to_owned());
    }
    Ok(Json(Divided { quotient: dividend / divisor, remainder: dividend % divisor }))
}

/// Find all primes below a limit.
#[derive(Deserialize, JsonSchema)]
struct Primes {
    /// The limit.
    below: u64,
}

/// Each prime is a part of the answer, and goes out when it is found.
fn primes(Primes { below }: Primes, context: &mut Context<'_>) {
    for number in 2..below {
        if context.is_cancelled() {
            return;
        }
        context.progress(number, Some(below), "");
        if (2..number).take_while(|by| by * by <= number).all(|by| number % by != 0) {
            context.json(&number);
        }
    }
}

/// Say a text many times.
#[derive(Deserialize, JsonSchema)]
struct Repeat {
    text: String,
    times: usize,
}

fn main() -> ExitCode {
    Tools::new("numbers", "1.0.0")
        .with(Tool::new("divide", divide).title("Division").read_only().idempotent())
        .with(Tool::with_context("primes", primes))
        .tool("repeat", |Repeat { text, times }: Repeat| text.repeat(times))
        .run()
}
