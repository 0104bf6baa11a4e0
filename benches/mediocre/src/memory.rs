//! 4 GiB through `echo` leave no more behind, at either end, than the first few MiB.

use bytes::Bytes;
use toolbus_proto::channel::Down;
use toolbus_proto::tool::{Outcome, Part, Piece};

use crate::bare::PIECE_BYTES;
use crate::ours::{Asked, Client};
use crate::random;

const BYTES: usize = 4 << 30;
/// After so many bytes we look at the memory.
const STEP: usize = 256 << 20;

pub(crate) fn measure() {
    let client = Client::over_unix();
    let server = client.server().pid();
    let us = std::process::id();
    let begun = std::time::Instant::now();
    let seen: Vec<(f64, f64)> = client.run(async move |back| {
        let asked = Asked::stream(&back, "echo", None);
        let send = async {
            let data = Bytes::from(random(PIECE_BYTES));
            for at in 1..=BYTES / PIECE_BYTES {
                let (data, last) = (data.clone(), at == BYTES / PIECE_BYTES);
                asked.send(Part::Bytes(Piece { data, media_type: None, len: None, last })).await;
            }
            asked.end();
        };
        let receive = async {
            let mut received = 0;
            let mut seen = Vec::new();
            loop {
                match asked.next().await {
                    Down::Part(Part::Bytes(piece)) => {
                        let steps = received / STEP;
                        received += piece.data.len();
                        if steps < received / STEP || (seen.is_empty() && 16 << 20 < received) {
                            seen.push((resident_mib(us), resident_mib(server)));
                        }
                    }
                    Down::Done(Ok(Outcome::End(None))) => break,
                    Down::Begin { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(received, BYTES);
            seen
        };
        tokio::join!(send, receive).1
    });
    let seconds = begun.elapsed().as_secs_f64();
    println!("\n4 GiB through `echo`, {seconds:.1} s; resident memory, MiB\n");
    println!("| | after 16 MiB | most | at the end |\n|---|---|---|---|");
    let (clients, servers): (Vec<f64>, Vec<f64>) = seen.into_iter().unzip();
    for (name, seen) in [("client", clients), ("server", servers)] {
        let most = seen.iter().copied().fold(0.0, f64::max);
        println!("| {name} | {:.1} | {most:.1} | {:.1} |", seen[0], seen[seen.len() - 1]);
    }
}

fn resident_mib(process: u32) -> f64 {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(path).expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it is there");
    let kib: f64 =
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number");
    kib / 1024.0
}
