//! What becomes of each frame for one viewer: it goes out, or there is no room for it, and then
//! what comes next is all there is to know.

use std::time::{Duration, Instant};

/// So much may wait for a viewer; one snapshot alone may be more.
pub const UNSENT_BYTES_MAX: usize = 256 << 10;
/// A viewer hears something at least so often.
const QUIET_MAX: Duration = Duration::from_secs(15);

/// One viewer.
#[derive(Debug)]
pub struct ViewerFrames {
    /// Frames that there was no room for since the last that went out.
    dropped: u64,
    /// It is to be told all anew.
    needs_snapshot: bool,
    spoken: Instant,
}

/// What becomes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameFate {
    /// It goes out.
    Sent,
    /// There is no room for it: it is counted, and told by a snapshot when there is.
    Dropped,
    /// It is in the snapshot that is due.
    InSnapshot,
}

impl ViewerFrames {
    /// One that was told all there is just now.
    pub fn new(now: Instant) -> ViewerFrames {
        ViewerFrames { dropped: 0, needs_snapshot: false, spoken: now }
    }

    /// A frame of so many bytes is there, and so many wait already.
    pub fn offer(&mut self, now: Instant, unsent: usize, bytes: usize) -> FrameFate {
        if self.needs_snapshot && self.dropped == 0 {
            return FrameFate::InSnapshot;
        }
        if self.needs_snapshot || UNSENT_BYTES_MAX < unsent + bytes {
            self.needs_snapshot = true;
            self.dropped += 1;
            return FrameFate::Dropped;
        }
        self.spoken = now;
        FrameFate::Sent
    }

    /// It is to be told all anew, as after a change of the config.
    pub fn renew(&mut self) {
        self.needs_snapshot = true;
    }

    /// Is a snapshot due, and is there room, as far as can be known before it is made? Gives how
    /// many frames it stands for.
    pub fn wants_snapshot(&self, unsent: usize) -> Option<u64> {
        let has_room = unsent <= UNSENT_BYTES_MAX / 2;
        (self.needs_snapshot && has_room).then_some(self.dropped)
    }

    /// A snapshot of so many bytes is there; tells whether it goes out.
    pub fn snapshot(&mut self, now: Instant, unsent: usize, bytes: usize) -> bool {
        let fits = unsent == 0 || unsent + bytes <= UNSENT_BYTES_MAX;
        if fits {
            *self = ViewerFrames::new(now);
        }
        fits
    }

    /// Is it waiting for a snapshot?
    pub fn is_behind(&self) -> bool {
        self.needs_snapshot
    }

    /// When it has to hear something.
    pub fn quiet_until(&self) -> Instant {
        self.spoken + QUIET_MAX
    }

    /// It was told that we are still there.
    pub fn spoke(&mut self, now: Instant) {
        self.spoken = now;
    }
}

/// One event as it goes over the wire: its data is one line.
pub fn event(name: &str, boot: &str, change: u64, data: &[u8]) -> Vec<u8> {
    let mut out = format!("event: {name}\nid: {boot}.{change}\ndata: ").into_bytes();
    out.extend_from_slice(data);
    out.extend_from_slice(b"\n\n");
    out
}

/// The change after which a viewer goes on that has seen events of this boot; `None` if it is of
/// another, or no id of ours.
pub fn resumed_after(last_event_id: &str, boot: &str) -> Option<u64> {
    let change = last_event_id.strip_prefix(boot)?.strip_prefix('.')?;
    let is_number = !change.is_empty() && change.bytes().all(|byte| byte.is_ascii_digit());
    change.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_without_room_is_counted_and_all_is_told_when_there_is() {
        let now = Instant::now();
        let mut viewer = ViewerFrames::new(now);
        assert_eq!(viewer.offer(now, 0, UNSENT_BYTES_MAX), FrameFate::Sent);
        assert_eq!(viewer.offer(now, UNSENT_BYTES_MAX, 1), FrameFate::Dropped);
        // What would fit now is not what it has to know.
        assert_eq!(viewer.offer(now, 0, 1), FrameFate::Dropped);
        assert_eq!(viewer.wants_snapshot(UNSENT_BYTES_MAX), None);
        assert_eq!(viewer.wants_snapshot(0), Some(2));
        assert!(!viewer.snapshot(now, 1, UNSENT_BYTES_MAX));
        assert!(viewer.is_behind());
        // One alone may be more.
        assert!(viewer.snapshot(now, 0, 2 * UNSENT_BYTES_MAX));
        assert!(!viewer.is_behind());
        assert_eq!(viewer.wants_snapshot(0), None);
        assert_eq!(viewer.offer(now, 0, 1), FrameFate::Sent);
    }

    #[test]
    fn what_is_told_anew_drops_nothing() {
        let now = Instant::now();
        let mut viewer = ViewerFrames::new(now);
        viewer.renew();
        assert_eq!(viewer.offer(now, 0, 1), FrameFate::InSnapshot);
        assert_eq!(viewer.wants_snapshot(0), Some(0));
        assert_eq!(viewer.quiet_until(), now + Duration::from_secs(15));
    }

    #[test]
    fn a_viewer_goes_on_after_an_id_of_ours() {
        for (id, expected) in [
            ("00ff.17", Some(17)),
            ("00ff.0", Some(0)),
            ("00ff.", None),
            ("00ff.-1", None),
            ("00ff.+1", None),
            ("00ff", None),
            ("00fe.17", None),
            ("", None),
            ("00ff.99999999999999999999", None),
            ("00ff.1.2", None),
        ] {
            assert_eq!(resumed_after(id, "00ff"), expected, "{id}");
        }
        let told = String::from_utf8(event("tick", "00ff", 3, b"{}")).unwrap();
        assert_eq!(told, "event: tick\nid: 00ff.3\ndata: {}\n\n");
    }
}
