//! What a kind of peer says about itself, once, for all who ask the registry.

use std::rc::Rc;

use bytes::Bytes;
use serde_json::Value;
use toolbus_proto::capture::Side;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Exit, FailureKind, Outcome, ToolSpec, Wire};
use toolbus_proto::view::{Rule, Sort};

use super::decode::Decoding;
use super::front::FrontKind;
use super::open::Opened;
use super::pins::{self, Pins};
use super::settings::Settings;
use crate::address::{Address, Place, Scheme};
use crate::bus::back::Back;
use crate::bus::config::{BadValue, Key, Values};
use crate::bus::observe::NativeCall;
use crate::child::supervisor::Judge;

/// A kind of peer: a wire, or tools inside toolbus itself. It is a `static`, and stands in the
/// [`Registry`](super::Registry).
pub trait PeerKind: Sync {
    /// Its name, as in addresses; there is no other of it.
    fn name(&self) -> &'static str {
        self.wire().name()
    }

    /// The wire that its peers speak.
    fn wire(&self) -> Wire;

    /// What it is, in a few words: `an MCP server`.
    fn summary(&self) -> &'static str;

    /// How addresses of its peers begin.
    fn schemes(&self) -> &'static [Scheme];

    /// Addresses as they stand in a help text, each with what it means.
    fn help(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// What a config may say about a back of this kind, besides what it may say of all.
    fn back_keys(&self) -> &'static [Key] {
        &[]
    }

    /// What is wrong with values that are well written, each by itself. `table` is the name of
    /// theirs: `back.math`.
    fn mistakes(&self, _table: &str, _values: &Values) -> Vec<BadValue> {
        Vec::new()
    }

    /// The settings with what the values of those keys mean.
    fn configure(&self, _values: &Values, settings: Settings) -> Settings {
        settings
    }

    /// Makes a back of an address of this kind. Nothing is started or connected to before it
    /// is asked. Called inside a `LocalSet`.
    fn open(&self, address: &Address, settings: &Settings) -> Opened;

    /// What those of its peers are where a user may sign in.
    #[cfg(feature = "oauth")]
    fn signs_in_as(&self) -> Option<&'static str> {
        None
    }

    /// Where its user may sign in; `None` for peers that have nothing to sign in to.
    #[cfg(feature = "oauth")]
    fn sign_in(
        &self,
        _address: &Address,
        _settings: &Settings,
    ) -> Option<super::signing_in::SignInTarget> {
        None
    }

    /// Is it a program that is started once and kept? Then it may be told goodbye when nothing is
    /// asked of it.
    fn keeps_running(&self, address: &Address) -> bool {
        matches!(address.place(), Place::Command(_))
    }

    /// Does a peer with these settings keep state between the calls of one caller, unless the config
    /// says otherwise? Then all of them have to go to the same.
    fn keeps_state(&self, _settings: &Settings) -> bool {
        false
    }

    /// Do many machines answer for one back of this kind? Then it is told which of them had a call.
    fn is_many(&self) -> bool {
        false
    }

    /// The tools that every back of this kind has besides its own: of several such tools the
    /// first is offered.
    fn generic_tools(&self) -> &'static [&'static str] {
        &[]
    }

    /// Which tool of its back a call of such a tool reaches, as far as its arguments tell.
    fn reached_by(&self, _generic: &str, _args: &Json) -> Option<String> {
        None
    }

    /// May a peer that lists these be called by more, or be listed without having been asked? Then
    /// it decides about a tool that is not listed.
    fn may_have_more(&self, listed: &[ToolSpec]) -> bool {
        let generic = self.generic_tools();
        listed.iter().any(|spec| generic.contains(&spec.name.as_str()))
    }

    /// Does the schema of a tool say what its peer takes, by JSON Schema and nothing else? Then
    /// arguments can be judged before they are sent. Else the wire itself judges them, which may
    /// take more: a number as a text, for example.
    fn is_judged_by_schema(&self) -> bool {
        false
    }

    /// What of its peers can be pinned; `None` if their tools are ours and come with the program.
    fn pins(&self) -> Option<&'static dyn Pins> {
        Some(&pins::OF_SPECS)
    }

    /// How a front of this wire would list a tool to the caller of this call.
    fn listed_as(&self, _call: &Call, spec: &ToolSpec) -> Json {
        toolbus_proto::listing::tool(spec)
    }

    /// How callers are served in it, if they are.
    fn front(&self) -> Option<&'static dyn FrontKind> {
        None
    }

    /// Is it a wire, which stands on both sides of a bus? Else it only answers.
    fn is_wire(&self) -> bool {
        self.front().is_some()
    }

    /// May an address of this kind be listened on?
    fn can_listen(&self, address: &Address) -> bool {
        self.front().is_some_and(|front| front.can_listen(address))
    }

    /// Begins to tell what one side of a captured conversation says, if captures can be read.
    fn decode(&self, _side: Side) -> Option<Box<dyn Decoding>> {
        None
    }

    /// Which tool a native request calls, if it is the call of one: for those who observe calls,
    /// since it is passed on as it is.
    fn native_call(&self, _method: &[u8], _body: &Bytes) -> Option<NativeCall> {
        None
    }

    /// Why a tool has failed whose native result this is, if it has.
    fn native_failure(&self, _result: &Bytes) -> Option<FailureKind> {
        None
    }

    /// The native result of a tool as those who observe calls are told of it; `None` if they are
    /// not.
    fn native_result(&self, result: &Bytes) -> Option<Outcome> {
        Some(Outcome::Native(result.clone()))
    }

    /// As what a native request counts where calls are limited, with the back's own name for it;
    /// `None` if it is free.
    fn counted_as(&self, method: &[u8], body: &Bytes) -> Option<(Sort, String)> {
        let call = self.native_call(method, body)?;
        Some((Sort::Tool, call.tool.to_string()))
    }

    /// By what the call is found again that a result in the words of its wire leaves held, if it
    /// does: its caller has to go on with it by a further call.
    fn held_by(&self, _result: &Bytes) -> Option<String> {
        None
    }

    /// By what the held call is to be found again that a request in the words of its wire goes on
    /// with, if it does.
    fn resumed_by(&self, _request: &Bytes) -> Option<String> {
        None
    }

    /// What its wire says of a tool, changed as a view wants it, but for the name; `None` if it cannot
    /// be changed: then it is told in the words of all wires.
    fn native_seen(&self, _text: &Bytes, _rule: &Rule) -> Option<Bytes> {
        None
    }

    /// The request of a tool in the words of its wire with other arguments; `None` if it has to be
    /// written anew.
    fn native_with_arguments(&self, _request: &Bytes, _arguments: &Json) -> Option<Bytes> {
        None
    }

    /// The request of a tool in the words of its wire, which calls this tool with these arguments in
    /// place of those that it has; `None` if it has to be written anew.
    fn native_renamed(
        &self,
        _request: &Bytes,
        _name: &str,
        _arguments: Option<&Json>,
    ) -> Option<Bytes> {
        None
    }

    /// The arguments of a tool as it takes them, from what a caller in this wire gives that goes by
    /// the schema which it is shown.
    fn own_arguments(&self, _spec: &ToolSpec, given: Option<Json>) -> Option<Json> {
        given
    }

    /// Does what a program of unknown wire has said show that it is one of these?
    fn recognises(&self, _heard: &FirstWords<'_>) -> bool {
        false
    }

    /// Is it what commands without a scheme are of, until it is found out what they speak?
    fn is_found_out(&self) -> bool {
        false
    }

    /// Opens a program of unknown wire, if being spoken to in this one makes the programs of the
    /// others show what they are, and does them no harm. It is left as soon as `judge` says that
    /// it is one of those.
    fn open_stranger(
        &self,
        _words: &[String],
        _settings: &Settings,
        _judge: Judge,
    ) -> Option<Rc<dyn Back>> {
        None
    }
}

impl dyn PeerKind {
    /// Are they the same kind?
    pub fn is(&self, other: &dyn PeerKind) -> bool {
        self.name() == other.name()
    }
}

/// What a program of unknown wire has said so far.
pub struct FirstWords<'a> {
    /// The program and its arguments.
    pub words: &'a [String],
    /// What it wrote to standard output.
    pub output: &'a [u8],
    /// The last lines of its standard error.
    pub errors: Vec<&'a str>,
    /// How it ended, if it has.
    pub exit: Option<Exit>,
}

impl FirstWords<'_> {
    /// The JSON values that its whole lines are; other lines are left out.
    pub fn lines(&self) -> impl Iterator<Item = Value> + '_ {
        let whole = self.output.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
        let lines = self.output[..whole].split(|&byte| byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok())
    }

    /// The JSON value that its output begins with.
    pub fn first_value(&self) -> Option<Value> {
        serde_json::Deserializer::from_slice(self.output).into_iter().next()?.ok()
    }

    /// What the program is called.
    pub fn name(&self) -> &str {
        let program = self.words.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or(program)
    }
}
