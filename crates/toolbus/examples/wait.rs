//! An async tool: its calls run side by side.

use std::process::ExitCode;
use std::time::Duration;

use toolbus::author::{AsyncContext, Tool, Tools};

/// Wait for a while.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Wait {
    /// How long, in milliseconds.
    ms: u64,
}

async fn wait(Wait { ms }: Wait, context: AsyncContext) -> String {
    context.progress(0, Some(ms), "it begins").await;
    tokio::time::sleep(Duration::from_millis(ms)).await;
    format!("waited {ms} ms")
}

fn main() -> ExitCode {
    Tools::new("wait", "1.0.0").with(Tool::async_with_context("wait", wait)).run()
}
