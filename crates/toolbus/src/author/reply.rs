//! What a tool answers: text, numbers, JSON, or an error.

use std::any::Any;
use std::borrow::Cow;
use std::fmt::Display;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use toolbus_proto::json;
use toolbus_proto::tool::{Failure, FailureKind, Outcome};

use super::Raw;
use super::arguments::Described;

/// What a tool answers.
///
/// Texts are answered as they are, numbers and truths as JSON; anything else that derives
/// `Serialize` and `JsonSchema` stands in a [`Json`]. A `Result` answers for the tool whether
/// it went well: of an error its callers see what it displays. An error of type [`Failure`]
/// keeps its kind and code.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the answer of a tool",
    note = "wrap it as `toolbus::author::Json({Self})`, and derive `Serialize` and `JsonSchema`"
)]
pub trait Reply {
    /// The JSON Schema of what callers get, if it is known.
    fn schema() -> Option<json::Json> {
        None
    }

    /// What callers get.
    fn outcome(self) -> Result<Outcome, Failure>;
}

/// Answers a value as JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema> Reply for Json<T> {
    fn schema() -> Option<json::Json> {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        Some(Described::of::<T>(settings).schema)
    }

    fn outcome(self) -> Result<Outcome, Failure> {
        let text = serde_json::to_vec(&self.0).map_err(|error| {
            let message = format!("the answer cannot be written as JSON: {error}");
            Failure::new(FailureKind::Failed, message)
        })?;
        Ok(Outcome::Value(json::Json::from_trusted(text)))
    }
}

impl<T: Reply, E: Display + 'static> Reply for Result<T, E> {
    fn schema() -> Option<json::Json> {
        T::schema()
    }

    fn outcome(self) -> Result<Outcome, Failure> {
        let error = match self {
            Ok(reply) => return reply.outcome(),
            Err(error) => error,
        };
        if let Some(failure) = (&error as &dyn Any).downcast_ref::<Failure>() {
            return Err(failure.clone());
        }
        // Errors that know their causes tell them in this form.
        Err(Failure::new(FailureKind::Failed, format!("{error:#}")))
    }
}

impl Reply for String {
    fn outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::Text(self))
    }
}

impl Reply for &'static str {
    fn outcome(self) -> Result<Outcome, Failure> {
        self.to_owned().outcome()
    }
}

impl Reply for Cow<'static, str> {
    fn outcome(self) -> Result<Outcome, Failure> {
        self.into_owned().outcome()
    }
}

impl Reply for Raw {
    fn outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::Value(self.0))
    }
}

/// Nothing to say: `null`, or the end of the parts that were sent.
impl Reply for () {
    fn outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::Value(json::Json::null()))
    }
}

macro_rules! as_json {
    ($($plain:ty)*) => {$(
        impl Reply for $plain {
            fn schema() -> Option<json::Json> {
                Json::<$plain>::schema()
            }

            fn outcome(self) -> Result<Outcome, Failure> {
                Json(self).outcome()
            }
        }
    )*};
}

as_json!(bool f32 f64 i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);
