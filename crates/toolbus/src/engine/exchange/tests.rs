//! A tiny wire over both ends of real exchanges: each line comes back as `<length>:<line>`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{LocalSet, spawn_local};

use super::*;
use crate::engine::drive::{Closing, Forwarded, ReadNext};
use crate::engine::wake::Wake;
use crate::transport::http::{Client, Limits, Origin, Request, Server, StatusCode, Timeouts};
use crate::transport::{Listener, Whereabouts};

/// Either end of the wire.
#[derive(Default)]
struct End {
    out: RefCell<Outbox>,
    /// What came, as far as nobody answers it.
    came: RefCell<Vec<u8>>,
    /// Answers lines. It is cut off by the line `cut`, and is done at the line `early`.
    is_serving: bool,
    is_complete: Cell<bool>,
    closing: Cell<Option<Closing>>,
    status: Cell<Option<StatusCode>>,
    trouble: RefCell<Option<String>>,
    wake: Wake,
}

impl End {
    fn say(&self, text: &str) {
        self.out.borrow_mut().put(text.as_bytes());
        self.wake.ring();
    }

    /// Says that this was all.
    fn finish(&self, is_complete: bool) {
        self.is_complete.set(is_complete);
        self.closing.set(Some(Closing::AfterWriting));
        self.wake.ring();
    }

    fn came(&self) -> String {
        String::from_utf8(self.came.borrow().clone()).unwrap()
    }
}

impl Drivable for End {
    fn bytes(&self, _now: Instant, input: &mut BytesMut) -> ReadNext {
        if !self.is_serving {
            self.came.borrow_mut().extend_from_slice(&input.split());
            return ReadNext::Read;
        }
        while let Some(at) = input.iter().position(|&byte| byte == b'\n') {
            let line = input.split_to(at + 1);
            self.say(&format!("{at}:{}", String::from_utf8_lossy(&line)));
            if matches!(&line[..], b"cut\n" | b"early\n") {
                self.finish(&line[..] == b"early\n");
                return ReadNext::Close;
            }
        }
        ReadNext::Read
    }

    fn eof(&self, _now: Instant, _input: &mut BytesMut) -> ReadNext {
        if self.is_serving {
            self.finish(self.trouble.borrow().is_none());
        }
        ReadNext::Close
    }

    fn timeout(&self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn transmit(&self, out: &mut Outbox) -> Forwarded {
        out.append(&mut self.out.borrow_mut());
        Forwarded::Nothing
    }

    fn left(&self, _bytes: usize) {}

    fn sent(&self, _now: Instant) {}

    fn write_failed(&self, _now: Instant, error: io::Error) {
        *self.trouble.borrow_mut() = Some(error.to_string());
        self.closing.set(Some(Closing::Now));
    }

    fn closing(&self) -> Closing {
        self.closing.get().unwrap_or(Closing::No)
    }

    fn has_ended(&self, _now: Instant) -> bool {
        false
    }

    fn wake(&self) -> &Wake {
        &self.wake
    }
}

impl Exchanged for End {
    fn cut(&self, error: BodyError) {
        *self.trouble.borrow_mut() = Some(error.to_string());
    }

    fn is_complete(&self) -> bool {
        self.is_complete.get()
    }
}

impl Answering for End {
    fn head(&self) -> Response<()> {
        let mut head = Response::new(());
        *head.status_mut() = StatusCode::ACCEPTED;
        head
    }
}

impl Asking for End {
    fn answered(&self, head: &response::Parts) {
        self.status.set(Some(head.status));
    }

    fn failed(&self, error: CallError) {
        *self.trouble.borrow_mut() = Some(error.to_string());
    }
}

/// The two ends of one call: the serving one as it was left, the asking one as the test uses it.
async fn call(test: impl AsyncFnOnce(Rc<End>) -> Rc<End>) -> (Rc<End>, Rc<End>) {
    let whole = async {
        let listener = Listener::tcp("127.0.0.1", 0).await.unwrap();
        let Whereabouts::Tcp(address) = listener.whereabouts().unwrap() else { unreachable!() };
        let (served, mut serving) = tokio::sync::mpsc::unbounded_channel();
        let _server = Server::start(listener, Limits::default(), move |exchange| {
            let end = Rc::new(End { is_serving: true, ..End::default() });
            let served = served.clone();
            spawn_local(async move {
                answer(&*end, exchange).await;
                let _ = served.send(end);
            });
        });
        let origin = Origin {
            host: "127.0.0.1".into(),
            port: address.port(),
            #[cfg(feature = "tls")]
            tls: None,
        };
        let client = Client::new(origin, 1, Duration::from_secs(60));
        let timeouts = Timeouts { connect: Duration::from_secs(60), head: None };
        let (sink, answer) = client.start(Request::post("/").body(()).unwrap(), timeouts);
        let asking = Rc::new(End::default());
        let driven = asking.clone();
        let mut call = spawn_local(async move { ask(&*driven, sink, answer).await });
        let tested = test(asking.clone());
        // A test that gives its end back before the call is over has dropped it.
        tokio::select! {
            end = tested => drop(end),
            _ = &mut call => {}
        }
        call.abort();
        (serving.recv().await.unwrap(), asking)
    };
    let whole = tokio::time::timeout(Duration::from_secs(60), whole);
    LocalSet::new().run_until(whole).await.expect("in time")
}

async fn until(end: &End, text: &str) {
    while end.came() != text {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn both_ends_talk_while_both_bodies_are_open() {
    let (serving, asking) = call(async |end| {
        end.say("hi\n");
        until(&end, "2:hi\n").await;
        end.say("there\n");
        until(&end, "2:hi\n5:there\n").await;
        end.finish(true);
        std::future::pending().await
    })
    .await;
    assert_eq!(asking.status.get(), Some(StatusCode::ACCEPTED));
    assert!(asking.trouble.borrow().is_none() && serving.trouble.borrow().is_none());
}

#[tokio::test]
async fn an_answer_may_come_before_the_request_has_ended() {
    let (serving, asking) = call(async |end| {
        end.say("early\nand more");
        std::future::pending().await
    })
    .await;
    assert_eq!(asking.came(), "5:early\n");
    assert!(asking.trouble.borrow().is_none() && serving.trouble.borrow().is_none());
}

#[tokio::test]
async fn an_answer_that_is_not_complete_is_cut() {
    let (_, asking) = call(async |end| {
        end.say("cut\n");
        std::future::pending().await
    })
    .await;
    assert_eq!(asking.came(), "3:cut\n");
    assert_eq!(asking.trouble.borrow().as_deref(), Some("the body was cut short"));
}

#[tokio::test]
async fn a_request_that_is_not_complete_is_cut() {
    let (serving, _) = call(async |end| {
        end.say("hi\n");
        until(&end, "2:hi\n").await;
        end.finish(false);
        std::future::pending().await
    })
    .await;
    assert_eq!(serving.trouble.borrow().as_deref(), Some("the body was cut short"));
}

#[tokio::test]
async fn a_caller_that_leaves_is_noticed() {
    let (serving, _) = call(async |end| {
        end.say("hi\n");
        until(&end, "2:hi\n").await;
        end
    })
    .await;
    assert!(serving.trouble.borrow().is_some());
}
