//! The files of the machine, for those who are handed files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::expr::Files;

/// The files of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Disk {
    /// The beginning of a file: all of it, unless it has more bytes than this.
    pub fn read_start(&self, path: &Path, bytes: usize) -> io::Result<Vec<u8>> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
        }
        let mut start = Vec::new();
        file.take(bytes as u64).read_to_end(&mut start)?;
        Ok(start)
    }
}

impl Files for Disk {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        // One more tells that there are too many.
        let bytes = self.read_start(path, bytes_max.saturating_add(1))?;
        match bytes.len() <= bytes_max {
            true => Ok(bytes),
            false => {
                let message = format!("it is larger than {bytes_max} bytes");
                Err(io::Error::new(io::ErrorKind::FileTooLarge, message))
            }
        }
    }

    fn exists(&self, path: &Path) -> bool {
        path.is_file()
    }
}
