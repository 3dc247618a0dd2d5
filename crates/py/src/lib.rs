//! The Python boundary: `warmset._native`. Thin: it turns Python objects into Arrow data and back.
//!
//! Invariant: whatever reads or writes files runs detached from the interpreter. What Python sees of a store's memory
//! (an Arrow array, a buffer) owns its hold on it.

mod arrow;
mod buffers;
mod elements;
mod errors;
mod import;
mod stores;

use pyo3::pymodule;

#[pymodule(gil_used = false)]
mod _native {
    use std::io::Write as _;

    use pyo3::prelude::*;

    #[pymodule_export]
    use super::arrow::Batch;
    #[pymodule_export]
    use super::buffers::Pinned;
    #[pymodule_export]
    use super::errors::{BadFileError, BusyError, NoSpaceError, WarmsetError};
    #[pymodule_export]
    use super::stores::{Scan, Store, Table, Writer};

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        warmset_tables::watch_forks();
        warmset_region::hand_warnings_to(|line| {
            let _ = writeln!(std::io::stderr(), "warmset: {line}");
        });
        Ok(())
    }
}
