//! What the user types while a sign-in waits: the URL that a browser was sent to, or who we are.

use std::io::{self, BufRead as _, BufReader};
use std::thread;

use tokio::sync::{mpsc, oneshot};
use toolbus_engine::secrets;
use toolbus_proto::oauth::hidden::Hidden;

use crate::stderr;
use crate::stdio::{self, Terminal as _};

/// The lines of standard input.
pub(super) struct Pasted(mpsc::UnboundedReceiver<String>);

impl Pasted {
    /// Reads from now on. Reading a terminal cannot be broken off; the end of the program does not
    /// wait for it.
    pub(super) fn begin() -> Pasted {
        let (tell, told) = mpsc::unbounded_channel();
        let input = stdio::reader();
        let read = move || {
            let lines = BufReader::new(input).lines();
            for line in lines.map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        };
        // Without a thread nothing is pasted, and a browser may still come.
        let _ = thread::Builder::new().name("pasted".to_owned()).spawn(read);
        Pasted(told)
    }

    /// The next line; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<String> {
        self.0.recv().await
    }
}

/// Asks the user who we are; `None` where there is no terminal to ask at.
pub(super) async fn client() -> Option<(String, Option<Hidden>)> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return None;
    }
    let (tell, told) = oneshot::channel();
    let ask = move || {
        let id = typed("client id: ");
        let secret = id.as_ref().and_then(|_| typed("client secret (empty for none): "));
        drop(tell.send((id, secret)));
    };
    thread::Builder::new().name("question".to_owned()).spawn(ask).ok()?;
    let (id, secret) = told.await.ok()?;
    let secret = secret.inspect(|secret| secrets::hide(secret)).map(Hidden::new);
    Some((id?, secret))
}

fn typed(prompt: &str) -> Option<String> {
    stderr::write(prompt);
    stderr::flush();
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).ok()?;
    Some(line.trim().to_owned()).filter(|line| !line.is_empty())
}
