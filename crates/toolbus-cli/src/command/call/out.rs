//! `toolbus call --out`: bytes go into files, as they come; without any, the answer does.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use toolbus_proto::collect::from_base64;
use toolbus_proto::json::{Json, Kind, edit};
use toolbus_proto::tool::{Outcome, Piece};

use crate::exit::Exit;
use crate::failed::Failed;
use crate::render::file::BlobFile;

/// Where the bytes of one reply go.
pub(super) struct Out {
    place: Place,
    /// How many files there are.
    count: usize,
    /// The run of bytes that is arriving.
    arriving: Option<BlobFile>,
}

enum Place {
    File(PathBuf),
    Folder(PathBuf),
}

impl Out {
    /// A folder that is there or whose name ends with a slash; else a file.
    pub(super) fn to(path: &Path) -> Result<Out, Failed> {
        let is_folder = path.is_dir() || path.to_string_lossy().ends_with('/');
        if is_folder {
            fs::create_dir_all(path).map_err(|error| {
                let message = format!("cannot make the folder `{}`", path.display());
                Failed::new(Exit::Failed, message).caused_by(&error)
            })?;
        }
        let place = match is_folder {
            true => Place::Folder(path.to_owned()),
            false => Place::File(path.to_owned()),
        };
        Ok(Out { place, count: 0, arriving: None })
    }

    /// Takes a piece of a run of bytes; tells of its file once it is whole.
    pub(super) fn take(&mut self, piece: &Piece) -> Result<Option<Json>, Failed> {
        let mut file = match self.arriving.take() {
            Some(file) => file,
            None => self.next_file(extension(piece.media_type.as_deref()))?,
        };
        file.write(&piece.data)?;
        if !piece.last {
            self.arriving = Some(file);
            return Ok(None);
        }
        file.finish().map(|told| Some(Json::from_trusted(told)))
    }

    /// The answer with files in place of its bytes; if it has none, it is itself in a file.
    pub(super) fn keep(&mut self, outcome: Outcome) -> Result<Json, Failed> {
        let (text, extension) = match outcome {
            Outcome::Value(value) if value.kind() == Kind::String => (value.shown(), "txt"),
            Outcome::Value(value) => {
                let value = self.without_bytes(&value)?;
                if 0 < self.count {
                    return Ok(value);
                }
                (format!("{value}\n"), "json")
            }
            Outcome::Text(text) => (text, "txt"),
            Outcome::End(Some(value)) => (format!("{}\n", value.compact()), "json"),
            _ => ("null\n".to_owned(), "json"),
        };
        let mut file = self.next_file(extension)?;
        file.write(text.as_bytes())?;
        file.finish().map(Json::from_trusted)
    }

    /// Bytes in base64 stand in parts that were collected, and in blocks of content.
    fn without_bytes(&mut self, value: &Json) -> Result<Json, Failed> {
        let compact = value.compact();
        let elements = match value.kind() {
            Kind::Array => Some(compact.as_str()),
            _ => edit::member(compact.as_str(), "elements"),
        };
        let Some(elements) = elements.filter(|elements| elements.starts_with('[')) else {
            return Ok(compact);
        };
        let mut kept = Vec::new();
        for element in edit::elements(elements) {
            kept.push(match bytes_of(element) {
                Some((bytes, media_type)) => {
                    let mut file = self.next_file(extension(media_type.as_deref()))?;
                    file.write(&bytes)?;
                    file.finish()?
                }
                None => element.to_owned(),
            });
        }
        let kept = format!("[{}]", kept.join(","));
        Ok(Json::from_trusted(match value.kind() {
            Kind::Array => kept,
            _ => edit::replaced(compact.as_str(), "elements", &kept).unwrap_or(kept),
        }))
    }

    fn next_file(&mut self, extension: &str) -> Result<BlobFile, Failed> {
        self.count += 1;
        let path = match &self.place {
            Place::File(path) if self.count == 1 => path.clone(),
            Place::File(path) => {
                let message = "the reply has more bytes than go into one file";
                let hint = format!("give a folder: `--out {}/`", path.display());
                return Err(Failed::new(Exit::Failed, message).hint(hint));
            }
            Place::Folder(folder) => folder.join(format!("{}.{extension}", self.count)),
        };
        BlobFile::create(path)
    }
}

/// The bytes that an element stands for, and what they are.
pub(super) fn bytes_of(element: &str) -> Option<(Vec<u8>, Option<String>)> {
    let resource = edit::member(element, "resource");
    let data = edit::text(element, "$bytes")
        .or_else(|| {
            edit::text(element, "data").filter(|_| edit::member(element, "mimeType").is_some())
        })
        .or_else(|| edit::text(resource?, "blob"))?;
    let media_type = edit::text(element, "mimeType").or_else(|| edit::text(resource?, "mimeType"));
    Some((from_base64(&data)?, media_type.map(Cow::into_owned)))
}

/// How a file of this media type is usually called.
fn extension(media_type: Option<&str>) -> &'static str {
    let media_type = media_type.unwrap_or_default();
    match media_type.split(';').next().unwrap_or_default().trim() {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "audio/wav" | "audio/x-wav" => "wav",
        "audio/mpeg" => "mp3",
        "application/json" => "json",
        "application/pdf" => "pdf",
        "application/gzip" => "gz",
        "application/zip" => "zip",
        "text/plain" => "txt",
        "text/html" => "html",
        "text/markdown" => "md",
        _ => "bin",
    }
}
