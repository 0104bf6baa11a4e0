//! A server of the Responses API that does what a script says, byte by byte.
//!
//! It runs on threads of its own and speaks HTTP/1.1 by hand, so that a test can cut what it says
//! anywhere, and look at every byte of what it is asked.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

/// One answer.
#[derive(Debug, Clone)]
pub struct Answer {
    status: u16,
    headers: Vec<String>,
    body: Vec<u8>,
    end: End,
    chunk_bytes: usize,
    /// What stands behind so many bytes of the body waits until it is let through.
    gates: Vec<(usize, Gate)>,
}

/// Holds the rest of an answer back until a test lets it through.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Lets it through.
    pub fn open(&self) {
        let (is_open, changed) = &*self.0;
        *is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    fn wait(&self) {
        let (is_open, changed) = &*self.0;
        let is_open = is_open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(changed.wait_while(is_open, |is_open| !*is_open));
    }
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Well,
    /// The connection is closed in the middle.
    Cut,
    /// Nothing more comes, and the connection stays.
    Silence,
}

impl Answer {
    /// An answer of this status and type, with more header fields behind `; `.
    pub fn new(status: u16, head: &str) -> Answer {
        let mut fields = head.split("; ");
        let kind = fields.next().unwrap_or_default();
        let headers = fields.map(str::to_owned);
        let headers = [format!("Content-Type: {kind}")].into_iter().chain(headers).collect();
        Answer {
            status,
            headers,
            body: Vec::new(),
            end: End::Well,
            chunk_bytes: 1,
            gates: Vec::new(),
        }
    }

    /// A stream of these events, each of which is the data of one.
    pub fn events<'a>(events: impl IntoIterator<Item = &'a str>) -> Answer {
        let mut answer = Answer::new(200, "text/event-stream");
        events.into_iter().for_each(|event| answer.event(event));
        answer
    }

    /// One more event.
    pub fn event(&mut self, data: &str) {
        self.body.extend_from_slice(format!("data: {data}\n\n").as_bytes());
    }

    /// More of the body, as it is.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }

    /// It is a stream of events.
    pub fn is_stream(&self) -> bool {
        self.headers.iter().any(|field| field.contains("text/event-stream"))
    }

    /// Behind all that, the connection is cut.
    pub fn cut(&mut self) {
        self.end = End::Cut;
    }

    /// Behind all that, nothing comes.
    pub fn fall_silent(&mut self) {
        self.end = End::Silence;
    }

    /// What follows waits for the gate.
    pub fn hold(&mut self) -> Gate {
        let gate = Gate::default();
        self.gates.push((self.body.len(), gate.clone()));
        gate
    }

    /// In chunks of so many bytes, instead of one.
    #[must_use]
    pub fn in_chunks_of(mut self, bytes: usize) -> Answer {
        self.chunk_bytes = bytes;
        self
    }
}

/// What the server was asked.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// The first line: `POST /v1/responses HTTP/1.1`.
    pub line: String,
    /// The header fields, names in small letters.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Asked {
    /// The value of a header field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A server that gives each request the next answer of its script, and closes behind it.
pub struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Listens on this machine; the last answer of the script is given again and again.
    pub fn start(script: Vec<Answer>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("this machine has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let seen = Arc::clone(&asked);
        // It lives as long as the test, which does not wait for it.
        thread::spawn(move || {
            let mut answers = script.iter().chain(script.last().into_iter().cycle());
            for stream in listener.incoming() {
                let (Ok(stream), Some(answer)) = (stream, answers.next()) else { return };
                let (seen, answer) = (Arc::clone(&seen), answer.clone());
                thread::spawn(move || {
                    // A client may leave in the middle.
                    let _ = serve(&stream, &seen, &answer);
                });
            }
        });
        Server { address, asked }
    }

    /// Where it is: `http://127.0.0.1:40000`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(stream: &TcpStream, seen: &Mutex<Vec<Asked>>, answer: &Answer) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let asked = read(&mut BufReader::new(stream))?;
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    let mut out = stream;
    let fields: String = answer.headers.iter().map(|field| format!("{field}\r\n")).collect();
    let status = answer.status;
    let usual = "Transfer-Encoding: chunked\r\nConnection: close";
    write!(out, "HTTP/1.1 {status} Scripted\r\n{fields}{usual}\r\n\r\n")?;
    let mut begin = 0;
    let ends = answer.gates.iter().map(|(at, gate)| (*at, Some(gate)));
    for (end, gate) in ends.chain([(answer.body.len(), None)]) {
        for chunk in answer.body[begin..end].chunks(answer.chunk_bytes.max(1)) {
            let chunk = [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
            out.write_all(&chunk)?;
        }
        begin = end;
        if let Some(gate) = gate {
            gate.wait();
        }
    }
    match answer.end {
        End::Well => out.write_all(b"0\r\n\r\n"),
        End::Cut => Ok(()),
        // Until the other side has had enough.
        End::Silence => out.read_to_end(&mut Vec::new()).map(|_| ()),
    }
}

fn read(input: &mut BufReader<&TcpStream>) -> io::Result<Asked> {
    let mut asked = Asked::default();
    let mut line = String::new();
    input.read_line(&mut line)?;
    line.trim_end().clone_into(&mut asked.line);
    loop {
        line.clear();
        input.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        asked.headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let mut body = Vec::new();
    if let Some(len) = asked.header("content-length").and_then(|len| len.parse().ok()) {
        input.take(len).read_to_end(&mut body)?;
    } else if asked.header("transfer-encoding").is_some() {
        loop {
            line.clear();
            input.read_line(&mut line)?;
            let len = u64::from_str_radix(line.trim_end(), 16).unwrap_or(0);
            input.by_ref().take(len).read_to_end(&mut body)?;
            input.read_line(&mut String::new())?;
            if len == 0 {
                break;
            }
        }
    }
    asked.body = String::from_utf8_lossy(&body).into_owned();
    Ok(asked)
}
