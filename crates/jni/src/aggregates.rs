//! Aggregates over cached batches: `io.warmset.columns.NativeAggregate`.
//!
//! Invariant: a handle is never used twice, so a stale one finds nothing. Addresses are looked at during `add` only.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jni::JNIEnv;
use jni::objects::{JClass, JLongArray, JString};
use jni::sys::{jbyteArray, jint, jlong, jlongArray};
use papaya::HashMap;
use warmset_kernels::{Aggregator, Codes, Column, Nulls, Outcome, Packed, Plan, Text, Values};

use crate::errors::{Failure, guarded};
use crate::long_array;

/// Numbers that describe a column; see `NativeAggregate.add`.
const WORDS: usize = 13;
const ADDED: jint = 0;
const FULL: jint = 1;
const REFUSED: jint = -1;

static AGGREGATORS: LazyLock<HashMap<jlong, Arc<Mutex<Aggregator>>>> = LazyLock::new(HashMap::new);
static NEXT: AtomicI64 = AtomicI64::new(1);

/// `open`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_columns_NativeAggregate_open<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    plan: JString<'a>,
) -> jlong {
    guarded(&mut env, 0, |env| {
        let json: String = env.get_string(&plan)?.into();
        let plan: Plan = serde_json::from_str(&json).map_err(wrong)?;
        let aggregator = Aggregator::new(&plan).map_err(wrong)?;
        let handle = NEXT.fetch_add(1, Ordering::Relaxed);
        AGGREGATORS.pin().insert(handle, Arc::new(Mutex::new(aggregator)));
        Ok(handle)
    })
}

/// `add`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_columns_NativeAggregate_add<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    handle: jlong,
    rows: jint,
    columns: JLongArray<'a>,
) -> jint {
    guarded(&mut env, 0, |env| {
        let rows = usize::try_from(rows).map_err(wrong)?;
        let words = longs(env, &columns)?;
        let columns = words
            .chunks_exact(WORDS)
            .map(|words| {
                // SAFETY: Java describes vectors that are bound to bytes which stay there until this call returns.
                unsafe { column(words, rows) }
            })
            .collect::<Result<Vec<_>, _>>()?;
        with(handle, |aggregator| match aggregator.add(rows, &columns).map_err(wrong)? {
            Outcome::Added if aggregator.is_full() => Ok(FULL),
            Outcome::Added => Ok(ADDED),
            Outcome::Refused(from) => Ok(REFUSED - jint::try_from(from).map_err(wrong)?),
        })
    })
}

/// `groups`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_columns_NativeAggregate_groups<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    handle: jlong,
) -> jlong {
    guarded(&mut env, 0, |_| with(handle, |aggregator| Ok(aggregator.groups() as jlong)))
}

/// `keyRanges`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_columns_NativeAggregate_keyRanges<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    handle: jlong,
    key: jint,
    begins: JLongArray<'a>,
) -> jlongArray {
    guarded(&mut env, std::ptr::null_mut(), |env| {
        let key = usize::try_from(key).map_err(wrong)?;
        let ascending = longs(env, &begins)?;
        let ranges = with(handle, |aggregator| match aggregator.keys() {
            keys if key < keys => Ok(aggregator.key_ranges(key, &ascending)),
            keys => Err(wrong(format!("key {key} of {keys}"))),
        })?;
        let bounds: Vec<jlong> = ranges.into_iter().flat_map(|(least, most)| [least, most]).collect();
        long_array(env, &bounds)
    })
}

/// `take`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_columns_NativeAggregate_take<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    handle: jlong,
) -> jbyteArray {
    guarded(&mut env, std::ptr::null_mut(), |env| {
        let bytes = with(handle, |aggregator| Ok(aggregator.take()))?;
        Ok(env.byte_array_from_slice(&bytes)?.into_raw())
    })
}

/// `close`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_columns_NativeAggregate_close<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    handle: jlong,
) {
    guarded(&mut env, (), |_| {
        AGGREGATORS.pin().remove(&handle);
        Ok(())
    });
}

/// The numbers of an array.
fn longs(env: &JNIEnv<'_>, array: &JLongArray<'_>) -> Result<Vec<jlong>, Failure> {
    let mut numbers = vec![0; usize::try_from(env.get_array_length(array)?).unwrap_or(0)];
    env.get_long_array_region(array, 0, &mut numbers)?;
    Ok(numbers)
}

fn with<T>(handle: jlong, call: impl FnOnce(&mut Aggregator) -> Result<T, Failure>) -> Result<T, Failure> {
    let known = AGGREGATORS.pin().get(&handle).cloned();
    let aggregator =
        known.ok_or_else(|| Failure::Argument(format!("there is no open aggregate {handle}")))?;
    // One that panicked has made its task fail.
    let mut aggregator = aggregator.lock().unwrap_or_else(PoisonError::into_inner);
    call(&mut aggregator)
}

fn wrong(error: impl std::fmt::Display) -> Failure {
    Failure::Argument(error.to_string())
}

/// A column by its words, in the order that `NativeAggregate.add` has them.
///
/// # Safety
/// Addresses among the words are of as many bytes as the widths, counts and lengths beside them say, for so many rows;
/// they stay there unchanged while the column is used.
unsafe fn column<'a>(words: &[jlong], rows: usize) -> Result<Column<'a>, Failure> {
    let size = |at: usize| usize::try_from(words[at]).map_err(wrong);
    // SAFETY: as the caller has promised.
    let bytes = |at: usize, length: usize| unsafe { bytes(words[at], length) };
    let (width, word, base) = (size(3)?, size(4)?, words[5]);
    let of_rows = |width: usize, spare: usize| if width == 0 { 0 } else { rows * width + spare };
    let nulls = match words[1] {
        0 => Nulls::None,
        1 => Nulls::All,
        _ => Nulls::Bits(bytes(2, rows.div_ceil(8))?),
    };
    if width > 16 {
        return Err(Failure::Argument(format!("a column cannot have {width} bytes per row")));
    }
    let values = match words[0] {
        0 => Values::Opaque,
        1 => Values::Packed(Packed {
            base,
            width,
            word,
            data: bytes(6, of_rows(width, word.saturating_sub(width)))?,
        }),
        2 => Values::Wide(bytes(6, of_rows(16, 0))?),
        3 => Values::Doubles(bytes(6, of_rows(8, 0))?),
        4 => Values::ConstantDouble(f64::from_bits(base as u64)),
        5 => Values::DoubleCodes(
            Codes { width, data: bytes(6, of_rows(width, 0))? },
            bytes(9, size(7)?.saturating_mul(8))?,
        ),
        6 => {
            let data = bytes(6, of_rows(width, 8_usize.saturating_sub(width)))?;
            Values::ScaledDoubles(Packed { base, width, word: 8, data }, f64::from_bits(words[7] as u64))
        }
        7 => {
            let (count, offset_width) = (size(7)?, size(8)?);
            let offsets = match offset_width {
                0 => 0,
                _ => count
                    .saturating_add(1)
                    .saturating_mul(offset_width)
                    .saturating_add(8_usize.saturating_sub(offset_width)),
            };
            let codes = match word {
                0 => None,
                _ => Some(Codes { width, data: bytes(6, of_rows(width, 0))? }),
            };
            Values::Text(Text {
                codes,
                count,
                offset_width,
                offsets: bytes(9, offsets)?,
                base,
                slope: words[10],
                bytes: bytes(11, size(12)?)?,
            })
        }
        form => return Err(Failure::Argument(format!("there is no form {form} of a column"))),
    };
    Ok(Column { nulls, values })
}

/// # Safety
/// The address is of so many bytes, which stay there unchanged while the slice is used.
unsafe fn bytes<'a>(address: jlong, length: usize) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    if address == 0 || isize::try_from(length).is_err() {
        return Err(Failure::Argument(format!("no {length} bytes lie at {address}")));
    }
    // SAFETY: as the caller has promised; any address will do for bytes.
    Ok(unsafe { std::slice::from_raw_parts(address as *const u8, length) })
}
