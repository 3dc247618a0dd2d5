//! Compares every byte of a file with its checksum, without the store's memory.

use std::fs::File;
use std::hash::Hasher;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use twox_hash::XxHash3_64;

use crate::error::Error;
use crate::layout::Part;
use crate::table::Described;

/// Bytes that are read and hashed at once.
const STEP_BYTES: usize = 1 << 20;

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

/// What is wrong in the parts of a file. `progress` hears of bytes that were compared.
///
/// # Errors
/// [`Error::BadFile`] if not even the parts are known; [`Error::Io`] for bytes that cannot be read.
pub(crate) fn verify(path: &Path, progress: &mut dyn FnMut(u64)) -> Result<Vec<Damage>, Error> {
    let failed = |error| Error::io("read", path, error);
    let file = File::open(path).map_err(failed)?;
    let described = Described::read(&file, path)?;
    let mut found = Vec::new();
    let mut buffer = vec![0; STEP_BYTES];
    for part in &described.layout.parts {
        if checksum(&file, part, &mut buffer, progress).map_err(failed)? != part.checksum {
            found.push(Damage { path: path.to_owned(), offset: part.offset, bytes: part.bytes });
        }
    }
    Ok(found)
}

fn checksum(file: &File, part: &Part, buffer: &mut [u8], progress: &mut dyn FnMut(u64)) -> io::Result<u64> {
    let mut hasher = XxHash3_64::new();
    let mut at = part.offset;
    while at < part.end() {
        let wanted = (part.end() - at).min(buffer.len() as u64) as usize;
        let bytes = &mut buffer[..wanted];
        file.read_exact_at(bytes, at)?;
        hasher.write(bytes);
        at += wanted as u64;
        progress(wanted as u64);
    }
    Ok(hasher.finish())
}
