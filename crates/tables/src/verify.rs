//! Compares every byte of a file with its checksum, without the store's memory.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::table::{Described, check_part, read_part};

/// Bytes that are not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Of which file.
    pub path: PathBuf,
    /// Where they begin: the part that is wrong.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

/// What is wrong in the parts of a file.
///
/// # Errors
/// [`Error::BadFile`] if not even the parts are known.
pub(crate) fn verify(path: &Path) -> Result<Vec<Damage>, Error> {
    let failed = |error| Error::io("read", path, error);
    let file = File::open(path).map_err(failed)?;
    let described = Described::read(&file, path)?;
    let mut found = Vec::new();
    for part in &described.layout.parts {
        let bytes = read_part(&file, part).map_err(failed)?;
        if check_part(&bytes, part).is_err() {
            found.push(Damage { path: path.to_owned(), offset: part.offset, bytes: part.bytes });
        }
    }
    Ok(found)
}
