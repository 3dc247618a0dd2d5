//! A store of named tables and arrays.
//!
//! Invariant: what is open under a name is what the directory has under it, or had when it was asked for.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatchReader;
use arrow_schema::Schema;
use warmset_platform::status::Published;
use warmset_region::{Config, FRAME_BYTES, Names, Store as RegionStore, StoreStats};

use crate::array::ArraySource;
use crate::catalog::Catalog;
use crate::error::Error;
use crate::held::{lock, watch_forks};
use crate::layout::{ArrayShape, Kind, Layout};
use crate::scan::{Scan, ScanOptions};
use crate::table::Table;
use crate::verify::{Damage, verify};
use crate::writer::{FileDraft, TableWriter, has_dictionary_column, unify_dictionaries};

/// Frames of a part at most: large reads, and few batches to handle.
const PART_FRAMES_MAX: u64 = 4;
/// Of the memory, a part is at most one in so many.
const PART_PART: u64 = 32;
/// What of a part's frames is left for headers, padding and what is before its first byte.
const PART_MARGIN_BYTES: u64 = 64 << 10;

/// How to open a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its directory; made if it is missing.
    pub dir: PathBuf,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The most that it may be raised to later; none: as much as now.
    pub memory_bytes_max: Option<u64>,
}

impl Options {
    /// The plainest.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, memory_bytes: u64) -> Self {
        Self { dir: dir.into(), memory_bytes, memory_bytes_max: None }
    }
}

/// A directory of tables and arrays, and the memory that they are read into.
pub struct Store {
    catalog: Catalog,
    regions: RegionStore,
    memory_bytes: AtomicU64,
    open: Arc<Mutex<OpenTables>>,
    /// For `warmset top`.
    _published: Published,
}

type OpenTables = HashMap<String, Arc<Table>>;

impl Store {
    /// Opens a store. A directory that nothing can be written to is opened to read.
    ///
    /// # Errors
    /// [`Error::Io`] for a directory that cannot be made or found; [`Error::Region`] for memory that this process may not
    /// use.
    pub fn open(options: Options) -> Result<Self, Error> {
        watch_forks();
        let catalog = Catalog::open(&options.dir)?;
        let mut config = Config::new(catalog.dir(), options.memory_bytes);
        // Tables are extents of files that this crate writes.
        config.reads_only = true;
        config.budget_bytes_max = options.memory_bytes_max;
        config.names = Names {
            budget_bytes: "memory".to_owned(),
            budget_bytes_max: "memory_max".to_owned(),
            ..Names::default()
        };
        let regions = RegionStore::open(config)?;
        let memory_bytes = AtomicU64::new(options.memory_bytes);
        let open = Arc::new(Mutex::new(OpenTables::new()));
        let names = Arc::downgrade(&open);
        let published = regions.publish("python", move || {
            let open = names.upgrade();
            let names = open.as_deref().map(|open| region_names(&lock(open)));
            names.unwrap_or_default()
        });
        Ok(Self { catalog, regions, memory_bytes, open, _published: published })
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.catalog.dir()
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Changes the memory; returns at once.
    ///
    /// # Errors
    /// [`Error::Region`] for more than it was opened for, or less than a frame.
    pub fn resize(&self, memory_bytes: u64) -> Result<(), Error> {
        self.regions.set_budget(memory_bytes)?;
        self.memory_bytes.store(memory_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Opens a name, or finds it open.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::BadFile`] and [`Error::Io`].
    pub fn table(&self, name: &str) -> Result<Arc<Table>, Error> {
        let identity = match self.catalog.identity(name) {
            Ok(identity) => identity,
            Err(error) => {
                lock(&self.open).remove(name);
                return Err(error);
            }
        };
        if let Some(table) = lock(&self.open).get(name).filter(|table| table.identity() == identity) {
            return Ok(Arc::clone(table));
        }
        let path = self.catalog.path(name)?;
        let opened = Table::open(&self.regions, &path).map_err(|error| match error {
            // Somebody removed it meanwhile.
            Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                self.catalog.missing(name)
            }
            other => other,
        })?;
        let table = Arc::new(opened);
        lock(&self.open).insert(name.to_owned(), Arc::clone(&table));
        Ok(table)
    }

    /// Starts a table; it has its name when it is committed. `batch_rows`: rows of each batch but the last; none: as
    /// many as fill a few frames.
    ///
    /// # Errors
    /// [`Error::Busy`] while another process writes, [`Error::Invalid`] for a name that cannot be, [`Error::Io`].
    pub fn writer(
        &self,
        name: &str,
        schema: &Schema,
        batch_rows: Option<usize>,
    ) -> Result<TableWriter, Error> {
        if batch_rows == Some(0) {
            return Err(Error::Invalid("a batch has at least one row".to_owned()));
        }
        let draft = self.draft(name, schema, None)?;
        // Batches of a size that somebody wants are read alone; small ones share a frame.
        let frames_bytes = if batch_rows.is_some() { FRAME_BYTES as u64 } else { self.part_bytes() };
        let part_bytes = frames_bytes - PART_MARGIN_BYTES;
        Ok(TableWriter::new(draft, Arc::new(schema.clone()), part_bytes as usize, batch_rows))
    }

    fn draft(&self, name: &str, schema: &Schema, head_end: Option<u64>) -> Result<FileDraft, Error> {
        let path = self.catalog.path(name)?;
        FileDraft::begin(path, self.catalog.lock()?, schema, self.memory_bytes(), head_end)
    }

    fn part_bytes(&self) -> u64 {
        let frame = FRAME_BYTES as u64;
        (self.memory_bytes() / PART_PART / frame).clamp(1, PART_FRAMES_MAX) * frame
    }

    /// Writes all batches of a reader under a name, in place of what had it.
    ///
    /// # Errors
    /// As [`Store::writer`] and [`TableWriter::append`]; [`Error::Arrow`] of the reader.
    pub fn put_table(
        &self,
        name: &str,
        reader: impl RecordBatchReader,
        batch_rows: Option<usize>,
    ) -> Result<(), Error> {
        let schema = reader.schema();
        let mut writer = self.writer(name, &schema, batch_rows)?;
        if has_dictionary_column(&schema) {
            for batch in unify_dictionaries(reader.collect::<Result<_, _>>()?)? {
                writer.append(&batch)?;
            }
        } else {
            for batch in reader {
                writer.append(&batch?)?;
            }
        }
        writer.commit()
    }

    /// Writes an array under a name, in place of what had it.
    ///
    /// # Errors
    /// As [`Store::writer`]; [`Error::TooLarge`] for a row that does not fit in memory.
    pub fn put_array(&self, name: &str, array: &ArraySource, batch_rows: Option<u64>) -> Result<(), Error> {
        let (batch, data_offset) = array.batch()?;
        let (rows, row_bytes) = (array.rows(), array.row_bytes());
        let (part_rows, batch_rows) = match batch_rows {
            Some(0) => return Err(Error::Invalid("a batch has at least one row".to_owned())),
            Some(batch_rows) => (array.part_rows(FRAME_BYTES as u64, batch_rows), batch_rows),
            None => {
                let rows = array.part_rows(self.part_bytes(), 1);
                (rows, rows)
            }
        };
        // What comes before the rows is the first part.
        let has_rows = rows * row_bytes > 0;
        let mut draft = self.draft(name, &batch.schema(), has_rows.then_some(data_offset))?;
        if has_rows {
            let ends = (1..=rows.div_ceil(part_rows))
                .map(|n| data_offset + n.saturating_mul(part_rows).min(rows) * row_bytes);
            draft.file.get_mut().cut_at(ends);
        }
        draft.write(&batch)?;
        draft.check_sizes(draft.parts())?;
        let shape = ArrayShape {
            dtype: array.dtype.clone(),
            shape: array.shape.clone(),
            row_bytes,
            data_offset,
            part_rows,
            batch_rows,
        };
        let layout = Layout {
            kind: Kind::Array,
            rows,
            parts: draft.parts().to_vec(),
            has_dictionaries: false,
            array: Some(shape),
        };
        draft.commit(&layout)
    }

    /// All rows of an array in one piece, in place.
    ///
    /// # Errors
    /// As [`Table::whole`].
    pub fn array(&self, table: &Table) -> Result<crate::Bytes, Error> {
        table.whole(&self.regions, self.memory_bytes())
    }

    /// Reads a table or array again and again.
    #[must_use]
    pub fn scan(&self, table: Arc<Table>, options: ScanOptions) -> Scan {
        Scan::new(table, options, self.memory_bytes())
    }

    /// Takes a name away. What is open stays readable until it is dropped.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Busy`], [`Error::Io`].
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        self.catalog.remove(name)?;
        lock(&self.open).remove(name);
        Ok(())
    }

    /// Names in order.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn names(&self) -> Result<Vec<String>, Error> {
        self.catalog.names()
    }

    /// Whether there is something under this name.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn contains(&self, name: &str) -> Result<bool, Error> {
        match self.catalog.identity(name) {
            Ok(_) => Ok(true),
            Err(Error::Missing { .. } | Error::Invalid(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Compares all bytes of a name with their checksums.
    ///
    /// # Errors
    /// [`Error::Missing`]; [`Error::BadFile`] if not even its parts are known; [`Error::Io`].
    pub fn verify(&self, name: &str) -> Result<Vec<Damage>, Error> {
        self.catalog.identity(name)?;
        verify(&self.catalog.path(name)?, &mut |_| {})
    }

    /// What the memory is used for.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        self.regions.stats()
    }
}

fn region_names(open: &OpenTables) -> HashMap<u64, String> {
    open.iter().map(|(name, table)| (table.region_id(), name.clone())).collect()
}
