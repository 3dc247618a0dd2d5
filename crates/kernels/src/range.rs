//! Between which numbers each node of a plan lies, in one batch.
//!
//! Invariant: a range is that of every row's value, also of rows that a filter takes out, but not of rows without one.

use crate::column::{Column, Values, array};
use crate::dates;
use crate::expressions::Expression;
use crate::plan::Operator;

/// The least and greatest value, both included.
pub(crate) type Range = (i128, i128);

/// How the range of a column is found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// From its type and its encoding; values of 128 bits are looked at.
    Encoding,
    /// From all its values.
    Values,
}

/// Ranges of the nodes that are whole numbers, and in `watched` the nodes that might leave their type: these are
/// taken to stay in it.
pub(crate) fn of(
    nodes: &[Expression],
    columns: &[Column<'_>],
    rows: usize,
    look: Look,
    ranges: &mut Vec<Range>,
    watched: &mut Vec<usize>,
) {
    ranges.clear();
    watched.clear();
    for (index, node) in nodes.iter().enumerate() {
        let range = match *node {
            Expression::Whole { column, bounds } => of_column(&columns[column], rows, look, bounds),
            Expression::WholeLiteral(value) => (value, value),
            Expression::Arithmetic { operator, left, right, bounds } => {
                let range = combined(operator, ranges[left], ranges[right]);
                range.filter(|&(least, greatest)| bounds.0 <= least && greatest <= bounds.1).unwrap_or_else(
                    || {
                        watched.push(index);
                        bounds
                    },
                )
            }
            Expression::DatePart { part, of } => dates::range(part, ranges[of]),
            // Spark's are of 32 bits.
            Expression::TextLength { .. } => (0, i128::from(i32::MAX)),
            Expression::Choice { then, otherwise, .. } => {
                let (then, otherwise) = (ranges[then], ranges[otherwise.unwrap_or(then)]);
                (then.0.min(otherwise.0), then.1.max(otherwise.1))
            }
            // Conditions, and what is no whole number.
            _ => (0, 1),
        };
        ranges.push(range);
    }
}

fn of_column(column: &Column<'_>, rows: usize, look: Look, bounds: Range) -> Range {
    let (least, greatest) = match column.values {
        Values::Wide(data) => of_values(column, rows, |row| i128::from_le_bytes(array(&data[row * 16..]))),
        Values::Packed(packed) if look == Look::Values => {
            of_values(column, rows, |row| i128::from(packed.value(row)))
        }
        Values::Packed(packed) if packed.wraps() => (i128::from(i64::MIN), i128::from(i64::MAX)),
        Values::Packed(packed) => {
            let least = i128::from(packed.base);
            (least, (least + i128::from(packed.span())).min(i128::from(i64::MAX)))
        }
        _ => return bounds,
    };
    (least.max(bounds.0), greatest.min(bounds.1))
}

fn of_values(column: &Column<'_>, rows: usize, value: impl Fn(usize) -> i128) -> Range {
    let present = (0..rows).filter(|&row| column.is_present(row)).map(value);
    present
        .fold(None, |range: Option<Range>, v| range.map_or(Some((v, v)), |(l, g)| Some((l.min(v), g.max(v)))))
        .unwrap_or((0, 0))
}

fn combined(operator: Operator, left: Range, right: Range) -> Option<Range> {
    Some(match operator {
        Operator::Add => (left.0.checked_add(right.0)?, left.1.checked_add(right.1)?),
        Operator::Subtract => (left.0.checked_sub(right.1)?, left.1.checked_sub(right.0)?),
        Operator::Multiply => {
            let ends = [
                left.0.checked_mul(right.0)?,
                left.0.checked_mul(right.1)?,
                left.1.checked_mul(right.0)?,
                left.1.checked_mul(right.1)?,
            ];
            ends.iter()
                .fold((ends[0], ends[0]), |(least, greatest), &end| (least.min(end), greatest.max(end)))
        }
    })
}

/// Whether every number of the range has 64 bits.
pub(crate) fn is_narrow(range: Range) -> bool {
    i128::from(i64::MIN) <= range.0 && range.1 <= i128::from(i64::MAX)
}

/// The greatest distance from 0.
pub(crate) fn magnitude(range: Range) -> u128 {
    range.0.unsigned_abs().max(range.1.unsigned_abs())
}
