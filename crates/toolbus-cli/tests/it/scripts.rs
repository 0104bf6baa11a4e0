//! What is printed for other programs: completions, manual pages, and into pipes that break.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::UNIX_EPOCH;

use expect_test::expect;
use toolbus_testkit::patience::awaited;
use toolbus_testkit::process::unread_pipe;
use toolbus_testkit::scratch::Scratch;

use crate::page::{Page, check, command, our_command};
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

/// Files are proposed where the program says so, and nowhere else.
#[test]
fn no_shell_proposes_files_by_itself() {
    let script = |shell| Page::of(&["completions", shell]).run().stdout;
    assert!(script("fish").ends_with("\ncomplete -c toolbus -f -k -a '(__toolbus_complete)'\n"));
    assert!(script("bash").ends_with("\ncomplete -F _toolbus toolbus\n"));
    let exit = |words: &[&str]| {
        let words = [&["complete", "zsh", "toolbus"], words].concat();
        let page = Page::of(&words).run();
        assert_eq!((page.stdout.as_str(), page.stderr.as_str()), ("", ""), "{words:?}");
        page.status.code()
    };
    assert_eq!(exit(&["call", "builtin:", "nosuch"]), Some(0));
    assert_eq!(exit(&["call", "--timeout", ""]), Some(0));
    assert_eq!(exit(&["call", "--out", ""]), Some(1));
    assert_eq!(exit(&["tools", "./se"]), Some(1));
    assert_eq!(exit(&["call", "builtin:", "upper", "text=@no"]), Some(1));
}

/// What may follow these words where lists are kept in this folder.
fn completed_with(cache: &str, words: &[&str]) -> String {
    let words = [&["complete", "zsh", "toolbus"], words].concat();
    Page::of(&words).env("XDG_CACHE_HOME", cache).run().stdout
}

/// The only file in a folder, once it is there and holds this.
fn kept(folder: &Path, wanted: &str) -> PathBuf {
    awaited("a list is kept", || {
        let files = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        let mut files = files.map(|file| file.path()).filter(|path| path.extension().is_none());
        files.find(|file| fs::read_to_string(file).is_ok_and(|text| text.contains(wanted)))
    })
}

#[test]
fn a_list_that_is_late_is_there_the_next_time_and_asked_for_anew() {
    let scratch = Scratch::new();
    let (cache, go) = (scratch.file("cache"), scratch.file("go"));
    let server = our_command(&["mcp", "builtin:"]);
    let late = format!("until [ -e {go} ]; do sleep 0.02; done; exec {server}");
    let late = format!("mcp+stdio:sh -c '{}'", late.replace('\'', r"'\''"));
    assert_eq!(completed_with(&cache, &["call", &late, "up"]), "");
    // The one who asks for the next time still waits.
    fs::write(&go, "").unwrap();
    let folder = scratch.path().join("cache/toolbus/tools");
    let file = kept(&folder, "\"upper\"");
    let upper = "upper\tPut a text in upper case\n";
    assert_eq!(completed_with(&cache, &["call", &late, "up"]), upper);
    assert_eq!(completed_with(&cache, &["call", &late, "upper", ""]), "text=\tstring, required\n");
    // An old list answers, and is replaced.
    let old = "tools 1\n{\"name\":\"uppish\",\"description\":\"\",\"arguments\":[]}\n";
    fs::write(&file, old).unwrap();
    File::options().write(true).open(&file).unwrap().set_modified(UNIX_EPOCH).unwrap();
    assert_eq!(completed_with(&cache, &["call", &late, "up"]), "uppish\n");
    kept(&folder, "\"upper\"");
    // A broken one is none.
    fs::write(&file, "tools 1\n{\"name\":").unwrap();
    let found = completed_with(&cache, &["call", &late, "up"]);
    assert!(found.is_empty() || found == upper, "{found}");
    kept(&folder, "\"upper\"");
    assert_eq!(completed_with(&cache, &["call", &late, "up"]), upper);
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
            \fBtoolbus oracle serve\fR [\fB\-\-fn\fR \fITEXT\fR]... [\fB\-\-lenient\-felts\fR] [\fB\-\-line\-max\fR \fIBYTES\fR] [\fB\-\-timeout\fR \fITIME\fR] [\fB\-\-start\-timeout\fR \fITIME\fR] [\fB\-\-stop\-timeout\fR \fITIME\fR] [\fB\-\-allow\-shell\fR] [\fB\-\-env\fR \fINAME=VALUE\fR]... [\fB\-\-env\-pass\fR \fINAME\fR]... [\fB\-\-token\-env\fR \fIVAR\fR] [\fB\-\-header\fR \fINAME: VALUE\fR]... [\fB\-\-ca\fR \fIFILE\fR] [\fB\-\-client\-cert\fR \fIFILE\fR] [\fB\-\-client\-key\fR \fIFILE\fR] [\fB\-\-search\fR \fIWHEN\fR] [\fB\-\-always\fR \fIPATTERN\fR]... [\fB\-\-fresh\fR] [\fB\-\-view\fR \fINAME\fR] [\fB\-\-as\fR \fICALLER\fR] [\fB\-\-config\fR \fIFILE\fR] [\fB\-\-json\fR] [\fB\-v|\-\-verbose\fR]... [\fB\-q|\-\-quiet\fR] [\fB\-\-color\fR \fIWHEN\fR] [\fB\-\-log\-format\fR \fIFORMAT\fR] [\fB\-h|\-\-help\fR] [\fB\-V|\-\-version\fR] [\fB\fR\fIADDRESS\fR]...
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
            \fB\-\-ca\fR \fI<FILE>\fR
            Believe peers over HTTPS whose certificates come from the authority in this file, in place of the public ones
            .TP
            \fB\-\-client\-cert\fR \fI<FILE>\fR
            Show peers over HTTPS the certificate in this file
            .TP
            \fB\-\-client\-key\fR \fI<FILE>\fR
            The file of its private key
            .TP
            \fB\-\-search\fR \fI<WHEN>\fR
            List few tools and let callers search for the others: `true`, `false`, or `auto` if there are more than 100 [default: as the view says, else false]
            .TP
            \fB\-\-always\fR \fI<PATTERN>\fR
            List these tools even so, by `<back>.<tool>`, e.g. `files.read_*`; may repeat
            .TP
            \fB\-\-fresh\fR
            Open and ask all backs at the start, whatever `toolbus.lock` has of them
            .TP
            \fB\-\-view\fR \fI<NAME>\fR
            See the tools of the config in this view of its
            .TP
            \fB\-\-as\fR \fI<CALLER>\fR
            Call as this caller of the config: in its view, within its limits
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
            toolbus \- Call any tool from anywhere, whatever protocol each side speaks
            .ie \n(.g .ds Aq \(aq
            .el .ds Aq '
            .SH SYNOPSIS
            \fBtoolbus\fR [\fB\-\-config\fR \fIFILE\fR] [\fB\-\-json\fR] [\fB\-v|\-\-verbose\fR]... [\fB\-q|\-\-quiet\fR] [\fB\-\-color\fR \fIWHEN\fR] [\fB\-\-log\-format\fR \fIFORMAT\fR] [\fB\-h|\-\-help\fR] [\fB\-V|\-\-version\fR] \fICOMMAND\fR
            .SH DESCRIPTION
            Call any tool from anywhere, whatever protocol each side speaks
            .PP
            Programs that offer functions to other programs keep inventing the same thing: start a
            process, agree that it is ready, send JSON, match the answer, survive its death. toolbus
            does that once and well, and lets any caller reach any tool.
            .PP
            A peer is named by one string, its ADDRESS:
            .PP
            .TP
            \fBbuiltin:\fR
            small tools inside toolbus itself, to try things out
            .TP
            \fBstdio:COMMAND\fR
            an oracle: COMMAND is started and spoken to over its pipes
            .TP
            \fBorchard+stdio:COMMAND\fR
            an Orchard provider, likewise
            .TP
            \fBmcp+stdio:COMMAND\fR
            an MCP server, started and spoken to likewise
            .TP
            \fBhttps://HOST/PATH\fR
            an MCP server elsewhere; `mcp+https://HOST/PATH` is the same
            .TP
            \fBmcp+sse://HOST/PATH\fR
            an MCP server that speaks the old HTTP+SSE; `mcp+sses` with TLS
            .TP
            \fBmediocre+tcp://HOST:PORT, mediocre+unix:PATH, mediocre+stdio:COMMAND\fR
            a mediocre\-rpc server
            .TP
            \fBgodex+stdio:COMMAND\fR
            a program that asks a model, started for each call
            .TP
            \fBorchestra+quic://HOST:PORT\fR
            an Orchestra hub, or a plugin
            .TP
            \fBorchestra+plugin:COMMAND\fR
            an Orchestra plugin, started as its hub would
            .TP
            \fBnats://HOST:PORT/NAME\fR
            the micro services of that name on NATS
            .TP
            \fBshell:\fR
            one tool, `exec`; off unless `\-\-allow\-shell` is given
            .TP
            \fBCOMMAND\fR
            any of the programs above: what it speaks is found out
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
            .SH COMMANDS
            .SS "Use tools"
            .TP
            \fBtoolbus\-demo(1)\fR
            Take the tour: see tools called, killed and back again
            .TP
            \fBtoolbus\-tools(1)\fR
            List the tools of the config, or of the given addresses
            .TP
            \fBtoolbus\-search(1)\fR
            Find tools of the config by words
            .TP
            \fBtoolbus\-describe(1)\fR
            Show one tool: what it does, what it takes, and a call to try
            .TP
            \fBtoolbus\-call(1)\fR
            Call one tool and print its answer
            .TP
            \fBtoolbus\-login(1)\fR
            Sign in to a server
            .TP
            \fBtoolbus\-logout(1)\fR
            Sign out of servers
            .TP
            \fBtoolbus\-auth(1)\fR
            Show where you are signed in
            .TP
            \fBtoolbus\-prompt(1)\fR
            List and get the prompts of an MCP server
            .TP
            \fBtoolbus\-resource(1)\fR
            List and read the resources of an MCP server
            .TP
            \fBtoolbus\-completions(1)\fR
            Print the completion script for a shell
            .TP
            \fBtoolbus\-man(1)\fR
            Print a manual page
            .SS "Serve tools"
            .TP
            \fBtoolbus\-init(1)\fR
            Write a `toolbus.toml` to begin with
            .TP
            \fBtoolbus\-add(1)\fR
            Add a back to the config
            .TP
            \fBtoolbus\-remove(1)\fR
            Take backs out of the config
            .TP
            \fBtoolbus\-link(1)\fR
            Give the tools of the config to editors and agents
            .TP
            \fBtoolbus\-unlink(1)\fR
            Take the tools of the config away from editors and agents
            .TP
            \fBtoolbus\-config(1)\fR
            Check the config, or print what may stand in it
            .TP
            \fBtoolbus\-doctor(1)\fR
            Start each back of the config, and say what works
            .TP
            \fBtoolbus\-lock(1)\fR
            Pin what the backs of the config show, in a file to be reviewed
            .TP
            \fBtoolbus\-serve(1)\fR
            Run every front of the config at once, until a signal
            .TP
            \fBtoolbus\-log(1)\fR
            Read the journal: filter it, follow it, sum it up
            .TP
            \fBtoolbus\-page(1)\fR
            Tell where the page of `toolbus serve` is
            .TP
            \fBtoolbus\-mcp(1)\fR
            Be an MCP server on standard input and output, or over HTTP
            .TP
            \fBtoolbus\-nats(1)\fR
            Be a micro service on NATS, or see which there are
            .TP
            \fBtoolbus\-oracle(1)\fR
            Call a Cairo oracle, or be one
            .TP
            \fBtoolbus\-provider(1)\fR
            Be an Orchard provider on standard input and output
            .TP
            \fBtoolbus\-rpc(1)\fR
            Call a mediocre\-rpc server, or be one
            .SS "Scenarios and models"
            .TP
            \fBtoolbus\-exec(1)\fR
            Ask a model, and let it use your tools
            .TP
            \fBtoolbus\-orchard(1)\fR
            Plan and run scenarios: actions of providers, in the order of their references
            .SS "For authors"
            .TP
            \fBtoolbus\-check(1)\fR
            Test a program against the rules of its protocol
            .TP
            \fBtoolbus\-decode(1)\fR
            Show what the bytes of a capture say, event by event
            .SS Orchestra
            .TP
            \fBtoolbus\-certs(1)\fR
            Show or renew the certificates of Orchestra
            .TP
            \fBtoolbus\-orchestrator(1)\fR
            Be an Orchestra hub: run the plugins of a file and route calls to them
            .TP
            \fBtoolbus\-plugin(1)\fR
            Be an Orchestra plugin: its hub calls the tools of the bus
            .TP
            \fBtoolbus\-transport\-stdio(1)\fR
            Be an MCP server on standard input and output, in front of an Orchestra hub
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
    let output = command(&["completions", "bash"])
        .stdin(Stdio::null())
        .stdout(unread_pipe())
        .output()
        .expect("the program was built for this test");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
