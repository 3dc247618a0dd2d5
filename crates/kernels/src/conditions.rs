//! Nodes that are true or false: whole numbers that are 1 or 0, and have no value where SQL's answer is null.
//!
//! Invariant: AND and OR are those of three values: false AND null is false, true OR null is true. A slot has 1 or 0 also
//! where it has no value.

use std::cmp::Ordering;

use crate::column::{Column, Damaged, Text};
use crate::eval::{Lane, Rows, Slot};
use crate::plan::{Comparison, Pattern};
use crate::range::Range;
use crate::text;

/// Which texts of a column match.
#[derive(Debug)]
pub(crate) struct TextMatcher {
    column: usize,
    /// Whole texts, ascending.
    whole: Vec<Vec<u8>>,
    parts: Vec<Pattern>,
    /// For the batch: whether the text of a code matches.
    by_code: Vec<bool>,
}

impl TextMatcher {
    pub(crate) fn new(column: usize, patterns: &[Pattern]) -> TextMatcher {
        let mut whole = Vec::new();
        let mut parts = Vec::new();
        for pattern in patterns {
            match pattern {
                Pattern::Is(text) => whole.push(text.clone()),
                part => parts.push(part.clone()),
            }
        }
        whole.sort_unstable();
        TextMatcher { column, whole, parts, by_code: Vec::new() }
    }

    /// Looks up the batch's dictionary.
    pub(crate) fn begin(&mut self, columns: &[Column<'_>]) -> Result<(), Damaged> {
        self.by_code.clear();
        let text = text::of(&columns[self.column])?;
        if text.codes.is_some() {
            for code in 0..text.count {
                let matches = self.matches(text.value(code)?);
                self.by_code.push(matches);
            }
        }
        Ok(())
    }

    fn matches(&self, text: &[u8]) -> bool {
        let is_whole = self.whole.binary_search_by(|wanted| wanted.as_slice().cmp(text)).is_ok();
        is_whole
            || self.parts.iter().any(|part| match part {
                Pattern::Is(whole) => whole == text,
                Pattern::Begins(part) => text.starts_with(part),
                Pattern::Ends(part) => text.ends_with(part),
                Pattern::Has(part) => part.is_empty() || text.windows(part.len()).any(|some| some == part),
            })
    }

    /// Whether the text of a row matches. A row without one does not.
    #[inline]
    fn is_match(&self, text: &Text<'_>, column: &Column<'_>, row: usize) -> Result<bool, Damaged> {
        if !column.is_present(row) {
            return Ok(false);
        }
        match text.codes {
            Some(codes) => self.by_code.get(codes.code(row)).copied().ok_or(Damaged("a code of no value")),
            None => Ok(self.matches(text.value(row)?)),
        }
    }

    pub(crate) fn fill(
        &self,
        columns: &[Column<'_>],
        rows: Rows<'_>,
        out: &mut Vec<i64>,
    ) -> Result<(), Damaged> {
        let column = &columns[self.column];
        let text = text::of(column)?;
        out.clear();
        for i in 0..rows.count() {
            out.push(i64::from(self.is_match(&text, column, rows.row(i))?));
        }
        Ok(())
    }
}

fn is_true(comparison: Comparison, order: Ordering) -> bool {
    match comparison {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
    }
}

fn order(left: &Slot, right: &Slot, i: usize) -> Ordering {
    if left.lane == Lane::Double {
        double_order(left.double[i], right.double[i])
    } else {
        left.whole(i).cmp(&right.whole(i))
    }
}

/// Spark's order: NaN equals itself and is above all else, zeros are equal.
pub(crate) fn double_order(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

pub(crate) fn compare(comparison: Comparison, left: &Slot, right: &Slot, count: usize, slot: &mut Slot) {
    fill(slot, count, |i| is_true(comparison, order(left, right, i)));
}

pub(crate) fn within(of: &Slot, (least, greatest): Range, count: usize, slot: &mut Slot) {
    fill(slot, count, |i| (least..=greatest).contains(&of.whole(i)));
}

pub(crate) fn any_of(of: &Slot, ascending: &[i128], count: usize, slot: &mut Slot) {
    fill(slot, count, |i| ascending.binary_search(&of.whole(i)).is_ok());
}

pub(crate) fn has_value(of: &Slot, count: usize, slot: &mut Slot) {
    slot.has_nulls = false;
    fill(slot, count, |i| of.is_present(i));
}

pub(crate) fn not(of: &Slot, count: usize, slot: &mut Slot) {
    fill(slot, count, |i| of.narrow[i] == 0);
}

/// AND where `decisive` is false, OR where it is true: what one side alone decides.
pub(crate) fn either(left: &Slot, right: &Slot, decisive: bool, count: usize, slot: &mut Slot) {
    let decides = |side: &Slot, i: usize| side.is_present(i) && (side.narrow[i] == 1) == decisive;
    slot.has_nulls = left.has_nulls || right.has_nulls;
    if slot.has_nulls {
        slot.present.clear();
        slot.present.extend((0..count).map(|i| {
            let is_known = left.is_present(i) && right.is_present(i);
            u8::from(is_known || decides(left, i) || decides(right, i))
        }));
    }
    fill(slot, count, |i| (decides(left, i) || decides(right, i)) == decisive);
}

/// The first where the condition is true, else the second, which may be missing: then there is no value.
pub(crate) fn choose(condition: &Slot, then: &Slot, otherwise: Option<&Slot>, count: usize, slot: &mut Slot) {
    let is_then = |i: usize| condition.is_present(i) && condition.narrow[i] == 1;
    let chosen = |i: usize| if is_then(i) { then } else { otherwise.unwrap_or(then) };
    slot.has_nulls = then.has_nulls || otherwise.is_none_or(|otherwise| otherwise.has_nulls);
    if slot.has_nulls {
        slot.present.clear();
        let has_value = |i: usize| (is_then(i) || otherwise.is_some()) && chosen(i).is_present(i);
        slot.present.extend((0..count).map(|i| u8::from(has_value(i))));
    }
    match slot.lane {
        Lane::Narrow => {
            slot.narrow.clear();
            slot.narrow.extend((0..count).map(|i| chosen(i).narrow[i]));
        }
        Lane::Wide => {
            slot.wide.clear();
            slot.wide.extend((0..count).map(|i| chosen(i).whole(i)));
        }
        Lane::Double => {
            slot.double.clear();
            slot.double.extend((0..count).map(|i| chosen(i).double[i]));
        }
        Lane::Presence => {}
    }
}

fn fill(slot: &mut Slot, count: usize, is_true: impl Fn(usize) -> bool) {
    slot.narrow.clear();
    slot.narrow.extend((0..count).map(|i| i64::from(is_true(i))));
}
