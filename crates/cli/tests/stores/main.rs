//! The commands that look at stores, as a user meets them: `warmset store` and `warmset top`.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Float64Array, Int64Array, RecordBatch, RecordBatchIterator};
use warmset_tables::{ArraySource, Element, Options, Store};

mod store;
mod top;

/// A table of a million numbers and an array of 1000 by 4, in a store of this process.
fn filled(dir: &Path) -> Store {
    let store = Store::open(Options::new(dir, 32 << 20)).unwrap();
    let numbers = Arc::new(Int64Array::from_iter_values(0..1_000_000));
    let batch = RecordBatch::try_from_iter([("n", numbers as _)]).unwrap();
    let reader = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
    store.put_table("numbers", reader, None).unwrap();
    let data = Float64Array::from(vec![0.5; 4000]).values().inner().clone();
    let element = Element { data_type: arrow_schema::DataType::Float64, bytes: 8 };
    let dtype = "<f8".to_owned();
    let array = ArraySource { element, shape: vec![1000, 4], dtype, data };
    store.put_array("X", &array, None).unwrap();
    store
}
