//! A program that calls tools: of an MCP server that it starts, of toolbus, and its own.

use std::error::Error;
use std::time::Duration;

use toolbus::author::Tools;
use toolbus::{Bus, Event, Part, json};

/// Say a text backwards.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Reverse {
    text: String,
}

/// What the tool `divide` answers.
#[derive(serde::Deserialize)]
struct Divided {
    quotient: i64,
    remainder: i64,
}

fn own_tools() -> Tools {
    let reverse = |Reverse { text }: Reverse| text.chars().rev().collect::<String>();
    Tools::new("embed", "1.0.0").tool("reverse", reverse)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let bus = Bus::builder()
        .back("numbers", "mcp+stdio:numbers --mcp", Default::default())?
        .back("toolbus", "builtin:", Default::default())?
        .foreign("own", || own_tools().into_back())
        .spawn()?;

    // The server is started by the first call.
    let args = json!({"dividend": 7, "divisor": 2});
    let call = bus.call("numbers.divide", args).timeout(Duration::from_secs(20));
    let Divided { quotient, remainder } = call.await?.read()?;
    println!("7 / 2 is {quotient}, and {remainder} is left");

    // Why a call has no reply is one of nine kinds, whoever was called.
    if let Err(failure) = bus.call("numbers.divide", json!({"dividend": 7, "divisor": 0})).await {
        println!("7 / 0 {}: {failure}", failure.kind);
    }

    // A reply that comes in parts can be read as it comes.
    let mut reply = bus.call("toolbus.count", json!({"n": 3})).stream();
    while let Some(event) = reply.next().await {
        if let Event::Part(Part::Json(number)) = event? {
            println!("count {number}");
        }
    }

    println!("{}", bus.call("own.reverse", json!({"text": "subloot"})).await?);
    println!("{} tools in all", bus.tools().await?.len());
    bus.shutdown().await;
    Ok(())
}
