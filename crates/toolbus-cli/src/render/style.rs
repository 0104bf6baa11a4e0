//! Colour: when there is any, and which. It only ever repeats what the words already say.

use std::env;
use std::ffi::OsStr;

use clap::ValueEnum;
use clap::builder::styling::{AnsiColor, Style, Styles};

use crate::stdio::Terminal;

// No help for the values: it would fill a screen in the help of every command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    #[default]
    Auto,
    Always,
    Never,
}

impl ColorWhen {
    pub(crate) fn paint(self, stream: &impl Terminal) -> Paint {
        let no_color = env::var_os("NO_COLOR");
        let can_paint = stream.is_terminal() && !is_dumb();
        Paint { on: self.is_on(can_paint, no_color.as_deref()) }
    }

    fn is_on(self, terminal: bool, no_color: Option<&OsStr>) -> bool {
        match self {
            // By the convention of no-color.org an empty variable counts as none.
            ColorWhen::Auto => terminal && no_color.is_none_or(OsStr::is_empty),
            ColorWhen::Always => true,
            ColorWhen::Never => false,
        }
    }
}

/// Is the terminal one that only knows text?
pub(crate) fn is_dumb() -> bool {
    env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Colours words, or leaves them as they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    pub(crate) on: bool,
}

const ERROR: Style = AnsiColor::Red.on_default().bold();
const OK: Style = AnsiColor::Green.on_default();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();
const DIM: Style = Style::new().dimmed();
const TITLE: Style = Style::new().bold();
const KEY: Style = AnsiColor::Cyan.on_default();
const STRING: Style = AnsiColor::Green.on_default();
const LITERAL: Style = AnsiColor::Yellow.on_default();

impl Paint {
    pub(crate) fn error(self, text: &str) -> String {
        self.with(ERROR, text)
    }

    pub(crate) fn ok(self, text: &str) -> String {
        self.with(OK, text)
    }

    pub(crate) fn warning(self, text: &str) -> String {
        self.with(WARNING, text)
    }

    pub(crate) fn hint(self, text: &str) -> String {
        self.with(HINT, text)
    }

    pub(crate) fn title(self, text: &str) -> String {
        self.with(TITLE, text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with(DIM, text)
    }

    /// The name of a member of JSON.
    pub(crate) fn key(self, text: &str) -> String {
        self.with(KEY, text)
    }

    /// A string of JSON.
    pub(crate) fn string(self, text: &str) -> String {
        self.with(STRING, text)
    }

    /// Any other value of JSON.
    pub(crate) fn literal(self, text: &str) -> String {
        self.with(LITERAL, text)
    }

    fn with(self, style: Style, text: &str) -> String {
        if self.on { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// The same palette for the help texts.
pub(crate) const HELP: Styles = Styles::plain()
    .header(Style::new().bold())
    .usage(Style::new().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(Style::new());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_and_those_who_ask() {
        let (unset, empty, set) = (None, Some(OsStr::new("")), Some(OsStr::new("1")));
        assert!(ColorWhen::Auto.is_on(true, unset));
        assert!(ColorWhen::Auto.is_on(true, empty));
        assert!(!ColorWhen::Auto.is_on(true, set));
        assert!(!ColorWhen::Auto.is_on(false, unset));
        assert!(ColorWhen::Always.is_on(false, set));
        assert!(!ColorWhen::Never.is_on(true, unset));
    }
}
