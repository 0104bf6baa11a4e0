//! `builtin/postgres`: queries and bulk loads in a PostgreSQL database.

use std::cell::RefCell;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::str::FromStr;

use bytes::Bytes;
use futures_util::SinkExt as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::JoinHandle;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, CopyInSink, NoTls, SimpleQueryMessage};
use toolbus::{Failure, FailureKind, Json, LocalFuture};

use super::{
    Execute, Inside, attrs, causes, execute_failed, refused, resolved, unknown_action,
    validation_failed, with_detail,
};

pub(super) const SCHEMA: &str = r#"{
  "name": "postgres", "version": "VERSION", "protocol": "1",
  "config": {
    "dsn": {"type": "string", "required": true, "description": "where the database is: `postgres://user@host/name`", "sensitive": true}
  },
  "actions": {
    "postgres_copy": {
      "description": "loads rows into a table",
      "attrs": {
        "table": {"type": "string", "required": true, "description": "the table, such as `users` or `shop.users`"},
        "columns": {"type": "list(string)", "required": true, "description": "the columns, in the order of the rows"},
        "data": {"type": "string", "description": "the rows"},
        "file": {"type": "string", "description": "a file with the rows, in place of `data`"},
        "format": {"type": "string", "default": "csv", "description": "`csv`, `tsv` or `text`"},
        "header": {"type": "bool", "default": false, "description": "the first line holds names"},
        "delimiter": {"type": "string", "description": "what stands between two values"}
      },
      "outputs": {"type": "object({rows_copied=number})"}
    },
    "postgres_query": {
      "description": "runs a query; its outputs are the columns of the first row",
      "attrs": {
        "query": {"type": "string", "required": true, "description": "the query"}
      },
      "outputs": {"type": "any"}
    }
  },
  "extensions": ["parallel"]
}"#;

/// What of a file is sent at a time.
const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Default)]
pub(super) struct Postgres {
    session: RefCell<Option<Rc<Session>>>,
}

/// An open connection; it ends with this.
struct Session {
    client: Client,
    driver: JoinHandle<()>,
    /// Statements of one connection take turns: what one says must not meet the copy of another.
    turn: tokio::sync::Mutex<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

#[derive(Debug, Deserialize)]
struct ConfigAttrs {
    dsn: String,
}

#[derive(Debug, Deserialize)]
struct QueryAttrs {
    query: String,
}

#[derive(Debug, Deserialize)]
struct CopyAttrs {
    table: String,
    columns: Vec<String>,
    data: Option<String>,
    file: Option<String>,
    format: String,
    header: bool,
    delimiter: Option<String>,
}

impl Inside for Postgres {
    fn configure(&self, config: Json) -> LocalFuture<'_, Result<(), Failure>> {
        Box::pin(async move {
            let ConfigAttrs { dsn } = attrs(&config)?;
            let session = connect(&dsn).await?;
            self.session.replace(Some(Rc::new(session)));
            Ok(())
        })
    }

    fn execute(&self, execute: Execute) -> LocalFuture<'_, Result<Json, Failure>> {
        let session = self.session.borrow().clone();
        Box::pin(async move {
            let session = session.ok_or_else(|| execute_failed("there is no connection"))?;
            match &*execute.action {
                "postgres_query" => session.query(attrs(&execute.attrs)?).await,
                "postgres_copy" => {
                    let attrs: CopyAttrs = attrs(&execute.attrs)?;
                    let file = attrs.file.as_ref().map(|file| resolved(&execute.folder, file));
                    session.copy(attrs, file).await
                }
                other => Err(unknown_action(other)),
            }
        })
    }
}

async fn connect(dsn: &str) -> Result<Session, Failure> {
    let refuse = |message: String| refused(FailureKind::Unavailable, "configure_failed", message);
    let mut config =
        Config::from_str(dsn).map_err(|error| refuse(format!("dsn: {}", causes(&error))))?;
    if config.get_application_name().is_none() {
        config.application_name("toolbus");
    }
    let connected = config.connect(NoTls).await;
    let (client, connection) = connected.map_err(|error| {
        let failure = refuse(format!("cannot connect: {}", causes(&error)));
        let needs_tls = causes(&error).contains("TLS");
        with_detail(failure, if needs_tls { "TLS to a database is not there yet" } else { "" })
    })?;
    let driver = tokio::task::spawn_local(async move {
        // How it ended is told to those who wait for an answer.
        let _ = connection.await;
    });
    Ok(Session { client, driver, turn: tokio::sync::Mutex::new(()) })
}

impl Session {
    async fn query(&self, attrs: QueryAttrs) -> Result<Json, Failure> {
        let _turn = self.turn.lock().await;
        // Prepared only for the types of its columns: all values come as text. What cannot be
        // prepared, several statements at once for one, has text alone.
        let types: Vec<Type> = match self.client.prepare(&attrs.query).await {
            Ok(statement) => {
                statement.columns().iter().map(|column| column.type_().clone()).collect()
            }
            Err(error) if error.code().is_some_and(|code| code.code() == "42601") => Vec::new(),
            Err(error) => return Err(failure(&error)),
        };
        let messages = self.client.simple_query(&attrs.query).await;
        let messages = messages.map_err(|error| failure(&error))?;
        let row = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let Some(row) = row else { return Ok(Json::from_trusted("{}")) };
        let mut columns = std::collections::BTreeMap::new();
        for (at, column) in row.columns().iter().enumerate() {
            let value = as_json(types.get(at), row.get(at));
            columns.insert(column.name(), value);
        }
        Ok(Json::of(&columns))
    }

    async fn copy(&self, attrs: CopyAttrs, file: Option<PathBuf>) -> Result<Json, Failure> {
        let statement = copy_statement(&attrs)?;
        let source = match (attrs.data, file) {
            (Some(data), None) => Source::Data(data.into()),
            (None, Some(path)) => {
                let opened = std::fs::File::open(&path);
                Source::File(opened.map_err(|error| {
                    execute_failed(format!("cannot read `{}`: {error}", path.display()))
                })?)
            }
            (Some(_), Some(_)) => {
                return Err(validation_failed("`data` and `file` cannot both be given"));
            }
            (None, None) => return Err(validation_failed("`data` or `file` must be given")),
        };
        let _turn = self.turn.lock().await;
        let sink = self.client.copy_in(&statement).await.map_err(|error| failure(&error))?;
        let rows = send(sink, source).await?;
        Ok(Json::of(&serde_json::json!({ "rows_copied": rows })))
    }
}

/// Where the rows are.
enum Source {
    Data(Bytes),
    File(std::fs::File),
}

async fn send(sink: CopyInSink<Bytes>, source: Source) -> Result<u64, Failure> {
    use std::io::Read as _;
    let mut sink = pin!(sink);
    match source {
        Source::Data(data) => sink.send(data).await.map_err(|error| failure(&error))?,
        Source::File(mut file) => loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            let count = file.read(&mut chunk);
            let count = count.map_err(|error| execute_failed(format!("cannot read: {error}")))?;
            if count == 0 {
                break;
            }
            chunk.truncate(count);
            sink.send(chunk.into()).await.map_err(|error| failure(&error))?;
        },
    }
    sink.finish().await.map_err(|error| failure(&error))
}

fn copy_statement(attrs: &CopyAttrs) -> Result<String, Failure> {
    let table: Vec<_> = attrs.table.split('.').map(quoted).collect();
    let columns: Vec<_> = attrs.columns.iter().map(|column| quoted(column)).collect();
    let columns = match columns.is_empty() {
        true => String::new(),
        false => format!(" ({})", columns.join(", ")),
    };
    let (format, usual) = match &*attrs.format {
        "csv" => ("csv", None),
        "tsv" => ("csv", Some("\t")),
        "text" => ("text", None),
        other => {
            let message = format!("attrs.format: want `csv`, `tsv` or `text`, got `{other}`");
            return Err(validation_failed(message));
        }
    };
    let mut options = vec![format!("FORMAT {format}")];
    if attrs.header {
        options.push("HEADER true".to_owned());
    }
    if let Some(delimiter) = attrs.delimiter.as_deref().or(usual) {
        options.push(format!("DELIMITER '{}'", delimiter.replace('\'', "''")));
    }
    Ok(format!("COPY {}{columns} FROM STDIN WITH ({})", table.join("."), options.join(", ")))
}

/// A name as it stands in a statement; one that is quoted already stays so.
fn quoted(name: &str) -> String {
    match name.len() >= 2 && name.starts_with('"') && name.ends_with('"') {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// A value as JSON: numbers, bools and JSON as such, the rest as text.
fn as_json(ty: Option<&Type>, value: Option<&str>) -> Box<RawValue> {
    let Some(text) = value else { return RawValue::NULL.to_owned() };
    let raw = match ty {
        Some(&Type::BOOL) => Some(if text == "t" { "true" } else { "false" }.to_owned()),
        Some(
            &(Type::INT2
            | Type::INT4
            | Type::INT8
            | Type::OID
            | Type::NUMERIC
            | Type::FLOAT4
            | Type::FLOAT8
            | Type::JSON
            | Type::JSONB),
        ) => Some(text.to_owned()),
        _ => None,
    };
    // `NaN` and `Infinity` are no numbers of JSON and stay text.
    let raw = raw.and_then(|raw| RawValue::from_string(raw).ok());
    raw.or_else(|| RawValue::from_string(Json::of(text).as_str().to_owned()).ok())
        .unwrap_or_else(|| RawValue::NULL.to_owned())
}

fn failure(error: &tokio_postgres::Error) -> Failure {
    let Some(said) = error.as_db_error() else { return execute_failed(causes(error)) };
    let message = format!("{} (SQLSTATE {})", said.message(), said.code().code());
    let detail = [said.detail(), said.hint(), said.where_()];
    let detail: Vec<_> = detail.into_iter().flatten().collect();
    with_detail(execute_failed(message), &detail.join("\n"))
}
