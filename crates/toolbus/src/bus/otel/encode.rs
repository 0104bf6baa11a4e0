//! Spans as OTLP writes them in JSON: ids are hex, 64-bit numbers are text.

use std::time::UNIX_EPOCH;

use toolbus_proto::json::write_string;

use super::Span;

/// What is asked of a collector: to take these spans.
pub(super) fn request(service: &str, spans: &[Span]) -> Vec<u8> {
    let mut out = Vec::with_capacity(256 + spans.len() * 768);
    out.extend_from_slice(br#"{"resourceSpans":[{"resource":{"attributes":["#);
    text(&mut out, "service.name", service);
    out.push(b',');
    text(&mut out, "service.version", env!("CARGO_PKG_VERSION"));
    out.extend_from_slice(br#"]},"scopeSpans":[{"scope":{"name":"toolbus","version":"#);
    write_string(&mut out, env!("CARGO_PKG_VERSION"));
    out.extend_from_slice(br#"},"spans":["#);
    for (at, each) in spans.iter().enumerate() {
        if 0 < at {
            out.push(b',');
        }
        span(&mut out, each);
    }
    out.extend_from_slice(b"]}]}]}");
    out
}

/// The numbers that OTLP has for them.
const KIND_SERVER: u8 = 2;
const STATUS_ERROR: u8 = 2;

fn span(out: &mut Vec<u8>, span: &Span) {
    let begun = span.begun.duration_since(UNIX_EPOCH).unwrap_or_default();
    let ended = begun + span.took;
    let name = match &span.back {
        Some(back) => format!("{back}.{}", span.tool),
        // Whatever a caller made up is no name for a kind of work.
        None => "unknown tool".to_owned(),
    };
    put(out, r#"{"traceId":"#, &span.trace);
    put(out, r#","spanId":"#, &span.id);
    if let Some(parent) = &span.parent {
        put(out, r#","parentSpanId":"#, parent);
    }
    if let Some(state) = &span.state {
        put(out, r#","traceState":"#, state);
    }
    put(out, r#","name":"#, &name);
    out.extend_from_slice(format!(r#","kind":{KIND_SERVER}"#).as_bytes());
    put(out, r#","startTimeUnixNano":"#, &begun.as_nanos().to_string());
    put(out, r#","endTimeUnixNano":"#, &ended.as_nanos().to_string());
    out.extend_from_slice(br#","attributes":["#);
    text(out, "toolbus.tool", &span.tool);
    let texts = [
        ("toolbus.front", Some(span.front.as_str()).filter(|front| !front.is_empty())),
        ("toolbus.caller", span.caller.as_deref()),
        ("toolbus.view", span.view.as_deref()),
        ("toolbus.back", span.back.as_deref()),
        ("toolbus.wire", span.wire),
        ("toolbus.outcome", Some(span.outcome)),
        ("error.type", Some(span.outcome).filter(|outcome| *outcome != "ok")),
    ];
    for (key, value) in texts {
        if let Some(value) = value {
            out.push(b',');
            text(out, key, value);
        }
    }
    for (key, value) in
        [("toolbus.request.bytes", span.bytes_in), ("toolbus.response.bytes", span.bytes_out)]
    {
        let number = format!(r#",{{"key":"{key}","value":{{"intValue":"{value}"}}}}"#);
        out.extend_from_slice(number.as_bytes());
    }
    out.extend_from_slice(b"]");
    if span.outcome != "ok" {
        out.extend_from_slice(format!(r#","status":{{"code":{STATUS_ERROR}"#).as_bytes());
        if let Some(message) = &span.message {
            put(out, r#","message":"#, message);
        }
        out.push(b'}');
    }
    out.push(b'}');
}

/// Something, and behind it a text.
fn put(out: &mut Vec<u8>, before: &str, text: &str) {
    out.extend_from_slice(before.as_bytes());
    write_string(out, text);
}

/// An attribute.
fn text(out: &mut Vec<u8>, key: &str, value: &str) {
    put(out, r#"{"key":"#, key);
    put(out, r#","value":{"stringValue":"#, value);
    out.extend_from_slice(b"}}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;
    use toolbus_proto::json::Json;

    use super::*;

    #[test]
    fn spans_as_a_collector_reads_them() {
        let good = Span {
            trace: "0af7651916cd43dd8448eb211c80319c".to_owned(),
            id: "b7ad6b7169203331".to_owned(),
            parent: Some("00f067aa0ba902b7".to_owned()),
            state: Some("a=b".to_owned()),
            begun: UNIX_EPOCH + Duration::from_nanos(1_700_000_000_000_000_001),
            took: Duration::from_micros(1500),
            front: "editor".to_owned(),
            caller: Some("ann".to_owned()),
            view: Some("reader".to_owned()),
            back: Some("try".to_owned()),
            wire: Some("inside"),
            tool: "add".to_owned(),
            outcome: "ok",
            message: None,
            bytes_in: 13,
            bytes_out: 1,
        };
        let bad = Span {
            parent: None,
            state: None,
            back: None,
            wire: None,
            front: String::new(),
            caller: None,
            view: None,
            tool: "a \"b\"".to_owned(),
            outcome: "unknown_tool",
            message: Some("no such tool".to_owned()),
            ..good.clone()
        };
        let text = String::from_utf8(request("mine", &[good, bad])).unwrap();
        assert!(Json::parse(text.clone()).is_ok(), "{text}");
        let text =
            text.replace(env!("CARGO_PKG_VERSION"), "V").replace(r#"{"traceId""#, "\n{\"traceId\"");
        expect![[r#"
            {"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"mine"}},{"key":"service.version","value":{"stringValue":"V"}}]},"scopeSpans":[{"scope":{"name":"toolbus","version":"V"},"spans":[
            {"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","parentSpanId":"00f067aa0ba902b7","traceState":"a=b","name":"try.add","kind":2,"startTimeUnixNano":"1700000000000000001","endTimeUnixNano":"1700000000001500001","attributes":[{"key":"toolbus.tool","value":{"stringValue":"add"}},{"key":"toolbus.front","value":{"stringValue":"editor"}},{"key":"toolbus.caller","value":{"stringValue":"ann"}},{"key":"toolbus.view","value":{"stringValue":"reader"}},{"key":"toolbus.back","value":{"stringValue":"try"}},{"key":"toolbus.wire","value":{"stringValue":"inside"}},{"key":"toolbus.outcome","value":{"stringValue":"ok"}},{"key":"toolbus.request.bytes","value":{"intValue":"13"}},{"key":"toolbus.response.bytes","value":{"intValue":"1"}}]},
            {"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","name":"unknown tool","kind":2,"startTimeUnixNano":"1700000000000000001","endTimeUnixNano":"1700000000001500001","attributes":[{"key":"toolbus.tool","value":{"stringValue":"a \"b\""}},{"key":"toolbus.outcome","value":{"stringValue":"unknown_tool"}},{"key":"error.type","value":{"stringValue":"unknown_tool"}},{"key":"toolbus.request.bytes","value":{"intValue":"13"}},{"key":"toolbus.response.bytes","value":{"intValue":"1"}}],"status":{"code":2,"message":"no such tool"}}]}]}]}"#]].assert_eq(&text);
    }
}
