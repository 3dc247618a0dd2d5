//! Elements of arrays by the names that the Python side gives them.

use arrow_schema::{DataType, TimeUnit};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use warmset_tables::Element;

/// Finds what a name stands for: `float32`, `timestamp[ns]`, `bytes[16]` and so on.
pub(crate) fn element(name: &str) -> PyResult<Element> {
    let found = match name {
        "int8" => (DataType::Int8, 1),
        "int16" => (DataType::Int16, 2),
        "int32" => (DataType::Int32, 4),
        "int64" => (DataType::Int64, 8),
        "uint8" => (DataType::UInt8, 1),
        "uint16" => (DataType::UInt16, 2),
        "uint32" => (DataType::UInt32, 4),
        "uint64" => (DataType::UInt64, 8),
        "float16" => (DataType::Float16, 2),
        "float32" => (DataType::Float32, 4),
        "float64" => (DataType::Float64, 8),
        _ => return compound(name),
    };
    Ok(Element { data_type: found.0, bytes: found.1 })
}

fn compound(name: &str) -> PyResult<Element> {
    let unknown = || PyValueError::new_err(format!("there is no element {name:?}"));
    let (kind, rest) = name.split_once('[').ok_or_else(unknown)?;
    let argument = rest.strip_suffix(']').ok_or_else(unknown)?;
    let unit = || match argument {
        "s" => Ok(TimeUnit::Second),
        "ms" => Ok(TimeUnit::Millisecond),
        "us" => Ok(TimeUnit::Microsecond),
        "ns" => Ok(TimeUnit::Nanosecond),
        _ => Err(unknown()),
    };
    match kind {
        "timestamp" => Ok(Element { data_type: DataType::Timestamp(unit()?, None), bytes: 8 }),
        "duration" => Ok(Element { data_type: DataType::Duration(unit()?), bytes: 8 }),
        "bytes" => {
            let size: i32 = argument.parse().ok().filter(|&size| size >= 0).ok_or_else(unknown)?;
            Ok(Element { data_type: DataType::FixedSizeBinary(size), bytes: size as u64 })
        }
        _ => Err(unknown()),
    }
}
