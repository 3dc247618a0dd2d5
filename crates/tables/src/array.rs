//! Arrays of fixed-size elements as Arrow columns.
//!
//! Invariant: an array's column has no bitmap, so its bytes lie in the file as they lie in memory, row after row.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::error::Error;
use crate::layout::ALIGN_BYTES;
use crate::sink::Measure;

/// What an array's rows are called as a column.
const COLUMN: &str = "values";
/// Not seen by Arrow: makes the rows begin at a multiple of 4096 in the file.
const PADDING: &str = "warmset.padding";
/// Arrow's writer pads buffers to this.
const MESSAGE_ALIGN_BYTES: u64 = 64;

/// What an array's elements are to Arrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// A number, a time, or bytes of a fixed size.
    pub data_type: DataType,
    /// Bytes of one.
    pub bytes: u64,
}

/// An array in memory: rows of equal shape, one after the other.
#[derive(Debug, Clone)]
pub struct ArraySource {
    /// Of what.
    pub element: Element,
    /// Elements in each dimension, at least one dimension; rows first.
    pub shape: Vec<u64>,
    /// NumPy's name of the elements' type.
    pub dtype: String,
    /// All bytes.
    pub data: Buffer,
}

impl ArraySource {
    pub(crate) fn rows(&self) -> u64 {
        self.shape[0]
    }

    pub(crate) fn row_bytes(&self) -> u64 {
        self.shape[1..].iter().product::<u64>() * self.element.bytes
    }

    /// As a column: numbers, or lists of them with Arrow's extension type for tensors.
    ///
    /// # Errors
    /// [`Error::Invalid`] if shape and bytes do not fit each other, or a row has more elements than Arrow can count.
    pub fn column(&self, name: &str) -> Result<(Field, ArrayRef), Error> {
        let bytes = self.shape.iter().try_fold(self.element.bytes, |bytes, &n| bytes.checked_mul(n));
        if self.shape.is_empty() || bytes != Some(self.data.len() as u64) {
            let (shape, bytes) = (&self.shape, self.data.len());
            return Err(Error::Invalid(format!("an array of shape {shape:?} does not have {bytes} bytes")));
        }
        let inner = self.shape[1..].iter().product::<u64>();
        let elements = self.shape.iter().product::<u64>();
        let mut builder = ArrayData::builder(self.element.data_type.clone()).len(elements as usize);
        builder = builder.add_buffer(self.data.clone());
        let values = builder.build()?;
        if self.shape.len() == 1 {
            return Ok((Field::new(name, self.element.data_type.clone(), false), make_array(values)));
        }
        let size = i32::try_from(inner)
            .map_err(|_| Error::Invalid(format!("a row of {inner} elements is too long for Arrow")))?;
        let item = Field::new("item", self.element.data_type.clone(), false);
        let data_type = DataType::FixedSizeList(Arc::new(item), size);
        let rows = ArrayData::builder(data_type.clone()).len(self.rows() as usize).add_child_data(values);
        let shape: Vec<String> = self.shape[1..].iter().map(u64::to_string).collect();
        let metadata = HashMap::from([
            ("ARROW:extension:name".to_owned(), "arrow.fixed_shape_tensor".to_owned()),
            ("ARROW:extension:metadata".to_owned(), format!("{{\"shape\":[{}]}}", shape.join(","))),
        ]);
        Ok((Field::new(name, data_type, false).with_metadata(metadata), make_array(rows.build()?)))
    }

    /// As the one batch of a file, and where its rows will begin there: at a multiple of 4096.
    pub(crate) fn batch(&self) -> Result<(RecordBatch, u64), Error> {
        let (field, column) = self.column(COLUMN)?;
        let batch = |padding: u64| -> Result<RecordBatch, Error> {
            let metadata = HashMap::from([(PADDING.to_owned(), "0".repeat(padding as usize))]);
            let schema = Schema::new(vec![field.clone()]).with_metadata(metadata);
            Ok(RecordBatch::try_new(Arc::new(schema), vec![Arc::clone(&column)])?)
        };
        let begins_at = |batch: &RecordBatch| -> Result<u64, Error> {
            let mut file = FileWriter::try_new(Measure::default(), &batch.schema())?;
            file.write(batch)?;
            // The body is these bytes, padded, and nothing else; it comes last.
            Ok(file.get_ref().bytes() - (self.data.len() as u64).next_multiple_of(MESSAGE_ALIGN_BYTES))
        };
        let at = begins_at(&batch(0)?)?;
        let padded = batch(at.next_multiple_of(ALIGN_BYTES) - at)?;
        let at = begins_at(&padded)?;
        Ok((padded, at))
    }

    /// Rows of a part of about `bytes`, a multiple of `batch_rows`: exactly that much where rows fill it and it begins
    /// at a multiple of 4096, else with room for what is before the first row.
    pub(crate) fn part_rows(&self, bytes: u64, batch_rows: u64) -> u64 {
        let batch_bytes = self.row_bytes().max(1).saturating_mul(batch_rows);
        let batches = bytes / batch_bytes;
        if batches > 0 && batches * batch_bytes % ALIGN_BYTES == 0 {
            return batches * batch_rows;
        }
        (bytes.saturating_sub(ALIGN_BYTES) / batch_bytes).max(1).saturating_mul(batch_rows)
    }
}

/// The schema without what this crate added for its own sake.
pub(crate) fn without_padding(schema: &SchemaRef) -> SchemaRef {
    let mut metadata = schema.metadata().clone();
    match metadata.remove(PADDING) {
        Some(_) => Arc::new(Schema::new_with_metadata(schema.fields().clone(), metadata)),
        None => Arc::clone(schema),
    }
}
