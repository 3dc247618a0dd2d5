//! Arrow data of another library.
//!
//! Invariant: no array has an offset above arrays with one of their own. `arrow-array` would cut structures within
//! structures (and within unions and lists of a fixed size) twice, and panic.

use std::ffi::CStr;

use arrow_array::ffi::{FFI_ArrowArray, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchOptions, RecordBatchReader, StructArray};
use arrow_data::ArrayData;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef, UnionMode};

/// A stream of batches by Arrow's C interface.
pub(crate) struct Stream {
    stream: FFI_ArrowArrayStream,
    schema: SchemaRef,
}

impl Stream {
    /// Takes the stream over.
    ///
    /// # Errors
    /// For one that was taken before, and what its source says.
    pub fn new(mut stream: FFI_ArrowArrayStream) -> Result<Self, ArrowError> {
        let Some(get_schema) = stream.get_schema.filter(|_| stream.release.is_some()) else {
            return Err(ArrowError::CDataInterface("the stream was read before".to_owned()));
        };
        let mut schema = FFI_ArrowSchema::empty();
        // SAFETY: the stream is not released, and the schema is for it to fill.
        let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
        if code != 0 {
            return Err(last_error(&mut stream, code));
        }
        let schema = Schema::try_from(&schema)?.into();
        Ok(Self { stream, schema })
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let get_next = self.stream.get_next?;
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: the stream is not released while `self` lives, and the array is for it to fill.
        let code = unsafe { get_next(&raw mut self.stream, &raw mut array) };
        if code != 0 {
            return Some(Err(last_error(&mut self.stream, code)));
        }
        if array.is_released() {
            return None;
        }
        let rows = DataType::Struct(self.schema.fields().clone());
        // SAFETY: the stream's arrays have the stream's schema.
        let data = unsafe { from_ffi_and_data_type(array, rows) };
        Some(data.and_then(|data| batch_of(data, &self.schema)))
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

fn last_error(stream: &mut FFI_ArrowArrayStream, code: i32) -> ArrowError {
    // SAFETY: the stream is not released; its text is valid until its next call.
    let text =
        stream.get_last_error.map(|get| unsafe { get(&raw mut *stream) }).filter(|text| !text.is_null());
    let text = text.map_or_else(
        || std::io::Error::from_raw_os_error(code).to_string(),
        // SAFETY: as above: a text that ends in a zero.
        |text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    );
    ArrowError::CDataInterface(text)
}

/// A batch of an imported structure.
///
/// # Errors
/// For missing rows.
pub(crate) fn batch_of(data: ArrayData, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if data.null_count() > 0 {
        let text = "a table has no missing rows, only missing values".to_owned();
        return Err(ArrowError::InvalidArgumentError(text));
    }
    let rows = RecordBatchOptions::new().with_row_count(Some(data.len()));
    let columns = StructArray::from(straight(&data)).into_parts().1;
    RecordBatch::try_new_with_options(SchemaRef::clone(schema), columns, &rows)
}

/// The same array; structures in it, and what is cut with them, begin at 0.
fn straight(data: &ArrayData) -> ArrayData {
    if data.child_data().is_empty() {
        return data.clone();
    }
    let children = data.child_data().iter().map(straight).collect();
    // SAFETY: equal values in each place: `straight` changes where an array says that it begins, and nothing else.
    let data = unsafe { data.clone().into_builder().child_data(children).build_unchecked() };
    cut(&data, 0, data.len())
}

/// A part of an array whose children are straight; where they are cut with it, it begins at 0.
fn cut(data: &ArrayData, offset: usize, len: usize) -> ArrayData {
    // Elements of the children for one of the array.
    let width = match data.data_type() {
        DataType::Struct(_) | DataType::Union(_, UnionMode::Sparse) => 1,
        DataType::FixedSizeList(_, width) => usize::try_from(*width).unwrap_or(0),
        _ => return data.slice(offset, len),
    };
    let start = data.offset() + offset;
    let cut_child = |child: &ArrayData| cut(child, start * width, len * width);
    let children = data.child_data().iter().map(cut_child).collect();
    // Only a union has a buffer: a byte for each element.
    let buffers = data.buffers().iter().map(|types| types.slice_with_length(start, len)).collect();
    let nulls = data.nulls().map(|nulls| nulls.slice(offset, len));
    let builder = data.clone().into_builder().offset(0).len(len).buffers(buffers).nulls(nulls);
    // SAFETY: the same elements as before, cut in every part of the array alike.
    unsafe { builder.child_data(children).build_unchecked() }
}
