//! What a call answers, as lines on standard output and files in a folder.

use std::path::PathBuf;

use toolbus::wire::mediocre::decode;
use toolbus_proto::channel::Down;
use toolbus_proto::collect::{COLLECTED_BYTES_MAX, base64};
use toolbus_proto::json::Json;
use toolbus_proto::printable::size;
use toolbus_proto::tool::{Failure, Outcome, Part, Piece};

use crate::exit::Exit;
use crate::failed::Failed;
use crate::render;
use crate::render::file::BlobFile;

/// How the answer is shown.
#[derive(Debug, Clone)]
pub(super) enum Form {
    /// The events of the wire, as `toolbus decode mediocre` prints them.
    Events,
    /// Values as they are, blobs in base64.
    Lines,
    /// Values as they are, blobs as files in this folder.
    Files(PathBuf),
}

/// Prints an answer as it comes.
pub(super) struct Printer {
    form: Form,
    /// The response's `debug` is shown, and not only logged.
    shows_debug: bool,
    /// How many elements there were.
    elements: u64,
    blob: Option<Blob>,
    /// The `meta` of the error that the peer told of.
    pub(super) meta: Option<Json>,
}

/// A blob that is arriving.
enum Blob {
    Event(decode::Blob),
    Line(Vec<u8>),
    File(BlobFile),
}

impl Printer {
    pub(super) fn new(form: Form, shows_debug: bool) -> Printer {
        Printer { form, shows_debug, elements: 0, blob: None, meta: None }
    }

    /// Takes the next; gives the failure that ended the call.
    pub(super) fn take(&mut self, down: Down) -> Result<Result<(), Failure>, Failed> {
        match down {
            Down::Log(event) => self.event(&event)?,
            Down::Begin { head, .. } => self.labelled("$head", head.as_ref())?,
            Down::Part(Part::Json(value)) => {
                self.elements += 1;
                self.line(value.compact().as_str())?;
            }
            Down::Part(Part::Text(text)) => self.line(Json::of(&text).as_str())?,
            Down::Part(Part::Bytes(piece)) => self.piece(&piece)?,
            Down::Done(Ok(Outcome::Value(value))) => self.line(value.compact().as_str())?,
            Down::Done(Ok(Outcome::End(tail))) => self.labelled("$tail", tail.as_ref())?,
            Down::Done(Err(failure)) => return Ok(Err(failure)),
            Down::Done(Ok(_)) | Down::Progress(_) | Down::Ask(..) => {}
        }
        Ok(Ok(()))
    }

    fn line(&self, line: &str) -> Result<(), Failed> {
        match self.form {
            Form::Events => Ok(()),
            Form::Lines | Form::Files(_) => render::print(&format!("{line}\n")),
        }
    }

    fn labelled(&self, label: &str, value: Option<&Json>) -> Result<(), Failed> {
        match value.filter(|value| !value.is_null()) {
            Some(value) => self.line(&format!("{{\"{label}\":{}}}", value.compact())),
            None => Ok(()),
        }
    }

    fn event(&mut self, event: &Json) -> Result<(), Failed> {
        #[derive(serde::Deserialize)]
        struct Event<'a> {
            #[serde(borrow, default)]
            err: Option<PeerError<'a>>,
            #[serde(borrow, default)]
            debug: Option<&'a serde_json::value::RawValue>,
        }
        #[derive(serde::Deserialize)]
        struct PeerError<'a> {
            #[serde(borrow)]
            meta: &'a serde_json::value::RawValue,
        }
        if let Ok(Event { err, debug }) = event.read() {
            match debug.map(|debug| Json::from_trusted(debug.get().to_owned()).compact()) {
                Some(text) if self.shows_debug => {
                    crate::stderr::write(&format!("debug: {text}\n"));
                }
                Some(text) => tracing::info!("debug: {text}"),
                None => {}
            }
            let meta = err.map(|err| Json::from_trusted(err.meta.get().to_owned()));
            self.meta = meta.filter(|meta| !meta.is_null()).or(self.meta.take());
        }
        match self.form {
            Form::Events => render::print(&format!("{event}\n")),
            Form::Lines | Form::Files(_) => Ok(()),
        }
    }

    fn piece(&mut self, piece: &Piece) -> Result<(), Failed> {
        let mut blob = match self.blob.take() {
            Some(blob) => blob,
            None => match &self.form {
                Form::Events => Blob::Event(decode::Blob::default()),
                Form::Lines => Blob::Line(Vec::new()),
                Form::Files(folder) => {
                    let path = folder.join(format!("{}.bin", self.elements));
                    Blob::File(BlobFile::create(path)?)
                }
            },
        };
        match &mut blob {
            Blob::Event(blob) => blob.take(&piece.data),
            Blob::Line(bytes) => {
                if COLLECTED_BYTES_MAX < bytes.len() + piece.data.len() {
                    let limit = size(COLLECTED_BYTES_MAX);
                    let message = format!("a blob is over the limit of {limit}");
                    return Err(Failed::new(Exit::Failed, message)
                        .hint("`--out DIR` writes blobs of any size to files"));
                }
                bytes.extend_from_slice(&piece.data);
            }
            Blob::File(file) => file.write(&piece.data)?,
        }
        if !piece.last {
            self.blob = Some(blob);
            return Ok(());
        }
        self.elements += 1;
        match blob {
            Blob::Event(blob) => render::print(&format!("{}\n", blob.line())),
            Blob::Line(bytes) => self.line(&format!("{{\"$bytes\":\"{}\"}}", base64(&bytes))),
            Blob::File(file) => self.line(&file.finish()?),
        }
    }
}
