//! The contract of `channel`: machines of different wires can stand side by side.

use std::time::Instant;

use bytes::BytesMut;
use toolbus_proto::channel::{Asked, Calling, Channel, Down, Outbox, Serving, Ticket};
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Outcome};
use toolbus_testkit::plain::{Client, Limits, Server};

trait CallingChannel: Calling + Channel {}
impl<C: Calling + Channel> CallingChannel for C {}

trait ServingChannel: Serving + Channel {}
impl<S: Serving + Channel> ServingChannel for S {}

#[test]
fn hands_need_not_know_whose_machine_they_serve() {
    let now = Instant::now();
    let mut calling: Box<dyn CallingChannel> = Box::new(Client::new(Limits::default()));
    let mut serving: Box<dyn ServingChannel> = Box::new(Server::new(Limits::default()));
    calling.call(now, Ticket(7), Call::tool(now, "say", Some(Json::null())));
    carry(now, serving.as_mut(), calling.as_mut());
    carry(now, calling.as_mut(), serving.as_mut());
    let Some((ticket, Asked::Call(_))) = serving.poll_up() else {
        panic!("the call did not arrive");
    };
    let said = Down::Done(Ok(Outcome::Text("said".to_owned())));
    serving.down(now, ticket, said.clone());
    carry(now, serving.as_mut(), calling.as_mut());
    assert_eq!(calling.poll_down(), Some((Ticket(7), said)));
    assert_eq!(calling.poll_down(), None);
}

fn carry<F: Channel + ?Sized, T: Channel + ?Sized>(now: Instant, from: &mut F, to: &mut T) {
    let mut out = Outbox::new();
    from.poll_transmit(&mut out);
    to.handle_bytes(now, &mut BytesMut::from(&out.take()[..]));
}
