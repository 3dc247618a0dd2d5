//! Bytes to and from Python by its buffer protocol, without a copy.
//!
//! Invariant: a [`Pinned`] is immutable and owns what it shows; a buffer that Arrow reads owns the Python object.

use std::ffi::{c_int, c_void};
use std::panic::RefUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_buffer::{Buffer, MutableBuffer};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use warmset_tables::Bytes;

/// Bytes of a store, held in memory for as long as this or a view of it lives. Read-only.
#[pyclass(module = "warmset._native", frozen)]
pub struct Pinned {
    bytes: Bytes,
}

impl Pinned {
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self { bytes }
    }
}

#[pymethods]
impl Pinned {
    /// Bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes.len()
    }

    /// First address.
    #[getter]
    fn address(&self) -> usize {
        self.bytes.as_ptr() as usize
    }

    /// # Safety
    /// `view` is a `Py_buffer` that the interpreter wants filled, or null.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no view to fill"));
        }
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("a store's bytes are read-only"));
        }
        let (start, len) = {
            let pinned = slf.get();
            (pinned.bytes.as_ptr() as *mut c_void, pinned.bytes.len() as ffi::Py_ssize_t)
        };
        // SAFETY: `view` is valid (the interpreter's promise). The view gets a reference to `slf`, which holds the
        // bytes; it is marked read-only.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 1, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

struct Owner(#[allow(dead_code, reason = "it is dropped with the buffer")] PyBuffer<u8>);

// A panic leaves the object and its bytes as they are.
impl RefUnwindSafe for Owner {}

/// A Python object's bytes; it must be contiguous.
pub(crate) fn buffer_of(object: &Bound<'_, PyAny>) -> PyResult<Buffer> {
    let view = PyBuffer::<u8>::get(object)?;
    if !view.is_c_contiguous() {
        return Err(PyValueError::new_err("the array is not contiguous"));
    }
    let len = view.len_bytes();
    let Some(start) = NonNull::new(view.buf_ptr().cast::<u8>()).filter(|_| len > 0) else {
        // Aligned for any type, though it has no bytes.
        return Ok(MutableBuffer::new(0).into());
    };
    // SAFETY: the view keeps the object's memory in place until it is released, and the buffer owns the view. That
    // nobody writes to it meanwhile is the caller's promise in Python, as of any function that reads an array.
    Ok(unsafe { Buffer::from_custom_allocation(start, len, Arc::new(Owner(view))) })
}
