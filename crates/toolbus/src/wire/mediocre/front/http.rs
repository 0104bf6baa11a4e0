//! The same over HTTP/1.1 and HTTP/2, on one port: each exchange is one call.

use std::rc::Rc;

use toolbus_proto::caller::CallerName;
use toolbus_proto::http::Admission;
use toolbus_proto::mediocre::HttpServer;

use super::Mediocre;
use crate::bus::SwappableRoute;
use crate::chance::OsRandom;
use crate::engine::front::Front;
use crate::peer::rooms::{Guard, Room, Rooms};
use crate::transport::http::{Limits, Server};
use crate::transport::{Listener, Threads};

impl Mediocre {
    /// Serves every caller that is let in by HTTP at this URL and its path, until it is told to stop
    /// and the last call is over. These threads have connections, too.
    pub async fn listen_http(
        &self,
        threads: &Threads,
        listener: Listener,
        (url, path): (&str, &str),
        admission: Admission,
    ) {
        let settings = &self.settings;
        let limits = Limits {
            first_byte_timeout: settings.idle_timeout,
            idle_timeout: settings.idle_timeout,
            write_timeout: settings.call_timeout,
            drain_bytes_max: usize::try_from(settings.drain_bytes_max).unwrap_or(usize::MAX),
            drain_timeout: settings.drain_timeout,
            ..Limits::default()
        };
        let doors = self.guests.doors();
        let url = url.strip_prefix("mediocre+").unwrap_or(url);
        let guard = self.guests.with_bus(|bus| Guard::of(bus, url, path));
        let (settings, path) = (self.settings, path.to_owned());
        let guests = self.guests.clone();
        let make = move |admission, caller: Option<&CallerName>| {
            let machine = HttpServer::new(settings, admission, path.clone(), OsRandom::new);
            // Who is refused is led nowhere, and a front for callers has no tools for others.
            let (led, caller) = (guests.clone(), caller.cloned());
            let way = Rc::new(SwappableRoute::new(led.way_of(caller.as_ref())));
            let swapped = way.clone();
            // The machine itself says how long its calls may be quiet.
            let front = Front::over_many(machine, way, None);
            Room::new(front, move || swapped.set(led.way_of(caller.as_ref())))
        };
        let rooms = Rc::new(Rooms::new(Admission { doors, ..admission }, guard, make));
        let welcomed = rooms.clone();
        let welcome = move |exchange| welcomed.welcome(exchange);
        let server = Server::start_on(threads, listener, limits, welcome);
        let following = Rc::downgrade(&rooms);
        self.guests.at_change(move |bus| {
            if let Some(rooms) = following.upgrade() {
                rooms.follow(bus);
            }
        });
        let patience = self.stopped().await;
        tokio::join!(server.shutdown(patience), rooms.finish(patience));
    }
}
