//! `plugins.yaml`: what a hub runs (`docs/protocols/orchestra.md` 7).
//!
//! The file is shared with other programs, so that a key we do not know is only warned of. What
//! is wrong is told with its line and its key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;
use toolbus_proto::orchestra::hub::{HubSettings, PluginConfig};

use super::yaml::{self, Key, Node, Value};
use crate::did_you_mean::nearest;
use crate::units;
use crate::wire::orchestra::HostPort;

const HUB_KEYS: [&str; 7] = [
    "listen_addr",
    "tcp_addr",
    "certs_dir",
    "allow_anonymous",
    "call_timeout",
    "health_interval",
    "plugins",
];
const PLUGIN_KEYS: [&str; 11] = [
    "id",
    "binary",
    "enabled",
    "args",
    "env",
    "config",
    "provides_storage",
    "provides_ai",
    "depends_on",
    "start_timeout",
    "restart",
];

/// What a hub is to do.
#[derive(Debug, Clone)]
pub struct HubConfig {
    /// Where it listens.
    pub listen_addr: HostPort,
    /// Where it listens without TLS, if it does.
    pub tcp_addr: Option<HostPort>,
    /// Where its certificates are.
    pub certs_dir: PathBuf,
    /// May callers come without a certificate?
    pub allow_anonymous: bool,
    /// What its rules need to know.
    pub settings: HubSettings,
    /// In the order of the file.
    pub plugins: Vec<PluginEntry>,
    /// What people should know about the file.
    pub warnings: Vec<String>,
}

/// One plugin of the file.
#[derive(Debug, Clone)]
pub struct PluginEntry {
    /// What the rules need to know.
    pub config: PluginConfig,
    /// Its program, as it is written.
    pub binary: String,
    /// The path of its program, or a name to be looked up in PATH.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Added to our environment.
    pub env: Vec<(String, String)>,
}

/// What is wrong with the file, and where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct HubConfigError {
    /// Counted from one.
    pub line: usize,
    /// What is wrong there, with the key.
    pub problem: String,
    /// What the reader can do about it.
    pub hint: Option<String>,
}

impl HubConfig {
    /// Reads the text of a file in `folder`, to which programs are relative.
    pub fn read(text: &str, folder: &Path) -> Result<HubConfig, HubConfigError> {
        let root = yaml::read(text).map_err(|error| HubConfigError {
            line: error.line,
            problem: error.why,
            hint: None,
        })?;
        let mut config = HubConfig {
            listen_addr: HostPort::new("localhost", 50100),
            tcp_addr: None,
            certs_dir: PathBuf::from(crate::wire::orchestra::certificates::FOLDER_DEFAULT),
            allow_anonymous: false,
            settings: HubSettings::default(),
            plugins: Vec::new(),
            warnings: Vec::new(),
        };
        let members = match &root.value {
            Value::Map(members) => members.as_slice(),
            Value::Null => &[],
            _ => return wrong(root.line, "the file", "keys and values", None),
        };
        let (mut lines, mut depends_on_lines) = (Vec::new(), Vec::new());
        for (key, node) in members {
            let at = At { key: key.name.clone(), node };
            match key.name.as_str() {
                _ if matches!(node.value, Value::Null) => {}
                "listen_addr" => config.listen_addr = at.address()?,
                "tcp_addr" => config.tcp_addr = Some(at.address()?),
                "certs_dir" => config.certs_dir = PathBuf::from(at.text()?),
                "allow_anonymous" => config.allow_anonymous = at.boolean()?,
                "call_timeout" => config.settings.call_timeout = at.seconds()?,
                "health_interval" => config.settings.health_interval = at.seconds_or_never()?,
                "plugins" => {
                    for (index, node) in at.list()?.iter().enumerate() {
                        lines.push(node.line);
                        depends_on_lines.push(node.line_of("depends_on"));
                        let entry = plugin(index, node, folder, &mut config.warnings)?;
                        config.plugins.push(entry);
                    }
                }
                _ => config.warnings.push(unknown(key, &key.name, &HUB_KEYS)),
            }
        }
        check_ids(&config.plugins, &lines)?;
        check_dependencies(&config.plugins, &depends_on_lines)?;
        Ok(config)
    }
}

fn plugin(
    index: usize,
    node: &Node,
    folder: &Path,
    warnings: &mut Vec<String>,
) -> Result<PluginEntry, HubConfigError> {
    let place = format!("plugins[{index}]");
    let Value::Map(members) = &node.value else {
        return wrong(node.line, &place, "a plugin with `id` and `binary`", None);
    };
    let mut config = PluginConfig::new("");
    let (mut binary, mut args, mut env) = (String::new(), Vec::new(), Vec::new());
    for (key, node) in members {
        let at = At { key: format!("{place}.{}", key.name), node };
        match key.name.as_str() {
            _ if matches!(node.value, Value::Null) => {}
            "id" => config.id = at.id()?,
            "binary" => binary = at.text()?,
            "enabled" => (config.is_enabled, config.says_enabled) = (at.boolean()?, true),
            "args" => args = at.texts()?,
            "env" => env = at.pairs()?.into_iter().collect(),
            "config" => config.config = at.pairs()?,
            "provides_storage" => config.provides_storage = at.texts()?,
            "provides_ai" => config.provides_ai = at.texts()?,
            "depends_on" => config.depends_on = at.texts()?,
            "start_timeout" => config.start_timeout = at.seconds()?,
            "restart" => config.restarts = at.restart()?,
            _ => warnings.push(unknown(key, &at.key, &PLUGIN_KEYS)),
        }
    }
    for (name, value) in [("id", &config.id), ("binary", &binary)] {
        if value.is_empty() {
            let problem = format!("`{place}.{name}` is missing");
            // What is meant to be it may stand there, and is not read.
            let meant = members.iter().map(|(key, _)| key).find(|key| {
                !PLUGIN_KEYS.contains(&key.name.as_str())
                    && nearest(&key.name, PLUGIN_KEYS) == Some(name)
            });
            let hint = meant.map(|Key { line, name: word }| {
                format!("line {line} has `{word}`; did you mean `{name}`?")
            });
            return Err(HubConfigError { line: node.line, problem, hint });
        }
    }
    let workspace = format!("--workspace={}", folder.display());
    for arg in &mut args {
        if arg == "--workspace=." {
            arg.clone_from(&workspace);
        }
    }
    let program = program(&binary, folder);
    Ok(PluginEntry { config, binary, program, args, env })
}

/// Relative to the folder of the file; a bare name that is not there is looked up in PATH.
fn program(binary: &str, folder: &Path) -> String {
    let there = folder.join(binary);
    match binary.contains('/') || there.is_file() {
        // By components, so that `./x` is not shown as `/folder/./x`.
        true => there.components().collect::<PathBuf>().to_string_lossy().into_owned(),
        false => binary.to_owned(),
    }
}

fn check_ids(plugins: &[PluginEntry], lines: &[usize]) -> Result<(), HubConfigError> {
    for (index, plugin) in plugins.iter().enumerate() {
        let id = &plugin.config.id;
        if let Some(first) = plugins[..index].iter().position(|other| other.config.id == *id) {
            let problem = format!(
                "`plugins[{index}].id`: \"{id}\" is the id of two plugins, the other is on line {}",
                lines[first]
            );
            return Err(HubConfigError { line: lines[index], problem, hint: None });
        }
    }
    Ok(())
}

fn check_dependencies(plugins: &[PluginEntry], lines: &[usize]) -> Result<(), HubConfigError> {
    let find = |id: &str| plugins.iter().position(|plugin| plugin.config.id == id);
    for (index, plugin) in plugins.iter().enumerate() {
        for id in &plugin.config.depends_on {
            if find(id).is_none() {
                // It cannot wait for itself.
                let others = plugins.iter().filter(|other| other.config.id != plugin.config.id);
                let ids = others.map(|other| other.config.id.as_str());
                let hint = nearest(id, ids).map(|near| format!("did you mean \"{near}\"?"));
                let problem = format!("`plugins[{index}].depends_on`: there is no plugin \"{id}\"");
                return Err(HubConfigError { line: lines[index], problem, hint });
            }
        }
    }
    // Whoever depends only on those who are left out can be left out: what remains is in circles.
    let mut left: Vec<usize> = (0..plugins.len()).collect();
    loop {
        let waits = |index: &usize| {
            let depends_on = &plugins[*index].config.depends_on;
            depends_on.iter().any(|id| find(id).is_some_and(|other| left.contains(&other)))
        };
        let waiting: Vec<usize> = left.iter().copied().filter(waits).collect();
        if waiting.len() == left.len() {
            break;
        }
        left = waiting;
    }
    match left.first() {
        None => Ok(()),
        Some(&index) => {
            let ids: Vec<_> =
                left.iter().map(|index| format!("\"{}\"", plugins[*index].config.id)).collect();
            let problem = format!(
                "`plugins[{index}].depends_on`: {} wait for each other in a circle",
                ids.join(", ")
            );
            Err(HubConfigError { line: lines[index], problem, hint: None })
        }
    }
}

fn unknown(key: &Key, name: &str, known: &[&'static str]) -> String {
    let Key { line, name: word } = key;
    let meant = match nearest(word, known.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    };
    format!("line {line}: there is no key `{name}`{meant}")
}

fn wrong<T>(
    line: usize,
    key: &str,
    expected: &str,
    hint: Option<String>,
) -> Result<T, HubConfigError> {
    Err(HubConfigError { line, problem: format!("`{key}` must be {expected}"), hint })
}

/// A value, and the whole name of its key.
struct At<'a> {
    key: String,
    node: &'a Node,
}

impl At<'_> {
    fn wrong<T>(&self, expected: &str) -> Result<T, HubConfigError> {
        wrong(self.node.line, &self.key, expected, None)
    }

    fn text(&self) -> Result<String, HubConfigError> {
        match &self.node.value {
            Value::Scalar { text, .. } => Ok(text.clone()),
            _ => self.wrong("a text"),
        }
    }

    /// Ids become names of certificates, and so of files.
    fn id(&self) -> Result<String, HubConfigError> {
        let id = self.text()?;
        let is_fit = |c: char| c.is_ascii_alphanumeric() || "-_.+@".contains(c);
        match id.chars().all(is_fit) && !id.starts_with('.') && id.len() <= 150 {
            true => Ok(id),
            false => self.wrong("made of letters, digits, `-`, `_` and `.`, and begin with no dot"),
        }
    }

    fn boolean(&self) -> Result<bool, HubConfigError> {
        match &self.node.value {
            Value::Scalar { text, is_quoted: false } => match text.to_lowercase().as_str() {
                "true" | "yes" | "on" => Ok(true),
                "false" | "no" | "off" => Ok(false),
                _ => self.wrong("`true` or `false`"),
            },
            _ => self.wrong("`true` or `false`"),
        }
    }

    fn seconds(&self) -> Result<Duration, HubConfigError> {
        let text = self.text()?;
        units::duration(&text).map_err(|why| HubConfigError {
            line: self.node.line,
            problem: format!("`{}`: {why}", self.key),
            hint: None,
        })
    }

    fn seconds_or_never(&self) -> Result<Option<Duration>, HubConfigError> {
        match self.text()?.parse::<f64>() {
            Ok(0.0) => Ok(None),
            _ => self.seconds().map(Some),
        }
    }

    fn address(&self) -> Result<HostPort, HubConfigError> {
        let text = self.text()?;
        text.parse().or_else(|_| self.wrong("`HOST:PORT`"))
    }

    fn list(&self) -> Result<&[Node], HubConfigError> {
        match &self.node.value {
            Value::List(list) => Ok(list),
            _ => self.wrong("a list"),
        }
    }

    fn texts(&self) -> Result<Vec<String>, HubConfigError> {
        let item = |(index, node)| At { key: format!("{}[{index}]", self.key), node }.text();
        self.list()?.iter().enumerate().map(item).collect()
    }

    fn pairs(&self) -> Result<BTreeMap<String, String>, HubConfigError> {
        let Value::Map(members) = &self.node.value else {
            return self.wrong("names and texts");
        };
        let pair = |(key, node): &(Key, Node)| {
            let at = At { key: format!("{}.{}", self.key, key.name), node };
            let text = if let Value::Null = node.value { String::new() } else { at.text()? };
            Ok((key.name.clone(), text))
        };
        members.iter().map(pair).collect()
    }

    fn restart(&self) -> Result<bool, HubConfigError> {
        match self.text()?.as_str() {
            "always" => Ok(true),
            "never" => Ok(false),
            _ => self.wrong("`always` or `never`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<HubConfig, String> {
        HubConfig::read(text, Path::new("/project")).map_err(|error| match &error.hint {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        })
    }

    #[test]
    fn a_whole_file() {
        let config = read(
            r#"
listen_addr: "127.0.0.1:0"
tcp_addr: 127.0.0.1:50101
certs_dir: ./certs
call_timeout: 2.5
health_interval: 0
plugins:
  - id: tools.peer
    binary: ./bin/peer
    enabled: true
    args: [--workspace=., -v]
    env: {A: 1}
    config:
      mode: test
      depth: 3
      loud: true
      empty:
    depends_on: [storage]
    start_timeout: 3
    restart: never
  - id: storage
    binary: sh
    provides_storage: [markdown]
"#,
        )
        .unwrap();
        assert_eq!(config.listen_addr.to_string(), "127.0.0.1:0");
        assert_eq!(config.settings.call_timeout, Duration::from_millis(2500));
        assert_eq!(config.settings.health_interval, None);
        let [peer, storage] = &config.plugins[..] else { panic!("two plugins") };
        assert_eq!(peer.program, "/project/bin/peer");
        assert_eq!(peer.args, ["--workspace=/project", "-v"]);
        assert_eq!(peer.env, [("A".to_owned(), "1".to_owned())]);
        let pairs: Vec<_> = peer.config.config.iter().map(|(a, b)| format!("{a}={b}")).collect();
        assert_eq!(pairs, ["depth=3", "empty=", "loud=true", "mode=test"]);
        assert!(!peer.config.restarts && peer.config.says_enabled);
        assert_eq!(storage.program, "sh");
        assert!(storage.config.is_enabled && !storage.config.says_enabled);
        assert!(config.warnings.is_empty());
        assert!(read("").unwrap().plugins.is_empty());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_its_key() {
        for (text, expected) in [
            ("plugins:\n  - id: a\n", "line 2: `plugins[0].binary` is missing"),
            (
                "plugins:\n  - id: a\n    binray: x",
                "line 2: `plugins[0].binary` is missing; line 3 has `binray`; did you mean `binary`?",
            ),
            (
                "plugins:\n  - id: a\n    binary: x\n    depends_on: [b]",
                "line 4: `plugins[0].depends_on`: there is no plugin \"b\"",
            ),
            ("plugins: 3", "line 1: `plugins` must be a list"),
            ("\nallow_anonymous: maybe", "line 2: `allow_anonymous` must be `true` or `false`"),
            ("listen_addr: here", "line 1: `listen_addr` must be `HOST:PORT`"),
            (
                "call_timeout: 0",
                "line 1: `call_timeout`: `0` is no time at all: it must be more than zero",
            ),
            ("a: 1\na: 2", "line 2: the key `a` is there twice"),
            (
                "plugins:\n- {id: a, binary: x}\n- {id: a, binary: y}",
                "line 3: `plugins[1].id`: \"a\" is the id of two plugins, the other is on line 2",
            ),
            (
                "plugins:\n- {id: abc, binary: x}\n- {id: b, binary: y, depends_on: [abd]}",
                "line 3: `plugins[1].depends_on`: there is no plugin \"abd\"; did you mean \"abc\"?",
            ),
            (
                "plugins:\n- {id: a, binary: x, depends_on: [b]}\n- {id: b, binary: y, depends_on: [a]}\n- {id: c, binary: z}",
                "line 2: `plugins[0].depends_on`: \"a\", \"b\" wait for each other in a circle",
            ),
            (
                "plugins:\n- {id: ../x, binary: x}",
                "line 2: `plugins[0].id` must be made of letters, digits, `-`, `_` and `.`, and begin with no dot",
            ),
            (
                "plugins:\n- {id: a, binary: x, restart: often}",
                "line 2: `plugins[0].restart` must be `always` or `never`",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), expected);
        }
        let error = read("plugins: [").unwrap_err();
        assert!(error.starts_with("line ") && error.contains("not YAML"), "{error}");
    }

    #[test]
    fn keys_of_other_programs_are_only_warned_of() {
        let config = read("theme: dark\nlisten_adr: x\nplugins:\n- id: a\n  binary: x\n  arg: 1");
        assert_eq!(
            config.unwrap().warnings,
            [
                "line 1: there is no key `theme`",
                "line 2: there is no key `listen_adr`; did you mean `listen_addr`?",
                "line 6: there is no key `plugins[0].arg`; did you mean `args`?",
            ]
        );
    }

    #[test]
    fn values_may_be_repeated_by_name() {
        let text = "x: &env {A: b}\nplugins:\n- id: a\n  binary: x\n  env: *env\n- <<: {binary: y}\n  id: b";
        let config = read(text).unwrap();
        assert_eq!(config.plugins[0].env, [("A".to_owned(), "b".to_owned())]);
        assert_eq!(config.plugins[1].binary, "y");
        let bomb: String = (1..30)
            .map(|n| format!("k{n}: &a{n} [*a{}, *a{}, *a{}]\n", n - 1, n - 1, n - 1))
            .collect();
        let error = read(&format!("k0: &a0 x\n{bomb}")).unwrap_err();
        assert!(error.ends_with("too many values"), "{error}");
    }
}
