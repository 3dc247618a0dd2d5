//! The Python boundary: `warmset._native`. Thin: it turns Python objects into Arrow data and back.
//!
//! Invariant: whatever reads or writes files runs detached from the interpreter. What Python sees of a store's memory
//! (an Arrow array, a buffer) owns its hold on it.

mod arrow;
mod buffers;
mod elements;
mod errors;
mod stores;

use pyo3::prelude::*;

/// Has the memory that is in use inherited by a child that is about to be forked, or kept from later ones.
#[pyfunction]
fn keep_over_fork(keep: bool) {
    warmset_tables::keep_over_fork(keep);
}

#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use super::arrow::Batch;
    #[pymodule_export]
    use super::buffers::Pinned;
    #[pymodule_export]
    use super::errors::{BadFileError, BusyError, NoSpaceError, WarmsetError};
    #[pymodule_export]
    use super::keep_over_fork;
    #[pymodule_export]
    use super::stores::{Scan, Store, Table, Writer};
}
