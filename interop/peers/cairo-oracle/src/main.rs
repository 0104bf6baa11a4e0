//! An oracle made with the crate `cairo-oracle-server`: `f` gives back the number it is given.

use std::process::ExitCode;

fn main() -> ExitCode {
    cairo_oracle_server::Oracle::new().provide("f", |x: u64| Ok(x)).run()
}
