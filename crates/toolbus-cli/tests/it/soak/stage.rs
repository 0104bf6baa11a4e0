//! The bus with its fronts, the backs behind it, and how to disturb them.

use std::cell::{Cell, RefCell};
use std::fs;

use rustix::process::Signal;
use toolbus_check::fixture::FIXTURES;
use toolbus_testkit::patience::eventually;
use toolbus_testkit::process::Group;
use toolbus_testkit::scratch::Scratch;

use super::Chance;
use super::journal::Journal;
use crate::listening::Server;
use crate::matrix::harness::quoted;
use crate::matrix_killed::marking;

pub(super) struct Stage {
    pub(super) scratch: Scratch,
    /// The wires of the backs, which are their names, each with its address.
    pub(super) backs: Vec<(&'static str, String)>,
    server: RefCell<Option<Server>>,
    pid: u32,
    shape: RefCell<Shape>,
    reloads: Cell<usize>,
    kills: Cell<usize>,
}

/// What a config may say one way or another.
#[derive(Default)]
struct Shape {
    /// The back that is not there.
    without: Option<usize>,
    /// How often each back was changed.
    changed: [u32; 6],
    is_renamed: bool,
    has_another_front: bool,
}

impl Stage {
    pub(super) fn set() -> Stage {
        let scratch = Scratch::new();
        let marks = scratch.file("started");
        let backs = FIXTURES.into_iter();
        let mut backs: Vec<_> =
            backs.map(|(wire, fixture)| (wire, marking(fixture, &marks, "builtin:"))).collect();
        let program = quoted(env!("CARGO_BIN_EXE_toolbus"));
        let model = format!("echo $$ >> {}; exec {program} \"$@\" --mock", quoted(&marks));
        backs.push(("godex", format!("godex+stdio:sh -c {} sh", quoted(&model))));
        let mut stage = Stage {
            scratch,
            backs,
            server: RefCell::default(),
            pid: 0,
            shape: RefCell::default(),
            reloads: Cell::new(0),
            kills: Cell::new(0),
        };
        stage.write();
        let server = Server::start(&["serve", "-q", "--config", &stage.config()], 4);
        stage.pid = server.id();
        stage.server = RefCell::new(Some(server));
        stage
    }

    pub(super) fn config(&self) -> String {
        self.scratch.file("soak.toml")
    }

    /// The process of the bus.
    pub(super) fn bus(&self) -> u32 {
        self.pid
    }

    /// Where the fronts of the bus are: MCP over HTTP, mediocre-rpc over TCP and HTTP, a plugin.
    pub(super) fn urls(&self) -> Vec<String> {
        self.server.borrow().as_ref().expect("it runs").urls.clone()
    }

    pub(super) fn certs(&self) -> String {
        self.scratch.file("certs")
    }

    /// Another config is read.
    pub(super) fn reload(&self, chance: &mut Chance) {
        {
            let mut shape = self.shape.borrow_mut();
            match chance.below(8) {
                0 => shape.is_renamed ^= true,
                1 => shape.has_another_front ^= true,
                2 => shape.without = None,
                3 => shape.without = Some(chance.below(self.backs.len() as u64) as usize),
                // As it is: nothing is to happen then.
                4 => {}
                _ => shape.changed[chance.below(self.backs.len() as u64) as usize] += 1,
            }
        }
        self.write();
        self.server.borrow().as_ref().expect("it runs").signal(Signal::HUP);
        self.reloads.set(self.reloads.get() + 1);
    }

    /// Kills a process that is a back or a front, but not the bus.
    pub(super) fn kill(&self, chance: &mut Chance) {
        let living: Vec<_> = self.started_ids().into_iter().filter(|pid| is_ours(*pid)).collect();
        if !living.is_empty() {
            Group::led_by(*chance.one_of(&living)).kill();
            self.kills.set(self.kills.get() + 1);
        }
    }

    /// How many reloads and kills there were.
    pub(super) fn disturbed(&self) -> (usize, usize) {
        (self.reloads.get(), self.kills.get())
    }

    /// All that were ever started to be backs or fronts.
    fn started_ids(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.scratch.file("started")).unwrap_or_default();
        text.lines().filter_map(|pid| pid.parse().ok()).collect()
    }

    fn write(&self) {
        let Shape { without, changed, is_renamed, has_another_front } = &*self.shape.borrow();
        let mut text = String::new();
        for (at, (name, address)) in self.backs.iter().enumerate() {
            if *without != Some(at) {
                let address = address.replace('\\', r"\\").replace('"', "\\\"");
                let timeout = 40 + changed[at];
                text.push_str(&format!(
                    "[back.{name}]\nconnect = \"{address}\"\ntimeout = \"{timeout}s\"\n"
                ));
            }
        }
        let certs = self.certs();
        let mut fronts = vec![
            (if *is_renamed { "agent" } else { "editor" }, "mcp+http://127.0.0.1:0/mcp".to_owned()),
            ("tcp", "mediocre+tcp://127.0.0.1:0".to_owned()),
            ("http", "mediocre+http://127.0.0.1:0/rpc".to_owned()),
            ("hub", format!("orchestra+quic://127.0.0.1:0?certs={certs}&id=soak")),
        ];
        if *has_another_front {
            fronts.push(("unix", format!("mediocre+unix:{}", self.scratch.file("socket"))));
        }
        for (name, serve) in fronts {
            text.push_str(&format!("[front.{name}]\nserve = \"{serve}\"\n"));
        }
        let journal = self.scratch.file("journal");
        text.push_str(&format!("[journal]\npath = \"{journal}\"\narguments = true\n"));
        // At once, for others may read it now.
        let whole = self.scratch.file("soak.toml.new");
        fs::write(&whole, text).expect("the folder is ours");
        fs::rename(whole, self.config()).expect("the folder is ours");
    }

    /// Ends the bus; nothing that was ever started is left then but the journal.
    pub(super) fn end(self) -> Journal {
        let server = self.server.take().expect("it runs");
        server.signal(Signal::TERM);
        let said = server.end();
        assert!(said.ends_with("exit 0\n"), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        let started = self.started_ids();
        eventually("no process is left", || !started.iter().any(|pid| is_ours(*pid)));
        let folder = self.scratch.file("");
        let strays = || {
            let all = fs::read_dir("/proc").expect("processes are listed in /proc").flatten();
            let named = all.filter(|entry| {
                let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).contains(folder.trim_end_matches('/'))
            });
            named.count()
        };
        eventually("no process names our folder", || strays() == 0);
        let journal = Journal::read(&self.scratch.file("journal"));
        assert!(journal.cut_off() <= self.kills.get(), "{} lines are cut off", journal.cut_off());
        journal
    }
}

/// Is it still what we have started, and not another that has its number by now?
fn is_ours(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).contains(env!("CARGO_BIN_EXE_toolbus"))
}
