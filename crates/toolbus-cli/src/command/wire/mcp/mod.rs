//! `toolbus mcp`: the tools of the bus for the MCP client that started us.

mod clients;
mod complete;
pub(super) mod context;

use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use clap::{ArgGroup, ArgMatches, Args as _, FromArgMatches as _};
use toolbus::bus::back::LocalFuture;
use toolbus::bus::{Bus, LIST_TIMEOUT};
use toolbus::peer::decode::Decoding;
use toolbus::peer::settings::{Clients, Settings};
use toolbus::peer::{FrontKind as _, PeerKind as _};
use toolbus::wire::mcp::front::{self as mcp, Backs, Options};
use toolbus::wire::mcp::front_http::{self as mcp_http, At, OpenError};
use toolbus::wire::mcp::{self as wire, MCP};
use toolbus_engine::transport::Listener;
use toolbus_engine::transport::tls::{Inside, ServerFiles, ServerTls};
use toolbus_proto::channel::Ended;
use toolbus_proto::tool::Wire;

use self::clients::McpClients;
use super::{Run, WireFace};
use crate::args::access::AccessArgs;
use crate::args::asked::EraArgs;
use crate::args::peer::{BackHttpArgs, FrontArgs, ProgramArgs};
use crate::args::view::ViewArgs;
use crate::args::{Globals, value};
use crate::clients::ClientConfigs;
use crate::command::decode::Side;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::logging::{self, DONE};
use crate::peers::Peers;
use crate::runtime::Signals;
use crate::stderr;
use crate::stdio;
use crate::stdio::Terminal as _;

/// MCP on the command line.
pub(super) static FACE: Face = Face;

pub(super) struct Face;

impl WireFace for Face {
    fn client_configs(&self) -> Option<&'static dyn ClientConfigs> {
        Some(&McpClients)
    }

    fn has_besides<'a>(
        &'a self,
        bus: &'a Bus,
        peers: &'a Peers,
        globals: &'a Globals,
    ) -> LocalFuture<'a, Vec<(&'static str, usize)>> {
        Box::pin(context::counted(bus, peers, globals))
    }

    fn wire(&self) -> Wire {
        wire::WIRE
    }

    fn name(&self) -> &'static str {
        "mcp"
    }

    fn command(&self) -> clap::Command {
        let mut command = McpArgs::augment_args(clap::Command::new(self.name()));
        for name in ["origins", "hosts", "token_env", "insecure"] {
            command = command.mut_arg(name, |arg| arg.requires("listens"));
        }
        // One of them is asked for where neither is given: the usual one.
        command.group(ArgGroup::new("listens").args(["http", "https"]))
    }

    fn read(&self, matches: &ArgMatches) -> Result<Box<dyn Run>, clap::Error> {
        Ok(Box::new(McpArgs::from_arg_matches(matches)?))
    }

    fn decode_command(&self) -> clap::Command {
        DecodeArgs::augment_args(clap::Command::new("mcp"))
    }

    fn decoding(&self, matches: &ArgMatches) -> Result<Box<dyn Decoding>, clap::Error> {
        let DecodeArgs { side } = DecodeArgs::from_arg_matches(matches)?;
        Ok(MCP.decode(side.into()).expect("captures of MCP can be read"))
    }

    fn check_target(&self) -> &'static str {
        "an MCP server by its address, `mcp+stdio:COMMAND` or `mcp+http://HOST:PORT/PATH`"
    }

    fn check_examples(&self) -> &'static [&'static str] {
        &["mcp 'mcp+stdio:python3 server.py'", "mcp mcp+http://127.0.0.1:8932/mcp"]
    }

    fn front_example(&self) -> Option<(&'static str, &'static str)> {
        Some(("editor", "mcp+http://127.0.0.1:8932/mcp"))
    }

    fn to_try(&self) -> &'static [&'static str] {
        &[
            "",
            "Or give an editor or agent the tools, in its config for MCP:",
            r#""mcpServers": {"toolbus": {"command": "toolbus", "args": ["mcp", "builtin:"]}}"#,
        ]
    }
}

impl Run for McpArgs {
    fn run(&self, globals: &Globals) -> Result<(), Failed> {
        run(self, globals)
    }
}

/// Show what one side of an MCP conversation says
///
/// Standard input is what a client or a server wrote, a message a line. What is no message of
/// the protocol is told as `{"event":"other","line":…}`; ids and values stand as they were sent.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus decode mcp --as call < what-the-client-wrote
  ./my-server < messages | toolbus decode mcp --as response")]
pub(crate) struct DecodeArgs {
    /// Who wrote it: `call` for the client, `response` for the server
    #[arg(long = "as", value_name = "SIDE", value_enum, hide_possible_values = true)]
    pub(crate) side: Side,
}

/// Be an MCP server on standard input and output, or over HTTP
///
/// Serves the tools of the addresses, or of the config, to the editor or agent that started
/// us. Standard output carries the protocol and nothing else.
///
/// With `--http` it listens instead, and says where in one line on standard error:
/// `listening on http://127.0.0.1:8932/mcp`. Only this machine can reach it, unless you name
/// another host; then a token is needed, or with `--https` certificates of `--client-ca`.
///
/// In front of one MCP server everything passes as it is, whatever it is. Otherwise the tools
/// are offered: of one peer by their own names, of several as `<peer>_<tool>`. A peer that
/// cannot be opened is left out with a warning, and tried again with the next list.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus mcp builtin:
  toolbus mcp --http 8932 builtin:
  toolbus mcp --https 8932 --cert cert.pem --key key.pem builtin:
  toolbus call 'mcp+stdio:toolbus mcp builtin:' add a=1 b=2

For an editor's or agent's config:
  \"mcpServers\": {\"toolbus\": {\"command\": \"toolbus\", \"args\": [\"mcp\", \"builtin:\"]}}")]
pub(crate) struct McpArgs {
    /// Peers whose tools are served, in place of those in the config, e.g. `builtin:`
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<String>,
    /// Serve over HTTP instead, at `HOST:PORT`, `:PORT` or `PORT`; port 0 takes a free one
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// The same over HTTPS, by the certificate of `--cert` and `--key`
    #[arg(long, value_name = "ADDR", requires = "cert", requires = "key")]
    https: Option<String>,
    /// The certificate by which `--https` shows itself: a PEM file, read again when it has changed
    #[arg(long, value_name = "FILE", requires = "https", conflicts_with = "http")]
    cert: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "FILE", requires = "https", conflicts_with = "http")]
    key: Option<PathBuf>,
    /// Let only clients in for whose certificates the authority in this file vouches
    #[arg(long, value_name = "FILE", requires = "https", conflicts_with = "http")]
    client_ca: Option<PathBuf>,
    /// Serve the old HTTP+SSE of 2024-11-05 as well, at `/sse` and `/messages`
    #[arg(long, requires = "listens")]
    sse: bool,
    #[command(flatten)]
    access: AccessArgs,
    /// Refuse lines longer than this, e.g. `16MiB`
    #[arg(long, value_name = "BYTES", value_parser = value::held_size, default_value = "16MiB")]
    line_max: usize,
    /// Give up on a call that is quiet for this long, e.g. `90`, `500ms` [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    timeout: Option<Duration>,
    /// Give up if a peer is not ready after this long [default: as its protocol says]
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    start_timeout: Option<Duration>,
    /// Wait this long for the first list until every peer has listed its tools; `0` not at all
    /// [default: 15s]
    #[arg(long, value_name = "TIME", value_parser = value::duration_or_none,
          allow_negative_numbers = true)]
    list_timeout: Option<Duration>,
    /// Let a peer have this long to end by itself before it is made to
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "5s",
          allow_negative_numbers = true)]
    stop_timeout: Duration,
    /// Allow the address `shell:`, whose one tool runs any command
    #[arg(long)]
    allow_shell: bool,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    back_http: BackHttpArgs,
    #[command(flatten)]
    era: EraArgs,
    #[command(flatten)]
    front: FrontArgs,
    #[command(flatten)]
    seen: ViewArgs,
}

fn run(args: &McpArgs, globals: &Globals) -> Result<(), Failed> {
    let settings = Settings {
        timeout: args.timeout,
        start_timeout: args.start_timeout,
        stop_timeout: Some(args.stop_timeout),
        allow_shell: args.allow_shell,
        program: args.program.settings()?,
        credentials: args.back_http.credentials()?,
        era: args.era.generation(),
        clients: if args.listens().is_some() { Clients::Many } else { Clients::One },
        ..Settings::default()
    };
    crate::spans::say_if_missing();
    let peers = Peers::of(&args.addresses, globals, settings)?.seen_as(&args.seen)?.knowing_wires();
    let peers = peers.fresh_if(args.front.fresh.fresh);
    let list_timeout = args.list_timeout.unwrap_or(LIST_TIMEOUT);
    let named = |bus: Bus| {
        let bus = MCP.name_tools(bus).for_front("mcp").listing_within(list_timeout);
        args.front.searched(bus)
    };
    if let Some(at) = args.listens() {
        let at = at
            .parse::<At>()
            .map_err(|error| Failed::usage(error.to_string()).hint(error.hint()))?;
        let options = http_options(args)?;
        return peers.meet_with_signals(named, async |bus, signals| {
            serve_http(bus, &at, options, signals).await
        });
    }
    let options = Options { line_bytes_max: Some(args.line_max), timeout: args.timeout };
    peers.meet_as(named, async |bus| serve(bus, options).await)
}

impl McpArgs {
    /// Where it listens, if it does.
    fn listens(&self) -> Option<&String> {
        self.http.as_ref().or(self.https.as_ref())
    }

    /// By what it shows itself over HTTPS.
    fn tls(&self) -> Result<Option<ServerTls>, Failed> {
        // Neither goes without `--https`, nor that without both.
        let (Some(cert), Some(key)) = (self.cert.clone(), self.key.clone()) else {
            return Ok(None);
        };
        let client_ca = self.client_ca.clone();
        let files = ServerFiles { folder: PathBuf::new(), cert, key, client_ca };
        ServerTls::open(files, Inside::Http, None).map(Some).map_err(|error| {
            let failed = Failed::usage("cannot serve over HTTPS").caused_by(&error);
            failed.hint_if_any(error.hint())
        })
    }
}

fn http_options(args: &McpArgs) -> Result<mcp_http::Options, Failed> {
    Ok(mcp_http::Options {
        tls: args.tls()?,
        sse: args.sse,
        access: args.access.access()?,
        body_bytes_max: args.line_max,
        timeout: args.timeout,
        ..mcp_http::Options::default()
    })
}

/// Serves until a signal; what is under way then may end.
async fn serve_http(
    bus: Rc<Bus>,
    at: &At,
    options: mcp_http::Options,
    signals: &mut Signals,
) -> Result<(), Failed> {
    let listener = listen(at, &options).await?;
    let ended_by = Cell::new(Exit::Done);
    let stop = async {
        ended_by.set(signals.next().await.of_listener());
        bus.hurry();
    };
    mcp_http::serve(&Backs::of(bus.clone()), options, listener, stop)
        .await
        .map_err(|error| cannot_serve(&error))?;
    Err(Failed::quietly(ended_by.get()))
}

/// Accepts from now on, and says so.
async fn listen(at: &At, options: &mcp_http::Options) -> Result<Listener, Failed> {
    let listener = mcp_http::listen(at, options).await.map_err(|error| not_open(&error))?;
    let line = mcp_http::listening_on(&listener, options).map_err(|error| cannot_serve(&error))?;
    // A parent that closed our standard error does not wait for the line.
    stderr::write(&logging::announcement(&line));
    Ok(listener)
}

/// Why clients may not or cannot connect.
fn not_open(error: &OpenError) -> Failed {
    let exit = match error {
        OpenError::Unprotected(_) => Exit::Usage,
        OpenError::Listen(_) => Exit::Failed,
    };
    Failed::new(exit, error.to_string()).hint_if_any(error.hint())
}

fn cannot_serve(error: &dyn std::error::Error) -> Failed {
    Failed::new(Exit::Failed, "cannot serve over HTTP").caused_by(error)
}

async fn serve(bus: Rc<Bus>, options: Options) -> Result<(), Failed> {
    let cannot = |error: io::Error| {
        Failed::new(Exit::Failed, "cannot use standard input and output").caused_by(&error)
    };
    if io::stdin().is_terminal() {
        let message = "this is an MCP server now: it waits for a client on standard input; \
                       Ctrl-D or Ctrl-C ends it";
        tracing::warn!(target: DONE, "{message}");
    }
    let input = stdio::stdin().map_err(cannot)?;
    let output = stdio::stdout().map_err(cannot)?;
    match mcp::serve(bus, options, input, output).await {
        Ended::Well => Ok(()),
        Ended::Refused(why) => {
            Err(Failed::new(Exit::Failed, format!("the client refused us: {why}")))
        }
        Ended::Broke(why) => Err(Failed::new(Exit::Unreachable, why)),
        Ended::PeerStoppedReading => Err(Failed::quietly(Exit::Failed)),
    }
}
