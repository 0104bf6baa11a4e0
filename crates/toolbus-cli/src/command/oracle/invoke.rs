//! `toolbus oracle invoke`: be an executor for one call, or for one call a line.

use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus::address::Address;
use toolbus::back::settings::{OracleSettings, Settings};
use toolbus::back::{self, Back};
use toolbus::link::Inbox;
use toolbus_proto::json::{Json, write_string};
use toolbus_proto::oracle::felt::Leniency;
use toolbus_proto::oracle::signature::Function;
use toolbus_proto::oracle::{codec, felts};
use toolbus_proto::tool::{Call, Failure, Outcome, What, Wire};

use super::outcome::{self, Form};
use super::{InvokeArgs, batch, functions};
use crate::args::Globals;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render::{self, failure};
use crate::runtime::{self, Signals};

pub(crate) fn invoke(args: &InvokeArgs, globals: &Globals) -> Result<(), Failed> {
    let address = connection(&args.connection)?;
    let functions = functions(&args.functions)?;
    let leniency = if args.lenient_felts { Leniency::Lenient } else { Leniency::Strict };
    let form = match (args.as_cairo, globals.json || args.selector == "-") {
        (true, _) => Form::Cairo,
        (false, true) => Form::Tagged,
        (false, false) => Form::Bare,
    };
    let is_batch = args.selector == "-";
    let single = if is_batch { None } else { Some(single(args, &functions, leniency)?) };
    let settings = Settings {
        start_timeout: Some(args.start_timeout),
        stop_timeout: Some(args.stop_timeout),
        oracle: OracleSettings {
            lenient_felts: args.lenient_felts,
            line_bytes_max: Some(args.line_max),
            ..OracleSettings::default()
        },
        allow_shell: args.allow_shell,
        ..Settings::default()
    };
    runtime::block_on(async {
        let back = back::open(&address, &settings).map_err(|error| {
            let failed = Failed::usage(error.to_string());
            match error.hint() {
                Some(hint) => failed.hint(hint),
                None => failed,
            }
        })?;
        let executor = Executor { back, timeout: args.timeout, form };
        let mut signals = Signals::listen()?;
        let done = tokio::select! {
            done = executor.run(single, &functions, leniency, args.line_max) => done,
            exit = signals.next() => Err(Failed::quietly(exit)),
        };
        // Told before the goodbye, which may take its time.
        let done = done.map_err(|failed| failed.told(globals));
        signals.or_kill(executor.back.shutdown(), || executor.back.kill()).await;
        done
    })
}

/// What calls go through, and how their answers are shown.
pub(super) struct Executor {
    back: Rc<dyn Back>,
    timeout: Option<Duration>,
    pub(super) form: Form,
}

impl Executor {
    async fn run(
        &self,
        single: Option<Single<'_>>,
        functions: &[Function],
        leniency: Leniency,
        line_bytes_max: usize,
    ) -> Result<(), Failed> {
        let Some(Single { selector, calldata, function }) = single else {
            return batch::run(self, functions, leniency, line_bytes_max).await;
        };
        let outcome = self.call(selector, calldata).await;
        let value = outcome::value(self.form, function, outcome);
        if let Some(line) = outcome::line(self.form, &value) {
            render::print(&line)?;
        }
        value.map(|_| ()).map_err(|failure| failure::failed(&failure))
    }

    /// Calls a selector with felts that are canonical.
    pub(super) async fn call(&self, selector: &str, calldata: Bytes) -> Result<Outcome, Failure> {
        let method = Bytes::copy_from_slice(selector.as_bytes());
        let what = What::Native { wire: Wire::Oracle, method, body: calldata };
        let mut call = Call::of(Instant::now(), what);
        call.deadline.quiet = self.timeout;
        let (inbox, slot) = Inbox::new();
        let uplink = self.back.start(call, slot);
        inbox.whole(uplink).await
    }
}

/// A call of the command line, checked before anything is started.
struct Single<'a> {
    selector: &'a str,
    calldata: Bytes,
    function: Option<&'a Function>,
}

fn single<'a>(
    args: &'a InvokeArgs,
    functions: &'a [Function],
    leniency: Leniency,
) -> Result<Single<'a>, Failed> {
    let selector = &*args.selector;
    let mut calldata = Vec::new();
    if functions.is_empty() {
        let words = args.felts.iter().map(String::as_str);
        let found =
            felts::read_words(words, leniency).map_err(|error| Failed::usage(error.to_string()))?;
        felts::write(&found, &mut calldata);
        return Ok(Single { selector, calldata: calldata.into(), function: None });
    }
    let function = functions.iter().find(|function| function.name() == selector);
    let function = function.ok_or_else(|| {
        let names: Vec<_> =
            functions.iter().map(|function| format!("`{}`", function.name())).collect();
        Failed::usage(format!("no signature for `{selector}`: `--fn` gives {}", names.join(", ")))
    })?;
    let found = codec::encode_args(function, &by_position(&args.felts))
        .map_err(|error| Failed::usage(error.to_string()))?;
    felts::write(&found, &mut calldata);
    Ok(Single { selector, calldata: calldata.into(), function: Some(function) })
}

/// Words as a JSON array: each is JSON, or a string if it is not.
fn by_position(words: &[String]) -> String {
    let mut array = vec![b'['];
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            array.push(b',');
        }
        match Json::parse(word.clone()) {
            Ok(json) => array.extend_from_slice(json.as_bytes()),
            Err(_) => write_string(&mut array, word),
        }
    }
    array.push(b']');
    String::from_utf8(array).expect("made of strings")
}

/// A connection string: only these schemes are an oracle's (C1).
fn connection(text: &str) -> Result<Address, Failed> {
    const SCHEMES: [&str; 3] = ["stdio:", "oracle+stdio:", "shell:"];
    if !SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
        let supported = SCHEMES.join(", ");
        let message = format!("unsupported connection scheme: {text:?}; supported are {supported}");
        return Err(Failed::usage(message));
    }
    Address::parse(text).map_err(|error| Failed::usage(error.to_string()))
}

/// The exit code of a batch: that of the first line that failed.
pub(super) fn first_failed(first: Option<Exit>) -> Result<(), Failed> {
    first.map_or(Ok(()), |exit| Err(Failed::quietly(exit)))
}
