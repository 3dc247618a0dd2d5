//! Errors as Python exceptions.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyError, PyOSError, PyValueError};
use pyo3::prelude::*;
use warmset_region::Error as RegionError;
use warmset_tables::Error;

create_exception!(warmset, WarmsetError, PyException, "What went wrong with a store.");
create_exception!(
    warmset,
    NoSpaceError,
    WarmsetError,
    "A full disk, or memory that does not suffice: the message says which, and what to do."
);
create_exception!(
    warmset,
    BadFileError,
    WarmsetError,
    "A file that is damaged, or not one of a store: the message names file and offset."
);
create_exception!(warmset, BusyError, WarmsetError, "Another process writes to the store.");

/// The exception that stands for an error.
pub(crate) fn exception(error: Error) -> PyErr {
    if error.is_no_space() {
        return NoSpaceError::new_err(error.to_string());
    }
    match error {
        Error::Missing { name, .. } => PyKeyError::new_err(name),
        Error::Invalid(text) => PyValueError::new_err(text),
        Error::BadFile { .. } | Error::Region(RegionError::BadFile { .. }) => {
            BadFileError::new_err(error.to_string())
        }
        Error::Busy { .. } => BusyError::new_err(error.to_string()),
        Error::Region(RegionError::Config { .. }) => PyValueError::new_err(error.to_string()),
        Error::Io { action, path, source } => match source.raw_os_error() {
            Some(code) => PyOSError::new_err((code, format!("cannot {action}: {source}"), path)),
            None => PyOSError::new_err(format!("cannot {action} {}: {source}", path.display())),
        },
        other => WarmsetError::new_err(other.to_string()),
    }
}
