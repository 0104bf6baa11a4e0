//! `[back.x.oauth]`: its keys, what they mean and what can be wrong with them.

use toolbus_proto::oauth::hidden::Hidden;
use toolbus_proto::oauth::settings::{
    AUTHORIZE_PARAMS, Grant, Redirect, ResourceChoice, SignInSettings, TOKEN_PARAMS, is_account,
    is_client_metadata_url, is_scope,
};
use toolbus_proto::oauth::signing::SigningKey;
use toolbus_proto::oauth::web::WebUrl;

use crate::bus::config::{BadValue, Key, KeyKind, Values};
use crate::secrets;

const SIGN_IN: &str = "sign-ins";

/// The keys of the table.
pub const KEYS: &[Key] = &[
    Key::new(
        "grant",
        KeyKind::Text,
        SIGN_IN,
        "How a token is got: `code`, `device`, `client_credentials` or `jwt_bearer`",
    )
    .default("code"),
    Key::new("client_id", KeyKind::Text, SIGN_IN, "Who we are, where that was registered before"),
    Key::new(
        "client_secret",
        KeyKind::Secret,
        SIGN_IN,
        "Its secret, as `${NAME}` or `${file:PATH}`",
    ),
    Key::new(
        "private_key",
        KeyKind::Secret,
        SIGN_IN,
        "The key that shows who we are, as `${file:key.pem}`",
    ),
    Key::new("key_id", KeyKind::Text, SIGN_IN, "The name of that key"),
    Key::new(
        "client_metadata_url",
        KeyKind::Text,
        SIGN_IN,
        "A document of yours that is the client id where sign-in servers take such",
    ),
    Key::new(
        "assertion",
        KeyKind::Text,
        SIGN_IN,
        "What is shown for a token, as `${file:PATH}`; read anew each time",
    ),
    Key::new(
        "scopes",
        KeyKind::Texts,
        SIGN_IN,
        "What is asked for, in place of what the server asks",
    ),
    Key::new(
        "issuer",
        KeyKind::OneOrMoreTexts,
        SIGN_IN,
        "What the sign-in server may call itself; else what the server says",
    ),
    Key::new(
        "resource",
        KeyKind::TextOrFalse,
        SIGN_IN,
        "For whom tokens are asked; else what the server says, `false` for nothing",
    ),
    Key::new(
        "authorize_params",
        KeyKind::Secrets,
        SIGN_IN,
        "Further parameters of the page where the user agrees",
    )
    .default("{}"),
    Key::new(
        "token_params",
        KeyKind::Secrets,
        SIGN_IN,
        "Further parameters of requests for a token",
    )
    .default("{}"),
    Key::new(
        "redirect",
        KeyKind::Text,
        SIGN_IN,
        "Where browsers are sent back to: `http://localhost:PORT/PATH`",
    ),
    Key::new("account", KeyKind::Text, SIGN_IN, "Keeps several accounts at one server apart"),
    Key::new(
        "ask",
        KeyKind::Bool,
        SIGN_IN,
        "Offer the URL to clients on this machine who can open one when a call needs a sign-in",
    )
    .default("false"),
];

/// What the values of the table mean.
pub fn read(values: &Values) -> SignInSettings {
    let hidden = |key: &str| values.secret(key).map(|secret| Hidden::new(secret.reveal().as_str()));
    let params = |key: &str| {
        let pairs = values.secrets(key).unwrap_or_default().into_iter();
        let hidden = |value: String| Hidden::new(value);
        pairs.map(|(name, value)| (name, hidden(value.reveal().clone()))).collect()
    };
    SignInSettings {
        grant: values.text("grant").and_then(|name| Grant::of(&name)).unwrap_or_default(),
        client_id: values.text("client_id"),
        client_secret: hidden("client_secret"),
        private_key: hidden("private_key"),
        key_id: values.text("key_id"),
        client_metadata_url: values.text("client_metadata_url"),
        assertion: values.text("assertion").map(|text| in_folder(values, text)),
        scopes: values.texts("scopes"),
        issuers: values.texts("issuer").unwrap_or_default(),
        resource: match (values.bool("resource"), values.text("resource")) {
            (Some(_), _) => ResourceChoice::Silent,
            (None, Some(resource)) => ResourceChoice::Given(resource),
            (None, None) => ResourceChoice::Published,
        },
        ca: None,
        authorize_params: params("authorize_params"),
        token_params: params("token_params"),
        redirect: values.text("redirect").and_then(|text| Redirect::parse(&text)),
        account: values.text("account").unwrap_or_default(),
        ask: values.bool("ask").unwrap_or_default(),
    }
}

/// A file is named relative to the config. What stands there itself is a secret.
fn in_folder(values: &Values, text: String) -> String {
    match text.strip_prefix("${file:").and_then(|rest| rest.strip_suffix('}')) {
        Some(path) => format!("${{file:{}}}", values.folder().join(path).display()),
        None => {
            if !text.starts_with("${") {
                secrets::hide(&text);
            }
            text
        }
    }
}

/// What is wrong with values that are well written. `table` is that of the back.
pub fn mistakes(table: &str, values: &Values) -> Vec<BadValue> {
    let mut found = Vec::new();
    let mut wrong = |key: &str, why: String| {
        let name = format!("{table}.oauth.{key}");
        found.push(BadValue::new(format!("oauth.{key}"), format!("`{name}` {why}")));
    };
    let grant = values.text("grant");
    let is_grant = |wanted: Grant| grant.as_deref() == Some(wanted.as_str());
    if grant.as_deref().is_some_and(|name| name != "id_jag" && Grant::of(name).is_none()) {
        let all = "must be \"code\", \"device\", \"client_credentials\" or \"jwt_bearer\"";
        wrong("grant", all.to_owned());
    }
    if is_grant(Grant::ClientCredentials) {
        if !values.has("client_id") {
            wrong("client_id", "is missing, which grant \"client_credentials\" needs".to_owned());
        }
        if !values.has("client_secret") && !values.has("private_key") {
            let why =
                "or `private_key` is missing, one of which grant \"client_credentials\" needs";
            wrong("client_secret", why.to_owned());
        }
    }
    if is_grant(Grant::JwtBearer) && !values.has("assertion") {
        wrong("assertion", "is missing, which grant \"jwt_bearer\" needs".to_owned());
    }
    for key in ["client_id", "key_id", "assertion"] {
        if values.text(key).is_some_and(|text| text.trim().is_empty()) {
            wrong(key, "is empty".to_owned());
        }
    }
    for scope in values.texts("scopes").unwrap_or_default() {
        if !is_scope(&scope) {
            wrong("scopes", format!("has `{scope}`, which is no scope"));
        }
    }
    if values.texts("issuer").is_some_and(|issuers| issuers.is_empty()) {
        wrong("issuer", "is empty".to_owned());
    }
    for issuer in values.texts("issuer").unwrap_or_default() {
        if let Err(why) = WebUrl::allowed(&issuer) {
            wrong("issuer", format!("cannot be used: {why}"));
        }
    }
    if let Some(key) = values.secret("private_key").filter(|key| !key.reveal().is_empty())
        && let Err(why) = SigningKey::read(key.reveal())
    {
        wrong("private_key", format!("cannot be used: {why}"));
    }
    let is_metadata = |url: &String| is_client_metadata_url(url);
    if values.text("client_metadata_url").as_ref().is_some_and(|url| !is_metadata(url)) {
        wrong("client_metadata_url", "must be an https URL with a path".to_owned());
    }
    for (key, ours) in
        [("authorize_params", &AUTHORIZE_PARAMS[..]), ("token_params", &TOKEN_PARAMS[..])]
    {
        for (name, _) in values.secrets(key).unwrap_or_default() {
            if ours.contains(&name.as_str()) {
                wrong(key, format!("has `{name}`, which toolbus sets itself"));
            }
        }
    }
    if values.text("redirect").is_some_and(|text| Redirect::parse(&text).is_none()) {
        let why = "must be `http://localhost:PORT/PATH` or `http://127.0.0.1:PORT/PATH`";
        wrong("redirect", why.to_owned());
    }
    if values.text("account").is_some_and(|name| !is_account(&name)) {
        wrong("account", "can have letters, digits, `_`, `-`, `.` and `@`".to_owned());
    }
    if grant.as_deref() == Some("id_jag") {
        found.push(BadValue::new("oauth.grant", "grant \"id_jag\" is not there yet"));
    }
    found
}
