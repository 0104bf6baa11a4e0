//! `toolbus mcp`: the tools of the bus for the MCP client that started us.

use std::rc::Rc;
use std::time::Duration;

use toolbus::back::settings::Settings;
use toolbus::bus::Bus;
use toolbus::front::mcp::{self, Options};
use toolbus::transport::stdio;
use toolbus_proto::channel::Ended;

use crate::args::{Globals, value};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::Peers;

/// Be an MCP server on standard input and output
///
/// Serves the tools of the addresses, or of the config, to the editor or agent that started
/// us. Standard output carries the protocol and nothing else.
///
/// In front of one MCP server everything passes as it is, whatever it is. Otherwise the tools
/// are offered: of one peer by their own names, of several as `<peer>_<tool>`. A peer that
/// cannot be opened is left out with a warning, and tried again with the next list.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus mcp builtin:
  toolbus call 'mcp+stdio:toolbus mcp builtin:' add a=1 b=2

For an editor's or agent's config:
  \"mcpServers\": {\"toolbus\": {\"command\": \"toolbus\", \"args\": [\"mcp\", \"builtin:\"]}}")]
pub(crate) struct McpArgs {
    /// Peers whose tools are served, in place of those in the config, e.g. `builtin:`
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<String>,
    /// Serve over HTTP at this address instead; not there yet
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// Refuse lines longer than this, e.g. `16MiB`
    #[arg(long, value_name = "BYTES", value_parser = value::size, default_value = "16MiB")]
    line_max: usize,
    /// Give up on a call that is quiet for this long, e.g. `90`, `500ms` [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    timeout: Option<Duration>,
    /// Give up if a peer is not ready after this long [default: as its protocol says]
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    start_timeout: Option<Duration>,
    /// Let a peer have this long to end by itself before it is made to
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "5s",
          allow_negative_numbers = true)]
    stop_timeout: Duration,
    /// Allow the address `shell:`, whose one tool runs any command
    #[arg(long)]
    allow_shell: bool,
}

pub(crate) fn run(args: &McpArgs, globals: &Globals) -> Result<(), Failed> {
    if args.http.is_some() {
        return Err(Failed::usage("serving MCP over HTTP is not there yet")
            .hint("without `--http` it is served on standard input and output"));
    }
    let settings = Settings {
        timeout: args.timeout,
        start_timeout: args.start_timeout,
        stop_timeout: Some(args.stop_timeout),
        allow_shell: args.allow_shell,
        ..Settings::default()
    };
    let options = Options { line_bytes_max: Some(args.line_max), timeout: args.timeout };
    Peers::of(&args.addresses, globals, settings)?
        .meet_as(Bus::named_for_mcp, async |bus| serve(bus, options).await)
}

async fn serve(bus: Rc<Bus>, options: Options) -> Result<(), Failed> {
    let cannot = |error: std::io::Error| {
        Failed::new(Exit::Failed, "cannot use standard input and output").caused_by(&error)
    };
    let input = stdio::stdin().map_err(cannot)?;
    let output = stdio::stdout().map_err(cannot)?;
    match mcp::serve(bus, options, input, output).await {
        Ended::Well => Ok(()),
        Ended::Refused(why) => {
            Err(Failed::new(Exit::Failed, format!("the client refused us: {why}")))
        }
        Ended::Broke(why) => Err(Failed::new(Exit::Unreachable, why)),
    }
}
