//! A server whose doors are of any kind, and whose calls a test may answer itself.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use tokio::task::spawn_local;
use toolbus::address::{Address, Purpose};
use toolbus::bus::Route;
use toolbus::peer::access::Access;
use toolbus::wire::mediocre::front::{ListenAddress, Mediocre, Settings};
use toolbus_engine::calls::{Answerer, Pressure, ReplyTo, RunningCall};
use toolbus_proto::channel::{Ticket, Up};
use toolbus_proto::tool::Call;

/// A server of these tools at each of these addresses, in their order.
pub(super) async fn at_doors(route: Rc<dyn Route>, addresses: &[&str]) -> (Mediocre, Vec<String>) {
    with_access(route, addresses, &Access::default()).await
}

/// The same, with a say in who may come in.
pub(super) async fn with_access(
    route: Rc<dyn Route>,
    addresses: &[&str],
    access: &Access,
) -> (Mediocre, Vec<String>) {
    with_settings(route, addresses, access, Settings::default()).await
}

/// The same, with a say in how long callers are waited for.
pub(super) async fn with_settings(
    route: Rc<dyn Route>,
    addresses: &[&str],
    access: &Access,
    settings: Settings,
) -> (Mediocre, Vec<String>) {
    let server = Mediocre::new(route, settings);
    let mut urls = Vec::new();
    for address in addresses {
        let address = Address::parse_for(Purpose::Serve, address).unwrap();
        let door = ListenAddress::of(&address, access).unwrap();
        let door = door.open().await.unwrap();
        urls.push(door.url().to_owned());
        let serves = server.clone();
        spawn_local(async move { serves.serve(door).await });
    }
    (server, urls)
}

/// A route whose calls are answered by the test itself.
#[derive(Default)]
pub(super) struct ByHand {
    asked: RefCell<VecDeque<(Call, ReplyTo)>>,
    pub(super) cancelled: Rc<Cell<usize>>,
}

impl ByHand {
    pub(super) async fn next(&self) -> (Call, ReplyTo) {
        loop {
            if let Some(asked) = self.asked.borrow_mut().pop_front() {
                return asked;
            }
            tokio::task::yield_now().await;
        }
    }

    /// How many calls nobody has taken yet.
    pub(super) fn count(&self) -> usize {
        self.asked.borrow().len()
    }

    pub(super) async fn cancelled(&self) {
        while self.cancelled.get() == 0 {
            tokio::task::yield_now().await;
        }
    }
}

impl Route for ByHand {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        self.asked.borrow_mut().push_back((call, down));
        RunningCall::new(Rc::new(Cancels(self.cancelled.clone())), Ticket(0))
    }
}

/// Counts the calls that are given up.
struct Cancels(Rc<Cell<usize>>);

impl Answerer for Cancels {
    fn send(&self, _ticket: Ticket, up: Up) -> Pressure {
        if let Up::Cancel(_) = up {
            self.0.set(self.0.get() + 1);
        }
        Pressure::Ready
    }

    fn resume(&self, _ticket: Ticket) {}
}
