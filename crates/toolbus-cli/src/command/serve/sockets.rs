//! Which front listens on which of the sockets that a service manager has opened.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::{self, Path};

use toolbus::address::{Address, Place};
use toolbus::bus::config::Config;
use toolbus::peer::FrontKind;
use toolbus_engine::transport::{PassedSocket, Whereabouts};

use crate::failed::Failed;
use crate::service::Passed;

/// What the pages of `[admin]` are called among the names of sockets.
const ADMIN: &str = "admin";

/// The sockets that were passed, and whose they are.
#[derive(Default)]
pub(super) struct Sockets {
    of_fronts: HashMap<String, PassedSocket>,
    pub(super) of_admin: Option<PassedSocket>,
    /// Those that nothing in the config can listen on.
    left: Vec<PassedSocket>,
}

impl Sockets {
    /// A name decides before an address does.
    pub(super) fn of(passed: &[Passed], config: &Config) -> Sockets {
        let mut sockets = Sockets::default();
        let named = |passed: &&Passed| {
            passed.name.as_deref().is_some_and(|name| {
                let is_front = config.fronts.iter().any(|front| front.name == name);
                is_front || name == ADMIN && config.admin.is_some()
            })
        };
        let (by_name, by_address): (Vec<_>, Vec<_>) = passed.iter().partition(named);
        for Passed { socket, name } in by_name {
            let name = name.as_deref().unwrap_or_default();
            sockets.give(socket, config, Some(name));
        }
        for Passed { socket, .. } in by_address {
            let at = socket.whereabouts();
            let front = config.fronts.iter().find(|front| is_at(&front.serve, at));
            let is_admin = || {
                config
                    .admin
                    .as_ref()
                    .is_some_and(|admin| is_at_host(&admin.listen.host, admin.listen.port, at))
            };
            match front {
                Some(front) => sockets.give(socket, config, Some(&front.name)),
                None if is_admin() => sockets.give_to_admin(socket),
                None => sockets.give(socket, config, None),
            }
        }
        sockets
    }

    /// That of the front of this name.
    pub(super) fn of_front(&self, name: &str) -> Option<PassedSocket> {
        self.of_fronts.get(name).cloned()
    }

    /// Why nothing can listen on one of them.
    pub(super) fn mistakes(&self) -> impl Iterator<Item = Failed> {
        self.left
            .iter()
            .map(|socket| Failed::usage(format!("the socket {socket} belongs to no front")))
    }

    fn give(&mut self, socket: &PassedSocket, config: &Config, name: Option<&str>) {
        let front = name.and_then(|name| config.fronts.iter().find(|front| front.name == name));
        match front {
            Some(front) => {
                let can = front.serve.kind().front().is_some_and(FrontKind::takes_sockets);
                if !can || self.of_fronts.contains_key(&front.name) {
                    self.left.push(socket.clone());
                } else {
                    self.of_fronts.insert(front.name.clone(), socket.clone());
                }
            }
            None if name == Some(ADMIN) => self.give_to_admin(socket),
            None => self.left.push(socket.clone()),
        }
    }

    fn give_to_admin(&mut self, socket: &PassedSocket) {
        match &self.of_admin {
            None => self.of_admin = Some(socket.clone()),
            Some(_) => self.left.push(socket.clone()),
        }
    }
}

/// Is it this that an address to listen on means?
fn is_at(serve: &Address, at: &Whereabouts) -> bool {
    match (serve.place(), at) {
        (Place::Unix(path), Whereabouts::Unix(file)) => is_same_path(path, file),
        (Place::Url(url), at) => is_at_host(&url.host, url.port, at),
        _ => false,
    }
}

fn is_same_path(path: &Path, file: &Path) -> bool {
    path::absolute(path).is_ok_and(|path| path == file)
}

fn is_at_host(host: &str, port: u16, at: &Whereabouts) -> bool {
    let Whereabouts::Tcp(bound) = at else { return false };
    if bound.port() != port {
        return false;
    }
    // What a name server says is asked for names alone.
    let is_loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    match host {
        "localhost" => is_loopback.contains(&bound.ip()),
        host => (host, port)
            .to_socket_addrs()
            .is_ok_and(|mut found| found.any(|address: SocketAddr| address == *bound)),
    }
}
