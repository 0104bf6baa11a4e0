//! The tools of a peer as completions need them, and where the last list of each peer is kept.
//!
//! A list that is kept answers at once; if it is not from just now, a process of our own asks the
//! peer again behind the user's back. Kept are names, and what people are told of them: no
//! address, no argument, and nothing that is known to be secret.

use std::borrow::Cow;
use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use toolbus::peer::settings::Settings;
use toolbus_engine::secrets::masked;
use toolbus_proto::json::{Json, edit};
use toolbus_proto::tool::ToolSpec;

use crate::args::Globals;
use crate::args::peer::DaemonArgs;
use crate::failed::Failed;
use crate::peers::Peers;
use crate::render;
use crate::schema::Parameters;
use crate::{config, runtime, stdio};

/// How long a user is let wait for a list.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a peer has to list its tools for the next time. One that is downloaded first takes
/// long.
const START_MAX: Duration = Duration::from_secs(60);
/// A list is as good as new for so long.
const FRESH: Duration = Duration::from_secs(30);
/// How many peers' lists are kept; the oldest make room.
const LISTS_MAX: usize = 64;
/// How large a list may be that is kept.
const LIST_BYTES_MAX: u64 = 512 * 1024;
/// What is kept of a description.
const DESCRIPTION_CHARS_MAX: usize = 200;
/// The first line of each file.
const FORM: &str = "tools 1";

/// A tool, as much of it as a shell shows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) arguments: Vec<Argument>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) name: String,
    /// Its type, whether it is required, and what it is for.
    pub(super) help: String,
    /// All that it may be, if that is a list.
    pub(super) values: Vec<String>,
}

/// Whose tools are wanted: an address's, or those of the backs of a config that a tool of this
/// name can belong to.
pub(super) struct Question<'a> {
    pub(super) config: Option<PathBuf>,
    pub(super) address: Option<&'a str>,
    pub(super) tool: Option<&'a str>,
}

impl Question<'_> {
    /// The tools, as soon as they can be had; none if that is not soon.
    pub(super) fn tools(&self) -> Vec<Listed> {
        // Another program that we are a guest of cannot be started to be us.
        let Some(kept) = self.kept().filter(|_| !stdio::is_guest()) else {
            return self.ask(PATIENCE).unwrap_or_default();
        };
        match kept.read() {
            Some((tools, age)) => {
                if FRESH < age {
                    let _ = self.ask_again();
                }
                tools
            }
            None => {
                // A peer that is late for this line has listed its tools for the next one.
                if let Ok(asking) = self.ask_again() {
                    let _ = asking.recv_timeout(PATIENCE);
                }
                kept.read().map(|(tools, _)| tools).unwrap_or_default()
            }
        }
    }

    /// Asks the peer, and keeps what it lists.
    pub(super) fn refresh(&self) -> Result<(), Failed> {
        // What ends the user's shell or its line must not end this.
        let _ = rustix::process::setsid();
        // One at a time is enough.
        if let Some(kept) = self.kept()
            && let Some(next) = kept.begin()
            && let Some(tools) = self.ask(START_MAX)
            && let Err(error) = kept.write(next, &tools)
        {
            tracing::debug!("cannot keep the list: {error}");
        }
        // To the one who waits, if there still is one.
        let _ = render::print_own("done\n");
        Ok(())
    }

    /// Starts a process that asks the peer. What comes says that it is done.
    fn ask_again(&self) -> io::Result<mpsc::Receiver<()>> {
        let config = self.config.as_deref().unwrap_or(Path::new(""));
        let mut asking = Command::new(env::current_exe()?)
            .args(["complete", super::REFRESH])
            .arg(config)
            .args([self.address.unwrap_or_default(), self.tool.unwrap_or_default()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (tell, told) = mpsc::channel();
        let stdout = asking.stdout.take();
        thread::spawn(move || {
            let _ = stdout.map(|mut stdout| stdout.read(&mut [0]));
            let _ = tell.send(());
        });
        Ok(told)
    }

    /// Asks the peer itself; `None` if it has not listed them after so long.
    fn ask(&self, patience: Duration) -> Option<Vec<Listed>> {
        let globals = Globals::quiet(self.config.clone());
        let settings = Settings { start_timeout: Some(patience), ..Settings::default() };
        let addresses: Vec<&str> = self.address.into_iter().collect();
        let peers = Peers::of(&addresses, &globals, settings).ok()?;
        let peers = peers.served_if(DaemonArgs::default().may_be_asked());
        let peers = match self.tool {
            Some(tool) => peers.only_for_tool(tool),
            None => peers,
        };
        let listed = peers.meet(async |bus| {
            let listed = tokio::time::timeout(patience, bus.list()).await.unwrap_or_default();
            let answered =
                listed.iter().filter_map(|listed| Some((listed, listed.tools.as_ref().ok()?)));
            let tools: Vec<_> = answered
                .map(|(listed, tools)| {
                    let named = |spec: &ToolSpec| Listed {
                        name: bus.name_of(&listed.back, &spec.name).to_string(),
                        ..Listed::of(spec)
                    };
                    tools.iter().map(named).collect::<Vec<_>>()
                })
                .collect();
            bus.hurry();
            Ok(tools)
        });
        let listed = listed.ok().filter(|listed| !listed.is_empty())?;
        Some(listed.into_iter().flatten().collect())
    }

    /// Where the list is kept; `None` where nothing can be.
    fn kept(&self) -> Option<Kept> {
        let folder = runtime::cache()?.join("tools");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
        let mut hasher = DefaultHasher::new();
        env::current_dir().ok().hash(&mut hasher);
        match self.address {
            Some(address) => address.hash(&mut hasher),
            None => {
                // Another config may have the same names for other peers.
                let found = config::read(self.config.as_deref()).ok()??;
                found.path.canonicalize().ok()?.hash(&mut hasher);
                let of = self.tool.and_then(|tool| tool.split_once('.')).map(|(back, _)| back);
                let backs = &found.config.backs;
                let of = of.filter(|of| backs.iter().any(|back| back.name == *of));
                for back in backs.iter().filter(|back| of.is_none_or(|of| back.name == of)) {
                    (&back.name, back.address.to_string()).hash(&mut hasher);
                }
            }
        }
        Some(Kept { path: folder.join(format!("{:016x}", hasher.finish())) })
    }
}

impl Listed {
    fn of(spec: &ToolSpec) -> Listed {
        let argument = |parameter: &crate::schema::Parameter<'_>| {
            let required = if parameter.required { "required" } else { "" };
            let of = [parameter.type_name(), required.to_owned()];
            let of: Vec<_> = of.into_iter().filter(|text| !text.is_empty()).collect();
            let help = format!("{} {}", of.join(", "), parameter.description().unwrap_or_default());
            let values = parameter.values();
            let values = match values.is_empty() && parameter.type_name() == "boolean" {
                true => vec!["true", "false"],
                false => values,
            };
            let shown = |value: &str| Some(Json::parse(value.to_owned()).ok()?.shown());
            Argument {
                name: parameter.name.to_string(),
                help: told(&help),
                values: values.into_iter().filter_map(shown).collect(),
            }
        };
        Listed {
            name: spec.name.to_string(),
            description: told(spec.description.as_deref().unwrap_or_default()),
            arguments: Parameters::of(&spec.input).list.iter().map(argument).collect(),
        }
    }

    fn to_json(&self) -> String {
        let argument = |argument: &Argument| {
            let Argument { name, help, values } = argument;
            let (name, help, values) = (Json::of(name), Json::of(help), Json::of(values));
            format!("{{\"name\":{name},\"help\":{help},\"values\":{values}}}")
        };
        let arguments: Vec<_> = self.arguments.iter().map(argument).collect();
        let (name, description) = (Json::of(&self.name), Json::of(&self.description));
        let arguments = arguments.join(",");
        format!("{{\"name\":{name},\"description\":{description},\"arguments\":[{arguments}]}}")
    }

    fn of_json(line: &str) -> Option<Listed> {
        let json = Json::parse(line.to_owned()).ok()?;
        let text = |object: &str, name| edit::text(object, name).map(Cow::into_owned);
        let argument = |object: &str| {
            let values = edit::elements(edit::member(object, "values")?);
            let value = |value: &str| Json::parse(value.to_owned()).ok()?.string();
            Some(Argument {
                name: text(object, "name")?,
                help: text(object, "help")?,
                values: values.map(value).collect::<Option<_>>()?,
            })
        };
        let tool = json.as_str();
        Some(Listed {
            name: text(tool, "name")?,
            description: text(tool, "description")?,
            arguments: edit::elements(edit::member(tool, "arguments")?)
                .map(argument)
                .collect::<Option<_>>()?,
        })
    }
}

/// What fits beside a name: the first line, without secrets.
fn told(description: &str) -> String {
    let line = description.trim().lines().next().unwrap_or_default();
    masked(line).chars().take(DESCRIPTION_CHARS_MAX).collect()
}

/// The file with the list of one peer.
struct Kept {
    path: PathBuf,
}

impl Kept {
    /// The list, and how old it is. A file that is not whole is none.
    fn read(&self) -> Option<(Vec<Listed>, Duration)> {
        let file = File::open(&self.path).ok()?;
        let written = file.metadata().and_then(|file| file.modified()).ok()?;
        let mut text = String::new();
        file.take(LIST_BYTES_MAX).read_to_string(&mut text).ok()?;
        let mut lines = text.lines();
        if lines.next() != Some(FORM) {
            return None;
        }
        let tools = lines.map(Listed::of_json).collect::<Option<_>>()?;
        // One from the future is not to be trusted for ever.
        let age = SystemTime::now().duration_since(written).unwrap_or(Duration::MAX);
        Some((tools, age))
    }

    /// The file that takes this one's place; `None` if another process is about to write it.
    fn begin(&self) -> Option<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let next = options.open(self.next()).ok()?;
        next.try_lock().ok()?;
        Some(next)
    }

    fn write(&self, mut next: File, tools: &[Listed]) -> io::Result<()> {
        let lines: String = tools.iter().map(|tool| tool.to_json() + "\n").collect();
        let text = format!("{FORM}\n{lines}");
        if LIST_BYTES_MAX <= text.len() as u64 {
            return fs::remove_file(self.next());
        }
        next.set_len(0)?;
        next.write_all(text.as_bytes())?;
        fs::rename(self.next(), &self.path)?;
        self.make_room()
    }

    fn next(&self) -> PathBuf {
        self.path.with_extension("next")
    }

    /// Removes the oldest lists where there are too many.
    fn make_room(&self) -> io::Result<()> {
        let Some(folder) = self.path.parent() else { return Ok(()) };
        let mut files = Vec::new();
        for file in fs::read_dir(folder)? {
            let file = file?;
            files.push((file.metadata()?.modified()?, file.path()));
        }
        files.sort();
        let over = files.len().saturating_sub(LISTS_MAX);
        files[..over].iter().try_for_each(|(_, path)| fs::remove_file(path))
    }
}

#[cfg(test)]
mod tests {
    use toolbus_testkit::scratch::Scratch;

    use super::*;

    fn tools() -> Vec<Listed> {
        let argument = Argument {
            name: "tone".to_owned(),
            help: "string, required How \"it\" sounds".to_owned(),
            values: vec!["warm".to_owned(), "cold".to_owned()],
        };
        let tool = |name: &str, arguments| Listed {
            name: name.to_owned(),
            description: "Says it".to_owned(),
            arguments,
        };
        vec![tool("say", vec![argument]), tool("stop", Vec::new())]
    }

    fn kept(name: &str) -> (Scratch, Kept) {
        let folder = Scratch::new();
        let path = folder.path().join(name);
        (folder, Kept { path })
    }

    #[test]
    fn what_is_kept_is_read_and_is_for_the_user_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let (folder, kept) = kept("1");
        assert!(kept.read().is_none());
        kept.write(kept.begin().unwrap(), &tools()).unwrap();
        assert_eq!(kept.read().unwrap().0, tools());
        kept.write(kept.begin().unwrap(), &tools()[1..]).unwrap();
        assert_eq!(kept.read().unwrap().0, tools()[1..]);
        let mode = fs::metadata(&kept.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn two_do_not_ask_at_once() {
        let (_folder, kept) = kept("1");
        let first = kept.begin().unwrap();
        assert!(kept.begin().is_none());
        kept.write(first, &tools()).unwrap();
        assert!(kept.begin().is_some());
    }

    #[test]
    fn a_file_that_is_broken_at_any_byte_is_ignored_or_whole() {
        let (_folder, kept) = kept("1");
        kept.write(kept.begin().unwrap(), &tools()).unwrap();
        let whole = fs::read(&kept.path).unwrap();
        for end in 0..whole.len() {
            fs::write(&kept.path, &whole[..end]).unwrap();
            // Cut between two lines, it is a shorter list.
            let read = kept.read().map(|(tools, _)| tools);
            assert!(read.is_none_or(|read| tools().starts_with(&read)), "cut at {end}");
        }
        fs::write(&kept.path, b"\xff\xfe tools 1\n").unwrap();
        assert!(kept.read().is_none());
        fs::write(&kept.path, "tools 2\n").unwrap();
        assert!(kept.read().is_none());
    }

    #[test]
    fn the_oldest_make_room() {
        let (folder, kept) = kept("new");
        for at in 0..LISTS_MAX as u64 + 3 {
            let file = File::create(folder.path().join(format!("{at}"))).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(at)).unwrap();
        }
        kept.write(kept.begin().unwrap(), &tools()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), LISTS_MAX);
        assert!(kept.read().is_some() && !folder.path().join("3").exists());
        assert!(folder.path().join("4").exists());
    }

    #[test]
    fn of_a_description_the_beginning_is_kept() {
        assert_eq!(told("\n Adds.\nAnd more."), "Adds.");
        assert_eq!(told(&"x".repeat(1000)).len(), DESCRIPTION_CHARS_MAX);
    }
}
