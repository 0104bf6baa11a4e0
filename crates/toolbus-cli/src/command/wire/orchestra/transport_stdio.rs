//! `toolbus transport-stdio`: MCP on standard input and output, in front of an Orchestra hub.

use std::time::Duration;

use clap::{ArgMatches, Args as _, FromArgMatches as _};
use toolbus::wire::orchestra::stdio::{Ending, OpenError, Options, StdioTransport};
use toolbus_proto::orchestra::stdio::Profile;

use super::GROUP;
use super::certs::{self, FolderArgs};
use crate::args::groups::Group;
use crate::args::{Globals, value};
use crate::command::wire::{Run, Verb};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::runtime::{Signals, block_on};
use crate::stderr;
use crate::stdio;

pub(crate) static VERB: StdioVerb = StdioVerb;

pub(crate) struct StdioVerb;

impl Verb for StdioVerb {
    fn name(&self) -> &'static str {
        "transport-stdio"
    }

    fn group(&self) -> &'static Group {
        &GROUP
    }

    fn command(&self) -> clap::Command {
        StdioArgs::augment_args(clap::Command::new(self.name()))
    }

    fn read(&self, matches: &ArgMatches) -> Result<Box<dyn Run>, clap::Error> {
        Ok(Box::new(StdioArgs::from_arg_matches(matches)?))
    }

    fn is_program(&self) -> bool {
        true
    }

    fn takes_single_dashes(&self) -> bool {
        true
    }
}

/// Be an MCP server on standard input and output, in front of an Orchestra hub
///
/// For editors and agents whose config names `transport-stdio`: `tools/list` and `tools/call` are
/// asked of the hub, everything else is answered here. A hub that is lost is dialled again;
/// calls fail meanwhile, and at once.
///
/// Answers go out as they finish, so that a slow tool holds up no other. With `--in-order` a line
/// is read only when the one before is answered.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus transport-stdio
  toolbus transport-stdio --orchestrator-addr localhost:9100 --wait

In an editor's or agent's config, among its servers:
  \"orchestra\": {\"command\": \"toolbus\", \"args\": [\"transport-stdio\"]}")]
struct StdioArgs {
    /// Where the hub is
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:50100")]
    orchestrator_addr: String,
    #[command(flatten)]
    folder: FolderArgs,
    /// Give up on a request to the hub after this long, e.g. `90`, `500ms`
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "60s",
          allow_negative_numbers = true)]
    timeout: Duration,
    /// Wait for a hub that is not there yet, instead of ending with 3
    #[arg(long)]
    wait: bool,
    /// End with 3 when the hub is lost, instead of dialling again
    #[arg(long)]
    no_reconnect: bool,
    /// Take the hub for lost after so long a silence
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "15s",
          allow_negative_numbers = true)]
    idle_timeout: Duration,
    /// Whom the hub's certificate must name, if not the host of the address
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// Which methods there are: `tools`, or `full` with prompts, resources and logging
    #[arg(
        long,
        value_name = "PROFILE",
        value_enum,
        default_value = "tools",
        hide_possible_values = true
    )]
    profile: ProfileArg,
    /// Tell the events of this topic as `notifications/event`; may repeat
    #[arg(long, value_name = "TOPIC", num_args = 1..)]
    events: Vec<String>,
    /// Read a line only when the one before is answered
    #[arg(long)]
    in_order: bool,
    /// Ignored, as the programs that this one stands in for do
    #[arg(hide = true)]
    ignored: Vec<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ProfileArg {
    Tools,
    Full,
}

impl Run for StdioArgs {
    fn run(&self, _globals: &Globals) -> Result<(), Failed> {
        if self.orchestrator_addr.is_empty() {
            return Err(Failed::usage("--orchestrator-addr is required")
                .hint("name the hub, e.g. `--orchestrator-addr localhost:50100`"));
        }
        let options = Options {
            address: self.orchestrator_addr.clone(),
            server_name: self.server_name.clone(),
            folder: self.folder.folder(),
            timeout: self.timeout,
            idle_timeout: self.idle_timeout,
            waits: self.wait,
            reconnects: !self.no_reconnect,
            profile: match self.profile {
                ProfileArg::Tools => Profile::Tools,
                ProfileArg::Full => Profile::Full,
            },
            in_order: self.in_order,
            events: self.events.clone(),
        };
        block_on(serve(options))
    }
}

/// How long the end of the input may be behind the end of the output's reader.
const LAST_LOOK: Duration = Duration::from_millis(100);

async fn serve(options: Options) -> Result<(), Failed> {
    let mut signals = Signals::listen()?;
    let say = |line: &str| stderr::write(&format!("{line}\n"));
    let transport = StdioTransport::new(options, say).map_err(|error| cannot_open(&error))?;
    let cannot = |error: std::io::Error| {
        Failed::new(Exit::Failed, "cannot use standard input and output").caused_by(&error)
    };
    let (source, sink) = (stdio::stdin().map_err(cannot)?, stdio::stdout().map_err(cannot)?);
    // A second hold on it: while there is nothing to write, no write finds out that its reader
    // has gone.
    let watched = stdio::stdout().map_err(cannot)?;
    let mut serving = std::pin::pin!(transport.serve(source, sink));
    let ending = tokio::select! {
        biased;
        ending = &mut serving => ending,
        () = watched.closed() => {
            // A client that closed both has ended well, if it was owed nothing.
            let ended = tokio::time::timeout(LAST_LOOK, &mut serving).await;
            transport.leave().await;
            ended.unwrap_or(Ending::PeerStoppedReading)
        }
        _ = signals.next() => {
            say("transport.stdio: shutting down");
            transport.stop();
            tokio::select! {
                ending = &mut serving => ending,
                signal = signals.next() => return Err(Failed::quietly(signal)),
            }
        }
    };
    match ending {
        Ending::Code(0) => Ok(()),
        Ending::Code(_) => Err(Failed::quietly(Exit::Unreachable)),
        Ending::PeerStoppedReading => Err(Failed::quietly(Exit::Failed)),
    }
}

fn cannot_open(error: &OpenError) -> Failed {
    match error {
        OpenError::Address { .. } => Failed::usage(error.to_string()),
        OpenError::Certificates(error) => certs::refused(error),
        OpenError::Tls(source) => Failed::usage(error.to_string()).caused_by(source),
    }
}
