//! What stands in front of a chain that is not ours: a line in is a request, and its answer a line
//! out. Nothing of either is looked at.

use std::cell::RefCell;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::rc::Rc;

use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::Notify;
use tokio::task::spawn_local;

/// As long as ours.
const ANSWER: &[u8] = br#"{"jsonrpc":"2.0","id":100000000,"result":{"content":[{"type":"text","text":"{\"text\":\"hello\"}"}]}}
"#;

#[derive(Default)]
struct Answers {
    waiting: RefCell<Vec<u8>>,
    more: Notify,
}

/// Asks for each line, all at once, until there are no more.
pub async fn front<F: Future<Output = ()> + 'static>(ask: impl Fn() -> F) {
    let stdin = io::stdin().as_fd().try_clone_to_owned().expect("is open");
    let stdin = Receiver::from_owned_fd(stdin).expect("is a pipe");
    let answers = Rc::new(Answers::default());
    spawn_local(write(answers.clone()));
    let mut read = vec![0; 1 << 16];
    loop {
        stdin.readable().await.expect("can be awaited");
        let length = match stdin.try_read(&mut read) {
            Ok(0) => return,
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => panic!("{error}"),
        };
        for _ in read[..length].iter().filter(|byte| **byte == b'\n') {
            let (asked, answers) = (ask(), answers.clone());
            spawn_local(async move {
                asked.await;
                answers.waiting.borrow_mut().extend_from_slice(ANSWER);
                answers.more.notify_one();
            });
        }
    }
}

/// Writes at once all that has been answered meanwhile.
async fn write(answers: Rc<Answers>) {
    let stdout = io::stdout().as_fd().try_clone_to_owned().expect("is open");
    let stdout = Sender::from_owned_fd(stdout).expect("is a pipe");
    loop {
        answers.more.notified().await;
        let lines = answers.waiting.take();
        let mut rest = &lines[..];
        while !rest.is_empty() {
            match stdout.try_write(rest) {
                Ok(length) => rest = &rest[length..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    stdout.writable().await.expect("can be awaited");
                }
                // It is not read any more.
                Err(_) => return,
            }
        }
    }
}
