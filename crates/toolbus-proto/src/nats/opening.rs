//! How a connection to a server begins, as a machine of its own: `INFO`, then TLS if it was asked
//! for, then `CONNECT` and `PING` in one write, and `PONG`.
//!
//! Nothing that is secret is written before the other side was found to be what was asked for.

use bytes::{Bytes, BytesMut};

use super::credentials::Credentials;
use super::protocol::{Op, OpReader};
use super::wire::{Connect, Info};
use crate::channel::Outbox;
use crate::did_you_mean::hinted;
use crate::printable::printable;
use crate::tool::{Failure, FailureKind};

/// The least that a server has to take.
const PAYLOAD_BYTES_MIN: usize = 8 << 10;
const SHOWN_BYTES: usize = 20;

/// What has to be known of a server before it is spoken to.
#[derive(Debug, Clone)]
pub struct ServerTarget {
    /// `HOST:PORT`, for people.
    pub at: String,
    /// Is it to be spoken to over TLS?
    pub tls: bool,
    /// Who we are.
    pub credentials: Credentials,
    /// What we are called there.
    pub name: String,
}

/// A connection that is about to be ready.
#[derive(Debug)]
pub struct Opening {
    target: ServerTarget,
    stage: OpeningStage,
    reader: OpReader,
    out: Outbox,
    info: Info,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpeningStage {
    Info,
    Tls,
    Pong,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Read on.
    Read,
    /// Begin with TLS, say so by [`Opening::secured`], and read on.
    Secure,
    /// It is ready; what was read and not taken belongs to the conversation.
    Done,
}

impl Opening {
    /// Waits for the server to begin.
    pub fn new(target: ServerTarget) -> Opening {
        Opening {
            target,
            stage: OpeningStage::Info,
            reader: OpReader::default(),
            out: Outbox::new(),
            info: Info::default(),
        }
    }

    /// Takes what came.
    pub fn handle_bytes(&mut self, input: &mut BytesMut) -> Result<Step, Failure> {
        if self.stage == OpeningStage::Info {
            self.judge_beginning(input)?;
        }
        loop {
            if self.stage == OpeningStage::Tls {
                return Ok(Step::Secure);
            }
            let at = &self.target.at;
            let op = self.reader.next(input).map_err(|why| {
                Failure::new(FailureKind::BrokeProtocol, format!("{at} does not speak NATS: {why}"))
            })?;
            match (self.stage, op) {
                (_, None) => return Ok(Step::Read),
                (OpeningStage::Info, Some(Op::Info(text))) => self.handle_info(&text)?,
                (OpeningStage::Pong, Some(Op::Pong)) => return Ok(Step::Done),
                (_, Some(Op::Err(why))) => return Err(refused(at, &why)),
                (_, Some(Op::Ping)) => self.out.put(b"PONG\r\n"),
                // Nothing was subscribed to, and `INFO` may come again.
                (_, Some(_)) => {}
            }
        }
    }

    /// The server closed before it was ready.
    pub fn closed(&self) -> Failure {
        unavailable(format!("{} closed the connection before it was ready", self.target.at))
    }

    /// TLS stands.
    pub fn secured(&mut self) {
        if self.stage == OpeningStage::Tls {
            self.connect();
        }
    }

    /// What is to be written.
    pub fn poll_transmit(&mut self) -> Bytes {
        self.out.take()
    }

    /// What the server said about itself.
    pub fn info(&self) -> &Info {
        &self.info
    }

    fn judge_beginning(&self, input: &[u8]) -> Result<(), Failure> {
        let shown = &input[..input.len().min(SHOWN_BYTES)];
        let begins = shown.iter().take(5).zip(b"INFO ").all(|(a, b)| a.eq_ignore_ascii_case(b));
        if begins || shown.starts_with(b"-ERR") || b"-ERR".starts_with(shown) {
            return Ok(());
        }
        let ServerTarget { at, .. } = &self.target;
        let shown = printable(shown, SHOWN_BYTES);
        let message = format!("{at} does not speak NATS: it began with \"{shown}\"");
        Err(Failure::new(FailureKind::BrokeProtocol, message))
    }

    fn handle_info(&mut self, text: &[u8]) -> Result<(), Failure> {
        let at = &self.target.at;
        self.info = serde_json::from_slice(text).map_err(|_| {
            let message = format!("{at} does not speak NATS: its INFO is not what it should be");
            Failure::new(FailureKind::BrokeProtocol, message)
        })?;
        let info = &self.info;
        if self.target.tls && !(info.tls_required || info.tls_available) {
            return Err(unavailable(format!("{at} has no TLS")));
        }
        if !self.target.tls && info.tls_required {
            let hint = format!("use `nats+tls://{at}`");
            return Err(hinted(unavailable(format!("{at} wants TLS")), Some(hint)));
        }
        if !info.headers {
            return Err(unavailable(format!("{at} is too old: it knows no headers")));
        }
        if info.max_payload < PAYLOAD_BYTES_MIN {
            let max = info.max_payload;
            return Err(unavailable(format!("{at} takes payloads of {max} bytes at most")));
        }
        match self.target.tls {
            true => self.stage = OpeningStage::Tls,
            false => self.connect(),
        }
        Ok(())
    }

    fn connect(&mut self) {
        let ServerTarget { tls, credentials, name, .. } = &self.target;
        let nonce = self.info.nonce.as_deref().unwrap_or_default();
        let mut connect = Connect {
            tls_required: *tls,
            name,
            lang: "rust",
            version: env!("CARGO_PKG_VERSION"),
            protocol: 1,
            echo: true,
            headers: true,
            no_responders: true,
            ..Connect::default()
        };
        match credentials {
            Credentials::None => {}
            Credentials::User { user, password } => {
                (connect.user, connect.pass) = (Some(user.as_str()), Some(password.as_str()));
            }
            Credentials::Token(token) => connect.auth_token = Some(token),
            Credentials::Nkey(seed) => {
                (connect.nkey, connect.sig) = (Some(seed.public()), Some(seed.sign(nonce)));
            }
            Credentials::Creds { jwt, seed } => {
                (connect.jwt, connect.sig) = (Some(jwt.as_str()), Some(seed.sign(nonce)));
            }
        }
        let connect = serde_json::to_vec(&connect).expect("our own members have string keys");
        self.out.put(b"CONNECT ");
        self.out.put(&connect);
        self.out.put(b"\r\nPING\r\n");
        self.stage = OpeningStage::Pong;
    }
}

/// The server ends the conversation, and says why.
pub(crate) fn refused(at: &str, why: &str) -> Failure {
    unavailable(format!("the NATS server {at} refused us: {}", printable(why.as_bytes(), 200)))
}

fn unavailable(message: String) -> Failure {
    Failure::new(FailureKind::Unavailable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = r#"INFO {"headers":true,"max_payload":1048576,"nonce":"n"}"#;

    fn opening(tls: bool, credentials: Credentials) -> Opening {
        let (at, name) = ("127.0.0.1:4222".to_owned(), "toolbus".to_owned());
        Opening::new(ServerTarget { at, tls, credentials, name })
    }

    fn step(opening: &mut Opening, text: &str) -> Result<Step, String> {
        let step = opening.handle_bytes(&mut BytesMut::from(text));
        step.map_err(|failure| failure.message)
    }

    #[test]
    fn we_say_who_we_are_in_one_write() {
        let mut opening = opening(false, Credentials::Token("t".to_owned()));
        assert_eq!(step(&mut opening, &format!("{INFO}\r\n")), Ok(Step::Read));
        let said = String::from_utf8(opening.poll_transmit().to_vec()).unwrap();
        assert!(said.starts_with(r#"CONNECT {"verbose":false,"pedantic":false,"tls_required":false,"name":"toolbus","lang":"rust","#), "{said}");
        assert!(said.ends_with("\"auth_token\":\"t\"}\r\nPING\r\n"), "{said}");
        assert_eq!(step(&mut opening, "+OK\r\nPONG\r\nMSG"), Ok(Step::Done));
    }

    #[test]
    fn tls_begins_behind_info() {
        let mut opening = opening(true, Credentials::None);
        let info = INFO.replace('{', r#"{"tls_available":true,"#);
        assert_eq!(step(&mut opening, &format!("{info}\r\n")), Ok(Step::Secure));
        assert_eq!(opening.poll_transmit(), "");
        opening.secured();
        assert!(opening.poll_transmit().ends_with(b"\r\nPING\r\n"));
        assert_eq!(step(&mut opening, "PONG\r\n"), Ok(Step::Done));
    }

    #[test]
    fn who_is_not_what_was_asked_for_is_told_nothing() {
        let info = |more: &str| INFO.replace('{', &format!("{{{more},")) + "\r\n";
        for (tls, text, why) in [
            (true, format!("{INFO}\r\n"), "127.0.0.1:4222 has no TLS"),
            (false, info(r#""tls_required":true"#), "127.0.0.1:4222 wants TLS"),
            (
                false,
                "INFO {\"max_payload\":9999}\r\n".to_owned(),
                "127.0.0.1:4222 is too old: it knows no headers",
            ),
            (
                false,
                "INFO {\"headers\":true,\"max_payload\":100}\r\n".to_owned(),
                "127.0.0.1:4222 takes payloads of 100 bytes at most",
            ),
            (
                false,
                "HTTP/1.1 400 Bad Request\r\n".to_owned(),
                "127.0.0.1:4222 does not speak NATS: it began with \"HTTP/1.1 400 Bad Req\"",
            ),
            (
                false,
                "-ERR 'Authorization Violation'\r\n".to_owned(),
                "the NATS server 127.0.0.1:4222 refused us: Authorization Violation",
            ),
        ] {
            let mut opening = opening(tls, Credentials::None);
            assert_eq!(step(&mut opening, &text), Err(why.to_owned()));
            assert_eq!(opening.poll_transmit(), "");
        }
    }
}
