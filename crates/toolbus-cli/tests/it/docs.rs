//! The examples in the documents, run as a reader would run them.
//!
//! In a block ```` ```console ```` a line `$ …` is a command for `sh`, its continuations are
//! indented, and the lines up to the next command are all that it prints. A block whose fence
//! names a file, ```` ```rust square.rs ````, is that file. All blocks of a document share one
//! folder; `toolbus` and the library's examples are in PATH, and `$?` is what the command before
//! left.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, fs};

use toolbus_testkit::page::Program;
use toolbus_testkit::scratch::Scratch;

#[test]
fn readme() {
    check("README.md");
}

#[test]
fn start() {
    check("docs/start.md");
}

#[test]
fn install() {
    check("docs/install.md");
}

#[test]
fn config() {
    check("docs/config.md");
}

#[test]
fn lock() {
    check("docs/lock.md");
}

#[test]
fn search() {
    check("docs/search.md");
}

#[test]
fn views() {
    check("docs/views.md");
}

#[test]
fn journal() {
    check("docs/journal.md");
}

#[test]
fn admin() {
    check("docs/admin.md");
}

#[test]
fn live_page() {
    check("docs/page.md");
}

#[test]
fn godex() {
    check("docs/godex.md");
}

#[test]
fn mcp() {
    check("docs/mcp.md");
}

#[test]
fn oracle() {
    check("docs/oracle.md");
}

#[test]
fn mediocre() {
    check("docs/mediocre.md");
}

#[test]
fn orchard() {
    check("docs/orchard.md");
}

#[test]
fn orchestra() {
    check("docs/orchestra.md");
}

#[test]
fn author() {
    check_example("docs/author.md", "echo_text.rs");
    check_example("docs/author.md", "notes.rs");
    check("docs/author.md");
}

#[test]
fn embed() {
    check_example("docs/embed.md", "embed.rs");
    check("docs/embed.md");
}

/// The document shows this example of the library.
#[track_caller]
fn check_example(document: &str, file: &str) {
    let example = read(&format!("crates/toolbus/examples/{file}"));
    let shown = blocks(&read(document));
    let shown = shown.iter().find(|block| block.fence == format!("rust {file}"));
    assert_eq!(shown.expect("it is shown").text, example, "{document} shows another program");
}

fn read(document: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    fs::read_to_string(path).expect("the document is there")
}

#[track_caller]
fn check(document: &str) {
    let text = read(document);
    let scratch = Scratch::new();
    let mut count = 0;
    for block in blocks(&text) {
        match block.fence.split_once(' ') {
            Some((_, file)) => fs::write(scratch.path().join(file), block.text).expect("can write"),
            None if block.fence == "console" => {
                let said = replay(&scratch, &block.text);
                assert_eq!(said, block.text, "{document} shows another page than there is");
                count += 1;
            }
            None => {}
        }
    }
    assert!(count > 0, "{document} has no example");
}

/// The block as it would be if its commands were run now.
fn replay(folder: &Scratch, block: &str) -> String {
    let mut replayed = String::new();
    let mut exit = 0;
    let mut lines = block.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix("$ ") else { continue };
        let mut command = first.to_owned();
        replayed.push_str(&format!("{line}\n"));
        while command.ends_with(['\\', '|'])
            && let Some(next) = lines.next()
        {
            command.push_str(&format!("\n{next}"));
            replayed.push_str(&format!("{next}\n"));
        }
        let mut shell = Command::new("sh");
        // One stream, as in a terminal; and a command may ask how the one before went.
        shell.args(["-c", &format!("exec 2>&1\n(exit {exit})\n{command}")]);
        shell.current_dir(folder.path()).env("PATH", path()).env_remove("NO_COLOR");
        shell.env("XDG_RUNTIME_DIR", folder.path().join(".run")).env_remove("TOOLBUS_NO_DAEMON");
        let page = Program::of(shell).run();
        replayed.push_str(&page.stdout);
        exit = page.status.code().unwrap_or(-1);
    }
    replayed
}

/// With the programs that were built for this test before all others.
fn path() -> OsString {
    let program = Path::new(env!("CARGO_BIN_EXE_toolbus"));
    let folder = program.parent().expect("a program is in a folder").to_owned();
    let usual = env::var_os("PATH").unwrap_or_default();
    let all = [examples().to_owned(), folder].into_iter().chain(env::split_paths(&usual));
    env::join_paths(all).expect("folders of cargo have no colons")
}

/// The folder of the library's examples, which are built once.
///
/// Cargo builds the examples of a package for the tests of that package alone: with
/// `cargo test -p toolbus-cli` they would be missing, or be those of an older source. Where
/// every package is tested they are there already, and cargo finds nothing to do.
pub(crate) fn examples() -> &'static Path {
    static EXAMPLES: OnceLock<PathBuf> = OnceLock::new();
    EXAMPLES.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "build",
            "--workspace",
            "--examples",
            "--message-format=json-render-diagnostics",
        ]);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null());
        // What cargo tells a test of its package would make build scripts that look at such
        // variables run again, here and the next time.
        for (name, _) in env::vars_os() {
            if name
                .to_str()
                .is_some_and(|name| OF_THIS_PACKAGE.iter().any(|of| name.starts_with(of)))
            {
                cargo.env_remove(name);
            }
        }
        let built = cargo.output().expect("the cargo that built this test can be run");
        let (said, errors) = (text(&built.stdout), text(&built.stderr));
        assert!(built.status.success(), "cannot build the examples: {errors}");
        let program = said.lines().find_map(program).expect("the library has an example");
        program.parent().expect("a program is in a folder").to_owned()
    })
}

/// How the variables begin that cargo sets for the package under test.
const OF_THIS_PACKAGE: [&str; 4] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_PRIMARY_"];

/// The program of an example that a line of cargo's JSON tells of.
fn program(line: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let is_example = message["target"]["kind"][0] == "example";
    message["executable"].as_str().filter(|_| is_example).map(PathBuf::from)
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

struct Block {
    fence: String,
    text: String,
}

fn blocks(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        if let Some(fence) = line.strip_prefix("```") {
            let inside = lines.by_ref().take_while(|line| *line != "```");
            let text = inside.map(|line| format!("{line}\n")).collect();
            blocks.push(Block { fence: fence.to_owned(), text });
        }
    }
    blocks
}
