//! The directory of a store without its memory: what is there, whether it is whole, and taking names away.
//!
//! Invariant: nothing here maps or reserves memory of a store; one part's bytes at a time are in memory at most.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use arrow_schema::SchemaRef;

use crate::catalog::Catalog;
use crate::error::Error;
use crate::layout::{ArrayShape, Kind};
use crate::table::Described;
use crate::verify::{Damage, verify};

/// What is under a name.
#[derive(Debug, Clone)]
pub struct Entry {
    /// A table or an array.
    pub kind: Kind,
    /// Rows.
    pub rows: u64,
    /// Bytes of its batches or rows in memory.
    pub bytes: u64,
    /// Bytes of its file.
    pub file_bytes: u64,
    /// When the name was given.
    pub modified: SystemTime,
    /// Its columns; an array has one.
    pub schema: SchemaRef,
    /// The shape, if it is an array.
    pub array: Option<ArrayShape>,
}

/// A directory of tables and arrays.
#[derive(Debug)]
pub struct Directory {
    catalog: Catalog,
}

impl Directory {
    /// Finds it.
    ///
    /// # Errors
    /// [`Error::Io`] if there is none.
    pub fn find(dir: &Path) -> Result<Self, Error> {
        Ok(Self { catalog: Catalog::find(dir)? })
    }

    /// Its path, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.catalog.dir()
    }

    /// Names in order.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn names(&self) -> Result<Vec<String>, Error> {
        self.catalog.names()
    }

    /// The file of a name.
    ///
    /// # Errors
    /// [`Error::Missing`]; [`Error::BadFile`] for what is no file; [`Error::Invalid`] for what cannot be a name.
    pub fn file(&self, name: &str) -> Result<PathBuf, Error> {
        self.catalog.identity(name)?;
        let path = self.catalog.path(name)?;
        let found = fs::metadata(&path).map_err(|error| Error::io("open", &path, error))?;
        // To open a pipe would wait for somebody who writes to it.
        if found.is_file() { Ok(path) } else { Err(Error::bad(&path, "it is no regular file")) }
    }

    /// What is under a name, by its footer and schema.
    ///
    /// # Errors
    /// As [`Directory::file`]; [`Error::BadFile`] for a file that is damaged, or not one of a store.
    pub fn entry(&self, name: &str) -> Result<Entry, Error> {
        let path = self.file(name)?;
        let failed = |error| Error::io("read", &path, error);
        let file = File::open(&path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        let Described { layout, schema, .. } = Described::read(&file, &path)?;
        Ok(Entry {
            kind: layout.kind,
            rows: layout.rows,
            bytes: layout.segments().iter().map(|part| part.bytes).sum(),
            file_bytes: found.len(),
            modified: found.modified().map_err(failed)?,
            schema,
            array: layout.array,
        })
    }

    /// Compares all bytes of a name with their checksums. `progress` hears of bytes that were compared.
    ///
    /// # Errors
    /// As [`Directory::entry`].
    pub fn verify(&self, name: &str, mut progress: impl FnMut(u64)) -> Result<Vec<Damage>, Error> {
        verify(&self.file(name)?, &mut progress)
    }

    /// Takes a name away, whatever is under it. Who has it open can read it to the end.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Busy`] while another process writes, [`Error::Io`].
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        self.catalog.remove(name)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;
    use std::process::Command;
    use std::sync::Arc;

    use arrow_array::{Int64Array, RecordBatch, RecordBatchIterator};

    use super::*;
    use crate::{Options, Store};

    fn filled(dir: &Path) -> Directory {
        let store = Store::open(Options::new(dir, 32 << 20)).expect("store");
        let numbers = Arc::new(Int64Array::from_iter_values(0..1_000_000));
        let batch = RecordBatch::try_from_iter([("n", numbers as _)]).expect("batch");
        let reader = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
        store.put_table("numbers", reader, Some(100_000)).expect("written");
        Directory::find(dir).expect("there")
    }

    #[test]
    fn what_is_there_is_told_without_a_store() {
        let dir = tempfile::tempdir().expect("dir");
        let directory = filled(dir.path());
        assert_eq!(directory.names().expect("names"), ["numbers"]);
        let entry = directory.entry("numbers").expect("entry");
        assert_eq!((entry.kind, entry.rows, entry.array), (Kind::Table, 1_000_000, None));
        assert_eq!(entry.schema.field(0).name(), "n");
        assert!(entry.bytes > 8_000_000 && entry.file_bytes > 8_000_000);
        let mut compared = 0;
        assert_eq!(directory.verify("numbers", |bytes| compared += bytes).expect("read"), []);
        assert!(compared >= entry.bytes, "{compared}");
        directory.remove("numbers").expect("removed");
        assert!(matches!(directory.entry("numbers"), Err(Error::Missing { .. })));
    }

    #[test]
    fn damage_is_placed_and_a_damaged_name_can_be_removed() {
        let dir = tempfile::tempdir().expect("dir");
        let directory = filled(dir.path());
        let path = directory.file("numbers").expect("a file");
        let file = OpenOptions::new().write(true).open(&path).expect("open");
        file.write_all_at(&[77; 3], 5_000_000).expect("write");
        let found = directory.verify("numbers", |_| {}).expect("read");
        let [damage] = &found[..] else { panic!("{found:?}") };
        assert!(damage.offset <= 5_000_000 && damage.offset + damage.bytes > 5_000_002, "{damage:?}");
        file.set_len(6_000_000).expect("cut");
        assert!(matches!(directory.verify("numbers", |_| {}), Err(Error::BadFile { .. })));
        directory.remove("numbers").expect("removed");
    }

    #[test]
    fn a_directory_is_not_made_and_a_pipe_is_not_opened() {
        let dir = tempfile::tempdir().expect("dir");
        let missing = dir.path().join("missing");
        assert!(matches!(Directory::find(&missing), Err(Error::Io { .. })));
        assert!(!missing.exists());
        let made = Command::new("mkfifo").arg(dir.path().join("pipe.arrow")).status().expect("mkfifo");
        assert!(made.success());
        let directory = Directory::find(dir.path()).expect("there");
        assert!(matches!(directory.entry("pipe"), Err(Error::BadFile { .. })));
        assert!(matches!(directory.verify("pipe", |_| {}), Err(Error::BadFile { .. })));
    }
}
