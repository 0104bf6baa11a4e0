//! `--view` and `--as`: how the tools of a config are seen, and whose calls are made.

/// What the tools of a config are seen as.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ViewArgs {
    /// See the tools of the config in this view of its
    #[arg(long, value_name = "NAME")]
    pub(crate) view: Option<String>,
    /// Call as this caller of the config: in its view, within its limits
    #[arg(long = "as", value_name = "CALLER")]
    pub(crate) caller: Option<String>,
}

impl ViewArgs {
    /// The words that say the same.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        let view = self.view.as_deref().map(|name| ["--view", name]);
        let caller = self.caller.as_deref().map(|name| ["--as", name]);
        view.into_iter().chain(caller).flatten()
    }

    /// The flag that is given, if one is.
    pub(crate) fn flag(&self) -> Option<&'static str> {
        match (&self.view, &self.caller) {
            (Some(_), _) => Some("--view"),
            (None, Some(_)) => Some("--as"),
            (None, None) => None,
        }
    }
}
