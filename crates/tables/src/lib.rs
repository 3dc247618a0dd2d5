//! Named tables and arrays: Arrow IPC files whose batches are segments of a region store.
//!
//! A [`Store`] is a directory of files `NAME.arrow` and a [`warmset_region::Store`] that reads them. A table's record
//! batches are segments; an array is one batch whose rows are cut into segments. What is read is shown in place:
//! [`Table::batch`] makes no copy, and the [`RecordBatch`](arrow_array::RecordBatch)'s buffers hold their segment.
//!
//! Invariants:
//! 1. A file under its name is whole (see [`warmset_platform::io::Publish`]); it is never changed, only replaced.
//! 2. Every byte that is shown was compared with its checksum when it came into memory.
//! 3. A segment stays where it is as long as a buffer of it is alive.
//! 4. One process at a time writes to a directory; any number reads. A writer that dies leaves no lock and no file.
//!
//! Arrow's own checks of offsets and text are skipped for files that carry this crate's checksums: this crate wrote
//! them from arrays that were valid. Who can write to the directory can forge them; it is made with mode 0700.
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{Int64Array, RecordBatch};
//! use warmset_tables::{Options, Store};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! let store = Store::open(Options::new(dir, 64 << 20))?;
//! let batch = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1, 2, 3])) as _)])?;
//! let mut writer = store.writer("numbers", &batch.schema(), None)?;
//! writer.append(&batch)?;
//! writer.commit()?;
//!
//! let table = store.table("numbers")?;
//! assert_eq!(table.batch(0)?, batch);
//! # Ok(())
//! # }
//! ```
//!
//! Not done here: what stays in memory (`warmset_region`), the Python side.

mod array;
mod catalog;
mod directory;
mod error;
mod held;
mod layout;
mod scan;
mod sink;
mod store;
mod table;
mod verify;
mod writer;

pub use array::{ArraySource, Element};
pub use directory::{Directory, Entry};
pub use error::Error;
pub use held::{Bytes, watch_forks};
pub use layout::{ArrayShape, Kind};
pub use scan::{Piece, Scan, ScanOptions};
pub use store::{Options, Store};
pub use table::Table;
pub use verify::Damage;
pub use writer::TableWriter;
