//! Stores, tables, scans and writers as Python objects.
//!
//! Invariant: an object holds what it needs, so that they may go in any order.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchReader};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use warmset_tables::{ArraySource, Kind, Options, Piece, ScanOptions, TableWriter};

use crate::arrow::{Batch, column_names, export_schema, export_stream, reader_of, schema_of};
use crate::buffers::{Pinned, buffer_of};
use crate::elements::element;
use crate::errors::exception;

/// A directory of tables and arrays, and the memory that they are read into.
#[pyclass(module = "warmset._native", frozen)]
pub struct Store {
    inner: Arc<warmset_tables::Store>,
}

/// A column or array as Python gives it: its bytes, shape, element and NumPy's name of that.
type ArrayParts<'py> = (Bound<'py, PyAny>, Vec<u64>, String, String);

fn source((data, shape, name, dtype): ArrayParts<'_>) -> PyResult<ArraySource> {
    Ok(ArraySource { element: element(&name)?, shape, dtype, data: buffer_of(&data)? })
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (dir, memory_bytes, memory_max_bytes=None))]
    fn new(py: Python<'_>, dir: PathBuf, memory_bytes: u64, memory_max_bytes: Option<u64>) -> PyResult<Self> {
        let options = Options { dir, memory_bytes, memory_bytes_max: memory_max_bytes };
        let inner = py.detach(|| warmset_tables::Store::open(options)).map_err(exception)?;
        Ok(Self { inner: Arc::new(inner) })
    }

    #[getter]
    fn dir(&self) -> PathBuf {
        self.inner.dir().to_owned()
    }

    #[getter]
    fn memory_bytes(&self) -> u64 {
        self.inner.memory_bytes()
    }

    #[pyo3(signature = (name, table, batch_rows=None))]
    fn put_table(
        &self,
        py: Python<'_>,
        name: &str,
        table: &Bound<'_, PyAny>,
        batch_rows: Option<usize>,
    ) -> PyResult<()> {
        let reader = reader_of(table)?;
        py.detach(|| self.inner.put_table(name, reader, batch_rows)).map_err(exception)
    }

    #[pyo3(signature = (name, array, batch_rows=None))]
    fn put_array(
        &self,
        py: Python<'_>,
        name: &str,
        array: ArrayParts<'_>,
        batch_rows: Option<u64>,
    ) -> PyResult<()> {
        let source = source(array)?;
        py.detach(|| self.inner.put_array(name, &source, batch_rows)).map_err(exception)
    }

    #[pyo3(signature = (name, columns, batch_rows=None))]
    fn put_columns(
        &self,
        py: Python<'_>,
        name: &str,
        columns: Vec<(String, ArrayParts<'_>)>,
        batch_rows: Option<usize>,
    ) -> PyResult<()> {
        let mut fields = Vec::new();
        let mut arrays = Vec::new();
        for (column, parts) in columns {
            let (field, array) = if parts.2 == "bool" {
                let bytes = buffer_of(&parts.0)?;
                let bits = BooleanBuffer::collect_bool(bytes.len(), |n| bytes[n] != 0);
                let array: ArrayRef = Arc::new(BooleanArray::new(bits, None));
                (Field::new(column, DataType::Boolean, false), array)
            } else {
                source(parts)?.column(&column).map_err(exception)?
            };
            fields.push(field);
            arrays.push(array);
        }
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let reader = arrow_array::RecordBatchIterator::new([Ok(batch)], schema);
        py.detach(|| self.inner.put_table(name, reader, batch_rows)).map_err(exception)
    }

    fn get(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let table = py.detach(|| self.inner.table(name)).map_err(exception)?;
        Ok(Table { store: Arc::clone(&self.inner), table })
    }

    #[pyo3(signature = (name, schema, batch_rows=None))]
    fn writer(
        &self,
        py: Python<'_>,
        name: &str,
        schema: &Bound<'_, PyAny>,
        batch_rows: Option<usize>,
    ) -> PyResult<Writer> {
        let schema = schema_of(schema)?;
        let writer = py.detach(|| self.inner.writer(name, &schema, batch_rows)).map_err(exception)?;
        Ok(Writer { inner: Mutex::new(Some(writer)) })
    }

    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| self.inner.remove(name)).map_err(exception)
    }

    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        py.detach(|| self.inner.names()).map_err(exception)
    }

    fn contains(&self, name: &str) -> PyResult<bool> {
        self.inner.contains(name).map_err(exception)
    }

    /// Damaged parts: path, offset and bytes.
    fn verify(&self, py: Python<'_>, name: &str) -> PyResult<Vec<(PathBuf, u64, u64)>> {
        let found = py.detach(|| self.inner.verify(name)).map_err(exception)?;
        Ok(found.into_iter().map(|damage| (damage.path, damage.offset, damage.bytes)).collect())
    }

    /// Statistics as JSON.
    fn stats(&self) -> PyResult<String> {
        serde_json::to_string(&self.inner.stats()).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn resize(&self, memory_bytes: u64) -> PyResult<()> {
        self.inner.resize(memory_bytes).map_err(exception)
    }
}

/// A table or array of a store.
#[pyclass(module = "warmset._native", frozen)]
pub struct Table {
    store: Arc<warmset_tables::Store>,
    table: Arc<warmset_tables::Table>,
}

#[pymethods]
impl Table {
    #[getter]
    fn is_array(&self) -> bool {
        self.table.kind() == Kind::Array
    }

    #[getter]
    fn num_rows(&self) -> u64 {
        self.table.rows()
    }

    #[getter]
    fn nbytes(&self) -> u64 {
        self.table.bytes()
    }

    #[getter]
    fn num_batches(&self) -> usize {
        self.table.pieces()
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        column_names(self.table.schema())
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.table.path().to_owned()
    }

    /// Of an array.
    #[getter]
    fn shape(&self) -> Option<Vec<u64>> {
        self.table.array().map(|array| array.shape.clone())
    }

    /// Of an array: NumPy's name of its elements' type.
    #[getter]
    fn dtype(&self) -> Option<String> {
        self.table.array().map(|array| array.dtype.clone())
    }

    fn batch(&self, py: Python<'_>, n: usize) -> PyResult<Batch> {
        py.detach(|| self.table.batch(n)).map(Batch::new).map_err(exception)
    }

    /// All rows of an array.
    fn whole(&self, py: Python<'_>) -> PyResult<Pinned> {
        py.detach(|| self.store.array(&self.table)).map(Pinned::new).map_err(exception)
    }

    #[pyo3(signature = (epochs=1, shuffle=None))]
    fn scan(&self, epochs: u64, shuffle: Option<u64>) -> Scan {
        let options = ScanOptions { epochs, shuffle };
        Scan { inner: Mutex::new(self.store.scan(Arc::clone(&self.table), options)) }
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export_schema(py, self.table.schema())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        if self.is_array() {
            return Err(PyValueError::new_err("an array is read with array() or scan(), not as a table"));
        }
        let options = ScanOptions { epochs: 1, shuffle: None };
        let scan = self.store.scan(Arc::clone(&self.table), options);
        export_stream(py, Box::new(Batches { schema: Arc::clone(self.table.schema()), scan }))
    }
}

/// One scan as Arrow's consumers read it.
struct Batches {
    schema: SchemaRef,
    scan: warmset_tables::Scan,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.scan.next()? {
            Ok(Piece::Batch(batch)) => Some(Ok(batch)),
            Ok(Piece::Rows(..)) => {
                Some(Err(ArrowError::InvalidArgumentError("an array is no table".to_owned())))
            }
            Err(error) if error.is_no_space() => Some(Err(ArrowError::MemoryError(format!(
                "{error}. All batches are held at once: read {} with scan(), which lets go of each",
                self.scan.table().path().display()
            )))),
            Err(error) => Some(Err(ArrowError::ExternalError(Box::new(error)))),
        }
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// An iterator over batches, or over (bytes, first row, rows) of an array.
#[pyclass(module = "warmset._native", frozen)]
pub struct Scan {
    inner: Mutex<warmset_tables::Scan>,
}

#[pymethods]
impl Scan {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = py.detach(|| self.inner.lock().unwrap_or_else(PoisonError::into_inner).next());
        match next.transpose().map_err(exception)? {
            None => Ok(None),
            Some(Piece::Batch(batch)) => Batch::new(batch).into_bound_py_any(py).map(Some),
            Some(Piece::Rows(bytes, first, rows)) => {
                (Pinned::new(bytes), first, rows).into_bound_py_any(py).map(Some)
            }
        }
    }
}

/// A table being written. Its lock is waited for detached: who has it may wait for the interpreter.
#[pyclass(module = "warmset._native", frozen)]
pub struct Writer {
    inner: Mutex<Option<TableWriter>>,
}

impl Writer {
    fn lock(&self) -> MutexGuard<'_, Option<TableWriter>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed() -> warmset_tables::Error {
    warmset_tables::Error::Invalid("the writer is closed".to_owned())
}

#[pymethods]
impl Writer {
    fn append(&self, py: Python<'_>, table: &Bound<'_, PyAny>) -> PyResult<()> {
        let reader = reader_of(table)?;
        py.detach(|| {
            for batch in reader {
                // Getting it may have run Python; now the lock is taken for this one.
                let batch = batch?;
                self.lock().as_mut().ok_or_else(closed)?.append(&batch)?;
            }
            Ok(())
        })
        .map_err(exception)
    }

    #[getter]
    fn num_rows(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.lock().as_ref().map_or(0, TableWriter::rows))
    }

    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let taken = self.lock().take();
            taken.ok_or_else(closed)?.commit()
        })
        .map_err(exception)
    }

    /// Drops what was written.
    fn abort(&self, py: Python<'_>) {
        py.detach(|| drop(self.lock().take()));
    }
}
