//! Our host before our provider: whatever a tool gives comes out as it went in.

use std::time::Instant;

use proptest::prelude::*;
use toolbus_proto::channel::{Asked, Down, Ticket};
use toolbus_proto::orchard::{Client, Server, ServerSettings, Settings};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, What};
use toolbus_testkit::pair::Pair;

use super::{builtin, json};

fn pair() -> Pair<Client, Server> {
    let server = Server::new(&ServerSettings::default(), builtin());
    Pair::new(Instant::now(), Client::new(Settings::new("e")), server)
}

#[test]
fn numbers_cross_digit_by_digit() {
    let mut pair = pair();
    let arguments =
        r#"{"arguments":{"b":[1.50,1234567890123456789012345678901234567890],"a":null}}"#;
    pair.call(Ticket(1), Call::tool(pair.now, "echo", Some(json(arguments))));
    pair.run();
    let (ticket, asked) = pair.asked[0].clone();
    let Asked::Call(Call { what: What::Tool { name, args }, .. }) = asked else {
        panic!("{asked:?}")
    };
    assert_eq!(name.as_str(), "echo");
    let sorted = r#"{"a":null,"b":[1.50,1234567890123456789012345678901234567890]}"#;
    assert_eq!(args.unwrap().as_str(), sorted);
    pair.down(ticket, Down::Done(Ok(Outcome::Value(json(r#"{ "n": 1.50 }"#)))));
    pair.run();
    let done = Down::Done(Ok(Outcome::Value(json(r#"{"n":1.50}"#))));
    assert_eq!(pair.learned, [(Ticket(1), done)]);
}

#[test]
fn the_tools_of_a_provider_are_its_actions() {
    let mut pair = pair();
    pair.call(Ticket(1), Call::of(pair.now, What::Tools));
    pair.run();
    let Some((_, Down::Done(Ok(Outcome::Tools(tools))))) = pair.learned.pop() else { panic!() };
    let inputs: Vec<_> = tools.iter().map(|tool| format!("{} {}", tool.name, tool.input)).collect();
    assert_eq!(
        inputs,
        [
            r#"add {"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"],"additionalProperties":false}"#,
            r#"echo {"type":"object","properties":{"arguments":true},"required":[],"additionalProperties":false}"#,
            r#"fail {"type":"object","properties":{"code":true,"message":{"type":"string"}},"required":["message"],"additionalProperties":false}"#,
            r#"sleep {"type":"object","properties":{"ms":{"type":"number"}},"required":["ms"],"additionalProperties":false}"#,
            r#"upper {"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}"#,
        ]
    );
    let output = tools[0].output.as_ref().unwrap().as_str();
    let result = r#"{"type":"object","properties":{"result":{"type":"number"}},"required":["result"],"additionalProperties":false}"#;
    assert_eq!(output, result);
}

proptest! {
    /// Calls and answers in any order, in pieces of any size: each call ends once, with its own.
    #[test]
    fn every_call_gets_its_own_answer(
        texts in prop::collection::vec("[a-z\\\\\"é]{0,5}", 1..12),
        order in prop::collection::vec(any::<prop::sample::Index>(), 12),
        sizes in prop::collection::vec((1usize..40, 1usize..40), 1..400),
    ) {
        let mut pair = pair();
        for (index, text) in texts.iter().enumerate() {
            let args = serde_json::json!({ "text": text }).to_string();
            pair.call(Ticket(index as u64), Call::tool(pair.now, "upper", Some(json(&args))));
        }
        let mut open = Vec::new();
        let mut taken = 0;
        let mut order = order.iter().cycle();
        let mut sizes = sizes.into_iter().chain(std::iter::repeat((1000, 1000)));
        for _ in 0..10_000 {
            let (up, down) = sizes.next().unwrap();
            let moved = pair.carry(up, down);
            open.extend(pair.asked[taken..].iter().cloned());
            taken = pair.asked.len();
            if open.is_empty() && !moved {
                break;
            }
            if open.is_empty() {
                continue;
            }
            let (ticket, asked) = open.swap_remove(order.next().unwrap().index(open.len()));
            let Asked::Call(Call { what: What::Tool { args, .. }, .. }) = asked else { panic!() };
            let args: serde_json::Value = args.unwrap().read().unwrap();
            let text = args["text"].as_str().unwrap().to_owned();
            let outcome = match text.len() % 3 {
                0 => Err(Failure::new(FailureKind::Failed, text)),
                1 => Ok(Outcome::Text(text)),
                _ => Ok(Outcome::Value(json(&serde_json::json!(text).to_string()))),
            };
            pair.down(ticket, Down::Done(outcome));
        }
        let mut learned = std::mem::take(&mut pair.learned);
        learned.sort_by_key(|(ticket, _)| *ticket);
        prop_assert_eq!(learned.len(), texts.len());
        for ((_, down), text) in learned.iter().zip(&texts) {
            match down {
                Down::Done(Ok(Outcome::Value(outputs))) => {
                    let outputs: serde_json::Value = outputs.read().unwrap();
                    prop_assert_eq!(outputs, serde_json::json!({ "result": text }));
                }
                Down::Done(Err(failure)) => prop_assert_eq!(&failure.message, text),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
