//! What is known of each group: one accumulator per aggregate.
//!
//! Invariant: what rows without a value add is never seen: whole numbers and counts are masked, doubles are left as
//! they are. Sums of whole numbers are exact in 128 bits, and after each row within the bounds they were given.

use std::cmp::Ordering;

use crate::column::{Column, Damaged};
use crate::conditions::double_order;
use crate::eval::{Evaluator, Lane, Rows, Slot};
use crate::groups::shrink;
use crate::plan::{Aggregate, Bounds, InvalidPlan};
use crate::range::{Range, magnitude};
use crate::text::Extremes;

/// So few groups have their sums of a chunk apart, in several copies: sums of the same group then do not wait for one
/// another.
const LOCAL_MAX: usize = 64;
const COPIES: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Count,
    Sum,
    DoubleSum,
    Extreme(Ordering),
    DoubleExtreme(Ordering),
    /// Of the texts of a column.
    TextExtreme(Ordering, usize),
}

#[derive(Debug)]
pub(crate) struct Accumulator {
    kind: Kind,
    pub(crate) node: usize,
    /// What a sum must not leave, if anything.
    bounds: Option<Range>,
    /// How far from 0 a group's sum may be at most.
    reached: u128,
    /// The values of the chunk have been added to the sums already.
    is_ahead: bool,
    /// Rows without a value.
    nulls: Vec<i64>,
    whole: Vec<i128>,
    double: Vec<f64>,
    seen: Vec<bool>,
    texts: Extremes,
    local: Vec<i64>,
}

impl Accumulator {
    pub(crate) fn new(aggregate: &Aggregate, evaluator: &Evaluator) -> Result<Accumulator, InvalidPlan> {
        let extreme = |node: usize, wanted: Ordering| match evaluator.text_column(node) {
            Some(column) => Kind::TextExtreme(wanted, column),
            None if evaluator.is_double(node) => Kind::DoubleExtreme(wanted),
            None => Kind::Extreme(wanted),
        };
        let (kind, node, bounds) = match aggregate {
            Aggregate::Count { node } => (Kind::Count, *node, None),
            Aggregate::Sum { node, bounds } => (Kind::Sum, *node, bounds.as_ref()),
            Aggregate::DoubleSum { node } => (Kind::DoubleSum, *node, None),
            Aggregate::Least { node } => (extreme(*node, Ordering::Less), *node, None),
            Aggregate::Greatest { node } => (extreme(*node, Ordering::Greater), *node, None),
        };
        let fits = match kind {
            Kind::Count => node < evaluator.nodes.len(),
            Kind::Sum | Kind::Extreme(_) => evaluator.is_whole(node),
            Kind::DoubleSum | Kind::DoubleExtreme(_) => evaluator.is_double(node),
            Kind::TextExtreme(..) => true,
        };
        if !fits {
            return Err(InvalidPlan(format!("{aggregate:?} of a node of another type")));
        }
        let bounds = bounds.map(Bounds::parse).transpose()?;
        Ok(Accumulator {
            kind,
            node,
            bounds,
            reached: 0,
            is_ahead: false,
            nulls: Vec::new(),
            whole: Vec::new(),
            double: Vec::new(),
            seen: Vec::new(),
            texts: Extremes::default(),
            local: Vec::new(),
        })
    }

    pub(crate) fn clear(&mut self) {
        self.reached = 0;
        self.is_ahead = false;
        self.nulls.clear();
        self.whole.clear();
        self.double.clear();
        self.seen.clear();
        self.texts.clear();
        shrink(&mut self.nulls);
        shrink(&mut self.whole);
        shrink(&mut self.double);
        shrink(&mut self.seen);
    }

    /// Whether no group's sum leaves its type with these rows, taken one after the other. Where this cannot be told
    /// from their range, they are added here; [`Accumulator::take_back`] undoes it.
    pub(crate) fn admits(
        &mut self,
        slot: &Slot,
        of: Option<&[u32]>,
        count: usize,
        groups: usize,
        range: Range,
    ) -> bool {
        let Some((least, greatest)) = self.bounds else { return true };
        let limit = least.unsigned_abs().min(greatest.unsigned_abs());
        let more = magnitude(range).saturating_mul(count as u128);
        if self.reached.saturating_add(more) > limit && groups <= count {
            self.reached =
                self.whole.iter().skip(1).map(|sum| sum.unsigned_abs()).fold(0, |most, sum| most.max(sum));
        }
        let reached = self.reached.saturating_add(more);
        self.reached = reached;
        if reached <= limit {
            return true;
        }
        self.grow(groups);
        self.is_ahead = true;
        let mut fits = true;
        for i in (0..count).filter(|&i| slot.is_present(i)) {
            let group = group(of, i);
            let sum = &mut self.whole[group];
            *sum = sum.wrapping_add(slot.whole(i));
            fits &= group == 0 || (least <= *sum && *sum <= greatest);
        }
        fits
    }

    /// Undoes what [`Accumulator::admits`] may have added of these rows.
    pub(crate) fn take_back(&mut self, slot: &Slot, of: Option<&[u32]>, count: usize) {
        if std::mem::take(&mut self.is_ahead) {
            for i in (0..count).filter(|&i| slot.is_present(i)) {
                let sum = &mut self.whole[group(of, i)];
                *sum = sum.wrapping_sub(slot.whole(i));
            }
        }
    }

    /// What it takes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let words = self.nulls.capacity() + self.double.capacity() + 2 * self.whole.capacity();
        words * size_of::<i64>() + self.seen.capacity() + self.texts.bytes()
    }

    fn grow(&mut self, groups: usize) {
        match self.kind {
            Kind::Count | Kind::TextExtreme(..) => {}
            Kind::Sum => self.whole.resize(groups, 0),
            Kind::DoubleSum => self.double.resize(groups, 0.0),
            Kind::Extreme(Ordering::Less) => self.whole.resize(groups, i128::MAX),
            Kind::Extreme(_) => self.whole.resize(groups, i128::MIN),
            Kind::DoubleExtreme(_) => {
                self.double.resize(groups, 0.0);
                self.seen.resize(groups, false);
            }
        }
    }

    /// Adds the values of rows, to the groups that `of` says, or all to group 1.
    pub(crate) fn add(
        &mut self,
        slot: &Slot,
        of: Option<&[u32]>,
        (columns, rows): (&[Column<'_>], Rows<'_>),
        groups: usize,
        is_small: bool,
    ) -> Result<(), Damaged> {
        let count = rows.count();
        self.grow(groups);
        if slot.has_nulls {
            self.nulls.resize(groups, 0);
            let present = &slot.present;
            self.scatter(
                of,
                count,
                groups,
                |i| i64::from(1 - present[i]),
                |this, group, sum| {
                    this.nulls[group] += sum;
                },
            );
        }
        match self.kind {
            Kind::Count => {}
            Kind::Sum if std::mem::take(&mut self.is_ahead) => {}
            Kind::Sum => self.add_sum(slot, of, count, groups, is_small),
            Kind::DoubleSum => {
                for i in 0..count {
                    if slot.is_present(i) {
                        self.double[group(of, i)] += slot.double[i];
                    }
                }
            }
            Kind::Extreme(wanted) => {
                for i in 0..count {
                    let value = slot.whole(i);
                    let best = &mut self.whole[group(of, i)];
                    if slot.is_present(i) && value.cmp(best) == wanted {
                        *best = value;
                    }
                }
            }
            Kind::DoubleExtreme(wanted) => {
                for i in (0..count).filter(|&i| slot.is_present(i)) {
                    let at = group(of, i);
                    if !self.seen[at] || double_order(slot.double[i], self.double[at]) == wanted {
                        self.double[at] = slot.double[i];
                        self.seen[at] = true;
                    }
                }
            }
            Kind::TextExtreme(wanted, column) => {
                self.texts.add(wanted, slot, of, groups, &columns[column], rows)?;
            }
        }
        Ok(())
    }

    fn add_sum(&mut self, slot: &Slot, of: Option<&[u32]>, count: usize, groups: usize, is_small: bool) {
        let flush = |this: &mut Accumulator, group: usize, sum: i64| this.whole[group] += i128::from(sum);
        if slot.lane == Lane::Narrow && is_small && groups <= LOCAL_MAX {
            let values = &slot.narrow[..count];
            if slot.has_nulls {
                let present = &slot.present[..count];
                self.scatter(of, count, groups, |i| values[i] & -i64::from(present[i]), flush);
            } else {
                self.scatter(of, count, groups, |i| values[i], flush);
            }
        } else {
            for i in (0..count).filter(|&i| slot.is_present(i)) {
                let sum = &mut self.whole[group(of, i)];
                *sum = sum.wrapping_add(slot.whole(i));
            }
        }
    }

    /// Adds numbers of which those of a chunk do not exceed 64 bits.
    fn scatter(
        &mut self,
        of: Option<&[u32]>,
        count: usize,
        groups: usize,
        value: impl Fn(usize) -> i64,
        flush: impl Fn(&mut Accumulator, usize, i64),
    ) {
        let mut local = std::mem::take(&mut self.local);
        scattered(&mut local, of, count, groups, value, |group, sum| flush(self, group, sum));
        self.local = local;
    }

    /// Values and numbers of a group: how many rows of `rows` have a value, and the bits of the result.
    pub(crate) fn result(&self, group: usize, rows: i64) -> (i64, i128) {
        let present = rows - self.nulls.get(group).copied().unwrap_or(0);
        let bits = match self.kind {
            Kind::Count | Kind::TextExtreme(..) => 0,
            Kind::Sum | Kind::Extreme(_) => self.whole.get(group).copied().unwrap_or(0),
            Kind::DoubleSum | Kind::DoubleExtreme(_) => {
                i128::from(self.double.get(group).copied().unwrap_or(0.0).to_bits())
            }
        };
        (present, bits)
    }

    /// The group's text, if this is of texts and a row has one.
    pub(crate) fn text(&self, group: usize) -> Option<&[u8]> {
        self.texts.get(group)
    }
}

/// The group of a row; all are in group 1 where there is no list.
#[inline]
pub(crate) fn group(of: Option<&[u32]>, i: usize) -> usize {
    of.map_or(1, |of| of[i] as usize)
}

/// Adds `value(i)` to the group of each row, and tells the sums; for few groups in copies of the sums.
pub(crate) fn scattered(
    local: &mut Vec<i64>,
    of: Option<&[u32]>,
    count: usize,
    groups: usize,
    value: impl Fn(usize) -> i64,
    mut flush: impl FnMut(usize, i64),
) {
    let Some(of) = of else {
        return flush(1, (0..count).fold(0, |sum: i64, i| sum.wrapping_add(value(i))));
    };
    if groups > LOCAL_MAX {
        of[..count].iter().enumerate().for_each(|(i, &group)| flush(group as usize, value(i)));
        return;
    }
    local.clear();
    local.resize(COPIES * groups, 0);
    for (i, &group) in of[..count].iter().enumerate() {
        let sum = &mut local[(i % COPIES) * groups + group as usize];
        *sum = sum.wrapping_add(value(i));
    }
    for group in 0..groups {
        flush(group, (0..COPIES).fold(0, |sum: i64, copy| sum.wrapping_add(local[copy * groups + group])));
    }
}
