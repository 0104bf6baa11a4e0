//! Runs before a server that the conversation plays, replayed from `transcripts/godex`.

use std::cell::Cell;
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use toolbus_proto::channel::{
    Asked, Down, Machine as _, Outbox, Serving as _, StreamId, StreamLost, Streams as _, Ticket,
    Writing,
};
use toolbus_proto::godex::auth::Credential;
use toolbus_proto::godex::base_url::BaseUrl;
use toolbus_proto::godex::flags::{self, message};
use toolbus_proto::godex::mock::Mode;
use toolbus_proto::godex::{
    Function, Note, Request, Run, RunSettings, Signal, Target, ToolCall, Wanted,
};
use toolbus_proto::http::ResponseHead;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, ToolSpec, What};
use toolbus_testkit::transcript::{self, Arrival, Clock, Player, Words};

use super::hold::{Cut, hold};
use super::words::split;

const FOLDERS: [&str; 4] = ["stream", "text", "loop", "http"];

fn files() -> Vec<std::path::PathBuf> {
    let folders = FOLDERS.iter().map(|folder| format!("transcripts/godex/{folder}"));
    let files = folders.flat_map(transcript::files);
    // That standard output is closed, only the hands see.
    files.filter(|file| !file.ends_with("closed_stdout_ends_quietly.txt")).collect()
}

#[test]
fn conversations_come_out_as_they_are_written() {
    for file in files() {
        hold(&file, &Cut::Nowhere, || Server::new(&file));
    }
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in files() {
        hold(&file, &Cut::EveryByte, || Server::new(&file));
        transcript::sweep(&transcript::read(&file), || Server::new(&file));
    }
}

#[test]
fn many_events_may_come_in_one_read() {
    for file in files() {
        hold(&file, &Cut::Joined, || Server::new(&file));
    }
}

/// A server, and tools, that the conversation plays.
struct Server {
    clock: Clock,
    /// Requests are a part of the conversation.
    shows_requests: bool,
    /// So are their header fields.
    shows_headers: bool,
    run: Option<Run>,
    credential: Credential,
    auth_file: Option<String>,
    tools: Vec<ToolSpec>,
    /// The calls that are shown, and those that are made.
    shown: Vec<(Ticket, ToolCall)>,
    calls: Vec<(Ticket, Call)>,
    stream: StreamId,
    tool_timeout: Duration,
    input: BytesMut,
    /// What arrives is events, and not the body of a refusal.
    is_stream: Cell<bool>,
    is_over: bool,
}

impl Server {
    fn new(file: &std::path::Path) -> Server {
        let folder = file.parent().and_then(std::path::Path::file_name).unwrap();
        Server {
            clock: Clock::new(),
            shows_requests: folder == "http" || folder == "loop",
            shows_headers: folder == "http",
            run: None,
            credential: Credential::None,
            auth_file: None,
            tools: Vec::new(),
            shown: Vec::new(),
            calls: Vec::new(),
            stream: StreamId::Ours(0),
            tool_timeout: Duration::from_secs(60),
            input: BytesMut::new(),
            is_stream: Cell::new(true),
            is_over: false,
        }
    }

    fn start(&mut self, line: &str) {
        let words = split(line);
        let value = |flag: &str| {
            let at = words.iter().position(|word| word == flag)?;
            words.get(at + 1).cloned()
        };
        let has = |flag: &str| words.iter().any(|word| word == flag);
        let prompt = value("--prompt").unwrap();
        let session_id = value("--session-id").unwrap_or_else(|| "s1".to_owned());
        let mut request = Request::new(session_id, vec![message(&prompt, &[])]);
        request.runs_tools = has("--tools-from");
        for tool in &self.tools {
            request.functions.push(Function::of_tool(tool).unwrap());
        }
        if let Some(choice) = value("--tool-choice") {
            request.choice = flags::choice(&choice).unwrap();
            flags::check_choice(&request.choice, &request).unwrap();
        }
        let is_json = has("--json");
        let url = value("--base-url").unwrap_or_else(|| "http://127.0.0.1:7000/v1".to_owned());
        let duration = |text: String| match text.strip_suffix("ms") {
            Some(millis) => Duration::from_millis(millis.parse().unwrap()),
            None => Duration::from_secs(text.parse().unwrap()),
        };
        self.tool_timeout = value("--tool-timeout").map_or(self.tool_timeout, duration);
        let settings = RunSettings {
            request,
            wanted: Wanted {
                lines: is_json,
                all_events: value("--events").as_deref() == Some("all"),
                text: !is_json,
                refusals: true,
                ..Wanted::default()
            },
            base_url: BaseUrl::parse(&url).unwrap(),
            user_agent: "toolbus/VERSION".to_owned(),
            credential: self.credential.clone(),
            refresh_url: has("--allow-refresh").then(|| BaseUrl::parse(BaseUrl::REFRESH).unwrap()),
            timeout: None,
            idle_timeout: value("--idle-timeout").map_or(Duration::from_secs(120), duration),
            retries: value("--retries").map_or(3, |count| count.parse().unwrap()),
            max_turns: value("--max-turns").map_or(8, |count| count.parse().unwrap()),
            tool_timeout: self.tool_timeout,
            asks_user: false,
            mock: value("--mock-mode").map(|mode| Mode::named(&mode).unwrap()),
        };
        let mut run = Run::new(settings, |bytes: &mut [u8]| bytes.fill(0));
        run.start(self.clock.now, SystemTime::UNIX_EPOCH);
        self.run = Some(run);
    }

    fn drain(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        let Some(run) = &mut self.run else { return came };
        loop {
            let lines = String::from_utf8(std::mem::take(run.said().lines())).unwrap();
            came.extend(lines.lines().map(|line| format!(">> {line}")));
            while let Some(text) = run.said().poll_text() {
                came.push(format!(">> text {}", Json::of(&text)));
            }
            while let Some(note) = run.said().poll_note() {
                match note {
                    Note::Warning(text) => came.push(format!("== stderr has warning: {text}")),
                    Note::Error(text) => came.push(format!("== stderr has error: {text}")),
                    Note::Hint(text) => came.push(format!("== stderr has hint: {text}")),
                    Note::Call { name, arguments } => {
                        came.push(format!("== stderr has call {name} {arguments}"));
                    }
                    Note::Refreshed(tokens) => {
                        let file = self.auth_file.as_mut().unwrap();
                        *file = tokens.rewritten(file).unwrap();
                        came.push(format!("== file auth.json: {file}"));
                    }
                    Note::Calling(ticket, call) => self.shown.push((ticket, call)),
                    Note::Called(ticket) => self.shown.retain(|(shown, _)| *shown != ticket),
                    Note::Trace(_) | Note::Request(_) => {}
                }
            }
            while let Some((ticket, asked)) = run.poll_up() {
                match asked {
                    Asked::Call(call) => self.calls.push((ticket, call)),
                    Asked::Up(_) => self.calls.retain(|(called, _)| *called != ticket),
                }
            }
            while let Some((stream, (target, head))) = run.poll_open() {
                self.stream = stream;
                let mut body = Outbox::new();
                run.poll_transmit(stream, &mut body);
                let body = body.take();
                assert_eq!(head.header("content-length"), Some(&*body.len().to_string()));
                if !self.shows_requests {
                    continue;
                }
                let host = match target {
                    Target::Server => "",
                    Target::Refresh => "https://auth.openai.com",
                };
                came.push(format!(">> {} {host}{}", head.method, head.path));
                let is_shown = |name| name != "user-agent" && name != "content-length";
                let headers =
                    head.headers.iter().filter(|(name, _)| self.shows_headers && is_shown(*name));
                came.extend(headers.map(|(name, value)| format!(">> {name}: {value}")));
                came.push(format!(">> {}", String::from_utf8_lossy(&body)));
            }
            // The wait before another try is over as soon as it begins.
            let is_asking = run.writing(self.stream) != Writing::Reset(0);
            let is_waiting = !is_asking && self.calls.is_empty() && run.ended().is_none();
            match run.poll_timeout().filter(|_| is_waiting) {
                Some(until) => {
                    self.clock.now = until;
                    run.handle_timeout(until);
                }
                None => break,
            }
        }
        if let Some(ended) = run.ended()
            && !std::mem::replace(&mut self.is_over, true)
        {
            came.push(format!("== exit {}", ended.exit));
        }
        came
    }

    fn happen_to_run(&mut self, what: &str) {
        let now = self.clock.now;
        let run = self.run.as_mut().unwrap();
        let input = &mut self.input;
        match what {
            "stream ends" => {
                run.handle_eof(now, self.stream, input);
            }
            "connection cut inside an event" => {
                input.extend_from_slice(b"data: {\"type\":\"response.output_text.del");
                run.handle_bytes(now, self.stream, input);
                run.handle_cut(now, self.stream, input, lost("cut"));
            }
            "connection refused" => {
                run.handle_lost(now, self.stream, lost("nothing listens there"));
            }
            "500ms pass without a byte" => {
                self.clock.now += Duration::from_millis(499);
                run.handle_timeout(self.clock.now);
                assert!(run.ended().is_none(), "too early");
                self.clock.now += Duration::from_millis(1);
                run.handle_timeout(self.clock.now);
            }
            "SIGINT" => run.interrupt(Signal::Interrupt),
            "SIGTERM" => run.interrupt(Signal::Terminate),
            "no tool is called" => assert!(self.calls.is_empty()),
            _ => self.happen_to_tool(what),
        }
    }

    fn happen_to_tool(&mut self, what: &str) {
        if let Some(call) = what.strip_prefix("call ") {
            let is_it = |(ticket, known): &(Ticket, ToolCall)| {
                let ToolCall { call_id, tool, args } = known;
                let what = What::Tool { name: tool.clone(), args: Some(args.clone()) };
                assert!(self.calls.iter().any(|(made, call)| made == ticket && call.what == what));
                format!("{call_id} {tool} {args}") == call
            };
            assert!(self.shown.iter().any(is_it), "{call}");
            return;
        }
        let mut words = Words::new(what);
        let call_id = words.word().unwrap();
        let shown = self.shown.iter().find(|(_, call)| call.call_id == call_id);
        let ticket = shown.unwrap().0;
        let at = self.calls.iter().position(|(made, _)| *made == ticket).unwrap();
        let (_, call) = self.calls.remove(at);
        let done = match words.word().unwrap() {
            "answers" => {
                assert!(words.is("text"));
                Ok(Outcome::Text(serde_json::from_str(words.rest()).unwrap()))
            }
            "fails" => {
                assert!(words.is("failed"));
                let message: String = serde_json::from_str(words.rest()).unwrap();
                Err(Failure::new(FailureKind::Failed, message))
            }
            "gives" => Err(call.deadline.missed()),
            other => panic!("what is `{other}`?"),
        };
        self.run.as_mut().unwrap().down(self.clock.now, ticket, Down::Done(done));
    }

    fn answered(&mut self, text: &str) {
        let mut fields = text.split("; ");
        let (status, media_type) = fields.next().unwrap().split_once(' ').unwrap();
        let mut head = ResponseHead::new(status.parse().unwrap());
        head.headers.push("content-type", media_type);
        for field in fields {
            let (name, value) = field.split_once(": ").unwrap();
            head.headers.push(name.to_owned(), value);
        }
        let run = self.run.as_mut().unwrap();
        run.handle_answered(self.clock.now, self.stream, head);
    }
}

fn lost(why: &str) -> StreamLost {
    StreamLost { code: None, failure: Failure::new(FailureKind::Unavailable, why) }
}

impl Player for Server {
    fn happen(&mut self, what: &str) -> Vec<String> {
        if let Some(line) = what.strip_prefix("toolbus exec ") {
            self.start(line);
        } else if let Some(head) = what.strip_prefix("answered ") {
            self.answered(head);
        } else if let Some(file) = what.strip_prefix("file ") {
            let (_, text) = file.split_once(": ").unwrap();
            self.credential = Credential::of_file(text).unwrap();
            self.auth_file = Some(text.to_owned());
        } else if let Some(key) = what.strip_prefix("environment OPENAI_API_KEY=") {
            self.credential = Credential::Key(key.to_owned());
        } else if let Some((_, tool)) = what.split_once(" offers ") {
            let (name, rest) = tool.split_once(": ").unwrap();
            let (description, schema) = rest.split_once(", ").unwrap();
            let mut tool = ToolSpec::new(name, Json::parse(schema.to_owned()).unwrap());
            tool.description = Some(description.to_owned());
            self.tools.push(tool);
        } else if what == "end of body" {
            let run = self.run.as_mut().unwrap();
            run.handle_eof(self.clock.now, self.stream, &mut self.input);
        } else {
            self.happen_to_run(what);
        }
        self.drain()
    }

    fn bytes(&mut self, _wire: &str, bytes: &[u8]) -> Vec<String> {
        self.input.extend_from_slice(bytes);
        if let Some(run) = &mut self.run {
            run.handle_bytes(self.clock.now, self.stream, &mut self.input);
        }
        self.drain()
    }

    /// `HTTP status type` is a head; what follows is events, or a whole body.
    fn arrival(&self, _wire: &str, text: &str) -> Vec<Arrival> {
        if let Some(head) = text.strip_prefix("HTTP ") {
            self.is_stream.set(head.starts_with("200 text/event-stream"));
            return vec![Arrival::Event(format!("answered {head}"))];
        }
        if self.is_stream.get() {
            return vec![Arrival::Bytes(format!("data: {text}\n\n").into_bytes())];
        }
        let body = Arrival::Bytes(text.as_bytes().to_vec());
        vec![body, Arrival::Event("end of body".to_owned())]
    }
}
