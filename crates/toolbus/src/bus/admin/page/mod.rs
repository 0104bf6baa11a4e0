//! The live page: what runs, what fails and why, which back is down; and a way to try a tool.
//!
//! [`Page`] is one observer of the bus (`observer`), which feeds the store of the rules, and
//! answers requests: `requests` judges and routes them, `assets` is the page itself, `peers` and
//! `tools` say how backs, fronts and tools are, `viewers` sends what happens, `calling` makes
//! calls, `journal` reads the journal backwards, `tables` shows the config.

mod assets;
mod calling;
mod journal;
mod observer;
mod peers;
mod requests;
mod tables;
mod tools;
mod viewers;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use toolbus_proto::collect::base64;
use toolbus_proto::http::Token;
use toolbus_proto::json::Json;
use toolbus_proto::page::{Masks, PageMode, PageStore, PageTime};

use super::Told;
use crate::bus::config::JournalConfig;
use crate::bus::health::Health;
use crate::bus::observe::Observer;
use crate::bus::{Bus, meters};
use crate::chance;
use crate::secrets;
use crate::wake::Wake;

use self::calling::OwnCall;
use self::peers::PeersTold;
use self::tools::KnownTools;
use self::viewers::Viewer;

pub(super) use self::calling::FRONT;
pub use self::observer::OfPage;
pub(super) use self::requests::{answer, area_of};

/// How long the calls of the page have when we end.
const LAST_CALLS: Duration = Duration::from_secs(5);

/// By which the page of a process is known: made once, and dead with it.
pub struct PageIdentity {
    /// What has to be shown to be let in.
    pub token: String,
    /// Tells this start from all others.
    pub boot: String,
}

impl Default for PageIdentity {
    fn default() -> PageIdentity {
        let token = base64(&chance::bytes::<32>());
        let token = token.replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned();
        secrets::hide(&token);
        PageIdentity { token, boot: hex(&chance::bytes::<8>()) }
    }
}

/// What a page has to know of its config.
#[derive(Debug, Clone)]
pub struct PageFacts {
    /// Where the config is, in full.
    pub config: PathBuf,
    /// Its text.
    pub text: String,
    /// When it was read.
    pub loaded: SystemTime,
    /// The journal that it asks for.
    pub journal: Option<JournalConfig>,
    /// Its fronts: name, address and wire.
    pub fronts: Vec<(String, String, &'static str)>,
}

/// What `[admin]` says of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSettings {
    /// What it may do.
    pub mode: PageMode,
    /// It may tell values.
    pub values: bool,
}

/// The bus that calls of the page are made on, and who observes them.
type CallingOn = (Bus, Rc<[Rc<dyn Observer>]>);

/// The page of one bus.
pub struct Page {
    this: Weak<Page>,
    told: Weak<Told>,
    identity: Rc<PageIdentity>,
    token: Token,
    settings: Cell<PageSettings>,
    /// Nothing new is begun any more.
    is_stopping: Cell<bool>,
    since: SystemTime,
    store: RefCell<PageStore>,
    /// The two clocks, looked at together.
    anchor: Cell<PageTime>,
    facts: RefCell<Rc<PageFacts>>,
    healths: RefCell<HashMap<Arc<str>, Rc<Health>>>,
    /// Where fronts listen, as they say.
    addresses: RefCell<HashMap<String, String>>,
    /// The bus that calls are made on, and who else observes it.
    calling: RefCell<Option<CallingOn>>,
    calls: RefCell<HashMap<u64, Rc<OwnCall>>>,
    viewers: RefCell<Vec<Rc<Viewer>>>,
    /// Somebody sends them what happens.
    is_telling: Cell<bool>,
    news: Wake,
    frames_dropped: Cell<u64>,
    peers_told: RefCell<PeersTold>,
    tools: RefCell<Option<Rc<KnownTools>>>,
    /// A back says that its tools are others than before.
    are_tools_stale: Cell<bool>,
    /// Called by backs whose tools change.
    watch: RefCell<Option<Rc<dyn Fn()>>>,
    /// The journal is being read.
    is_reading: Cell<bool>,
}

/// How often the two clocks are looked at together.
const ANCHORED_FOR: Duration = Duration::from_secs(1);

fn look() -> PageTime {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    PageTime { at: Instant::now(), wall: u64::try_from(wall).unwrap_or(u64::MAX) }
}

impl Page {
    /// A page of which nothing is known yet.
    pub(super) fn new(
        told: Weak<Told>,
        identity: Rc<PageIdentity>,
        settings: PageSettings,
        facts: PageFacts,
    ) -> Rc<Page> {
        let now = look();
        let token = Token::new(identity.token.clone());
        let page = Rc::new_cyclic(|this: &Weak<Page>| Page {
            this: this.clone(),
            told,
            identity,
            token,
            settings: Cell::new(settings),
            is_stopping: Cell::new(false),
            since: SystemTime::now(),
            store: RefCell::new(PageStore::new(now)),
            anchor: Cell::new(now),
            facts: RefCell::new(Rc::new(facts)),
            healths: RefCell::default(),
            addresses: RefCell::default(),
            calling: RefCell::default(),
            calls: RefCell::default(),
            viewers: RefCell::default(),
            is_telling: Cell::new(false),
            news: Wake::default(),
            frames_dropped: Cell::new(0),
            peers_told: RefCell::default(),
            tools: RefCell::default(),
            are_tools_stale: Cell::new(false),
            watch: RefCell::default(),
            is_reading: Cell::new(false),
        });
        let meter: Rc<dyn meters::Meter> = page.clone();
        meters::watch(&meter);
        page
    }

    /// It tells of this bus and this config from now on.
    pub(super) fn follow(&self, settings: PageSettings, facts: PageFacts, bus: &Bus) {
        let had_values = self.settings.replace(settings).values;
        if had_values && !settings.values {
            self.store.borrow_mut().forget_values();
        }
        self.facts.replace(Rc::new(facts));
        self.know(bus);
        self.renew_viewers();
    }

    /// Learns of the backs of a bus.
    pub(super) fn know(&self, bus: &Bus) {
        let healths = bus.members.iter().map(|member| (member.name.clone(), member.health.clone()));
        self.healths.replace(healths.collect());
        let healths = self.healths.borrow();
        self.store.borrow_mut().keep_backs(|back| healths.contains_key(back));
        drop(healths);
        self.tools.replace(None);
        let this = self.this.clone();
        let changed: Rc<dyn Fn()> = Rc::new(move || {
            if let Some(page) = this.upgrade() {
                page.are_tools_stale.set(true);
            }
        });
        bus.watch(&changed);
        self.watch.replace(Some(changed));
    }

    /// The calls of the page are made on this bus, which these observe.
    pub fn call_on(&self, bus: Bus, observers: Rc<[Rc<dyn Observer>]>) {
        self.calling.replace(Some((bus, observers)));
    }

    /// A front listens there.
    pub fn front_is_at(&self, front: &str, address: &str) {
        self.addresses.borrow_mut().insert(front.to_owned(), address.to_owned());
    }

    /// It is over: viewers are told why, and its calls are cancelled.
    pub fn close(&self, why: &str) {
        self.part(why);
        self.calls.take().into_values().for_each(|call| call.cancel());
    }

    /// Viewers are told why they see no more, and no call is begun.
    pub fn part(&self, why: &str) {
        self.is_stopping.set(true);
        self.dismiss_viewers(why);
    }

    /// It is at another address from now on.
    pub fn moved(&self) {
        self.dismiss_viewers("moved");
    }

    /// Waits until no call of the page is under way; those that take too long are cancelled.
    pub async fn last_calls(&self) {
        let over = async {
            loop {
                let call = self.calls.borrow().values().next().cloned();
                let Some(call) = call else { return };
                call.over().await;
            }
        };
        if tokio::time::timeout(LAST_CALLS, over).await.is_err() {
            self.calls.take().into_values().for_each(|call| call.cancel());
        }
    }

    /// Both clocks, as one who is asked often looks at them.
    fn now(&self) -> PageTime {
        let at = Instant::now();
        let anchor = self.anchor.get();
        let since = at.saturating_duration_since(anchor.at);
        if ANCHORED_FOR < since {
            self.anchor.set(look());
            return self.anchor.get();
        }
        let since = u64::try_from(since.as_millis()).unwrap_or_default();
        PageTime { at, wall: anchor.wall + since }
    }

    /// What it may do.
    pub fn mode(&self) -> PageMode {
        self.settings.get().mode
    }

    fn allows_values(&self) -> bool {
        self.settings.get().values
    }

    fn bus(&self) -> Option<Bus> {
        Some(self.told.upgrade()?.bus.borrow().clone())
    }
}

impl meters::Meter for Page {
    fn read(&self) -> Vec<meters::MeterReading> {
        static VIEWERS: meters::Measure = meters::Measure {
            name: "toolbus_page_viewers",
            help: "Who looks at the page right now.",
            is_counter: false,
        };
        static DROPPED: meters::Measure = meters::Measure {
            name: "toolbus_page_frames_dropped_total",
            help: "Frames that there was no room for, because a viewer did not read.",
            is_counter: true,
        };
        if self.is_stopping.get() {
            return Vec::new();
        }
        let reading = |measure, value| meters::MeterReading { measure, labels: Vec::new(), value };
        vec![
            reading(&VIEWERS, self.viewers.borrow().len() as u64),
            reading(&DROPPED, self.frames_dropped.get()),
        ]
    }
}

/// Takes out the secrets that we know.
struct KnownSecrets;

impl Masks for KnownSecrets {
    fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        secrets::masked(text)
    }

    fn json<'a>(&self, value: &'a Json) -> Cow<'a, Json> {
        secrets::masked_json(value)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
