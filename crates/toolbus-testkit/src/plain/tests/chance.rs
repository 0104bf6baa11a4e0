//! A pair left to chance: whatever both sides do, nothing is lost, reordered or ended twice.

use proptest::prelude::*;
use toolbus_proto::channel::AskId;

use super::*;

/// What chance lets happen next; the numbers choose among the calls there are.
#[derive(Debug, Clone)]
enum Step {
    Call { seconds: Option<u64> },
    Up(usize, Up),
    Down(usize, Down),
    Carry(usize, usize),
    Wait(u64),
}

fn any_json() -> impl Strategy<Value = Json> {
    prop_oneof!["[0-9]{1,3}", "\"[a-zż\u{1}]{0,3}\"", Just("[null, {}]".to_owned())]
        .prop_filter_map("a number may begin with 0, a string hold a control", |text| {
            Json::parse(text).ok()
        })
}

fn any_part() -> impl Strategy<Value = Part> {
    let bytes = (prop::collection::vec(any::<u8>(), 0..4), any::<bool>());
    prop_oneof![
        "[a\n\"\u{1f}]{0,3}".prop_map(Part::Text),
        any_json().prop_map(Part::Json),
        bytes.prop_map(|(data, last)| {
            let (data, media_type) = (data.into(), last.then(|| "text/plain".into()));
            Part::Bytes(Piece { data, media_type, len: None, last })
        }),
    ]
}

fn any_up() -> impl Strategy<Value = Up> {
    prop_oneof![
        8 => any_part().prop_map(Up::Part),
        2 => (0u64..3, any_json()).prop_map(|(ask, json)| Up::Answer(AskId(ask), json)),
        1 => prop::option::of(any_json()).prop_map(Up::End),
        1 => prop::option::of(any_json()).prop_map(Up::Cancel),
    ]
}

fn any_down() -> impl Strategy<Value = Down> {
    let failure = any_json().prop_map(|detail| Failure {
        code: Some(toolbus_proto::tool::Code::Word("luck".into())),
        detail: Some(detail),
        from_peer: true,
        ..Failure::new(FailureKind::Failed, "no luck")
    });
    let outcome = prop_oneof![
        any_json().prop_map(Outcome::Value),
        "[a-z]{0,3}".prop_map(Outcome::Text),
        prop::option::of(any_json()).prop_map(Outcome::End),
    ];
    prop_oneof![
        1 => prop::option::of(any_json()).prop_map(|head| Down::Begin { head, parts: None }),
        8 => any_part().prop_map(Down::Part),
        2 => any_json().prop_map(Down::Progress),
        1 => any_json().prop_map(Down::Log),
        1 => (0u64..3, any_json()).prop_map(|(ask, json)| Down::Ask(AskId(ask), json)),
        2 => outcome.prop_map(|outcome| Down::Done(Ok(outcome))),
        1 => failure.prop_map(|failure| Down::Done(Err(failure))),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => prop::option::of(1u64..20).prop_map(|seconds| Step::Call { seconds }),
        4 => (any::<usize>(), any_up()).prop_map(|(which, up)| Step::Up(which, up)),
        4 => (any::<usize>(), any_down()).prop_map(|(which, down)| Step::Down(which, down)),
        6 => (0usize..60, 0usize..60).prop_map(|(up, down)| Step::Carry(up, down)),
        1 => (0u64..5).prop_map(Step::Wait),
    ]
}

/// What both sides said about one call, as far as it was open on their side.
#[derive(Debug, Default)]
struct Said {
    ups: Vec<Up>,
    downs: Vec<Down>,
}

struct Game {
    pair: Pair<Client, Server>,
    said: Vec<Said>,
}

impl Game {
    fn new() -> Game {
        let limits = Limits { queue_max: 2, ..Limits::default() };
        let pair = Pair::new(Instant::now(), Client::new(limits), Server::new(limits));
        Game { pair, said: Vec::new() }
    }

    fn play(&mut self, step: Step) {
        match step {
            Step::Call { seconds } => {
                // The number of the call is its argument, so that both sides know it.
                let number = Json::of(&self.said.len());
                let mut call = Call::tool(self.pair.now, "any", Some(number));
                call.deadline.total = seconds.map(Duration::from_secs);
                self.pair.call(Ticket(self.said.len() as u64), call);
                self.said.push(Said::default());
            }
            Step::Up(which, up) if !self.said.is_empty() => {
                let which = which % self.said.len();
                if !self.has_cancelled(which) {
                    self.said[which].ups.push(up.clone());
                }
                self.pair.up(Ticket(which as u64), up);
            }
            Step::Down(which, down) => {
                let open = self.open();
                if !open.is_empty() {
                    let (number, ticket) = open[which % open.len()];
                    self.said[number].downs.push(down.clone());
                    self.pair.down(ticket, down);
                }
            }
            Step::Carry(up, down) => drop(self.pair.carry(up, down)),
            Step::Wait(seconds) => {
                let later = self.pair.now + Duration::from_secs(seconds);
                self.pair.wait_until(later);
            }
            Step::Up(..) => {}
        }
    }

    /// The calls that the tools know of and have not ended: number and ticket of each.
    fn open(&self) -> Vec<(usize, Ticket)> {
        let numbers = self.numbers().into_iter();
        numbers.filter(|(number, _)| !ends(&self.said[*number].downs)).collect()
    }

    fn numbers(&self) -> Vec<(usize, Ticket)> {
        let number = |asked: &Asked| match asked {
            Asked::Call(Call { what: What::Tool { args: Some(args), .. }, .. }) => args.read().ok(),
            _ => None,
        };
        let asked = self.pair.asked.iter();
        asked.filter_map(|(ticket, asked)| Some((number(asked)?, *ticket))).collect()
    }

    fn has_cancelled(&self, which: usize) -> bool {
        self.said[which].ups.iter().any(|up| matches!(up, Up::Cancel(_)))
    }

    fn learned(&self, number: usize) -> Vec<Down> {
        let learned = self.pair.learned.iter();
        learned
            .filter(|(ticket, _)| ticket.0 == number as u64)
            .map(|(_, down)| down.clone())
            .collect()
    }

    fn heard(&self, ticket: Ticket) -> Vec<Up> {
        let asked = self.pair.asked.iter();
        asked
            .filter_map(|(of, asked)| match asked {
                Asked::Up(up) if *of == ticket => Some(up.clone()),
                _ => None,
            })
            .collect()
    }

    /// Nothing came that was not said, nothing is missing in between, and there is one end.
    fn assert_in_order(&self) {
        for (number, said) in self.said.iter().enumerate() {
            let learned = self.learned(number);
            assert!(ends(&learned), "call {number} never ended: {learned:?}");
            let before_end = &learned[..learned.len() - 1];
            assert!(!before_end.iter().any(|down| matches!(down, Down::Done(_))), "{learned:?}");
            if !said.downs.starts_with(&learned) {
                assert!(said.downs.starts_with(before_end), "{learned:?}\n{said:?}");
                let own = [FailureKind::Cancelled, FailureKind::TimedOut, FailureKind::Gone];
                let Some(Down::Done(Err(failure))) = learned.last() else {
                    panic!("an end that nobody said: {learned:?}\n{said:?}");
                };
                assert!(own.contains(&failure.kind), "{learned:?}\n{said:?}");
            }
        }
        for (number, ticket) in self.numbers() {
            let heard = self.heard(ticket);
            let mut said = &self.said[number].ups[..];
            // A deadline cancels without a word of the caller's.
            if let [before @ .., Up::Cancel(None)] = &heard[..]
                && said.starts_with(before)
            {
                said = &heard;
            }
            assert!(said.starts_with(&heard), "call {number}: {heard:?}\n{said:?}");
        }
    }
}

fn ends(downs: &[Down]) -> bool {
    matches!(downs.last(), Some(Down::Done(_)))
}

proptest! {
    #[test]
    fn every_call_ends_once_and_nothing_is_lost(
        steps in prop::collection::vec(any_step(), 1..60),
    ) {
        let mut game = Game::new();
        for step in steps {
            game.play(step);
        }
        game.pair.run();
        let late = game.open();
        for &(number, ticket) in &late {
            let done = Down::Done(Ok(Outcome::Value(Json::null())));
            game.said[number].downs.push(done.clone());
            game.pair.down(ticket, done);
        }
        game.pair.run();
        game.assert_in_order();
        for (number, ticket) in late {
            let was_let_go = matches!(game.heard(ticket).last(), Some(Up::Cancel(_)));
            if !was_let_go {
                prop_assert_eq!(game.learned(number), game.said[number].downs.clone());
                prop_assert_eq!(game.heard(ticket), game.said[number].ups.clone());
            }
        }
    }

    #[test]
    fn a_cut_anywhere_ends_all(steps in prop::collection::vec(any_step(), 1..60)) {
        let mut game = Game::new();
        for step in steps {
            game.play(step);
        }
        game.pair.cut();
        game.assert_in_order();
    }
}
