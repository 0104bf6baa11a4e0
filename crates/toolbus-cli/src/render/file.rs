//! Bytes that go into a file as they come.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use toolbus_proto::json::Json;

use crate::exit::Exit;
use crate::failed::Failed;

/// A file that has its name only once it is complete. Dropped before, it is removed.
pub(crate) struct BlobFile {
    path: PathBuf,
    part: PathBuf,
    /// `None` once it has its name.
    file: Option<File>,
    bytes: u64,
}

impl BlobFile {
    pub(crate) fn create(path: PathBuf) -> Result<BlobFile, Failed> {
        let mut part = path.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = File::create(&part).map_err(|error| unwritable(&part, &error))?;
        Ok(BlobFile { path, part, file: Some(file), bytes: 0 })
    }

    pub(crate) fn write(&mut self, data: &[u8]) -> Result<(), Failed> {
        if let Some(file) = &mut self.file {
            file.write_all(data).map_err(|error| unwritable(&self.part, &error))?;
        }
        self.bytes += data.len() as u64;
        Ok(())
    }

    /// Gives it its name, and the line that tells of it.
    pub(crate) fn finish(mut self) -> Result<String, Failed> {
        fs::rename(&self.part, &self.path).map_err(|error| unwritable(&self.path, &error))?;
        self.file = None;
        let path = Json::of(&self.path.to_string_lossy());
        Ok(format!("{{\"$file\":{path},\"bytes\":{}}}", self.bytes))
    }
}

impl Drop for BlobFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = fs::remove_file(&self.part);
        }
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failed {
    Failed::new(Exit::Failed, format!("cannot write `{}`", path.display())).caused_by(error)
}
