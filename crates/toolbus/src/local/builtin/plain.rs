//! The tools with one answer.

use std::time::Duration;

use toolbus_proto::json::Json;
use toolbus_proto::tool::{Failure, FailureKind, Outcome};

use super::Tool;
use super::args::{Args, Number, invalid};
use super::elements::Tally;

/// The longest `sleep`: a day.
pub(super) const SLEEP_MS_MAX: u64 = 86_400_000;

/// What a tool that needs no time and no parts answers.
pub(super) fn answer(tool: Tool, args: Option<Json>) -> Result<Outcome, Failure> {
    let value = match tool {
        Tool::Add => add(args.as_ref())?,
        Tool::Early => Json::from_trusted(r#"{"early":true}"#),
        Tool::Echo => args.unwrap_or(Json::null()),
        Tool::Fail => return Err(fail(args.as_ref())?),
        Tool::Sink => Tally::of_args(args.as_ref())?,
        Tool::Upper => Json::of(&Args::of(args.as_ref())?.string("text")?.to_uppercase()),
        Tool::Blob | Tool::Count | Tool::Sleep => unreachable!("these take their time"),
    };
    Ok(Outcome::Value(value))
}

pub(super) async fn sleep(args: Option<&Json>) -> Result<Outcome, Failure> {
    let ms = Args::of(args)?.integer("ms", 0..=SLEEP_MS_MAX)?;
    tokio::time::sleep(Duration::from_millis(ms)).await;
    Ok(Outcome::Value(Json::from_trusted(format!(r#"{{"slept_ms":{ms}}}"#))))
}

fn add(args: Option<&Json>) -> Result<Json, Failure> {
    let args = Args::of(args)?;
    let sum = match (args.number("a")?, args.number("b")?) {
        // Two of 64 bits make one of 65.
        (Number::Integer(a), Number::Integer(b)) => (i128::from(a) + i128::from(b)).to_string(),
        (a, b) => shortest(a.double() + b.double())
            .ok_or_else(|| invalid("the sum of `a` and `b` is not finite".to_owned()))?,
    };
    Ok(Json::from_trusted(sum))
}

impl Number {
    #[expect(clippy::cast_precision_loss, reason = "a double is what was asked for")]
    fn double(self) -> f64 {
        match self {
            Number::Integer(integer) => integer as f64,
            Number::Double(double) => double,
        }
    }
}

/// The fewest digits that mean this double, with an exponent where JavaScript writes one.
fn shortest(double: f64) -> Option<String> {
    let size = double.abs();
    if !double.is_finite() {
        None
    } else if size != 0.0 && !(1e-6..1e21).contains(&size) {
        Some(format!("{double:e}"))
    } else {
        Some(format!("{double}"))
    }
}

/// The failure that was asked for; or why it was asked for wrongly.
fn fail(args: Option<&Json>) -> Result<Failure, Failure> {
    let args = Args::of(args)?;
    let mut failure = Failure::new(FailureKind::Failed, args.string("message")?);
    failure.code = args.code_if_any("code")?;
    failure.from_peer = true;
    Ok(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_as_short_as_can_be() {
        for (double, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e20, "100000000000000000000"),
            (1e21, "1e21"),
            (-1.5e300, "-1.5e300"),
            (0.000_001, "0.000001"),
            (0.000_000_1, "1e-7"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(shortest(double).as_deref(), Some(text));
        }
        assert_eq!(shortest(f64::INFINITY), None);
    }
}
