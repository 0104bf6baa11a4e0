//! A tool in a dozen lines. Run it as `echo_text --mcp`, or ask it for `--help`.

use std::process::ExitCode;

use toolbus::author::Tools;

/// Say the text back.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    /// What to say.
    text: String,
}

fn main() -> ExitCode {
    Tools::new("echo_text", "1.0.0").tool("echo", |echo: Echo| echo.text).run()
}
