//! The W3C trace context: which larger piece of work a call is a part of.

use std::ops::Range;

/// Where a call stands in its trace. A program that passes a call on keeps the trace and names
/// itself as the parent, since it is a step of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace(Box<Context>);

/// Apart from its owner: few calls have one, and all are moved about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Context {
    /// `00-<trace id>-<parent id>-<flags>`, checked.
    parent: String,
    state: Option<String>,
}

/// Where the ids and flags stand in the text.
const TRACE_ID: Range<usize> = 3..35;
const PARENT_ID: Range<usize> = 36..52;
const FLAGS: Range<usize> = 53..55;

impl Trace {
    /// What `traceparent` and `tracestate` tell, unless the first is not spelled as one.
    pub fn read(parent: &str, state: Option<&str>) -> Option<Trace> {
        let state = state.map(str::to_owned);
        let trace = || Trace(Box::new(Context { parent: parent.to_owned(), state }));
        is_parent(parent).then(trace)
    }

    /// A trace that begins with the span of this id, and is to be recorded.
    pub fn begin(trace: [u8; 16], id: [u8; 8]) -> Trace {
        // All zeros would be no ids.
        let (trace, id) = (u128::from_be_bytes(trace).max(1), u64::from_be_bytes(id).max(1));
        Trace(Box::new(Context { parent: format!("00-{trace:032x}-{id:016x}-01"), state: None }))
    }

    /// The id of the span that is the parent: 16 hex digits.
    pub fn parent_id(&self) -> &str {
        &self.0.parent[PARENT_ID]
    }

    /// Does the one who began the trace want it to be recorded?
    pub fn is_sampled(&self) -> bool {
        u8::from_str_radix(&self.0.parent[FLAGS], 16).is_ok_and(|flags| flags & 1 == 1)
    }

    /// The `traceparent`.
    pub fn parent(&self) -> &str {
        &self.0.parent
    }

    /// The id of the trace, which all its steps share: 32 hexadecimal digits.
    pub fn id(&self) -> &str {
        &self.0.parent[TRACE_ID]
    }

    /// The `tracestate`, which is passed on as it came.
    pub fn state(&self) -> Option<&str> {
        self.0.state.as_deref()
    }

    /// The same trace, with the span of this id as the parent.
    #[must_use]
    pub fn passed_on(&self, id: [u8; 8]) -> Trace {
        // All zeros would be no id.
        let id = u64::from_be_bytes(id).max(1);
        let mut parent = self.0.parent.clone();
        parent.replace_range(PARENT_ID, &format!("{id:016x}"));
        Trace(Box::new(Context { parent, state: self.0.state.clone() }))
    }
}

/// `00-<32 hex>-<16 hex>-<2 hex>`, small letters, neither id all zeros.
fn is_parent(text: &str) -> bool {
    let is_hex = |field: &str, len| {
        field.len() == len && field.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |field, len| is_hex(field, len) && field.bytes().any(|byte| byte != b'0');
    let mut fields = text.split('-');
    let mut next = || fields.next().unwrap_or_default();
    next() == "00"
        && is_id(next(), 32)
        && is_id(next(), 16)
        && is_hex(next(), 2)
        && fields.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_is_passed_on_with_a_new_parent() {
        let found = Trace::read(PARENT, Some("a=b")).unwrap();
        assert_eq!((found.parent(), found.state()), (PARENT, Some("a=b")));
        assert_eq!(found.id(), "0af7651916cd43dd8448eb211c80319c");
        let passed_on = found.passed_on([0xab; 8]);
        let parent = "00-0af7651916cd43dd8448eb211c80319c-abababababababab-01";
        assert_eq!((passed_on.parent(), passed_on.state()), (parent, Some("a=b")));
        assert_eq!(passed_on.id(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(passed_on.parent_id(), "abababababababab");
        let zero = found.passed_on([0; 8]);
        assert!(Trace::read(zero.parent(), None).is_some(), "{zero:?}");
    }

    #[test]
    fn a_trace_that_begins_with_us_is_recorded() {
        let begun = Trace::begin([0x0a; 16], [0x0b; 8]);
        let parent = "00-0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a-0b0b0b0b0b0b0b0b-01";
        assert_eq!(begun.parent(), parent);
        assert!(begun.is_sampled());
        assert!(!Trace::read(&parent.replace("-01", "-02"), None).unwrap().is_sampled());
        assert!(Trace::read(Trace::begin([0; 16], [0; 8]).parent(), None).is_some());
    }

    #[test]
    fn what_is_not_spelled_as_one_is_none() {
        for wrong in [
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "",
        ] {
            assert_eq!(Trace::read(wrong, None), None, "{wrong}");
        }
    }
}
