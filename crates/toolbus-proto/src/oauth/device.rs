//! The user agrees on another machine (RFC 8628): what is shown, and when we ask again.

use core::time::Duration;

use serde_json::Value;
use thiserror::Error;

use super::document::{BadDocument, DEPTH_MAX, object};
use super::hidden::Hidden;
use super::identity::TokenForm;
use super::token::{AnswerError, Tokens, shown};
use super::web::{NotAllowed, WebUrl};

/// The grant of its name.
pub const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// How often is asked where the server does not say.
const INTERVAL: Duration = Duration::from_secs(5);
/// So much longer is waited where the server wants that.
const SLOWER: Duration = Duration::from_secs(5);
/// Nobody waits for longer.
const LIFE_SECONDS_MAX: u64 = 24 * 60 * 60;

/// What the user opens and enters, and what we ask with.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Device {
    pub code: Hidden,
    pub user_code: String,
    pub uri: String,
    pub whole_uri: Option<String>,
    /// How long it holds.
    pub life: Duration,
    interval: Duration,
}

/// What comes of one time that is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Polled {
    /// Ask again.
    Wait,
    /// The user has agreed.
    Agreed(Tokens),
    /// Nothing will come.
    Ends(AnswerError),
    /// It has taken too long.
    TooLate,
}

impl Device {
    /// Reads what the endpoint answered.
    pub fn read(status: u16, body: &[u8]) -> Result<Device, DeviceError> {
        if let Some(refused) = AnswerError::of_body(body) {
            return Err(refused.into());
        }
        if !(200..300).contains(&status) {
            return Err(AnswerError::Status { status }.into());
        }
        let members = object(body, DEPTH_MAX)?;
        let text = |name: &'static str| {
            let text = members.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.ok_or(DeviceError::Missing { name })
        };
        let number = |name: &str| members.get(name).and_then(Value::as_u64);
        let uri = text("verification_uri").or_else(|_| text("verification_url"))?;
        WebUrl::allowed(uri)?;
        let whole_uri = text("verification_uri_complete").ok();
        whole_uri.map(WebUrl::allowed).transpose()?;
        let life = number("expires_in").unwrap_or(LIFE_SECONDS_MAX).min(LIFE_SECONDS_MAX);
        Ok(Device {
            code: Hidden::new(text("device_code")?),
            user_code: shown(text("user_code")?),
            uri: uri.to_owned(),
            whole_uri: whole_uri.map(str::to_owned),
            life: Duration::from_secs(life),
            interval: number("interval")
                .map_or(INTERVAL, |seconds| Duration::from_secs(seconds.max(1))),
        })
    }

    /// How long to wait before it is asked again.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// What is asked each time.
    pub fn form(&self, resource: Option<&str>) -> TokenForm {
        let mut form =
            TokenForm::of([("grant_type", GRANT_TYPE), ("device_code", self.code.reveal())]);
        if let Some(resource) = resource {
            form.put("resource", resource);
        }
        form
    }

    /// Takes what was answered; `None` if there was no answer, or none of a server that works.
    pub fn handle_answer(&mut self, answer: Option<Result<Tokens, AnswerError>>) -> Polled {
        match answer {
            None => Polled::Wait,
            Some(Ok(tokens)) => Polled::Agreed(tokens),
            Some(Err(AnswerError::Status { status })) if 500 <= status => Polled::Wait,
            Some(Err(why)) => match why.refused() {
                Some("authorization_pending") => Polled::Wait,
                Some("slow_down") => {
                    self.interval += SLOWER;
                    Polled::Wait
                }
                Some("expired_token") => Polled::TooLate,
                _ => Polled::Ends(why),
            },
        }
    }
}

/// Why no user can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum DeviceError {
    #[error(transparent)]
    Answer(#[from] AnswerError),
    #[error("what the sign-in server answered cannot be used: {0}")]
    Document(#[from] BadDocument),
    #[error("what the sign-in server answered has no `{name}`")]
    Missing { name: &'static str },
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"device_code":"s3cret","user_code":"AB-CD","verification_uri":"https://a.example/d","verification_uri_complete":"https://a.example/d?c=AB-CD","expires_in":600,"interval":1}"#;

    fn refused(error: &str) -> Option<Result<Tokens, AnswerError>> {
        let body = format!(r#"{{"error":"{error}"}}"#);
        Some(super::super::token::read(400, body.as_bytes()))
    }

    #[test]
    fn a_device_waits_as_it_is_told() {
        let mut device = Device::read(200, WHOLE.as_bytes()).unwrap();
        assert_eq!(
            (device.user_code.as_str(), device.interval()),
            ("AB-CD", Duration::from_secs(1))
        );
        assert!(!format!("{device:?}").contains("s3cret"));
        assert_eq!(device.handle_answer(None), Polled::Wait);
        assert_eq!(device.handle_answer(refused("authorization_pending")), Polled::Wait);
        assert_eq!(device.interval(), Duration::from_secs(1));
        for seconds in [6, 11] {
            assert_eq!(device.handle_answer(refused("slow_down")), Polled::Wait);
            assert_eq!(device.interval(), Duration::from_secs(seconds));
        }
        assert_eq!(
            device.handle_answer(Some(Err(AnswerError::Status { status: 502 }))),
            Polled::Wait
        );
        assert_eq!(device.handle_answer(refused("expired_token")), Polled::TooLate);
        assert!(matches!(device.handle_answer(refused("access_denied")), Polled::Ends(_)));
        let agreed = super::super::token::read(200, br#"{"access_token":"a"}"#);
        assert!(matches!(device.handle_answer(Some(agreed)), Polled::Agreed(_)));
    }

    #[test]
    fn a_device_leads_nowhere_that_may_not_be_opened() {
        let bad = WHOLE.replace("https://a.example/d\"", "http://a.example/d\"");
        assert!(Device::read(200, bad.as_bytes()).is_err());
        let none = Device::read(200, br#"{"device_code":"x"}"#).unwrap_err().to_string();
        assert_eq!(none, "what the sign-in server answered has no `verification_url`");
        let usual = WHOLE.replace(",\"interval\":1", "");
        assert_eq!(Device::read(200, usual.as_bytes()).unwrap().interval(), INTERVAL);
    }
}
