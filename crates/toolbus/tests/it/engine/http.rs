//! The engine over exchanges: the wire of many streams, each of them a request and its answer.

use std::io::{self, IoSlice};
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use toolbus_engine::calls::{Inbox, RunningCall};
use toolbus_engine::client::Client;
use toolbus_engine::front::Front;
use toolbus_engine::transport::http::{
    AnswerReader, AnswerWriter, Client as Http, HeaderMap, HttpOpener, Limits, Origin,
    RequestWriter, Server, Timeouts, plain,
};
use toolbus_engine::transport::io::{Opener, Reader, Sink, Source, Stop, Writer};
use toolbus_engine::transport::{Listener, Whereabouts};
use toolbus_proto::channel::{Down, Outbox, StreamLost, Up};
use toolbus_proto::http::{RequestHead, ResponseHead};
use toolbus_proto::mediocre::HttpClient;
use toolbus_proto::tool::{Call, FailureKind, Outcome, Part};
use toolbus_testkit::many;

use super::tools::{Served, Tools};
use super::{call, is_done, json, part, run, stream, value};

/// Any machine over HTTP: all that counts is its heads.
type Any = HttpClient<fn(&mut [u8])>;

/// The heads of the wire as those of HTTP: a path, and 202 for all is well.
struct Named<T>(T);

impl Opener<many::Client> for Named<HttpOpener> {
    type Reader = Named<AnswerReader>;
    type Writer = Named<RequestWriter>;

    async fn open(
        &self,
        head: String,
    ) -> Result<(Named<AnswerReader>, Named<RequestWriter>), StreamLost> {
        let head = RequestHead::new("POST", format!("/{head}"));
        let (reader, writer) = Opener::<Any>::open(&self.0, head).await?;
        Ok((Named(reader), Named(writer)))
    }
}

impl<S: Source> Source for Named<S> {
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        self.0.read(input).await
    }
}

impl Reader for Named<AnswerReader> {
    type Head = String;

    async fn head(&mut self) -> Result<String, StreamLost> {
        let status = self.0.head().await?.status;
        Ok(if status == 202 { many::OK.to_owned() } else { status.to_string() })
    }
}

impl<S: Sink> Sink for Named<S> {
    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write(pieces).await
    }

    async fn take_from(&mut self, outbox: &mut Outbox) -> io::Result<()> {
        self.0.take_from(outbox).await
    }
}

impl<W: Writer<Head = ResponseHead>> Writer for Named<W> {
    type Head = String;

    fn answer(&mut self, _head: String) {
        self.0.answer(ResponseHead::new(202));
    }

    fn finish(self) {
        self.0.finish();
    }

    fn reset(self, code: u64) {
        self.0.reset(code);
    }

    fn stopped(&self) -> impl Future<Output = Stop> + 'static {
        self.0.stopped()
    }
}

struct House {
    client: Client<many::Client>,
    front: Rc<Front<many::Server>>,
    tools: Rc<Tools>,
    _server: Server,
}

impl House {
    async fn new() -> House {
        let listener = Listener::tcp("127.0.0.1", 0).await.unwrap();
        let Whereabouts::Tcp(address) = listener.whereabouts().unwrap() else { unreachable!() };
        let tools = Tools::new();
        let served = Rc::new(Served(tools.clone()));
        let front = Front::over_many(many::Server::new(many::Limits::default()), served, None);
        let welcoming = front.clone();
        let server = Server::start(listener, Limits::default(), move |exchange| {
            let (head, body, writer): (_, _, AnswerWriter) = exchange.into_stream(plain);
            welcoming.welcome(head.path[1..].to_owned(), body, Named(writer));
        });
        let origin = Origin {
            host: "127.0.0.1".into(),
            port: address.port(),
            #[cfg(feature = "tls")]
            tls: None,
        };
        let opener = HttpOpener {
            client: Http::new(origin, 4, Duration::from_secs(60)),
            timeouts: Timeouts { connect: Duration::from_secs(60), head: None },
            headers: HeaderMap::new(),
        };
        let machine = many::Client::new(many::Limits::default());
        let client = Client::over("peer", machine, Named(opener));
        House { client, front, tools, _server: server }
    }

    fn call(&self, call: Call) -> (Rc<Inbox>, RunningCall) {
        let (inbox, slot) = Inbox::new();
        let uplink = self.client.start(call, slot);
        (inbox, uplink)
    }
}

#[test]
fn both_ends_talk_while_both_bodies_are_open() {
    run(async {
        let house = House::new().await;
        let (inbox, uplink) = house.call(stream("return", "0"));
        assert!(matches!(inbox.next(&uplink).await, Down::Begin { .. }));
        for text in ["hi", "there"] {
            let _ = uplink.send(Up::Part(Part::Text(text.into())));
            assert_eq!(inbox.next(&uplink).await, Down::Part(Part::Text(text.into())));
        }
        let _ = uplink.send(Up::End(None));
        assert_eq!(inbox.next(&uplink).await, Down::Done(Ok(Outcome::End(None))));
    });
}

#[test]
fn an_answer_may_come_before_the_request_has_ended() {
    run(async {
        let house = House::new().await;
        let (inbox, uplink) = house.call(stream("early", "0"));
        let _ = uplink.send(Up::Part(part(10)));
        assert_eq!(inbox.whole(uplink).await, value("\"enough\""));
    });
}

#[test]
fn an_answer_that_is_not_complete_is_cut() {
    run(async {
        let house = House::new().await;
        let (inbox, uplink) = house.call(stream("return", "0"));
        let _ = uplink.send(Up::Part(Part::Text("so far".into())));
        assert!(matches!(inbox.next(&uplink).await, Down::Begin { .. }));
        assert!(matches!(inbox.next(&uplink).await, Down::Part(_)));
        house.front.finish(Duration::ZERO).await;
        let Down::Done(Err(failure)) = inbox.next(&uplink).await else { panic!("it ended well") };
        assert_eq!(failure.kind, FailureKind::Gone);
        assert!(failure.message.starts_with("the body was cut short"), "{failure}");
    });
}

#[test]
fn a_request_that_is_given_up_is_cut() {
    run(async {
        let house = House::new().await;
        let (inbox, uplink) = house.call(stream("return", "0"));
        assert!(matches!(inbox.next(&uplink).await, Down::Begin { .. }));
        let _ = uplink.send(Up::Cancel(Some(json("0"))));
        let down = inbox.next(&uplink).await;
        assert!(is_done(&down), "{down:?}");
        house.tools.cancelled(1).await;
        // The others have streams of their own.
        let (inbox, uplink) = house.call(call("echo", "1"));
        assert_eq!(inbox.whole(uplink).await, value("1"));
    });
}

#[test]
fn a_caller_that_leaves_is_noticed() {
    run(async {
        let house = House::new().await;
        let (_inbox, uplink) = house.call(call("never", "0"));
        while house.tools.running() == 0 {
            tokio::task::yield_now().await;
        }
        uplink.forget();
        drop(house.client);
        house.tools.cancelled(1).await;
    });
}
