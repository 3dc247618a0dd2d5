//! What is known of each group: one accumulator per aggregate.
//!
//! Invariant: what rows without a value add is never seen: whole numbers and counts are masked, doubles are left as
//! they are. Sums of whole numbers are exact in 128 bits.

use std::cmp::Ordering;

use crate::eval::{Evaluator, Lane, Slot};
use crate::filter::double_order;
use crate::plan::{Aggregate, InvalidPlan};
use crate::range::{Range, magnitude};

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
}

#[derive(Debug)]
pub(crate) struct Accumulator {
    kind: Kind,
    pub(crate) node: usize,
    /// What a sum's distance from 0 must not exceed, and may have reached so far.
    limit: Option<u128>,
    reached: u128,
    /// Rows without a value.
    nulls: Vec<i64>,
    whole: Vec<i128>,
    double: Vec<f64>,
    seen: Vec<bool>,
    local: Vec<i64>,
}

impl Accumulator {
    pub(crate) fn new(aggregate: &Aggregate, evaluator: &Evaluator) -> Result<Accumulator, InvalidPlan> {
        let (kind, node, bounds) = match aggregate {
            Aggregate::Count { node } => (Kind::Count, *node, None),
            Aggregate::Sum { node, bounds } => (Kind::Sum, *node, bounds.as_ref()),
            Aggregate::DoubleSum { node } => (Kind::DoubleSum, *node, None),
            Aggregate::Least { node } if evaluator.is_double(*node) => {
                (Kind::DoubleExtreme(Ordering::Less), *node, None)
            }
            Aggregate::Least { node } => (Kind::Extreme(Ordering::Less), *node, None),
            Aggregate::Greatest { node } if evaluator.is_double(*node) => {
                (Kind::DoubleExtreme(Ordering::Greater), *node, None)
            }
            Aggregate::Greatest { node } => (Kind::Extreme(Ordering::Greater), *node, None),
        };
        let fits = match kind {
            Kind::Count => node < evaluator.nodes.len(),
            Kind::Sum | Kind::Extreme(_) => evaluator.is_whole(node),
            Kind::DoubleSum | Kind::DoubleExtreme(_) => evaluator.is_double(node),
        };
        if !fits {
            return Err(InvalidPlan(format!("{aggregate:?} of a node of another type")));
        }
        let limit = match bounds {
            Some(bounds) => {
                let (least, greatest) = bounds.parse()?;
                Some(least.unsigned_abs().min(greatest.unsigned_abs()))
            }
            None => None,
        };
        Ok(Accumulator {
            kind,
            node,
            limit,
            reached: 0,
            nulls: Vec::new(),
            whole: Vec::new(),
            double: Vec::new(),
            seen: Vec::new(),
            local: Vec::new(),
        })
    }

    pub(crate) fn clear(&mut self) {
        self.reached = 0;
        self.nulls.clear();
        self.whole.clear();
        self.double.clear();
        self.seen.clear();
    }

    /// How far from 0 a sum may be after so many rows more; `None` where that is beyond its limit.
    pub(crate) fn reach(&self, rows: usize, range: Option<Range>) -> Option<u128> {
        let Some(limit) = self.limit else { return Some(0) };
        let most = magnitude(range?).checked_mul(rows as u128)?.checked_add(self.reached)?;
        if most <= limit { Some(most) } else { None }
    }

    pub(crate) fn set_reached(&mut self, reached: u128) {
        self.reached = reached;
    }

    fn grow(&mut self, groups: usize) {
        self.nulls.resize(groups, 0);
        match self.kind {
            Kind::Count => {}
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

    /// Adds the values of so many rows, to the groups that `of` says, or all to group 1.
    pub(crate) fn add(
        &mut self,
        slot: &Slot,
        of: Option<&[u32]>,
        count: usize,
        groups: usize,
        is_small: bool,
    ) {
        self.grow(groups);
        if slot.has_nulls {
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
        }
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
            Kind::Count => 0,
            Kind::Sum | Kind::Extreme(_) => self.whole.get(group).copied().unwrap_or(0),
            Kind::DoubleSum | Kind::DoubleExtreme(_) => {
                i128::from(self.double.get(group).copied().unwrap_or(0.0).to_bits())
            }
        };
        (present, bits)
    }
}

#[inline]
fn group(of: Option<&[u32]>, i: usize) -> usize {
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
