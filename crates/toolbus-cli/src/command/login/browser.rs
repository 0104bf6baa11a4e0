//! The browser of the user: which one, and how it ended.

use std::process::{Command, Stdio};
use std::thread;

use tokio::sync::oneshot;
use toolbus_engine::child::words;

/// What is started: what the user says, or what the system has.
pub(super) fn command(said: Option<&str>) -> String {
    let usual = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    said.filter(|said| !said.trim().is_empty()).unwrap_or(usual).to_owned()
}

/// Starts it with the URL as its last argument; why that did not work.
pub(super) async fn open(command: &str, url: &str) -> Result<(), String> {
    let words = words::split(command).map_err(|error| error.to_string())?;
    let Some((program, arguments)) = words.split_first() else {
        return Err("there is no command".to_owned());
    };
    let mut browser = Command::new(program);
    browser.args(arguments).arg(url);
    browser.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = browser.spawn().map_err(|error| format!("{program}: {error}"))?;
    let (tell, told) = oneshot::channel();
    // It may stay for as long as the user likes, and outlive us.
    let wait = move || drop(tell.send(child.wait()));
    let waiting = thread::Builder::new().name("browser".to_owned()).spawn(wait);
    waiting.map_err(|error| error.to_string())?;
    match told.await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("{program} ended with {status}")),
        Ok(Err(error)) => Err(format!("{program}: {error}")),
        Err(_) => Ok(()),
    }
}
