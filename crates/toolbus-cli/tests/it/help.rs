//! The help texts. What stands here is what users read first.

use expect_test::expect;

use crate::page::{Page, check};

#[test]
fn toolbus_in_short() {
    check(
        "-h",
        expect![[r#"
            stdout
            Call any tool from anywhere, whatever protocol each side speaks

            Usage: toolbus [OPTIONS] <COMMAND>

            Use tools:
              demo             Take the tour: see tools called, killed and back again
              tools            List the tools of the config, or of the given addresses
              search           Find tools of the config by words
              describe         Show one tool: what it does, what it takes, and a call to try
              call             Call one tool and print its answer
              login            Sign in to a server
              logout           Sign out of servers
              auth             Show where you are signed in
              prompt           List and get the prompts of an MCP server
              resource         List and read the resources of an MCP server
              completions      Print the completion script for a shell
              man              Print a manual page

            Serve tools:
              init             Write a `toolbus.toml` to begin with
              add              Add a back to the config
              remove           Take backs out of the config
              link             Give the tools of the config to editors and agents
              unlink           Take the tools of the config away from editors and agents
              config           Check the config, or print what may stand in it
              doctor           Start each back of the config, and say what works
              lock             Pin what the backs of the config show, in a file to be reviewed
              serve            Run every front of the config at once, until a signal
              log              Read the journal: filter it, follow it, sum it up
              page             Tell where the page of `toolbus serve` is
              mcp              Be an MCP server on standard input and output, or over HTTP
              nats             Be a micro service on NATS, or see which there are
              oracle           Call a Cairo oracle, or be one
              provider         Be an Orchard provider on standard input and output
              rpc              Call a mediocre-rpc server, or be one

            Scenarios and models:
              exec             Ask a model, and let it use your tools
              orchard          Plan and run scenarios: actions of providers, in the order of their references

            For authors:
              check            Test a program against the rules of its protocol
              decode           Show what the bytes of a capture say, event by event

            Orchestra:
              certs            Show or renew the certificates of Orchestra
              orchestrator     Be an Orchestra hub: run the plugins of a file and route calls to them
              plugin           Be an Orchestra plugin: its hub calls the tools of the bus
              transport-stdio  Be an MCP server on standard input and output, in front of an Orchestra hub

            Global options:
                  --config <FILE>        Read this config, ours or an editor's [default: toolbus.toml, here or
                                         above]
                  --json                 Print lines of JSON, failures included
              -v, --verbose...           Say more: -v what happens, -vv every detail
              -q, --quiet                Say less: errors only, no warnings
                  --color <WHEN>         Colour words for people: auto (on a terminal), always or never
                  --log-format <FORMAT>  Log as text, or as lines of json
              -h, --help                 Show help: -h in short, --help with the story and examples
              -V, --version              Show the version
            exit 0
        "#]],
    );
}

#[test]
fn toolbus_at_length() {
    check(
        "--help",
        expect![[r#"
            stdout
            Call any tool from anywhere, whatever protocol each side speaks

            Programs that offer functions to other programs keep inventing the same thing: start a
            process, agree that it is ready, send JSON, match the answer, survive its death. toolbus
            does that once and well, and lets any caller reach any tool.

            A peer is named by one string, its ADDRESS:

              builtin:           small tools inside toolbus itself, to try things out
              stdio:COMMAND      an oracle: COMMAND is started and spoken to over its pipes
              orchard+stdio:COMMAND
                                 an Orchard provider, likewise
              mcp+stdio:COMMAND  an MCP server, started and spoken to likewise
              https://HOST/PATH  an MCP server elsewhere; `mcp+https://HOST/PATH` is the same
              mcp+sse://HOST/PATH
                                 an MCP server that speaks the old HTTP+SSE; `mcp+sses` with TLS
              mediocre+tcp://HOST:PORT, mediocre+unix:PATH, mediocre+stdio:COMMAND
                                 a mediocre-rpc server
              godex+stdio:COMMAND
                                 a program that asks a model, started for each call
              orchestra+quic://HOST:PORT
                                 an Orchestra hub, or a plugin
              orchestra+plugin:COMMAND
                                 an Orchestra plugin, started as its hub would
              nats://HOST:PORT/NAME
                                 the micro services of that name on NATS
              shell:             one tool, `exec`; off unless `--allow-shell` is given
              COMMAND            any of the programs above: what it speaks is found out

            Standard output carries answers and nothing else, so that it can be piped; everything
            for people goes to standard error.

            Usage: toolbus [OPTIONS] <COMMAND>

            Use tools:
              demo             Take the tour: see tools called, killed and back again
              tools            List the tools of the config, or of the given addresses
              search           Find tools of the config by words
              describe         Show one tool: what it does, what it takes, and a call to try
              call             Call one tool and print its answer
              login            Sign in to a server
              logout           Sign out of servers
              auth             Show where you are signed in
              prompt           List and get the prompts of an MCP server
              resource         List and read the resources of an MCP server
              completions      Print the completion script for a shell
              man              Print a manual page

            Serve tools:
              init             Write a `toolbus.toml` to begin with
              add              Add a back to the config
              remove           Take backs out of the config
              link             Give the tools of the config to editors and agents
              unlink           Take the tools of the config away from editors and agents
              config           Check the config, or print what may stand in it
              doctor           Start each back of the config, and say what works
              lock             Pin what the backs of the config show, in a file to be reviewed
              serve            Run every front of the config at once, until a signal
              log              Read the journal: filter it, follow it, sum it up
              page             Tell where the page of `toolbus serve` is
              mcp              Be an MCP server on standard input and output, or over HTTP
              nats             Be a micro service on NATS, or see which there are
              oracle           Call a Cairo oracle, or be one
              provider         Be an Orchard provider on standard input and output
              rpc              Call a mediocre-rpc server, or be one

            Scenarios and models:
              exec             Ask a model, and let it use your tools
              orchard          Plan and run scenarios: actions of providers, in the order of their references

            For authors:
              check            Test a program against the rules of its protocol
              decode           Show what the bytes of a capture say, event by event

            Orchestra:
              certs            Show or renew the certificates of Orchestra
              orchestrator     Be an Orchestra hub: run the plugins of a file and route calls to them
              plugin           Be an Orchestra plugin: its hub calls the tools of the bus
              transport-stdio  Be an MCP server on standard input and output, in front of an Orchestra hub

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Exit codes:
              0    done
              1    the work was tried and failed: a tool said no
              2    wrong usage or invalid input; nothing was started
              3    the other side could not be reached, or broke its protocol
              4    timed out
              130  ended by SIGINT (Ctrl-C)
              143  ended by SIGTERM
            exit 0
        "#]],
    );
}

#[test]
fn demo() {
    check(
        "demo --help",
        expect![[r#"
            stdout
            Take the tour: see tools called, killed and back again

            Nothing needs to be installed: the tools are part of toolbus and are started as programs of their
            own. One is called; one is killed in the middle of a call, and you see its last words and the next
            call working; a whole bus is killed, and you see that no process is left. Then every kind of peer is
            called through every kind of front.

            The tour ends with 0 only if everything went as promised.

            Usage: toolbus demo [OPTIONS]

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Example:
              toolbus demo
            exit 0
        "#]],
    );
}

#[test]
fn tools() {
    check(
        "tools --help",
        expect![[r#"
            stdout
            List the tools of the config, or of the given addresses

            Each ADDRESS is started or connected to and asked for its tools; the name of a back of the config
            stands for its address. The list is a table, cut to the width of the terminal; `toolbus describe`
            shows one tool as a whole. With `--json` it is one tool a line, sorted by name, with the schema of
            its input.

            An address that cannot be reached is reported, the others are listed, and the exit code is 3.

            Usage: toolbus tools [OPTIONS] [ADDRESS]...

            Arguments:
              [ADDRESS]...
                      Peers to ask, in place of those in the config, e.g. `builtin:`

            Options:
                  --timeout <TIME>
                      Give up after this long in all, the start included, e.g. `90`, `500ms`

                  --start-timeout <TIME>
                      Give up if a peer is not ready after this long [default: as its protocol says]

                  --allow-shell
                      Allow the address `shell:`, whose one tool runs any command

                  --env <NAME=VALUE>
                      Set this variable for the programs that are started; may repeat

                  --env-pass <NAME>
                      Pass this variable of ours on to the programs that are started; may repeat

                  --token-env <VAR>
                      Environment variable that holds the token to show to peers over HTTP

                  --header <NAME: VALUE>
                      Send this header field to peers over HTTP; `${NAME}` in it is that variable; may repeat

                  --ca <FILE>
                      Believe peers over HTTPS whose certificates come from the authority in this file, in place
                      of the public ones

                  --client-cert <FILE>
                      Show peers over HTTPS the certificate in this file

                  --client-key <FILE>
                      The file of its private key

                  --era <ERA>
                      Speak to MCP servers as of this era alone: `legacy` (to 2025-11-25), `modern` (2026-07-28)
                      or `auto`

                  --fresh
                      Open and ask all backs at the start, whatever `toolbus.lock` has of them

                  --no-daemon
                      Start the peers ourselves, also where a `toolbus serve` of this config runs

                  --view <NAME>
                      See the tools of the config in this view of its

                  --as <CALLER>
                      Call as this caller of the config: in its view, within its limits

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Examples:
              toolbus tools builtin:
              toolbus tools --json builtin: stdio:./my-oracle
            exit 0
        "#]],
    );
}

#[test]
fn call_in_short() {
    check(
        "call -h",
        expect![[r#"
            stdout
            Call one tool and print its answer

            Usage: toolbus call [OPTIONS] [ADDRESS] TOOL [ARGUMENT]...

            Arguments:
              [ADDRESS]      Peer to call in place of the config, e.g. `builtin:`
              [TOOL]         Tool to call, e.g. `add`
              [ARGUMENT]...  One JSON value, `@FILE`, `-`, or `key=value` words

            Options:
                  --text                   Print the text of an answer as it is, not as JSON; the text, too,
                                           where values stand beside it
                  --stream                 Print parts and progress as they come, each as a line of JSON
                  --timeout <TIME>         Give up after this long in all, e.g. `90`, `500ms` [default: as the
                                           config says, or 60s] [env: TOOLBUS_TIMEOUT]
                  --start-timeout <TIME>   Give up if the peer is not ready after this long [default: as its
                                           protocol says]
                  --out <FILE|DIR>         Write the bytes of an answer to this file, or to files in this
                                           folder; if it has none, the answer itself
                  --reply-max <SIZE>       Take replies of up to this size, e.g. `64MiB` [default: 16MiB; bytes
                                           go to --out unbounded]
                  --no-check               Send the arguments as they are, whatever the tool's schema says of
                                           them
                  --allow-shell            Allow the address `shell:`, whose one tool runs any command
                  --env <NAME=VALUE>       Set this variable for the programs that are started; may repeat
                  --env-pass <NAME>        Pass this variable of ours on to the programs that are started; may
                                           repeat
                  --token-env <VAR>        Environment variable that holds the token to show to peers over HTTP
                  --header <NAME: VALUE>   Send this header field to peers over HTTP; `${NAME}` in it is that
                                           variable; may repeat
                  --ca <FILE>              Believe peers over HTTPS whose certificates come from the authority
                                           in this file, in place of the public ones
                  --client-cert <FILE>     Show peers over HTTPS the certificate in this file
                  --client-key <FILE>      The file of its private key
                  --era <ERA>              Speak to MCP servers as of this era alone: `legacy` (to 2025-11-25),
                                           `modern` (2026-07-28) or `auto`
                  --root <DIR>             Let the server work in this folder: it is told of it when it asks for
                                           roots; may repeat
                  --sample-with <ADDRESS>  Let the server ask a model: the tool `ask` of this peer, e.g.
                                           `godex+stdio:godex exec`
                  --view <NAME>            See the tools of the config in this view of its
                  --as <CALLER>            Call as this caller of the config: in its view, within its limits
                  --no-daemon              Start the peers ourselves, also where a `toolbus serve` of this
                                           config runs

            Global options:
                  --config <FILE>        Read this config, ours or an editor's [default: toolbus.toml, here or
                                         above]
                  --json                 Print lines of JSON, failures included
              -v, --verbose...           Say more: -v what happens, -vv every detail
              -q, --quiet                Say less: errors only, no warnings
                  --color <WHEN>         Colour words for people: auto (on a terminal), always or never
                  --log-format <FORMAT>  Log as text, or as lines of json
              -h, --help                 Show help: -h in short, --help with the story and examples
              -V, --version              Show the version
            exit 0
        "#]],
    );
}

#[test]
fn call_at_length() {
    check(
        "call --help",
        expect![[r#"
            stdout
            Call one tool and print its answer

            TOOL is a name as `toolbus tools` lists it. With an ADDRESS before it, that peer is called; without,
            the tool is looked for in the config, as `<back>.<tool>` or `<back> <tool>`.

            The arguments are one JSON value, `@FILE` or `-` for one in a file or on standard input, or
            `key=value` words. The tool's schema says what a value is: a string where it takes one, else JSON,
            or a string if it is not JSON. `key:=JSON` is JSON whatever the schema says, `key=@FILE` what a file
            holds. Arguments that cannot be right by the schema are not sent (exit 2), unless `--no-check` says
            so.

            The answer is one line of JSON on standard output, on a terminal it is shown for people unless
            `--json` says otherwise; everything else goes to standard error. A call that fails prints nothing on
            standard output, or with `--json` one line `{"error":{"kind":…,"message":…}}`.

            Usage: toolbus call [OPTIONS] [ADDRESS] TOOL [ARGUMENT]...

            Arguments:
              [ADDRESS]
                      Peer to call in place of the config, e.g. `builtin:`

              [TOOL]
                      Tool to call, e.g. `add`

              [ARGUMENT]...
                      One JSON value, `@FILE`, `-`, or `key=value` words

            Options:
                  --text
                      Print the text of an answer as it is, not as JSON; the text, too, where values stand
                      beside it

                  --stream
                      Print parts and progress as they come, each as a line of JSON

                  --timeout <TIME>
                      Give up after this long in all, e.g. `90`, `500ms` [default: as the config says, or 60s]

                      [env: TOOLBUS_TIMEOUT]

                  --start-timeout <TIME>
                      Give up if the peer is not ready after this long [default: as its protocol says]

                  --out <FILE|DIR>
                      Write the bytes of an answer to this file, or to files in this folder; if it has none, the
                      answer itself

                  --reply-max <SIZE>
                      Take replies of up to this size, e.g. `64MiB` [default: 16MiB; bytes go to --out
                      unbounded]

                  --no-check
                      Send the arguments as they are, whatever the tool's schema says of them

                  --allow-shell
                      Allow the address `shell:`, whose one tool runs any command

                  --env <NAME=VALUE>
                      Set this variable for the programs that are started; may repeat

                  --env-pass <NAME>
                      Pass this variable of ours on to the programs that are started; may repeat

                  --token-env <VAR>
                      Environment variable that holds the token to show to peers over HTTP

                  --header <NAME: VALUE>
                      Send this header field to peers over HTTP; `${NAME}` in it is that variable; may repeat

                  --ca <FILE>
                      Believe peers over HTTPS whose certificates come from the authority in this file, in place
                      of the public ones

                  --client-cert <FILE>
                      Show peers over HTTPS the certificate in this file

                  --client-key <FILE>
                      The file of its private key

                  --era <ERA>
                      Speak to MCP servers as of this era alone: `legacy` (to 2025-11-25), `modern` (2026-07-28)
                      or `auto`

                  --root <DIR>
                      Let the server work in this folder: it is told of it when it asks for roots; may repeat

                  --sample-with <ADDRESS>
                      Let the server ask a model: the tool `ask` of this peer, e.g. `godex+stdio:godex exec`

                  --view <NAME>
                      See the tools of the config in this view of its

                  --as <CALLER>
                      Call as this caller of the config: in its view, within its limits

                  --no-daemon
                      Start the peers ourselves, also where a `toolbus serve` of this config runs

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Examples:
              toolbus call builtin: add a=1 b=2
              toolbus call builtin: upper --text text='hello world'
              toolbus call builtin: add '{"a":1,"b":2}'
              toolbus call builtin: upper text=@notes.txt
              echo '{"a":1,"b":2}' | toolbus call builtin: add -
              toolbus call 'stdio:./my-oracle' invoke selector=f calldata='["0x1"]'
            exit 0
        "#]],
    );
}

#[test]
fn oracle() {
    check(
        "oracle -h",
        expect![[r#"
            stdout
            Call a Cairo oracle, or be one

            Usage: toolbus oracle [OPTIONS] <COMMAND>

            Commands:
              invoke  Call an oracle's function and print the felts it answers
              serve   Be an oracle on standard input and output

            Global options:
                  --config <FILE>        Read this config, ours or an editor's [default: toolbus.toml, here or
                                         above]
                  --json                 Print lines of JSON, failures included
              -v, --verbose...           Say more: -v what happens, -vv every detail
              -q, --quiet                Say less: errors only, no warnings
                  --color <WHEN>         Colour words for people: auto (on a terminal), always or never
                  --log-format <FORMAT>  Log as text, or as lines of json
              -h, --help                 Show help: -h in short, --help with the story and examples
              -V, --version              Show the version
            exit 0
        "#]],
    );
}

#[test]
fn oracle_invoke_in_short() {
    check(
        "oracle invoke -h",
        expect![[r#"
            stdout
            Call an oracle's function and print the felts it answers

            Usage: toolbus oracle invoke [OPTIONS] <CONNECTION> <SELECTOR> [FELT]...

            Arguments:
              <CONNECTION>  Oracle to start, e.g. `stdio:./my-oracle`
              <SELECTOR>    Function to call, or `-` for one call a line of standard input
              [FELT]...     Arguments: felts such as `0x2710`, or JSON values with `--fn`

            Options:
                  --fn <TEXT>             Signature of the function, e.g. `sqrt(x: u64) -> Option<u64>`; may
                                          repeat
                  --as-cairo              Print the felts that the Cairo program receives, failures included
                  --lenient-felts         Reduce felts beyond the field prime instead of refusing them
                  --timeout <TIME>        Give up on a call after this long, the start included, e.g. `90`
                                          [default: never]
                  --start-timeout <TIME>  Give up if the oracle is not ready after this long [default: 120s]
                  --stop-timeout <TIME>   Let the oracle have this long to end by itself before it is made to
                                          [default: 5s]
                  --line-max <BYTES>      Skip lines longer than this, e.g. `64MiB` [default: 64MiB]
                  --allow-shell           Allow the connection `shell:`, whose one function runs any command
                  --env <NAME=VALUE>      Set this variable for the programs that are started; may repeat
                  --env-pass <NAME>       Pass this variable of ours on to the programs that are started; may
                                          repeat

            Global options:
                  --config <FILE>        Read this config, ours or an editor's [default: toolbus.toml, here or
                                         above]
                  --json                 Print lines of JSON, failures included
              -v, --verbose...           Say more: -v what happens, -vv every detail
              -q, --quiet                Say less: errors only, no warnings
                  --color <WHEN>         Colour words for people: auto (on a terminal), always or never
                  --log-format <FORMAT>  Log as text, or as lines of json
              -h, --help                 Show help: -h in short, --help with the story and examples
              -V, --version              Show the version
            exit 0
        "#]],
    );
}

#[test]
fn oracle_invoke_at_length() {
    check(
        "oracle invoke --help",
        expect![[r#"
            stdout
            Call an oracle's function and print the felts it answers

            CONNECTION is `stdio:COMMAND`: COMMAND is cut into words as a shell would, and started. The answer
            is one line of JSON, an array of felts.

            With `--fn` the words after SELECTOR are JSON values instead of felts, by the types of the
            signature, and so is what is printed. Options may stand anywhere before the first FELT; from there
            on every word is an argument, so that negative numbers need no `--`.

            SELECTOR `-` makes a batch: one call for each line of standard input,
            `{"selector":"f","calldata":["0x1"]}`, and for each one line out, `{"ok":["0x1"]}` or
            `{"error":{"message":…,"kind":…}}`. All of them go to one process, and the exit code is that of the
            first that failed.

            Usage: toolbus oracle invoke [OPTIONS] <CONNECTION> <SELECTOR> [FELT]...

            Arguments:
              <CONNECTION>
                      Oracle to start, e.g. `stdio:./my-oracle`

              <SELECTOR>
                      Function to call, or `-` for one call a line of standard input

              [FELT]...
                      Arguments: felts such as `0x2710`, or JSON values with `--fn`

            Options:
                  --fn <TEXT>
                      Signature of the function, e.g. `sqrt(x: u64) -> Option<u64>`; may repeat

                  --as-cairo
                      Print the felts that the Cairo program receives, failures included

                  --lenient-felts
                      Reduce felts beyond the field prime instead of refusing them

                  --timeout <TIME>
                      Give up on a call after this long, the start included, e.g. `90` [default: never]

                  --start-timeout <TIME>
                      Give up if the oracle is not ready after this long

                      [default: 120s]

                  --stop-timeout <TIME>
                      Let the oracle have this long to end by itself before it is made to

                      [default: 5s]

                  --line-max <BYTES>
                      Skip lines longer than this, e.g. `64MiB`

                      [default: 64MiB]

                  --allow-shell
                      Allow the connection `shell:`, whose one function runs any command

                  --env <NAME=VALUE>
                      Set this variable for the programs that are started; may repeat

                  --env-pass <NAME>
                      Pass this variable of ours on to the programs that are started; may repeat

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Examples:
              toolbus oracle invoke 'stdio:./my-oracle' square 0x2710
              toolbus oracle invoke 'stdio:./my-oracle' sqrt --fn 'sqrt(x: u64) -> Option<u64>' 16
              toolbus oracle invoke 'stdio:./my-oracle' - < calls.jsonl
              toolbus oracle invoke --fn 'add(a: i128, b: i128) -> i128' \
                  'stdio:toolbus oracle serve builtin:' add -1 3
            exit 0
        "#]],
    );
}

#[test]
fn oracle_serve_in_short() {
    check(
        "oracle serve -h",
        expect![[r#"
            stdout
            Be an oracle on standard input and output

            Usage: toolbus oracle serve [OPTIONS] [ADDRESS]...

            Arguments:
              [ADDRESS]...  Peers whose tools are served, in place of those in the config, e.g. `builtin:`

            Options:
                  --fn <TEXT>             Signature to offer a tool by, e.g. `add(a: u64, b: u64) -> u64`; may
                                          repeat
                  --lenient-felts         Reduce felts beyond the field prime instead of refusing them
                  --line-max <BYTES>      Skip lines longer than this, e.g. `64MiB` [default: 64MiB]
                  --timeout <TIME>        Give up on a call after this long, e.g. `90`, `500ms` [default: 60s]
                  --start-timeout <TIME>  Give up if a peer is not ready after this long [default: as its
                                          protocol says]
                  --stop-timeout <TIME>   Let a peer have this long to end by itself before it is made to
                                          [default: 5s]
                  --allow-shell           Allow the address `shell:`, whose one tool runs any command
                  --env <NAME=VALUE>      Set this variable for the programs that are started; may repeat
                  --env-pass <NAME>       Pass this variable of ours on to the programs that are started; may
                                          repeat
                  --token-env <VAR>       Environment variable that holds the token to show to peers over HTTP
                  --header <NAME: VALUE>  Send this header field to peers over HTTP; `${NAME}` in it is that
                                          variable; may repeat
                  --ca <FILE>             Believe peers over HTTPS whose certificates come from the authority in
                                          this file, in place of the public ones
                  --client-cert <FILE>    Show peers over HTTPS the certificate in this file
                  --client-key <FILE>     The file of its private key
                  --search <WHEN>         List few tools and let callers search for the others: `true`, `false`,
                                          or `auto` if there are more than 100 [default: as the view says, else
                                          false]
                  --always <PATTERN>      List these tools even so, by `<back>.<tool>`, e.g. `files.read_*`; may
                                          repeat
                  --fresh                 Open and ask all backs at the start, whatever `toolbus.lock` has of
                                          them
                  --view <NAME>           See the tools of the config in this view of its
                  --as <CALLER>           Call as this caller of the config: in its view, within its limits

            Global options:
                  --config <FILE>        Read this config, ours or an editor's [default: toolbus.toml, here or
                                         above]
                  --json                 Print lines of JSON, failures included
              -v, --verbose...           Say more: -v what happens, -vv every detail
              -q, --quiet                Say less: errors only, no warnings
                  --color <WHEN>         Colour words for people: auto (on a terminal), always or never
                  --log-format <FORMAT>  Log as text, or as lines of json
              -h, --help                 Show help: -h in short, --help with the story and examples
              -V, --version              Show the version
            exit 0
        "#]],
    );
}

#[test]
fn oracle_serve_at_length() {
    check(
        "oracle serve --help",
        expect![[r#"
            stdout
            Be an oracle on standard input and output

            Serves the tools of the addresses, or of the config, to the executor that started us. Standard
            output carries the protocol and nothing else. All peers are opened first: if one cannot be, the exit
            code is 3 and nothing is written.

            A tool's signature is the one given by `--fn`, else its own, else one made from the schema of its
            input.

            Usage: toolbus oracle serve [OPTIONS] [ADDRESS]...

            Arguments:
              [ADDRESS]...
                      Peers whose tools are served, in place of those in the config, e.g. `builtin:`

            Options:
                  --fn <TEXT>
                      Signature to offer a tool by, e.g. `add(a: u64, b: u64) -> u64`; may repeat

                  --lenient-felts
                      Reduce felts beyond the field prime instead of refusing them

                  --line-max <BYTES>
                      Skip lines longer than this, e.g. `64MiB`

                      [default: 64MiB]

                  --timeout <TIME>
                      Give up on a call after this long, e.g. `90`, `500ms`

                      [default: 60s]

                  --start-timeout <TIME>
                      Give up if a peer is not ready after this long [default: as its protocol says]

                  --stop-timeout <TIME>
                      Let a peer have this long to end by itself before it is made to

                      [default: 5s]

                  --allow-shell
                      Allow the address `shell:`, whose one tool runs any command

                  --env <NAME=VALUE>
                      Set this variable for the programs that are started; may repeat

                  --env-pass <NAME>
                      Pass this variable of ours on to the programs that are started; may repeat

                  --token-env <VAR>
                      Environment variable that holds the token to show to peers over HTTP

                  --header <NAME: VALUE>
                      Send this header field to peers over HTTP; `${NAME}` in it is that variable; may repeat

                  --ca <FILE>
                      Believe peers over HTTPS whose certificates come from the authority in this file, in place
                      of the public ones

                  --client-cert <FILE>
                      Show peers over HTTPS the certificate in this file

                  --client-key <FILE>
                      The file of its private key

                  --search <WHEN>
                      List few tools and let callers search for the others: `true`, `false`, or `auto` if there
                      are more than 100 [default: as the view says, else false]

                  --always <PATTERN>
                      List these tools even so, by `<back>.<tool>`, e.g. `files.read_*`; may repeat

                  --fresh
                      Open and ask all backs at the start, whatever `toolbus.lock` has of them

                  --view <NAME>
                      See the tools of the config in this view of its

                  --as <CALLER>
                      Call as this caller of the config: in its view, within its limits

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Examples:
              toolbus oracle serve builtin:
              toolbus oracle invoke --fn 'upper(text: ByteArray) -> ByteArray' \
                  'stdio:toolbus oracle serve builtin:' upper hello
            exit 0
        "#]],
    );
}

#[test]
fn completions() {
    check(
        "completions --help",
        expect![[r#"
            stdout
            Print the completion script for a shell

            The script goes to standard output; put it where your shell looks for completions. In bash, zsh and
            fish it also completes addresses, backs, tools and their arguments. A peer is asked for its tools,
            and has two seconds to list them; one that takes longer has listed them for the next time, since
            lists are kept in `~/.cache/toolbus` and asked for anew once they are used.

            Usage: toolbus completions [OPTIONS] <SHELL>

            Arguments:
              <SHELL>
                      Shell to print it for

                      [possible values: bash, elvish, fish, powershell, zsh]

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Examples:
              toolbus completions bash > ~/.local/share/bash-completion/completions/toolbus
              toolbus completions zsh > ~/.zfunc/_toolbus
              toolbus completions fish > ~/.config/fish/completions/toolbus.fish
            exit 0
        "#]],
    );
}

#[test]
fn man() {
    check(
        "man --help",
        expect![[r#"
            stdout
            Print a manual page

            Without COMMAND the page of toolbus itself, else that of the command, in the format of `man`, on
            standard output.

            Usage: toolbus man [OPTIONS] [COMMAND]...

            Arguments:
              [COMMAND]...
                      Command to describe, e.g. `call` or `oracle invoke`

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Examples:
              toolbus man | man -l -
              toolbus man oracle invoke > toolbus-oracle-invoke.1
            exit 0
        "#]],
    );
}

#[test]
fn help_may_be_a_command() {
    for (asked, same_as) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "call"], &["call", "--help"]),
        (&["help", "oracle", "invoke"], &["oracle", "invoke", "--help"]),
    ] {
        assert_eq!(Page::of(asked).run().stdout, Page::of(same_as).run().stdout);
    }
    check(
        "help nope",
        expect![[r#"
            stderr
            error: there is no command `nope`
            hint: `toolbus --help` shows all commands
            exit 2
        "#]],
    );
}

#[test]
fn the_version_is_that_of_toolbus_wherever_it_is_asked() {
    for words in [&["--version"][..], &["-V"], &["call", "--version"], &["oracle", "serve", "-V"]] {
        let ran = Page::of(words).run();
        assert_eq!(ran.stdout, format!("toolbus {}\n", env!("CARGO_PKG_VERSION")), "{words:?}");
    }
}

#[test]
fn serve_at_length() {
    check(
        "serve --help",
        expect![[r#"
            stdout
            Run every front of the config at once, until a signal

            Serves the tools of all backs of the config on each of its fronts. Once one accepts, standard error
            has the line `listening on URL`, with the real port; and once every back has listed its tools or
            failed, `ready: 6 of 6 backs, 55 tools`. A back that cannot be opened is left out with a warning,
            and tried again with the next list or call.

            With `[admin]` in the config, `/healthz`, `/readyz` and `/metrics` are answered over HTTP, on a port
            of their own, and so is a live page, which `toolbus page` finds.

            SIGHUP reads the config again. Backs and fronts that are set up as before go on as they are; a back
            that has changed or is gone keeps its calls until they end or time out, and new ones go to the new
            one at once. If there is a mistake in the config it is told, and everything stays as it was.

            SIGINT and SIGTERM end it, as does the end of the terminal it was started on, unless by `nohup`:
            calls under way have five seconds, and no process is left. After SIGTERM the exit code is 0.

            Usage: toolbus serve [OPTIONS]

            Options:
                  --list-timeout <TIME>
                      Wait this long for the first list until every back has listed its tools, where a front has
                      no `list_timeout`; `0` not at all [default: 15s]

                  --fresh
                      Open and ask all backs at the start, whatever `toolbus.lock` has of them

                  --no-run-socket
                      Let no command use what runs here: `toolbus call` and others start their own

                  --threads <N>
                      Serve connections over HTTP on so many threads; `auto` takes as many as there are cores,
                      at most 8 [default: `threads` of the config, or 1]

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Examples:
              toolbus serve
              toolbus serve --config tools.toml

            A config:
              [back.try]
              connect = "builtin:"

              [front.editor]
              serve = "mcp+http://127.0.0.1:8932/mcp"

              [front.scripts]
              serve = "mediocre+tcp://127.0.0.1:7420"
            exit 0
        "#]],
    );
}

#[test]
fn mcp_in_short() {
    check(
        "mcp -h",
        expect![[r#"
            stdout
            Be an MCP server on standard input and output, or over HTTP

            Usage: toolbus mcp [OPTIONS] [ADDRESS]...

            Arguments:
              [ADDRESS]...  Peers whose tools are served, in place of those in the config, e.g. `builtin:`

            Options:
                  --http <ADDR>           Serve over HTTP instead, at `HOST:PORT`, `:PORT` or `PORT`; port 0
                                          takes a free one
                  --https <ADDR>          The same over HTTPS, by the certificate of `--cert` and `--key`
                  --cert <FILE>           The certificate by which `--https` shows itself: a PEM file, read
                                          again when it has changed
                  --key <FILE>            Its private key
                  --client-ca <FILE>      Let only clients in for whose certificates the authority in this file
                                          vouches
                  --sse                   Serve the old HTTP+SSE of 2024-11-05 as well, at `/sse` and
                                          `/messages`
                  --origin <ORIGIN>       Let pages of this origin in, besides our own, e.g.
                                          `https://app.example`; may repeat
                  --host <NAME>           Let clients call us by this name, besides our own, e.g. behind a proxy
                                          that keeps `Host`; may repeat
                  --token-env <VAR>       Environment variable that holds the token that each caller must show
                  --insecure              Do without a token although other machines can reach us
                  --line-max <BYTES>      Refuse lines longer than this, e.g. `16MiB` [default: 16MiB]
                  --timeout <TIME>        Give up on a call that is quiet for this long, e.g. `90`, `500ms`
                                          [default: 60s]
                  --start-timeout <TIME>  Give up if a peer is not ready after this long [default: as its
                                          protocol says]
                  --list-timeout <TIME>   Wait this long for the first list until every peer has listed its
                                          tools; `0` not at all [default: 15s]
                  --stop-timeout <TIME>   Let a peer have this long to end by itself before it is made to
                                          [default: 5s]
                  --allow-shell           Allow the address `shell:`, whose one tool runs any command
                  --env <NAME=VALUE>      Set this variable for the programs that are started; may repeat
                  --env-pass <NAME>       Pass this variable of ours on to the programs that are started; may
                                          repeat
                  --back-token-env <VAR>  Environment variable that holds the token to show to peers over HTTP
                  --header <NAME: VALUE>  Send this header field to peers over HTTP; `${NAME}` in it is that
                                          variable; may repeat
                  --ca <FILE>             Believe peers over HTTPS whose certificates come from the authority in
                                          this file, in place of the public ones
                  --client-cert <FILE>    Show peers over HTTPS the certificate in this file
                  --client-key <FILE>     The file of its private key
                  --era <ERA>             Speak to MCP servers as of this era alone: `legacy` (to 2025-11-25),
                                          `modern` (2026-07-28) or `auto`
                  --search <WHEN>         List few tools and let callers search for the others: `true`, `false`,
                                          or `auto` if there are more than 100 [default: as the view says, else
                                          false]
                  --always <PATTERN>      List these tools even so, by `<back>.<tool>`, e.g. `files.read_*`; may
                                          repeat
                  --fresh                 Open and ask all backs at the start, whatever `toolbus.lock` has of
                                          them
                  --view <NAME>           See the tools of the config in this view of its
                  --as <CALLER>           Call as this caller of the config: in its view, within its limits

            Global options:
                  --config <FILE>        Read this config, ours or an editor's [default: toolbus.toml, here or
                                         above]
                  --json                 Print lines of JSON, failures included
              -v, --verbose...           Say more: -v what happens, -vv every detail
              -q, --quiet                Say less: errors only, no warnings
                  --color <WHEN>         Colour words for people: auto (on a terminal), always or never
                  --log-format <FORMAT>  Log as text, or as lines of json
              -h, --help                 Show help: -h in short, --help with the story and examples
              -V, --version              Show the version
            exit 0
        "#]],
    );
}

#[test]
fn mcp_at_length() {
    check(
        "mcp --help",
        expect![[r#"
            stdout
            Be an MCP server on standard input and output, or over HTTP

            Serves the tools of the addresses, or of the config, to the editor or agent that started us.
            Standard output carries the protocol and nothing else.

            With `--http` it listens instead, and says where in one line on standard error: `listening on
            http://127.0.0.1:8932/mcp`. Only this machine can reach it, unless you name another host; then a
            token is needed, or with `--https` certificates of `--client-ca`.

            In front of one MCP server everything passes as it is, whatever it is. Otherwise the tools are
            offered: of one peer by their own names, of several as `<peer>_<tool>`. A peer that cannot be opened
            is left out with a warning, and tried again with the next list.

            Usage: toolbus mcp [OPTIONS] [ADDRESS]...

            Arguments:
              [ADDRESS]...
                      Peers whose tools are served, in place of those in the config, e.g. `builtin:`

            Options:
                  --http <ADDR>
                      Serve over HTTP instead, at `HOST:PORT`, `:PORT` or `PORT`; port 0 takes a free one

                  --https <ADDR>
                      The same over HTTPS, by the certificate of `--cert` and `--key`

                  --cert <FILE>
                      The certificate by which `--https` shows itself: a PEM file, read again when it has
                      changed

                  --key <FILE>
                      Its private key

                  --client-ca <FILE>
                      Let only clients in for whose certificates the authority in this file vouches

                  --sse
                      Serve the old HTTP+SSE of 2024-11-05 as well, at `/sse` and `/messages`

                  --origin <ORIGIN>
                      Let pages of this origin in, besides our own, e.g. `https://app.example`; may repeat

                  --host <NAME>
                      Let clients call us by this name, besides our own, e.g. behind a proxy that keeps `Host`;
                      may repeat

                  --token-env <VAR>
                      Environment variable that holds the token that each caller must show

                  --insecure
                      Do without a token although other machines can reach us

                  --line-max <BYTES>
                      Refuse lines longer than this, e.g. `16MiB`

                      [default: 16MiB]

                  --timeout <TIME>
                      Give up on a call that is quiet for this long, e.g. `90`, `500ms` [default: 60s]

                  --start-timeout <TIME>
                      Give up if a peer is not ready after this long [default: as its protocol says]

                  --list-timeout <TIME>
                      Wait this long for the first list until every peer has listed its tools; `0` not at all
                      [default: 15s]

                  --stop-timeout <TIME>
                      Let a peer have this long to end by itself before it is made to

                      [default: 5s]

                  --allow-shell
                      Allow the address `shell:`, whose one tool runs any command

                  --env <NAME=VALUE>
                      Set this variable for the programs that are started; may repeat

                  --env-pass <NAME>
                      Pass this variable of ours on to the programs that are started; may repeat

                  --back-token-env <VAR>
                      Environment variable that holds the token to show to peers over HTTP

                  --header <NAME: VALUE>
                      Send this header field to peers over HTTP; `${NAME}` in it is that variable; may repeat

                  --ca <FILE>
                      Believe peers over HTTPS whose certificates come from the authority in this file, in place
                      of the public ones

                  --client-cert <FILE>
                      Show peers over HTTPS the certificate in this file

                  --client-key <FILE>
                      The file of its private key

                  --era <ERA>
                      Speak to MCP servers as of this era alone: `legacy` (to 2025-11-25), `modern` (2026-07-28)
                      or `auto`

                  --search <WHEN>
                      List few tools and let callers search for the others: `true`, `false`, or `auto` if there
                      are more than 100 [default: as the view says, else false]

                  --always <PATTERN>
                      List these tools even so, by `<back>.<tool>`, e.g. `files.read_*`; may repeat

                  --fresh
                      Open and ask all backs at the start, whatever `toolbus.lock` has of them

                  --view <NAME>
                      See the tools of the config in this view of its

                  --as <CALLER>
                      Call as this caller of the config: in its view, within its limits

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Examples:
              toolbus mcp builtin:
              toolbus mcp --http 8932 builtin:
              toolbus mcp --https 8932 --cert cert.pem --key key.pem builtin:
              toolbus call 'mcp+stdio:toolbus mcp builtin:' add a=1 b=2

            For an editor's or agent's config:
              "mcpServers": {"toolbus": {"command": "toolbus", "args": ["mcp", "builtin:"]}}
            exit 0
        "#]],
    );
}

#[test]
fn plugin() {
    check(
        "plugin --help",
        expect![[r#"
            stdout
            Be an Orchestra plugin: its hub calls the tools of the bus

            A hub starts its plugins with `--orchestrator-addr`, `--listen-addr` and `--certs-dir`, behind
            whatever stands in its own file. All peers are opened first; if one cannot be, the exit code is 3.
            Then standard error has the line `READY HOST:PORT`, the hub is told which tools there are, and
            answers are given until it says `shutdown`, a signal comes, or the hub has been gone for a minute.
            Standard output stays empty.

            Usage: toolbus plugin [OPTIONS] [ADDRESS]...

            Arguments:
              [ADDRESS]...
                      Peers whose tools are served, in place of those in the config, e.g. `builtin:`

            Options:
                  --orchestrator-addr <HOST:PORT>
                      Hub to register with, e.g. `localhost:50100`; none if it is empty

                  --listen-addr <HOST:PORT>
                      Where to listen [default: localhost:0]

                  --certs-dir <DIR>
                      Folder of the certificates [default: ~/.orchestra/certs]

                  --id <ID>
                      Our id, as it stands in the hub's file

                      [default: toolbus]

                  --manifest
                      Print what we would tell a hub of ourselves, and end

                  --allow-anonymous
                      Let callers in that show no certificate

                  --timeout <TIME>
                      Give up on a call that is quiet for this long, e.g. `90`, `500ms`

                      [default: 60s]

                  --env <NAME=VALUE>
                      Set this variable for the programs that are started; may repeat

                  --env-pass <NAME>
                      Pass this variable of ours on to the programs that are started; may repeat

                  --token-env <VAR>
                      Environment variable that holds the token to show to peers over HTTP

                  --header <NAME: VALUE>
                      Send this header field to peers over HTTP; `${NAME}` in it is that variable; may repeat

                  --ca <FILE>
                      Believe peers over HTTPS whose certificates come from the authority in this file, in place
                      of the public ones

                  --client-cert <FILE>
                      Show peers over HTTPS the certificate in this file

                  --client-key <FILE>
                      The file of its private key

                  --search <WHEN>
                      List few tools and let callers search for the others: `true`, `false`, or `auto` if there
                      are more than 100 [default: as the view says, else false]

                  --always <PATTERN>
                      List these tools even so, by `<back>.<tool>`, e.g. `files.read_*`; may repeat

                  --fresh
                      Open and ask all backs at the start, whatever `toolbus.lock` has of them

                  --view <NAME>
                      See the tools of the config in this view of its

                  --as <CALLER>
                      Call as this caller of the config: in its view, within its limits

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Examples:
              toolbus plugin builtin: --manifest
              toolbus plugin --id tools.bus builtin:

            In a hub's plugins.yaml:
              plugins:
                - id: tools.bus
                  binary: toolbus
                  args: [plugin, --id, tools.bus, 'builtin:']
            exit 0
        "#]],
    );
}

#[test]
fn orchestrator() {
    check(
        "orchestrator --help",
        expect![[r#"
            stdout
            Be an Orchestra hub: run the plugins of a file and route calls to them

            Reads `plugins.yaml`, or the file that `--config` names, starts its plugins and keeps them running:
            one that dies is started again, after half a second at first, and given up after five failed starts.
            Callers are let in by their certificates; `toolbus certs` shows them.

            SIGINT or SIGTERM says goodbye to all plugins and ends with 0; a second one kills them.

            Usage: toolbus orchestrator [OPTIONS]

            Options:
                  --listen-addr <HOST:PORT>
                      Listen here, whatever the file says; port 0 takes a free one [default: localhost:50100]

                  --certs-dir <DIR>
                      Folder of the certificates, whatever the file says [default: ~/.orchestra/certs]

                  --allow-anonymous
                      Let callers in that show no certificate; a wrong one is still refused

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Examples:
              toolbus orchestrator
              toolbus orchestrator --config ./plugins.yaml --listen-addr localhost:50100

            A small plugins.yaml:
              plugins:
                - id: tools.toolbus
                  binary: toolbus
                  args: [plugin, --id, tools.toolbus, "builtin:"]
                  enabled: true
            exit 0
        "#]],
    );
}

#[test]
fn transport_stdio() {
    check(
        "transport-stdio --help",
        expect![[r#"
            stdout
            Be an MCP server on standard input and output, in front of an Orchestra hub

            For editors and agents whose config names `transport-stdio`: `tools/list` and `tools/call` are asked
            of the hub, everything else is answered here. A hub that is lost is dialled again; calls fail
            meanwhile, and at once.

            Answers go out as they finish, so that a slow tool holds up no other. With `--in-order` a line is
            read only when the one before is answered.

            Usage: toolbus transport-stdio [OPTIONS]

            Options:
                  --orchestrator-addr <HOST:PORT>
                      Where the hub is

                      [default: localhost:50100]

                  --certs-dir <DIR>
                      Folder of the certificates

                      [default: ~/.orchestra/certs]

                  --timeout <TIME>
                      Give up on a request to the hub after this long, e.g. `90`, `500ms`

                      [default: 60s]

                  --wait
                      Wait for a hub that is not there yet, instead of ending with 3

                  --no-reconnect
                      End with 3 when the hub is lost, instead of dialling again

                  --idle-timeout <TIME>
                      Take the hub for lost after so long a silence

                      [default: 15s]

                  --server-name <NAME>
                      Whom the hub's certificate must name, if not the host of the address

                  --profile <PROFILE>
                      Which methods there are: `tools`, or `full` with prompts, resources and logging

                      [default: tools]

                  --events <TOPIC>...
                      Tell the events of this topic as `notifications/event`; may repeat

                  --in-order
                      Read a line only when the one before is answered

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Examples:
              toolbus transport-stdio
              toolbus transport-stdio --orchestrator-addr localhost:9100 --wait

            In an editor's or agent's config, among its servers:
              "orchestra": {"command": "toolbus", "args": ["transport-stdio"]}
            exit 0
        "#]],
    );
}

#[test]
fn certs() {
    check(
        "certs --help",
        expect![[r#"
            stdout
            Show or renew the certificates of Orchestra

            A hub, its plugins and its callers know each other by certificates of one CA, all in one
            folder. They are made when they are first needed and made anew before they expire. A CA that
            is there is never replaced, unless you say so.

            Usage: toolbus certs [OPTIONS] <COMMAND>

            Commands:
              show   List the certificates of a folder, and whether they are good
              renew  Make certificates anew: those that need it, or those you name

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version
            exit 0
        "#]],
    );
    check(
        "certs show --help",
        expect![[r#"
            stdout
            List the certificates of a folder, and whether they are good

            One row each: name, kind, until when it is valid, whether the CA of the folder signed it, and how
            its key is. Changes nothing. Ends with 1 if one has expired, is signed by another CA, or has no good
            key; with 2 if there is no folder.

            Usage: toolbus certs show [OPTIONS]

            Options:
                  --certs-dir <DIR>
                      Folder of the certificates

                      [default: ~/.orchestra/certs]

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Examples:
              toolbus certs show
              toolbus certs show --certs-dir ./certs --json
            exit 0
        "#]],
    );
    check(
        "certs renew --help",
        expect![[r#"
            stdout
            Make certificates anew: those that need it, or those you name

            Without a NAME every certificate is renewed that expires within 30 days, is signed by another CA or
            does not match its key. Says what it did, a line each; nothing to do is no output.

            Usage: toolbus certs renew [OPTIONS] [NAME]...

            Arguments:
              [NAME]...
                      Renew this one, or make it if it is not there, e.g. `orchestrator`

            Options:
                  --all
                      Renew every certificate but the CA

                  --ca
                      Replace the CA and renew all others; the old CA is kept as `ca.crt.old`, `ca.key.old`

                  --certs-dir <DIR>
                      Folder of the certificates

                      [default: ~/.orchestra/certs]

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Examples:
              toolbus certs renew
              toolbus certs renew transport.stdio-client
              toolbus certs renew --ca
            exit 0
        "#]],
    );
}

#[test]
fn orchard() {
    check(
        "orchard --help",
        expect![[r#"
            stdout
            Plan and run scenarios: actions of providers, in the order of their references

            A scenario is a file of HCL that names providers and the actions to execute with them. A
            provider is a program that speaks Orchard, any other peer that toolbus can call, or one that is
            built in. What an action gives can be used by others, which then wait for it.

            `plan` shows what would be done and what is wrong, and does nothing. Plans, lists and data go to
            standard output; what is wrong goes to standard error, with its place and what to do.

            Started under the name `orchard` (a link to toolbus) it is this command.

            Usage: toolbus orchard [OPTIONS] <COMMAND>

            Commands:
              init      Write a first scenario and a component, to be changed
              validate  Check files of scenarios and components, without providers and values
              plan      Show what a run would do, in which order and with what
              list      List the scenarios of files and folders
              schema    Show the actions of a provider, and what they take and give
              graph     Draw which action needs which
              run       Run a scenario
              teardown  Undo what a run did
              runs      List the runs that a folder has records of, newest first

            Options:
                  --no-color
                      Print without colours

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Examples:
              toolbus orchard init
              toolbus orchard plan scenarios/hello.hcl
              toolbus orchard validate scenarios/*.hcl
            exit 0
        "#]],
    );
}

#[test]
fn orchard_plan() {
    check(
        "orchard plan --help",
        expect![[r#"
            stdout
            Show what a run would do, in which order and with what

            Nothing is executed: programs are only asked for their schemas, with the argument `schema`, and
            other peers for their tools. What is known only after the run is told as that, sensitive values are
            not shown.

            Everything that is wrong is told at once, with its place; the exit code is then 2. It is 3 or 4 if a
            provider cannot be asked.

            Usage: toolbus orchard plan [OPTIONS] <FILE>

            Arguments:
              <FILE>
                      File with the scenario

            Options:
                  --no-color
                      Print without colours

                  --var <NAME=VALUE>
                      Value of a variable; may repeat, the last counts

                  --var-file <FILE>
                      File with values of variables, HCL or `.json`; may repeat, later ones count

                  --scenario <NAME>
                      Scenario to take, where a file has several

                  --target <ADDRESS>
                      Plan only this action, family or component and what it needs; may repeat

                  --describe-timeout <TIME>
                      Give up if a provider has not described itself after this long

                      [default: 5s]

                  --scrub-env
                      Give providers no environment but PATH, HOME, LANG and TMPDIR

            Global options:
                  --config <FILE>
                      Read this config, ours or an editor's [default: toolbus.toml, here or above]

                  --json
                      Print lines of JSON, failures included

              -v, --verbose...
                      Say more: -v what happens, -vv every detail

              -q, --quiet
                      Say less: errors only, no warnings

                  --color <WHEN>
                      Colour words for people: auto (on a terminal), always or never

                  --log-format <FORMAT>
                      Log as text, or as lines of json

              -h, --help
                      Show help: -h in short, --help with the story and examples

              -V, --version
                      Show the version

            Examples:
              toolbus orchard plan scenarios/hello.hcl
              toolbus orchard plan shop.hcl --var token=s3cr3t --json
              toolbus orchard plan shop.hcl --target action.echo.first
            exit 0
        "#]],
    );
}
