//! Groups as rows of keys and buffers, in the format of Spark's `UnsafeRow`: what native code gives out is read in place.
//!
//! Invariant: a row is a bit per field that is null, in words of 8 bytes; a word per field; and what fields have outside
//! their words, at multiples of 8. Bytes that no value has are 0. Numbers are little-endian.

use crate::eval::Evaluator;
use crate::groups::Value;
use crate::plan::{Aggregate, Field, InvalidPlan, Plan};

/// Whether fields refer to what there is.
pub(crate) fn check(plan: &Plan, evaluator: &Evaluator) -> Result<(), InvalidPlan> {
    let is_text = |aggregate: usize| match plan.aggregates.get(aggregate) {
        Some(Aggregate::Least { node } | Aggregate::Greatest { node }) => {
            evaluator.text_column(*node).is_some()
        }
        _ => false,
    };
    let is_known = |field: &Field| match *field {
        Field::Key { key, bytes } => {
            key < plan.keys.len() + plan.key_nodes.len() && [1, 2, 4, 8].contains(&bytes)
        }
        Field::Count { aggregate } | Field::IsEmpty { aggregate } => aggregate < plan.aggregates.len(),
        Field::Result { aggregate, bytes, .. } => {
            aggregate < plan.aggregates.len() && !is_text(aggregate) && [1, 2, 4, 8, 16].contains(&bytes)
        }
        Field::Text { aggregate } => is_text(aggregate),
    };
    match plan.output.iter().find(|field| !is_known(field)) {
        Some(field) => Err(InvalidPlan(format!("{field:?} of the output"))),
        None => Ok(()),
    }
}

/// Appends a row behind its length in 8 bytes.
pub(crate) fn write<'a>(
    out: &mut Vec<u8>,
    fields: &[Field],
    key: impl Fn(usize) -> Value<'a>,
    result: impl Fn(usize) -> (i64, i128),
    text: impl Fn(usize) -> Option<&'a [u8]>,
) {
    let start = out.len();
    let row = start + 8;
    let words = row + 8 * fields.len().div_ceil(64);
    out.resize(words + 8 * fields.len(), 0);
    for (index, field) in fields.iter().enumerate() {
        let word = words + 8 * index;
        match *field {
            Field::Key { key: at, bytes } => match key(at) {
                Value::Null => set_null(out, row, index),
                Value::Whole(value) => put(out, word, i128::from(value), bytes),
                Value::Text(text) => put_outside(out, row, word, text, text.len()),
            },
            Field::Count { aggregate } => put(out, word, i128::from(result(aggregate).0), 8),
            Field::IsEmpty { aggregate } => put(out, word, i128::from(result(aggregate).0 == 0), 1),
            Field::Text { aggregate } => match text(aggregate) {
                Some(text) => put_outside(out, row, word, text, text.len()),
                None => set_null(out, row, index),
            },
            Field::Result { aggregate, bytes, or_null } => {
                let (present, bits) = result(aggregate);
                let is_null = or_null && present == 0;
                if is_null {
                    set_null(out, row, index);
                }
                match bytes {
                    // A decimal that is null has room as well: Spark may write one there.
                    16 if is_null => put_outside(out, row, word, &[], 16),
                    16 => {
                        let all = bits.to_be_bytes();
                        put_outside(out, row, word, &all[spare(bits)..], 16);
                    }
                    _ if is_null => {}
                    _ => put(out, word, bits, bytes),
                }
            }
        }
    }
    let length = (out.len() - row) as u64;
    out[start..row].copy_from_slice(&length.to_le_bytes());
}

fn put(out: &mut [u8], word: usize, value: i128, bytes: usize) {
    out[word..word + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
}

fn set_null(out: &mut [u8], row: usize, index: usize) {
    out[row + index / 8] |= 1 << (index % 8);
}

/// Puts the bytes behind all else, with room for so many, and where they are into the word.
fn put_outside(out: &mut Vec<u8>, row: usize, word: usize, bytes: &[u8], room: usize) {
    let at = out.len();
    out.extend_from_slice(bytes);
    out.resize(at + room.next_multiple_of(8), 0);
    let place = ((at - row) as u64) << 32 | bytes.len() as u64;
    out[word..word + 8].copy_from_slice(&place.to_le_bytes());
}

/// Of the 16 bytes of a number, the first that say nothing but its sign once more.
fn spare(value: i128) -> usize {
    let same = if value < 0 { value.leading_ones() } else { value.leading_zeros() };
    (same as usize - 1) / 8
}
