//! Why a connection or a stream is lost, in words.

use quinn::{ConnectionError, ReadError, StoppedError, TransportErrorCode, WriteError};
use toolbus_proto::channel::StreamLost;
use toolbus_proto::tool::{Failure, FailureKind};

use crate::transport::io::{Lost, Stop};

/// Why a connection is over. `has_answered` if the peer has ever said something inside: the
/// certificate of a client is judged only after its own handshake is over.
pub(super) fn cause(error: &ConnectionError, has_answered: bool) -> String {
    match error {
        ConnectionError::ConnectionClosed(close) => match alert(close.error_code) {
            Some(NO_APPLICATION_PROTOCOL) => "speaks another protocol than we do".to_owned(),
            Some(alert) if is_about_certificates(alert) && !has_answered => {
                "refused our certificate".to_owned()
            }
            _ => format!("closed by peer: {close}"),
        },
        ConnectionError::ApplicationClosed(close) => {
            let code = close.error_code;
            match close.reason.is_empty() {
                true => format!("closed by peer (code {code})"),
                false => {
                    let reason = String::from_utf8_lossy(&close.reason);
                    format!("closed by peer (code {code}: {reason})")
                }
            }
        }
        ConnectionError::TimedOut => "the peer went silent".to_owned(),
        ConnectionError::Reset => "the peer was restarted".to_owned(),
        ConnectionError::LocallyClosed => "closed by us".to_owned(),
        ConnectionError::TransportError(error) => error.to_string(),
        ConnectionError::VersionMismatch => "the peer speaks another version of QUIC".to_owned(),
        ConnectionError::CidsExhausted => "no connection ids are left".to_owned(),
    }
}

/// By which code of QUIC the peer ended a connection, if it was one: 0x100 and more are alerts of
/// TLS.
pub(super) fn code(error: &ConnectionError) -> Option<u64> {
    match error {
        ConnectionError::ConnectionClosed(close) => Some(close.error_code.into()),
        _ => None,
    }
}

const NO_APPLICATION_PROTOCOL: u64 = 120;

/// The alert of TLS that ended a connection, if one did.
fn alert(code: TransportErrorCode) -> Option<u64> {
    u64::from(code).checked_sub(0x100).filter(|alert| *alert < 0x100)
}

/// `bad_certificate` to `access_denied`, and `certificate_required`.
fn is_about_certificates(alert: u64) -> bool {
    (42..=49).contains(&alert) || alert == 116
}

/// A stream that went with its connection.
pub(super) fn with_connection(error: &ConnectionError, has_answered: bool) -> StreamLost {
    let message = format!("connection lost: {}", cause(error, has_answered));
    StreamLost { code: None, failure: Failure::new(FailureKind::Gone, message) }
}

/// A stream that the peer reset, or will not read.
fn reset(code: u64) -> StreamLost {
    let message = format!("the stream was reset (code {code})");
    StreamLost { code: Some(code), failure: Failure::new(FailureKind::Gone, message) }
}

fn unusable(error: impl std::fmt::Display) -> StreamLost {
    StreamLost { code: None, failure: Failure::new(FailureKind::Gone, error.to_string()) }
}

pub(super) fn reading(error: ReadError, has_answered: bool) -> Lost {
    Lost(match error {
        ReadError::Reset(code) => reset(code.into_inner()),
        ReadError::ConnectionLost(error) => with_connection(&error, has_answered),
        error => unusable(error),
    })
}

pub(super) fn writing(error: WriteError, has_answered: bool) -> Lost {
    Lost(match error {
        WriteError::Stopped(code) => reset(code.into_inner()),
        WriteError::ConnectionLost(error) => with_connection(&error, has_answered),
        error => unusable(error),
    })
}

pub(super) fn stopped(error: StoppedError, has_answered: bool) -> Stop {
    Stop::Lost(match error {
        StoppedError::ConnectionLost(error) => with_connection(&error, has_answered),
        error => unusable(error),
    })
}
