//! Arrow data to and from Python by the PyCapsule interface.
//!
//! Invariant: a capsule's structure is taken over by moving it out, which leaves a released one behind.

use std::ffi::CStr;

use arrow_array::ffi::{FFI_ArrowArray, from_ffi, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, Schema};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use warmset_tables::Error;

use crate::errors::exception;
use crate::import::{self, Stream};

const STREAM: &CStr = c"arrow_array_stream";
const ARRAY: &CStr = c"arrow_array";
const SCHEMA: &CStr = c"arrow_schema";

/// Batches from somewhere else.
pub(crate) type Reader = Box<dyn RecordBatchReader + Send>;

fn failed(error: ArrowError) -> PyErr {
    exception(Error::Arrow(error))
}

/// The batches of a Python object that exports them.
pub(crate) fn reader_of(object: &Bound<'_, PyAny>) -> PyResult<Reader> {
    if object.hasattr("__arrow_c_stream__")? {
        let capsule = object.call_method0("__arrow_c_stream__")?;
        let capsule = capsule.cast::<PyCapsule>()?;
        let stream = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
        // SAFETY: the capsule's name says that it has such a structure; the interface lets the consumer move it out.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
        return Ok(Box::new(Stream::new(stream).map_err(failed)?));
    }
    if object.hasattr("__arrow_c_array__")? {
        let batch = batch_of(object)?;
        let schema = batch.schema();
        return Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
    }
    let type_name = object.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "{type_name} is neither an Arrow table (it has no __arrow_c_stream__) nor a NumPy array nor a dict of arrays"
    )))
}

fn batch_of(object: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let pair = object.call_method0("__arrow_c_array__")?;
    let pair = pair.cast::<PyTuple>()?;
    let (schema, array) = (pair.get_item(0)?, pair.get_item(1)?);
    let schema = schema.cast::<PyCapsule>()?.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = array.cast::<PyCapsule>()?.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: the capsules' names say that they have such structures, which the consumer may move out.
    let (schema, array) =
        unsafe { (FFI_ArrowSchema::from_raw(schema.as_ptr()), FFI_ArrowArray::from_raw(array.as_ptr())) };
    let rows = Schema::try_from(&schema).map_err(|_| {
        PyValueError::new_err("a single Arrow array is not a table: give it as a column, {\"name\": array}")
    })?;
    // SAFETY: array and schema came together from one export.
    let data = unsafe { from_ffi(array, &schema) }.map_err(failed)?;
    import::batch_of(data, &rows.into()).map_err(failed)
}

/// The schema of a Python object that exports one.
pub(crate) fn schema_of(object: &Bound<'_, PyAny>) -> PyResult<Schema> {
    if !object.hasattr("__arrow_c_schema__")? {
        return Err(PyTypeError::new_err("the schema is not an Arrow schema: it has no __arrow_c_schema__"));
    }
    let capsule = object.call_method0("__arrow_c_schema__")?;
    let schema = capsule.cast::<PyCapsule>()?.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    // SAFETY: the capsule's name says that it has such a structure, which lives as long as the capsule.
    Schema::try_from(unsafe { schema.as_ref() }).map_err(failed)
}

pub(crate) fn column_names(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

pub(crate) fn export_schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowSchema::try_from(schema).map_err(failed)?, SCHEMA)
}

pub(crate) fn export_stream(py: Python<'_>, reader: Reader) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// A record batch of a store, shown in place for as long as anything of it lives.
#[pyclass(module = "warmset", frozen)]
pub struct Batch {
    batch: RecordBatch,
}

impl Batch {
    pub(crate) fn new(batch: RecordBatch) -> Self {
        Self { batch }
    }
}

#[pymethods]
impl Batch {
    /// Rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        column_names(&self.batch.schema())
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export_schema(py, &self.batch.schema())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // An exporter may ignore what is asked for.
        drop(requested_schema);
        let rows = StructArray::from(self.batch.clone());
        let (array, _) = to_ffi(&rows.to_data()).map_err(failed)?;
        Ok((export_schema(py, &self.batch.schema())?, PyCapsule::new_with_value(py, array, ARRAY)?))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        export_stream(py, Box::new(batches))
    }

    fn __repr__(&self) -> String {
        format!("<warmset.Batch: {} rows, columns {:?}>", self.batch.num_rows(), self.column_names())
    }
}
