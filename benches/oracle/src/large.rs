//! 200 000 felts there and back in one call, against a program written for just that.

use std::io::Write;

use toolbus::wire::oracle::blocking::{Oracles, Settings};
use toolbus_proto::oracle::codec;
use toolbus_proto::oracle::felt::Felt;
use toolbus_proto::oracle::signature::{self, Function};

use crate::bare::Input;
use crate::{Contender, Table, connection, role, start};

const COUNT: u64 = 200_000;

pub(crate) fn measure(rounds: usize) {
    let mut table = Table::new("200 000 felts there and back, felts in and out");
    table.add("written by hand", ChildHandle::new());
    table.add("blocking client", Plain::new());
    table.measure(rounds);
    let mut table = Table::new("200 000 numbers there and back, JSON in and out");
    table.add("written by hand", HandTyped(ChildHandle::new()));
    table.add("blocking client with a signature", Typed::new());
    table.measure(rounds);
}

/// A number that takes all the room a felt has.
fn limbs(number: u64) -> [u64; 4] {
    [0x0123_4567_89ab_cdef, number, number, number]
}

fn large_felt(number: u64) -> Felt {
    let mut bytes = [0; 32];
    for (place, limb) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(limbs(number)) {
        *place = limb.to_be_bytes();
    }
    Felt::from_bytes(bytes).expect("it is below the prime")
}

/// Pipes to a bare oracle, and no more care than the happy case needs.
struct ChildHandle {
    child: std::process::Child,
    input: Input,
    next_id: u64,
    line: Vec<u8>,
}

impl ChildHandle {
    fn new() -> ChildHandle {
        let mut child = start(role("role-peer"));
        let mut input = Input::new();
        let stdout = child.stdout.as_mut().expect("it is a pipe");
        assert!(input.next(stdout).is_some());
        let ack = b"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n";
        child.stdin.as_mut().expect("it is a pipe").write_all(ack).expect("it listens");
        ChildHandle { child, input, next_id: 0, line: Vec::new() }
    }

    /// Writes what `print` makes of each number and gives back the hexadecimal words.
    fn echo<T>(
        &mut self,
        words: impl Iterator<Item = T>,
        print: impl Fn(&mut Vec<u8>, T),
    ) -> impl Iterator<Item = &[u8]> {
        let line = &mut self.line;
        line.clear();
        let id = self.next_id;
        self.next_id += 1;
        let head = r#""method":"invoke","params":{"selector":"f","calldata":["#;
        write!(line, r#"{{"jsonrpc":"2.0","id":{id},{head}"#).expect("a Vec takes all");
        for (index, word) in words.enumerate() {
            line.extend_from_slice(if index == 0 { b"\"0x" } else { b",\"0x" });
            print(line, word);
            line.push(b'"');
        }
        line.extend_from_slice(b"]}}\n");
        // The oracle reads all before it answers, so nobody gets stuck.
        self.child.stdin.as_mut().expect("a pipe").write_all(line).expect("it listens");
        let answer = self.input.next(self.child.stdout.as_mut().expect("a pipe"));
        let answer = answer.expect("an answer");
        let from = memchr::memchr(b'[', answer).expect("an array") + 1;
        let words = answer[from..answer.len() - 3].split(|byte| *byte == b',');
        words.map(|word| &word[3..word.len() - 1])
    }
}

impl Contender for ChildHandle {
    fn calls(&mut self, count: u32) {
        let numbers: Vec<[u64; 4]> = (0..COUNT).map(limbs).collect();
        for _ in 0..count {
            let print = |line: &mut Vec<u8>, [a, b, c, d]: &[u64; 4]| {
                write!(line, "{a:x}{b:016x}{c:016x}{d:016x}").expect("a Vec takes all");
            };
            let words = self.echo(numbers.iter(), print);
            let answer: Vec<[u64; 4]> = words.map(parse).collect();
            assert_eq!(answer, numbers);
        }
    }
}

fn parse(word: &[u8]) -> [u64; 4] {
    let mut limbs = [0; 4];
    for (limb, digits) in limbs.iter_mut().rev().zip(word.rchunks(16)) {
        let digits = std::str::from_utf8(digits).expect("hexadecimal");
        *limb = u64::from_str_radix(digits, 16).expect("hexadecimal");
    }
    limbs
}

impl Drop for ChildHandle {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

struct HandTyped(ChildHandle);

impl Contender for HandTyped {
    fn calls(&mut self, count: u32) {
        let text = numbers_text();
        for _ in 0..count {
            let numbers: Vec<u64> = serde_json::from_str(&text).expect("numbers");
            let words = [numbers.len() as u64].into_iter().chain(numbers);
            let print = |line: &mut Vec<u8>, number: u64| {
                write!(line, "{number:x}").expect("a Vec takes all");
            };
            let words = self.0.echo(words, print).skip(1);
            let answer: Vec<u64> = words.map(|word| parse(word)[3]).collect();
            assert_eq!(serde_json::to_string(&answer).expect("numbers"), text);
        }
    }
}

fn numbers_text() -> String {
    let numbers: Vec<u64> = (0..COUNT).map(|number| number << 32 | number).collect();
    serde_json::to_string(&numbers).expect("numbers")
}

struct Plain {
    oracles: Oracles,
    connection: String,
    felts: Vec<Felt>,
}

impl Plain {
    fn new() -> Plain {
        Plain {
            oracles: Oracles::new(Settings::default()),
            connection: connection("role-peer"),
            felts: (0..COUNT).map(large_felt).collect(),
        }
    }
}

impl Contender for Plain {
    fn calls(&mut self, count: u32) {
        for _ in 0..count {
            let answer = self.oracles.invoke(&self.connection, "f", &self.felts);
            assert_eq!(answer.as_ref(), Ok(&self.felts));
        }
    }
}

struct Typed {
    plain: Plain,
    function: Function,
    text: String,
}

impl Typed {
    fn new() -> Typed {
        let text = "f(numbers: Array<u64>) -> Array<u64>";
        let function = signature::parse(text).expect("a signature").remove(0);
        Typed { plain: Plain::new(), function, text: numbers_text() }
    }
}

impl Contender for Typed {
    fn calls(&mut self, count: u32) {
        for _ in 0..count {
            let args = format!("[{}]", self.text);
            let calldata = codec::encode_args(&self.function, &args).expect("numbers");
            let Plain { oracles, connection, .. } = &mut self.plain;
            let answer = oracles.invoke(connection, "f", &calldata).expect("an answer");
            let answer = codec::decode_result(&self.function, &answer).expect("numbers");
            assert_eq!(answer, self.text);
        }
    }
}
