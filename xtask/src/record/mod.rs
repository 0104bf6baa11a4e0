//! `cargo xtask record`: what the real program shows on a terminal, as pictures that move.
//!
//! `docs/recordings/NAME.txt` is what is typed, `docs/recordings/NAME.svg` what comes of it. The
//! commands run as they are, with the toolbus that cargo builds before all else in PATH; only
//! the typing is played, and where nothing happens for long the picture does not wait.

mod screen;
mod script;
mod svg;
mod terminal;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use self::screen::Screen;
use self::script::{Script, Step};
use self::svg::Film;
use self::terminal::Terminal;

/// The terminal's size.
const COLUMNS: usize = 96;
const ROWS: usize = 26;

/// How long the keys of one picture take, and how many there are.
const KEYS: (usize, Duration) = (6, Duration::from_millis(90));
/// Time to read what was typed before it runs.
const BEFORE: Duration = Duration::from_millis(400);
/// Time to read what came.
const AFTER: Duration = Duration::from_millis(1800);
/// What takes longer than this is shown as taking just this.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// How long the end is shown.
const END: Duration = Duration::from_secs(4);
/// How long all of it takes at most: a reader of the page is in a hurry.
const TOTAL_MAX: Duration = Duration::from_secs(25);

pub(crate) fn run(root: &Path, names: &[&str]) -> Result<(), String> {
    let folder = root.join("docs/recordings");
    let scripts = match names {
        [] => scripts_in(&folder)?,
        names => names.iter().map(|name| folder.join(format!("{name}.txt"))).collect(),
    };
    let programs = built(root)?;
    for path in scripts {
        let text = read(&path)?;
        let script = Script::parse(&text).map_err(|why| format!("error: {path:?}: {why}"))?;
        let film = filmed(&script, &programs)?;
        let into = path.with_extension("svg");
        fs::write(&into, film.to_svg(&script.title))
            .map_err(|error| format!("error: cannot write {into:?}: {error}"))?;
        println!("{}: {} pictures", into.display(), film.len());
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("error: cannot read {path:?}: {error}"))
}

fn scripts_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries =
        fs::read_dir(folder).map_err(|error| format!("error: cannot read {folder:?}: {error}"))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut scripts: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|is| is == "txt")).collect();
    scripts.sort();
    Ok(scripts)
}

/// The folder of toolbus, which is built if it is old.
fn built(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--workspace", "--bin", "toolbus"])
        .current_dir(root)
        .status()
        .map_err(|error| format!("error: cannot start cargo: {error}"))?;
    if !built.success() {
        return Err("error: toolbus could not be built".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    fs::canonicalize(target.join("debug"))
        .map_err(|error| format!("error: cannot find what was built: {error}"))
}

/// Plays a script on a terminal and keeps every picture of it.
fn filmed(script: &Script, programs: &Path) -> Result<Film, String> {
    let mut terminal = Terminal::open(COLUMNS, ROWS, programs)?;
    let (mut screen, mut film) = (Screen::new(COLUMNS, ROWS), Film::default());
    // It begins with something to see, and is not typed up to the first command.
    let mut has_begun = false;
    for step in &script.steps {
        match step {
            Step::Hidden(command) => {
                terminal.run(command, |_, _| ())?;
            }
            Step::Meanwhile(command) => {
                terminal.run(command, |waited, bytes| {
                    film.add(waited.min(WAIT_MAX), &screen);
                    screen.feed(bytes);
                })?;
                film.add(AFTER, &screen);
            }
            Step::Pause(time) => film.add(*time, &screen),
            Step::Typed { line, command } => {
                screen.feed("\x1b[1;32m$\x1b[0m ".as_bytes());
                let keys: Vec<char> = line.replace('\n', "\r\n").chars().collect();
                for keys in keys.chunks(KEYS.0) {
                    if has_begun {
                        film.add(KEYS.1, &screen);
                    }
                    screen.feed(String::from_iter(keys).as_bytes());
                }
                has_begun |= command.is_some();
                if has_begun {
                    film.add(BEFORE, &screen);
                }
                screen.feed(b"\r\n");
                if let Some(command) = command {
                    terminal.run(command, |waited, bytes| {
                        film.add(waited.min(WAIT_MAX), &screen);
                        screen.feed(bytes);
                    })?;
                    film.add(AFTER, &screen);
                }
            }
        }
    }
    screen.feed("\x1b[1;32m$\x1b[0m ".as_bytes());
    film.add(END, &screen);
    film.fit(TOTAL_MAX);
    Ok(film)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording is of the script that lies beside it, and the README shows it.
    #[test]
    fn recordings_are_of_their_scripts() {
        let root = crate::root();
        let readme = read(&root.join("README.md")).unwrap();
        let scripts = scripts_in(&root.join("docs/recordings")).unwrap();
        assert!(!scripts.is_empty());
        for path in scripts {
            let script = Script::parse(&read(&path).unwrap()).unwrap();
            let shown = read(&path.with_extension("svg")).unwrap();
            for step in &script.steps {
                let Step::Typed { line, .. } = step else { continue };
                let line = line.lines().last().unwrap().trim();
                // The last of the line's pictures is the whole of it, or its end if it was wrapped.
                let end: String =
                    line.chars().skip(line.chars().count() / (COLUMNS - 2) * COLUMNS).collect();
                assert!(
                    shown.contains(&svg::escaped(end.trim())),
                    "{path:?} does not show `{line}`"
                );
            }
            let seconds = shown.split_once("animation:play ").and_then(|(_, rest)| {
                rest.split_once('s').and_then(|(seconds, _)| seconds.parse().ok())
            });
            assert!(seconds.is_some_and(|seconds: f32| seconds <= 25.0), "{path:?}: {seconds:?}");
            assert!(!shown.contains("warning"), "{path:?} shows a warning");
            let name = path.with_extension("svg");
            let name = name.file_name().unwrap().to_str().unwrap();
            assert!(readme.contains(&format!("docs/recordings/{name}")), "the README lacks {name}");
        }
    }
}
