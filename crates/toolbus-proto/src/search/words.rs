//! Words that say nothing about a tool, and words that say the same.

/// Passed over in a query.
pub(super) const STOP_WORDS: &str = "a about all an and any are as at be been but by can could \
    did do does for from had has have how i if in into is it its let me my of off on one or our \
    out please should so some that the their them then there these they this those to tool tools \
    up us use used using via want was we were what when where which who will with would you your";

/// Groups of words that stand for each other, a group a line.
pub(super) const SYNONYMS: &[&str] = &[
    "create add make new insert",
    "delete remove erase drop destroy",
    "get fetch read retrieve show view",
    "count number",
    "find search lookup query",
    "update edit change modify",
    "send post",
    "move rename",
    "directory folder",
    "email mail",
    "message msg",
    "repository repo",
    "picture image photo",
    "database db",
    "meeting event appointment",
    "combine merge join",
    "start run launch",
    "stop kill terminate",
    "download save",
    "internet web",
    "website page",
    "documentation docs",
    "execute run",
    "configuration config settings",
    "ticket issue",
    "reply answer respond",
    "weather forecast",
    "money currency",
    "share stock",
];
