//! Plugins behind the bus, by address and by command.

use toolbus_proto::tool::FailureKind;
use toolbus_testkit::runtime::run;

use super::*;

#[test]
fn the_tools_of_a_plugin_are_called() {
    run(async {
        let certs = Certs::new();
        let (plugin, served) = plugin(&certs, builtin().await).await;
        let bus = bus_at(certs.address(plugin.address().port(), ""));
        let tools = bus.tools().await.unwrap();
        assert!(tools.iter().any(|tool| tool.name.as_str() == "upper"));
        let answered = outcome(&bus, call("upper", r#"{"text":"hi"}"#)).await;
        assert_eq!(answered, value(r#"{"text":"HI"}"#));
        let added = outcome(&bus, call("add", r#"{"a":1,"b":2}"#)).await;
        assert_eq!(added, value(r#"{"text":"3","value":3}"#));
        let failure = outcome(&bus, call("fail", r#"{"message":"no"}"#)).await.unwrap_err();
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Failed, "no"));
        bus.shutdown().await;
        plugin.stop();
        assert_eq!(served.await.unwrap(), PluginEnded::Stopped);
    });
}

/// The next call after a loss dials again; the one that was under way is not repeated.
#[test]
fn a_lost_connection_is_made_again_on_demand() {
    run(async {
        let certs = Certs::new();
        let (first, served) = plugin(&certs, builtin().await).await;
        let port = first.address().port();
        let bus = bus_at(certs.address(port, ""));
        assert!(outcome(&bus, call("upper", r#"{"text":"a"}"#)).await.is_ok());
        let (inbox, down) = Inbox::new();
        let sleeping = bus.start(call("sleep", r#"{"ms":600000}"#), down);
        tokio::task::yield_now().await;
        served.abort();
        let _ = served.await;
        drop(first);
        let failure = inbox.whole(sleeping).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Gone, "{failure}");
        assert!(failure.message.starts_with("connection lost: closed by peer"), "{failure}");
        let mut options = certs.options(None);
        options.listen_addr = HostPort::new("127.0.0.1", port);
        // The port is free once the last packets of the first are sent.
        let again = loop {
            match Plugin::bind(options.clone(), builtin().await).await {
                Ok(plugin) => break Rc::new(plugin),
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let serving = again.clone();
        spawn_local(async move { serving.serve(None).await });
        assert!(outcome(&bus, call("upper", r#"{"text":"b"}"#)).await.is_ok());
    });
}

#[test]
fn nobody_there_is_told_within_the_deadline() {
    run(async {
        let certs = Certs::new();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let bus = bus_at(certs.address(socket.local_addr().unwrap().port(), ""));
        let mut short = call("upper", "{}");
        short.deadline.total = Some(Duration::from_millis(200));
        assert_eq!(outcome(&bus, short).await.unwrap_err().kind, FailureKind::TimedOut);
        let failure = outcome(&bus, call("upper", "{}")).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert!(failure.message.ends_with("no answer within 5s"), "{failure}");
    });
}

#[test]
fn another_ca_is_not_believed() {
    run(async {
        let (certs, others) = (Certs::new(), Certs::new());
        let (plugin, _served) = plugin(&certs, builtin().await).await;
        let bus = bus_at(others.address(plugin.address().port(), ""));
        let failure = outcome(&bus, call("upper", "{}")).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unavailable, "{failure}");
    });
}

/// The example of the author's documentation, started as its hub would.
#[cfg(feature = "author")]
#[test]
fn an_authors_program_is_a_plugin() {
    run(async {
        let program = crate::author::example("numbers");
        let address = format!("orchestra+plugin:{}", program.display());
        let bus = bus_at(Address::parse(&address).unwrap());
        let tools = bus.tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
        assert_eq!(names, ["divide", "primes", "repeat"]);
        let divided = outcome(&bus, call("divide", r#"{"dividend":7,"divisor":2}"#)).await;
        assert_eq!(divided, value(r#"{"quotient":3,"remainder":1}"#));
        bus.shutdown().await;
    });
}

#[test]
fn a_program_that_is_no_plugin_is_reported() {
    run(async {
        let bus =
            bus_at(Address::parse("orchestra+plugin:sh -c 'echo no luck >&2; exit 7'").unwrap());
        let failure = outcome(&bus, call("upper", "{}")).await.unwrap_err();
        assert_eq!(failure.message, "plugin `sh` exited without printing READY (exit status 7)");
        let words = failure.last_words.unwrap();
        assert_eq!(words.stderr, ["no luck"]);
    });
}
