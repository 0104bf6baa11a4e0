//! The files of the machine, for those who are handed files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::expr::Files;

/// The files of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
        }
        let mut bytes = Vec::new();
        // One more tells that there are too many.
        file.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
        match bytes.len() <= bytes_max {
            true => Ok(bytes),
            false => Err(io::Error::other(format!("it is larger than {bytes_max} bytes"))),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        path.is_file()
    }
}
