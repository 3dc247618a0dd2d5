//! Files being written: aside, in parts of a few frames, and named when they are whole and synced.
//!
//! Invariant: until [`FileDraft::commit`] nothing is seen under the name. A part never exceeds the store's memory.

use std::mem;
use std::path::PathBuf;
use std::slice;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use arrow_select::concat::{concat, concat_batches};
use warmset_platform::fork::Origin;
use warmset_platform::io::{DataFile, FileLock, Publish};

use crate::error::Error;
use crate::layout::{Layout, Part};
use crate::sink::Sink;

/// A file of a store being written.
pub(crate) struct FileDraft {
    publish: Publish,
    pub file: FileWriter<Sink>,
    path: PathBuf,
    memory_bytes: u64,
    /// Held until the file has its name.
    _lock: Arc<FileLock>,
    origin: Origin,
}

impl FileDraft {
    /// `head_end`: where the first part ends; none: after the schema.
    pub fn begin(
        path: PathBuf,
        lock: Arc<FileLock>,
        schema: &Schema,
        memory_bytes: u64,
        head_end: Option<u64>,
    ) -> Result<Self, Error> {
        let failed = |error| Error::io("write", &path, error);
        let mut publish = Publish::begin(&path).map_err(failed)?;
        let direct = DataFile::reopen(publish.file()).map_err(failed)?;
        let mut file = FileWriter::try_new(Sink::new(direct), schema)?;
        match head_end {
            Some(end) => file.get_mut().cut_at([end]),
            None => file.get_mut().cut(),
        }
        Ok(Self { publish, file, path, memory_bytes, _lock: lock, origin: Origin::here() })
    }

    /// A forked child has the parent's file open, and would write to the same places.
    fn check_origin(&self) -> Result<(), Error> {
        if self.origin.is_here() {
            return Ok(());
        }
        let path = self.path.display();
        Err(Error::Invalid(format!(
            "{path} is being written by the process that this one was forked from: only that one can"
        )))
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.check_origin()?;
        self.file.write(batch).map_err(|error| self.explain(error))
    }

    /// Ends a part.
    pub fn cut(&mut self) -> Result<(), Error> {
        self.file.get_mut().cut();
        self.check_sizes(self.parts().last().map_or(&[], slice::from_ref))
    }

    /// Bytes written since the last cut.
    pub fn part_bytes(&self) -> u64 {
        let sink = self.file.get_ref();
        sink.position() - sink.parts().last().map_or(0, Part::end)
    }

    pub fn parts(&self) -> &[Part] {
        self.file.get_ref().parts()
    }

    /// Refuses parts that the store could not read.
    pub fn check_sizes(&self, parts: &[Part]) -> Result<(), Error> {
        let largest = parts.iter().map(|part| part.bytes).max().unwrap_or_default();
        if largest > self.memory_bytes {
            return Err(Error::TooLarge {
                what: format!("a part of {}", self.path.display()),
                bytes: largest,
                memory_bytes: self.memory_bytes,
                remedy: "write smaller rows, or open the store with more memory",
            });
        }
        Ok(())
    }

    /// Ends the file and gives it its name.
    pub fn commit(mut self, layout: &Layout) -> Result<(), Error> {
        self.check_origin()?;
        for (key, value) in layout.encode() {
            self.file.write_metadata(key, value);
        }
        self.file.finish().map_err(|error| self.explain(error))?;
        let Self { mut publish, file, path, .. } = self;
        let failed = |error| Error::io("write", &path, error);
        let end = file.into_inner()?.finish().map_err(failed)?;
        publish.file().set_len(end).map_err(failed)?;
        publish.commit().map_err(failed)
    }

    /// Errors of the file are not Arrow's.
    fn explain(&self, error: ArrowError) -> Error {
        match error {
            ArrowError::IoError(_, source) => Error::io("write", &self.path, source),
            ArrowError::InvalidArgumentError(text) if text.starts_with("Dictionary replacement") => Error::Invalid(
                "the batches have different dictionaries for one column, and an Arrow file has one: unify them first \
                 (with pyarrow: `table.unify_dictionaries()`)"
                    .to_owned(),
            ),
            other => other.into(),
        }
    }
}

/// Writes a table batch by batch; dropped before [`TableWriter::commit`], it leaves nothing.
pub struct TableWriter {
    draft: FileDraft,
    schema: SchemaRef,
    part_bytes: usize,
    batch_rows: Option<usize>,
    pending: Vec<RecordBatch>,
    pending_bytes: usize,
    pending_rows: usize,
    rows: u64,
    has_dictionaries: bool,
}

impl TableWriter {
    pub(crate) fn new(
        draft: FileDraft,
        schema: SchemaRef,
        part_bytes: usize,
        batch_rows: Option<usize>,
    ) -> Self {
        Self {
            draft,
            schema,
            part_bytes,
            batch_rows,
            pending: Vec::new(),
            pending_bytes: 0,
            pending_rows: 0,
            rows: 0,
            has_dictionaries: false,
        }
    }

    /// Adds rows; batches that are small are joined, those that are large are cut.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another schema than the writer's, [`Error::TooLarge`] for a row that does not fit the
    /// store's memory, [`Error::Io`] for a full disk.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let fits = batch.schema().fields() == self.schema.fields();
        if !fits {
            let (found, wanted) = (batch.schema(), &self.schema);
            return Err(Error::Invalid(format!(
                "the batch has the columns {}, the writer has {}",
                describe(&found),
                describe(wanted)
            )));
        }
        let batch = RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            batch.columns().to_vec(),
            &arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
        )?;
        let size = bytes_of(&batch)?;
        let rows_at_once = match self.batch_rows {
            Some(rows) => rows,
            None if size <= self.part_bytes => batch.num_rows().max(1),
            None => (batch.num_rows() as u128 * self.part_bytes as u128 / size as u128).max(1) as usize,
        };
        let mut start = 0;
        while start < batch.num_rows() {
            // With rows counted, a part that has begun is filled first.
            let room = self.batch_rows.map_or(rows_at_once, |rows| rows - self.pending_rows);
            let count = room.min(batch.num_rows() - start);
            self.add(batch.slice(start, count))?;
            start += count;
        }
        Ok(())
    }

    /// Adds a piece that may be a part.
    fn add(&mut self, piece: RecordBatch) -> Result<(), Error> {
        let size = bytes_of(&piece)?;
        if self.batch_rows.is_none() {
            // Where rows differ in length, an even cut may be too large.
            if size > self.part_bytes + self.part_bytes / 4 && piece.num_rows() > 1 {
                let half = piece.num_rows() / 2;
                self.add(piece.slice(0, half))?;
                return self.add(piece.slice(half, piece.num_rows() - half));
            }
            if self.pending_bytes + size > self.part_bytes {
                self.flush()?;
            }
        }
        self.pending_bytes += size;
        self.pending_rows += piece.num_rows();
        self.pending.push(piece);
        if self.batch_rows.is_some_and(|rows| self.pending_rows >= rows) { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let pending = mem::take(&mut self.pending);
        (self.pending_bytes, self.pending_rows) = (0, 0);
        let batch = match pending.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            many => concat_batches(&self.schema, many)?,
        };
        let batch = compact(&batch)?;
        if self.rows == 0 && self.schema.fields().iter().any(|field| has_dictionary(field.data_type())) {
            self.draft.write(&batch.slice(0, 0))?;
            self.draft.cut()?;
            self.has_dictionaries = true;
        }
        let before = self.draft.part_bytes();
        self.draft.write(&batch)?;
        self.rows += batch.num_rows() as u64;
        // Another one of this size would be too much.
        let after = self.draft.part_bytes();
        if after + (after - before) > self.part_bytes as u64 { self.draft.cut() } else { Ok(()) }
    }

    /// Rows that are in the file or about to be.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows + self.pending_rows as u64
    }

    /// Writes what is left and gives the file its name, in place of what had it before.
    ///
    /// # Errors
    /// As [`TableWriter::append`].
    pub fn commit(mut self) -> Result<(), Error> {
        self.flush()?;
        if self.draft.part_bytes() > 0 {
            self.draft.cut()?;
        }
        let layout = Layout {
            kind: crate::Kind::Table,
            rows: self.rows,
            parts: self.draft.parts().to_vec(),
            has_dictionaries: self.has_dictionaries,
            array: None,
        };
        self.draft.commit(&layout)
    }
}

fn describe(schema: &Schema) -> String {
    let columns: Vec<String> =
        schema.fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type())).collect();
    format!("[{}]", columns.join(", "))
}

/// About how many bytes a batch has in a file.
fn bytes_of(batch: &RecordBatch) -> Result<usize, Error> {
    batch.columns().iter().try_fold(0, |sum, column| {
        let data = column.to_data();
        // Of a view, what it shows of its buffers.
        let shown: usize = match column.data_type() {
            DataType::Utf8View => column.as_string_view().total_buffer_bytes_used(),
            DataType::BinaryView => column.as_binary_view().total_buffer_bytes_used(),
            _ => 0,
        };
        Ok(sum + data.get_slice_memory_size()? + shown)
    })
}

/// Views without the bytes that they do not show.
fn compact(batch: &RecordBatch) -> Result<RecordBatch, Error> {
    let columns = batch.columns().iter().map(|column| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().gc()),
            DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
            _ => Arc::clone(column),
        }
    });
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns.collect(), &options)?)
}

fn has_dictionary(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(..) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _)
        | DataType::RunEndEncoded(_, field) => has_dictionary(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_dictionary(field.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_dictionary(field.data_type())),
        _ => false,
    }
}

/// The same batches with one dictionary for each column, where a column is one.
pub(crate) fn unify_dictionaries(batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>, Error> {
    let Some(first) = batches.first() else { return Ok(batches) };
    let schema = first.schema();
    let mut columns: Vec<Vec<ArrayRef>> = batches.iter().map(|batch| batch.columns().to_vec()).collect();
    for (n, field) in schema.fields().iter().enumerate() {
        if !matches!(field.data_type(), DataType::Dictionary(..)) {
            continue;
        }
        let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(n).as_ref()).collect();
        let joined = concat(&parts)?;
        let mut start = 0;
        for (columns, batch) in columns.iter_mut().zip(&batches) {
            columns[n] = joined.slice(start, batch.num_rows());
            start += batch.num_rows();
        }
    }
    let unified = columns.into_iter().map(|columns| RecordBatch::try_new(Arc::clone(&schema), columns));
    Ok(unified.collect::<Result<_, _>>()?)
}

/// Whether [`unify_dictionaries`] may change something.
pub(crate) fn has_dictionary_column(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| matches!(field.data_type(), DataType::Dictionary(..)))
}
