//! What is printed for other programs: completions, manual pages, and into pipes that break.

use std::process::Stdio;

use expect_test::expect;
use toolbus_testkit::scratch::Scratch;

use crate::page::{Page, check, command};
use crate::terminal::Terminal;

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "fish", "zsh"] {
        let ran = Page::of(&["completions", shell]).run();
        assert_eq!((ran.status.code(), ran.stderr.as_str()), (Some(0), ""), "{shell}");
        assert!(ran.stdout.contains(&format!("complete {shell}")), "{shell} does not ask us");
    }
    for shell in ["elvish", "powershell"] {
        let ran = Page::of(&["completions", shell]).run();
        assert_eq!((ran.status.code(), ran.stderr.as_str()), (Some(0), ""), "{shell}");
        for word in [
            "demo",
            "tools",
            "call",
            "serve",
            "oracle",
            "invoke",
            "orchard",
            "completions",
            "start-timeout",
        ] {
            assert!(ran.stdout.contains(word), "{shell} does not know `{word}`");
        }
    }
}

/// What may follow these words, the last one unfinished.
fn completed(words: &[&str]) -> String {
    let words = [&["complete", "zsh", "toolbus"], words].concat();
    Page::of(&words).config("completed", "[back.try]\nconnect = \"builtin:\"\n").run().stdout
}

#[test]
fn commands_and_flags_are_completed() {
    assert_eq!(
        completed(&["des"]),
        "describe\tShow one tool: what it does, what it takes, and a call to try\n"
    );
    assert_eq!(
        completed(&["oracle", "inv"]),
        "invoke\tCall an oracle's function and print the felts it answers\n"
    );
    assert_eq!(
        completed(&["call", "--start"]),
        "--start-timeout\tGive up if the peer is not ready after this long [default: as its protocol says]\n"
    );
    assert_eq!(completed(&["call", "--color", "a"]), "auto\nalways\n");
    assert_eq!(completed(&["check", "orac"]), "oracle\n");
}

#[test]
fn backs_tools_and_arguments_are_completed() {
    assert_eq!(completed(&["call", "tr"]), "try.\tbuiltin:\n");
    assert_eq!(completed(&["tools", "built"]), "builtin:\ttry\n");
    assert_eq!(completed(&["call", "try.ad"]), "try.add\tAdd two numbers\n");
    assert_eq!(completed(&["describe", "builtin:", "up"]), "upper\tPut a text in upper case\n");
    assert_eq!(completed(&["call", "builtin:", "add", "a=1", ""]), "b=\tnumber, required\n");
    assert_eq!(completed(&["call", "try.sink", "hash="]), "hash=true\nhash=false\n");
    // A peer that is not there has nothing to say.
    assert_eq!(completed(&["call", "stdio:/nowhere/oracle", ""]), "");
}

#[test]
fn bash_completes_by_our_script() {
    let script = r#"
        source <("$0" completions bash) || exit 1
        try() {
            COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMP_WORDS=("$TOOLBUS")
            _toolbus
            printf '%s\n' "${COMPREPLY[@]}"
        }
        try toolbus call builtin: cou
        try toolbus call builtin: count n=1 f
        try toolbus call builtin: sink hash=t
    "#;
    let mut bash = std::process::Command::new("bash");
    let program = env!("CARGO_BIN_EXE_toolbus");
    bash.args(["-c", script, program]).env("TOOLBUS", program).stdin(Stdio::null());
    let output = bash.output().expect("bash is there");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "count\nfail_at=\ntrue\n", "{output:?}");
}

/// With a person at the keyboard, who presses the tabulator.
#[test]
fn bash_completes_as_it_is_typed() {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_toolbus"));
    let path = std::env::var("PATH").unwrap_or_default();
    let scratch = Scratch::new();
    let mut bash = std::process::Command::new("bash");
    bash.args(["--norc", "--noprofile", "-i"])
        .current_dir(scratch.path())
        .env("PATH", format!("{}:{path}", program.parent().unwrap().display()))
        .env("PS1", "ready> ")
        .env("TERM", "dumb");
    let shown = Terminal::of(200)
        .types("ready> ", "source <(toolbus completions bash)")
        .types("ready> ", "toolbus call builti\tcou\tn=1 --js\t")
        .types("ready> ", "toolbus call builtin: upp\tte\thi --te\t")
        .types("ready> ", "exit")
        .shows(bash);
    assert!(shown.contains("\n{\"elements\":[0]}\n"), "{shown}");
    assert!(shown.contains("\nHI\n"), "{shown}");
}

#[test]
fn the_manual_page_of_a_command() {
    check(
        "man oracle serve",
        expect![[r#"
            stdout
            .ie \n(.g .ds Aq \(aq
            .el .ds Aq '
            .TH toolbus-oracle-serve 1  "toolbus 0.1.0" "Toolbus Manual"
            .ie \n(.g .ds Aq \(aq
            .el .ds Aq '
            .SH NAME
            toolbus\-oracle\-serve \- Be an oracle on standard input and output
            .ie \n(.g .ds Aq \(aq
            .el .ds Aq '
            .SH SYNOPSIS
            \fBtoolbus oracle serve\fR [\fB\-\-config\fR] [\fB\-\-fn\fR] [\fB\-\-json\fR] [\fB\-\-lenient\-felts\fR] [\fB\-\-line\-max\fR] [\fB\-v\fR|\fB\-\-verbose\fR]... [\fB\-q\fR|\fB\-\-quiet\fR] [\fB\-\-timeout\fR] [\fB\-\-color\fR] [\fB\-\-start\-timeout\fR] [\fB\-\-log\-format\fR] [\fB\-\-stop\-timeout\fR] [\fB\-\-allow\-shell\fR] [\fB\-\-env\fR] [\fB\-\-env\-pass\fR] [\fB\-\-token\-env\fR] [\fB\-\-header\fR] [\fB\-h\fR|\fB\-\-help\fR] [\fB\-V\fR|\fB\-\-version\fR] [\fIADDRESS\fR] 
            .ie \n(.g .ds Aq \(aq
            .el .ds Aq '
            .SH DESCRIPTION
            Be an oracle on standard input and output
            .PP
            Serves the tools of the addresses, or of the config, to the executor that started us. Standard output carries the protocol and nothing else. All peers are opened first: if one cannot be, the exit code is 3 and nothing is written.
            .PP
            A tool\*(Aqs signature is the one given by `\-\-fn`, else its own, else one made from the schema of its input.
            .ie \n(.g .ds Aq \(aq
            .el .ds Aq '
            .SH OPTIONS
            .TP
            \fB\-\-fn\fR \fI<TEXT>\fR
            Signature to offer a tool by, e.g. `add(a: u64, b: u64) \-> u64`; may repeat
            .TP
            \fB\-\-lenient\-felts\fR
            Reduce felts beyond the field prime instead of refusing them
            .TP
            \fB\-\-line\-max\fR \fI<BYTES>\fR [default: 64MiB]
            Skip lines longer than this, e.g. `64MiB`
            .TP
            \fB\-\-timeout\fR \fI<TIME>\fR [default: 60s]
            Give up on a call after this long, e.g. `90`, `500ms`
            .TP
            \fB\-\-start\-timeout\fR \fI<TIME>\fR
            Give up if a peer is not ready after this long [default: as its protocol says]
            .TP
            \fB\-\-stop\-timeout\fR \fI<TIME>\fR [default: 5s]
            Let a peer have this long to end by itself before it is made to
            .TP
            \fB\-\-allow\-shell\fR
            Allow the address `shell:`, whose one tool runs any command
            .TP
            \fB\-\-env\fR \fI<NAME=VALUE>\fR
            Set this variable for the programs that are started; may repeat
            .TP
            \fB\-\-env\-pass\fR \fI<NAME>\fR
            Pass this variable of ours on to the programs that are started; may repeat
            .TP
            \fB\-\-token\-env\fR \fI<VAR>\fR
            Environment variable that holds the token to show to peers over HTTP
            .TP
            \fB\-\-header\fR \fI<NAME: VALUE>\fR
            Send this header field to peers over HTTP; `${NAME}` in it is that variable; may repeat
            .TP
            [\fIADDRESS\fR]
            Peers whose tools are served, in place of those in the config, e.g. `builtin:`
            .SH "GLOBAL OPTIONS"
            .TP
            \fB\-\-config\fR \fI<FILE>\fR
            Read this config, ours or an editor\*(Aqs [default: toolbus.toml, here or above]
            .TP
            \fB\-\-json\fR
            Print lines of JSON, failures included
            .TP
            \fB\-v\fR, \fB\-\-verbose\fR
            Say more: \-v what happens, \-vv every detail
            .TP
            \fB\-q\fR, \fB\-\-quiet\fR
            Say less: errors only, no warnings
            .TP
            \fB\-\-color\fR \fI<WHEN>\fR
            Colour words for people: auto (on a terminal), always or never
            .TP
            \fB\-\-log\-format\fR \fI<FORMAT>\fR
            Log as text, or as lines of json
            .TP
            \fB\-h\fR, \fB\-\-help\fR
            Show help: \-h in short, \-\-help with the story and examples
            .TP
            \fB\-V\fR, \fB\-\-version\fR
            Show the version
            .ie \n(.g .ds Aq \(aq
            .el .ds Aq '
            .SH EXAMPLES
            .nf
              toolbus oracle serve builtin:
              toolbus oracle invoke \-\-fn \*(Aqupper(text: ByteArray) \-> ByteArray\*(Aq \\
                  \*(Aqstdio:toolbus oracle serve builtin:\*(Aq upper hello
            .fi
            .SH "EXIT STATUS"
            .TP
            \fB0\fR
            done
            .TP
            \fB1\fR
            the work was tried and failed: a tool said no
            .TP
            \fB2\fR
            wrong usage or invalid input; nothing was started
            .TP
            \fB3\fR
            the other side could not be reached, or broke its protocol
            .TP
            \fB4\fR
            timed out
            .TP
            \fB130\fR
            ended by SIGINT (Ctrl\-C)
            .TP
            \fB143\fR
            ended by SIGTERM
            exit 0
        "#]],
    );
}

#[test]
fn the_manual_page_of_toolbus() {
    check(
        "man",
        expect![[r#"
            stdout
            .ie \n(.g .ds Aq \(aq
            .el .ds Aq '
            .TH toolbus 1  "toolbus 0.1.0" "Toolbus Manual"
            .ie \n(.g .ds Aq \(aq
            .el .ds Aq '
            .SH NAME
            toolbus \- Call any tool from anywhere, whatever wire each side speaks
            .ie \n(.g .ds Aq \(aq
            .el .ds Aq '
            .SH SYNOPSIS
            \fBtoolbus\fR [\fB\-\-config\fR] [\fB\-\-json\fR] [\fB\-v\fR|\fB\-\-verbose\fR]... [\fB\-q\fR|\fB\-\-quiet\fR] [\fB\-\-color\fR] [\fB\-\-log\-format\fR] [\fB\-h\fR|\fB\-\-help\fR] [\fB\-V\fR|\fB\-\-version\fR] <\fIsubcommands\fR>
            .ie \n(.g .ds Aq \(aq
            .el .ds Aq '
            .SH DESCRIPTION
            Call any tool from anywhere, whatever wire each side speaks
            .PP
            Programs that offer functions to other programs keep inventing the same thing: start a
            process, agree that it is ready, send JSON, match the answer, survive its death. toolbus
            does that once and well, and lets any caller reach any tool.
            .PP
            A peer is named by one string, its ADDRESS:
            .PP
              builtin:           small tools inside toolbus itself, to try things out
              stdio:COMMAND      an oracle: COMMAND is started and spoken to over its pipes
              orchard+stdio:COMMAND
                                 an Orchard provider, likewise
              mcp+stdio:COMMAND  an MCP server, started and spoken to likewise
              https://HOST/PATH  an MCP server elsewhere; `mcp+https://HOST/PATH` is the same
              mcp+sse://HOST/PATH
                                 an MCP server that speaks the old HTTP+SSE; `mcp+sses` with TLS
              mediocre+tcp://HOST:PORT, mediocre+unix:PATH, mediocre+stdio:COMMAND
                                 a mediocre\-rpc server
              godex+stdio:COMMAND
                                 a program that asks a model, started for each call
              orchestra+quic://HOST:PORT
                                 an Orchestra hub, or a plugin
              orchestra+plugin:COMMAND
                                 an Orchestra plugin, started as its hub would
              shell:             one tool, `exec`; off unless `\-\-allow\-shell` is given
              COMMAND            any of the programs above: what it speaks is found out
            .PP
            Standard output carries answers and nothing else, so that it can be piped; everything
            for people goes to standard error.
            .ie \n(.g .ds Aq \(aq
            .el .ds Aq '
            .SH "GLOBAL OPTIONS"
            .TP
            \fB\-\-config\fR \fI<FILE>\fR
            Read this config, ours or an editor\*(Aqs [default: toolbus.toml, here or above]
            .TP
            \fB\-\-json\fR
            Print lines of JSON, failures included
            .TP
            \fB\-v\fR, \fB\-\-verbose\fR
            Say more: \-v what happens, \-vv every detail
            .TP
            \fB\-q\fR, \fB\-\-quiet\fR
            Say less: errors only, no warnings
            .TP
            \fB\-\-color\fR \fI<WHEN>\fR
            Colour words for people: auto (on a terminal), always or never
            .TP
            \fB\-\-log\-format\fR \fI<FORMAT>\fR
            Log as text, or as lines of json
            .TP
            \fB\-h\fR, \fB\-\-help\fR
            Show help: \-h in short, \-\-help with the story and examples
            .TP
            \fB\-V\fR, \fB\-\-version\fR
            Show the version
            .ie \n(.g .ds Aq \(aq
            .el .ds Aq '
            .SH SUBCOMMANDS
            .TP
            toolbus\-demo(1)
            Take the tour: see tools called, killed and back again
            .TP
            toolbus\-tools(1)
            List the tools of the config, or of the given addresses
            .TP
            toolbus\-describe(1)
            Show one tool: what it does, what it takes, and a call to try
            .TP
            toolbus\-call(1)
            Call one tool and print its answer
            .TP
            toolbus\-serve(1)
            Run every front of the config at once, until a signal
            .TP
            toolbus\-init(1)
            Write a `toolbus.toml` to begin with
            .TP
            toolbus\-doctor(1)
            Start each back of the config, and say what works
            .TP
            toolbus\-log(1)
            Read the journal: filter it, follow it, sum it up
            .TP
            toolbus\-certs(1)
            Show or renew the certificates of Orchestra
            .TP
            toolbus\-exec(1)
            Ask a model, and let it use your tools
            .TP
            toolbus\-mcp(1)
            Be an MCP server on standard input and output, or over HTTP
            .TP
            toolbus\-oracle(1)
            Call a Cairo oracle, or be one
            .TP
            toolbus\-orchard(1)
            Plan and run scenarios: actions of providers, in the order of their references
            .TP
            toolbus\-orchestrator(1)
            Be an Orchestra hub: run the plugins of a file and route calls to them
            .TP
            toolbus\-plugin(1)
            Be an Orchestra plugin: its hub calls the tools of the bus
            .TP
            toolbus\-prompt(1)
            List and get the prompts of an MCP server
            .TP
            toolbus\-provider(1)
            Be an Orchard provider on standard input and output
            .TP
            toolbus\-resource(1)
            List and read the resources of an MCP server
            .TP
            toolbus\-rpc(1)
            Call a mediocre\-rpc server, or be one
            .TP
            toolbus\-transport\-stdio(1)
            Be an MCP server on standard input and output, in front of an Orchestra hub
            .TP
            toolbus\-check(1)
            Test a program against the rules of its protocol
            .TP
            toolbus\-decode(1)
            Show what the bytes of a capture say, event by event
            .TP
            toolbus\-completions(1)
            Print the completion script for a shell
            .TP
            toolbus\-man(1)
            Print a manual page
            .ie \n(.g .ds Aq \(aq
            .el .ds Aq '
            .SH "EXIT STATUS"
            .TP
            \fB0\fR
            done
            .TP
            \fB1\fR
            the work was tried and failed: a tool said no
            .TP
            \fB2\fR
            wrong usage or invalid input; nothing was started
            .TP
            \fB3\fR
            the other side could not be reached, or broke its protocol
            .TP
            \fB4\fR
            timed out
            .TP
            \fB130\fR
            ended by SIGINT (Ctrl\-C)
            .TP
            \fB143\fR
            ended by SIGTERM
            exit 0
        "#]],
    );
}

#[test]
fn no_manual_page() {
    check(
        "man oracle nope",
        expect![[r#"
            stderr
            error: there is no command `oracle nope`
            hint: `toolbus --help` shows all commands
            exit 2
        "#]],
    );
}

#[test]
fn a_reader_that_leaves_ends_us_quietly() {
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    drop(reader);
    let output = command(&["completions", "bash"])
        .stdin(Stdio::null())
        .stdout(writer)
        .output()
        .expect("the program was built for this test");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
