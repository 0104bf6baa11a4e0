//! `toolbus oracle invoke`: be an executor for one call, or for one call a line.

use std::cell::Cell;
use std::rc::Rc;
use std::slice;
use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus::address::Address;
use toolbus::bus::back::Back;
use toolbus::peer;
use toolbus::peer::settings::{Settings, WireSettings};
use toolbus::wire::oracle::settings::OracleSettings;
use toolbus_engine::calls::Inbox;
use toolbus_proto::json::{Json, write_string};
use toolbus_proto::oracle::felt::Leniency;
use toolbus_proto::oracle::signature::Function;
use toolbus_proto::oracle::{codec, felts};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, What};

use super::outcome::{self, Form};
use super::{InvokeArgs, batch, connection, functions};
use crate::args::Globals;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::with_meant;
use crate::render::{self, failure};
use crate::runtime::{self, Signals};

pub(crate) fn invoke(args: &InvokeArgs, globals: &Globals) -> Result<(), Failed> {
    let is_batch = args.selector == "-";
    let form = match (args.as_cairo, globals.json || is_batch) {
        (true, _) => Form::Cairo,
        (false, true) => Form::Tagged,
        (false, false) => Form::Bare,
    };
    // A call that cannot even be made is one that failed; a batch has no call yet.
    let refused = |failed| if is_batch { failed } else { shown(form, failed) };
    let address = connection(&args.connection).map_err(refused)?;
    let functions = functions(&args.functions).map_err(refused)?;
    let leniency = if args.lenient_felts { Leniency::Lenient } else { Leniency::Strict };
    let single = match is_batch {
        true => no_more_words(&args.felts).map(|()| None)?,
        false => Some(single(args, &functions, leniency).map_err(refused)?),
    };
    let settings = Settings {
        start_timeout: Some(args.start_timeout),
        stop_timeout: Some(args.stop_timeout),
        wire: WireSettings::of(OracleSettings {
            lenient_felts: args.lenient_felts,
            line_bytes_max: Some(args.line_max),
            ..OracleSettings::default()
        }),
        allow_shell: args.allow_shell,
        program: args.program.settings()?,
        ..Settings::default()
    };
    runtime::block_on(async {
        let back = peer::open(&address, &settings).map_err(|error| {
            let failed = Failed::usage(error.to_string());
            match error.hint() {
                Some(hint) => failed.hint(hint),
                None => failed,
            }
        })?;
        let is_asking = Cell::new(false);
        let executor = Client { address, back, timeout: args.timeout, form, is_asking };
        let mut signals = Signals::listen()?;
        let done = tokio::select! {
            done = executor.run(single, &functions, leniency, args.line_max) => done,
            exit = signals.next() => Err(executor.cancelled(exit)),
        };
        // Told before the goodbye, which may take its time.
        let done = done.map_err(|failed| failed.told(globals));
        signals.or_kill(executor.back.shutdown(), || executor.back.kill()).await;
        done
    })
}

/// What calls go through, and how their answers are shown.
pub(super) struct Client {
    address: Address,
    back: Rc<dyn Back>,
    timeout: Option<Duration>,
    pub(super) form: Form,
    /// A call is under way.
    is_asking: Cell<bool>,
}

impl Client {
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
        let outcome = match self.call(selector, calldata).await {
            Err(failure) => Err(with_meant(&self.address, failure)),
            outcome => outcome,
        };
        let value = outcome::value(self.form, function, outcome);
        if let Some(line) = outcome::line(self.form, &value) {
            render::print(&line)?;
        }
        value.map(|_| ()).map_err(|failure| failure::failed(&failure))
    }

    /// Calls a selector with felts that are canonical.
    pub(super) async fn call(&self, selector: &str, calldata: Bytes) -> Result<Outcome, Failure> {
        let method = Bytes::copy_from_slice(selector.as_bytes());
        let what = What::Native { wire: toolbus_proto::oracle::WIRE, method, body: calldata };
        let mut call = Call::of(Instant::now(), what);
        // The start of the oracle included.
        call.deadline.total = self.timeout;
        let (inbox, reply_to) = Inbox::new();
        self.is_asking.set(true);
        let running = self.back.start(call, reply_to);
        let outcome = inbox.whole(running).await;
        self.is_asking.set(false);
        outcome
    }

    /// A signal ends us, and with us the call that waits.
    fn cancelled(&self, exit: Exit) -> Failed {
        if !self.is_asking.get() {
            return Failed::quietly(exit);
        }
        let failure = Failure::new(FailureKind::Cancelled, "cancelled");
        let failed = Failed { exit, ..failure::failed(&failure) };
        told(self.form, failure, failed)
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

/// A batch takes its calls from standard input.
fn no_more_words(words: &[String]) -> Result<(), Failed> {
    match words.first() {
        None => Ok(()),
        Some(word) => Err(Failed::usage(format!("`{word}` behind `-` would be lost"))
            .hint("a batch takes each call from a line of standard input")),
    }
}

/// Shows that a call cannot be made, where failures are shown.
fn shown(form: Form, failed: Failed) -> Failed {
    let Some(report) = &failed.report else { return failed };
    let message = [slice::from_ref(&report.message), &report.causes].concat().join(": ");
    let failure = Failure::new(FailureKind::InvalidArguments, message);
    told(form, failure, failed)
}

/// Prints the line of a failure, where there is one.
fn told(form: Form, failure: Failure, failed: Failed) -> Failed {
    match outcome::line(form, &Err(failure)) {
        Some(line) => render::print(&line).err().unwrap_or(failed),
        None => failed,
    }
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

/// The exit code of a batch: that of the first line that failed.
pub(super) fn first_failed(first: Option<Exit>) -> Result<(), Failed> {
    first.map_or(Ok(()), |exit| Err(Failed::quietly(exit)))
}
