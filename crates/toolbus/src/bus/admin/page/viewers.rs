//! Viewers: each is told all there is, then what happens, until it leaves or does not read.
//!
//! One task tells them all the same frames. It runs as long as there is a viewer, and no longer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::sleep_until;
use toolbus_proto::http::RequestHead;
use toolbus_proto::page::{
    FrameFate, JsonMembers, PageFrame, Parameters, Takes, ViewerFrames, event, resumed_after,
};

use super::peers::{write_counts, write_memory};
use super::requests::{Asker, PageRefusal, dress};
use super::{KnownSecrets, Page, look};
use crate::task::spawn_local;
use crate::transport::http::{BodySink, HeaderValue, Response, header};
use toolbus_engine::account::Account;

/// So many may look at once.
const VIEWERS_MAX: usize = 32;
/// Two frames are at least so far apart.
const FRAME_GAP: Duration = Duration::from_millis(100);
/// What happens is told after so long, with what happens meanwhile: most calls are over by then.
const GATHERING: Duration = Duration::from_millis(40);
/// How often is looked how peers and tools are.
const PEERS_GAP: Duration = Duration::from_millis(500);
/// A viewer that takes nothing for so long is cut off.
const UNREAD_MAX: Duration = Duration::from_secs(30);

/// Who looks.
pub(super) struct Viewer {
    sink: RefCell<Option<BodySink>>,
    frames: RefCell<ViewerFrames>,
    watches_values: bool,
    /// What waited for it when that changed last, and when that was.
    unsent: Cell<(usize, Instant)>,
}

impl Viewer {
    fn unsent(&self) -> usize {
        self.sink.borrow().as_ref().map_or(0, BodySink::unsent)
    }

    fn send(&self, text: Vec<u8>) {
        if let Some(sink) = &*self.sink.borrow() {
            let _ = sink.send(&Bytes::from(text));
        }
    }

    /// Has it left, or taken nothing for too long?
    fn is_lost(&self, now: Instant) -> bool {
        let sink = self.sink.borrow();
        let Some(sink) = sink.as_ref().filter(|sink| !sink.is_gone()) else { return true };
        let (before, since) = self.unsent.get();
        let unsent = sink.unsent();
        if unsent == 0 || unsent < before {
            self.unsent.set((unsent, now));
            return false;
        }
        self.unsent.set((unsent, since));
        since + UNREAD_MAX <= now
    }
}

impl Page {
    /// Is somebody told values?
    pub(super) fn is_watched(&self) -> bool {
        self.viewers.borrow().iter().any(|viewer| viewer.watches_values)
    }

    pub(super) fn watching(&self) -> u64 {
        let viewers = self.viewers.borrow();
        viewers.iter().filter(|viewer| viewer.watches_values).count() as u64
    }

    /// Something happened: who tells it is woken, if there is somebody to tell.
    pub(super) fn stir(&self) {
        if self.is_telling.get() {
            self.news.ring();
        }
    }

    /// Begins to tell a viewer what happens.
    pub(super) fn show(&self, head: &RequestHead, parameters: &Parameters, asker: Asker) {
        let values = match parameters.flag("values") {
            Ok(values) => values && self.allows_values(),
            Err(error) => return asker.tell(Err(error.into())),
        };
        self.drop_lost();
        if VIEWERS_MAX <= self.viewers.borrow().len() || self.is_stopping.get() {
            let message = format!("{VIEWERS_MAX} viewers are looking already");
            return asker.tell(Err(PageRefusal::busy(message)));
        }
        let mut answer = Response::new(());
        let media_type = HeaderValue::from_static("text/event-stream; charset=utf-8");
        answer.headers_mut().insert(header::CONTENT_TYPE, media_type);
        dress(&mut answer);
        if asker.is_head {
            return asker.responder.respond_whole(answer.map(|()| Bytes::new()));
        }
        let sink = asker.responder.respond(answer);
        sink.charge_to(&Account::new("a viewer of the page"));
        let gone = sink.gone();
        let now = Instant::now();
        let viewer = Rc::new(Viewer {
            sink: RefCell::new(Some(sink)),
            frames: RefCell::new(ViewerFrames::new(now)),
            watches_values: values,
            unsent: Cell::new((0, now)),
        });
        self.viewers.borrow_mut().push(viewer.clone());
        let last = head.header("Last-Event-ID");
        let resumed = last.and_then(|last| resumed_after(last, &self.identity.boot));
        let mut text = b"retry: 1000\n\n".to_vec();
        text.extend_from_slice(&self.snapshot(resumed, 0));
        viewer.send(text);
        let this = self.this.clone();
        // At once, so that nothing more is taken for one who has left.
        drop(spawn_local(async move {
            gone.await;
            if let Some(page) = this.upgrade() {
                page.forget_viewer(&viewer);
            }
        }));
        if !self.is_telling.replace(true) {
            self.peers_told.replace(self.peers_now());
            let this = self.this.clone();
            drop(spawn_local(async move {
                if let Some(page) = this.upgrade() {
                    page.tell_viewers().await;
                }
            }));
        }
    }

    fn forget_viewer(&self, viewer: &Rc<Viewer>) {
        self.viewers.borrow_mut().retain(|known| !Rc::ptr_eq(known, viewer));
        viewer.sink.borrow_mut().take();
        self.take_less();
    }

    fn drop_lost(&self) {
        let now = Instant::now();
        let lost: Vec<_> =
            self.viewers.borrow().iter().filter(|viewer| viewer.is_lost(now)).cloned().collect();
        lost.iter().for_each(|viewer| self.forget_viewer(viewer));
    }

    /// When no viewer is told values any more, nothing more is taken of the calls that run.
    fn take_less(&self) {
        if self.is_watched() {
            return;
        }
        let facts = self.facts.borrow();
        let journal = facts.journal.as_ref();
        let takes = Takes {
            arguments: journal.is_some_and(|journal| journal.arguments),
            results: journal.is_some_and(|journal| journal.results),
            events: false,
        };
        self.store.borrow_mut().take_only(takes, super::calling::FRONT);
    }

    /// All viewers are told all there is, since the config may have changed.
    pub(super) fn renew_viewers(&self) {
        let viewers = self.viewers.borrow();
        viewers.iter().for_each(|viewer| viewer.frames.borrow_mut().renew());
        drop(viewers);
        self.stir();
    }

    /// All viewers are told why they see no more.
    pub(super) fn dismiss_viewers(&self, why: &str) {
        let change = self.store.borrow().change();
        let mut data = Vec::new();
        let mut members = JsonMembers::begin(&mut data);
        members.text("why", why);
        members.end();
        let text = event("bye", &self.identity.boot, change, &data);
        for viewer in self.viewers.take() {
            viewer.send(text.clone());
            if let Some(sink) = viewer.sink.borrow_mut().take() {
                sink.end();
            }
        }
        self.take_less();
    }

    fn snapshot(&self, resumed: Option<u64>, dropped: u64) -> Vec<u8> {
        let now = self.now();
        let mut data = Vec::new();
        let mut members = JsonMembers::begin(&mut data);
        self.write_state(now, members.key("state"));
        let mut store = self.store.borrow_mut();
        store.write_history(now, members.key("history"));
        store.write_snapshot(&mut members, resumed, &KnownSecrets);
        members.bool("resumed", resumed.is_some());
        members.number("dropped", dropped);
        members.end();
        event("snapshot", &self.identity.boot, store.change(), &data)
    }

    /// Tells viewers what happens, until there is none.
    async fn tell_viewers(self: Rc<Page>) {
        let mut told_at = Instant::now();
        let mut looked_at = told_at;
        loop {
            self.drop_lost();
            if self.viewers.borrow().is_empty() {
                self.is_telling.set(false);
                return;
            }
            let look_again = self.look_again(looked_at, told_at);
            tokio::select! {
                () = self.news.rung() => {
                    let gathered = (told_at + FRAME_GAP).max(Instant::now() + GATHERING);
                    sleep_until(gathered.into()).await;
                }
                () = sleep_until(look_again.into()) => {}
            }
            let now = Instant::now();
            if told_at + FRAME_GAP <= now && self.tell_news() {
                told_at = now;
            }
            if looked_at + PEERS_GAP <= now {
                looked_at = now;
                self.tell_peers();
            }
            self.tell_who_is_behind();
        }
    }

    /// When something has to be done though nothing happens.
    fn look_again(&self, looked_at: Instant, told_at: Instant) -> Instant {
        let mut at = looked_at + PEERS_GAP;
        if let Some(wall) = self.store.borrow().second_over() {
            let left = wall.saturating_sub(look().wall) + 1;
            at = at.min((Instant::now() + Duration::from_millis(left)).max(told_at + FRAME_GAP));
        }
        if self.viewers.borrow().iter().any(|viewer| viewer.frames.borrow().is_behind()) {
            at = at.min(Instant::now() + FRAME_GAP);
        }
        at
    }

    /// Tells what happened since the last time, if something did.
    fn tell_news(&self) -> bool {
        let now = self.now();
        if !self.store.borrow_mut().has_news(now) {
            return false;
        }
        let frame = self.store.borrow_mut().frame(now, &KnownSecrets, |members, counts| {
            members.time("now", now.wall);
            write_counts(members, counts);
            write_memory(members);
        });
        let PageFrame { change, members } = frame;
        self.offer(&event("tick", &self.identity.boot, change, &members));
        true
    }

    /// Tells how peers and tools are, if that is new.
    fn tell_peers(&self) {
        let (now, change) = (self.peers_now(), self.store.borrow().change());
        let digest = self.known_tools().digest.clone();
        let (is_other, before) = {
            let mut told = self.peers_told.borrow_mut();
            let is_other = told.peers != now.peers || told.is_ready != now.is_ready;
            let before = std::mem::replace(
                &mut *told,
                super::peers::PeersTold { digest: digest.clone(), ..now },
            );
            (is_other, before.digest)
        };
        if is_other {
            let mut data = Vec::new();
            let mut members = JsonMembers::begin(&mut data);
            self.write_peers(&mut members);
            members.bool("ready", self.is_ready());
            members.end();
            self.offer(&event("peers", &self.identity.boot, change, &data));
        }
        if before != digest {
            let mut data = Vec::new();
            let mut members = JsonMembers::begin(&mut data);
            members.number("count", self.known_tools().count() as u64);
            members.text("digest", &digest);
            members.end();
            self.offer(&event("tools", &self.identity.boot, change, &data));
        }
    }

    fn offer(&self, text: &[u8]) {
        let now = Instant::now();
        for viewer in &*self.viewers.borrow() {
            match viewer.frames.borrow_mut().offer(now, viewer.unsent(), text.len()) {
                FrameFate::Sent => viewer.send(text.to_vec()),
                FrameFate::Dropped => self.frames_dropped.set(self.frames_dropped.get() + 1),
                FrameFate::InSnapshot => {}
            }
        }
    }

    /// Tells all anew to viewers that have missed something and read again, and that we are there
    /// to those who have heard nothing for long.
    fn tell_who_is_behind(&self) {
        let now = Instant::now();
        let viewers = self.viewers.borrow().clone();
        for viewer in viewers {
            let unsent = viewer.unsent();
            let wanted = viewer.frames.borrow().wants_snapshot(unsent);
            if let Some(dropped) = wanted {
                let text = self.snapshot(None, dropped);
                if viewer.frames.borrow_mut().snapshot(now, unsent, text.len()) {
                    viewer.send(text);
                }
            }
            if viewer.frames.borrow().quiet_until() <= now && unsent == 0 {
                viewer.frames.borrow_mut().spoke(now);
                viewer.send(b": still here\n\n".to_vec());
            }
        }
    }
}
