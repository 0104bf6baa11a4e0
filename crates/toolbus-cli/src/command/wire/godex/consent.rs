//! `--ask`: the user is asked before a tool runs that may change something.

use std::io::{self, BufRead as _};
use std::thread;

use tokio::sync::oneshot;
use toolbus::LocalFuture;
use toolbus_proto::godex::{Permission, ToolCall};
use toolbus_proto::printable::beginning;

use crate::render::printable;
use crate::stderr;

/// Asks on standard error, and reads what the user types.
pub(super) fn ask(call: &ToolCall) -> LocalFuture<'static, Permission> {
    let (name, arguments) = (printable(call.tool.as_str()), beginning(call.args.as_str()));
    stderr::write(&format!("run {name} {}? [y]es, [n]o, [a]lways: ", printable(&arguments)));
    stderr::flush();
    let (tell, told) = oneshot::channel();
    // Reading a terminal blocks and cannot be broken off: a signal that ends us does not wait
    // for it.
    let asking = thread::Builder::new().name("consent".to_owned());
    let asked = asking.spawn(move || tell.send(typed()));
    Box::pin(async move {
        let typed = match asked {
            Ok(_) => told.await.unwrap_or_default(),
            Err(_) => String::new(),
        };
        match typed.trim().to_lowercase().as_str() {
            "y" | "yes" => Permission::Once,
            "a" | "always" => Permission::Always,
            _ => Permission::No,
        }
    })
}

/// One line of the user; nothing at the end of input, which leaves the question's line.
fn typed() -> String {
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(1..) => line,
        Ok(0) | Err(_) => {
            stderr::write("\n");
            stderr::flush();
            String::new()
        }
    }
}
