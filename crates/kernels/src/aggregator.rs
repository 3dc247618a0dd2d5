//! A filter and a partial aggregate over the batches of one partition.

use crate::column::{Column, Damaged};
use crate::eval::{CHUNK, Evaluator, Rows};
use crate::filter::Selector;
use crate::groups::{Groups, Value};
use crate::plan::{InvalidPlan, Plan};
use crate::range::{self, Look, Range, magnitude};
use crate::sums::{Accumulator, scattered};

/// Of a chunk's rows: with more of them left, all are worked on, those that do not count for a group of their own.
const DENSE_FROM: f64 = 0.5;

/// Groups, and bytes of the texts among their keys, from which on they should be given out.
const GROUPS_FULL: usize = 16_384;
const TEXT_FULL_BYTES: usize = 16 << 20;
/// Groups are given out in pieces of about so many bytes.
const PIECE_BYTES: usize = 16 << 20;

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was added; there are so many groups now.
    Added(usize),
    /// A value or a sum might leave its type: nothing of it was added.
    Refused,
}

/// Sums, counts and bounds per group, of the batches that it was given.
#[derive(Debug)]
pub struct Aggregator {
    columns: usize,
    evaluator: Evaluator,
    selector: Selector,
    groups: Groups,
    accumulators: Vec<Accumulator>,
    /// Nodes that aggregates need.
    wanted: Vec<usize>,
    /// Rows per group.
    rows: Vec<i64>,
    ranges: Vec<Option<Range>>,
    group_of: Vec<u32>,
    local: Vec<i64>,
    /// The group that is given out next.
    next: usize,
    /// All are given out, and the caller has not been told yet.
    is_out: bool,
}

impl Aggregator {
    /// Makes one that has seen nothing.
    ///
    /// # Errors
    /// [`InvalidPlan`] where the plan refers to what is not there, or to nodes of another type.
    pub fn new(plan: &Plan) -> Result<Aggregator, InvalidPlan> {
        let evaluator = Evaluator::new(plan)?;
        if let Some(key) = plan.keys.iter().find(|&&key| key >= plan.columns) {
            return Err(InvalidPlan(format!("the key is column {key} of {}", plan.columns)));
        }
        let selector = Selector::new(&plan.filters, &evaluator, plan.columns)?;
        let accumulators = plan
            .aggregates
            .iter()
            .map(|aggregate| Accumulator::new(aggregate, &evaluator))
            .collect::<Result<Vec<_>, _>>()?;
        let wanted = evaluator.closure(accumulators.iter().map(|accumulator| accumulator.node));
        Ok(Aggregator {
            columns: plan.columns,
            evaluator,
            selector,
            groups: Groups::new(&plan.keys),
            accumulators,
            wanted,
            rows: Vec::new(),
            ranges: Vec::new(),
            group_of: Vec::new(),
            local: Vec::new(),
            next: 1,
            is_out: false,
        })
    }

    /// Adds the rows of one batch.
    ///
    /// # Errors
    /// [`Damaged`] where a column is not of the kind that the plan takes it for, or has too few bytes. What was added
    /// before is then worth nothing. The same between two pieces of groups ([`Aggregator::take`]).
    pub fn add(&mut self, rows: usize, columns: &[Column<'_>]) -> Result<Outcome, Damaged> {
        if self.is_out {
            self.forget();
        } else if self.next > 1 {
            return Err(Damaged("a batch before all groups are given out"));
        }
        if columns.len() != self.columns || u32::try_from(rows).is_err() {
            return Err(Damaged("another number of columns than the plan has, or too many rows"));
        }
        columns.iter().try_for_each(|column| column.check(rows))?;
        self.evaluator.check(columns)?;
        if !self.fits(rows, columns, Look::Encoding) && !self.fits(rows, columns, Look::Values) {
            return Ok(Outcome::Refused);
        }
        self.evaluator.choose_lanes(columns, &self.ranges);
        self.selector.begin(columns)?;
        self.groups.begin(columns)?;
        for start in (0..rows).step_by(CHUNK) {
            self.add_chunk(columns, start, CHUNK.min(rows - start))?;
        }
        Ok(Outcome::Added(self.groups.count() - 1))
    }

    /// Whether there are so many groups, or such long keys, that they should be given out.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.groups.count() > GROUPS_FULL || self.groups.text_bytes() >= TEXT_FULL_BYTES
    }

    /// Whether no value and no sum can leave its type; if so, sums are taken to have come so far.
    fn fits(&mut self, rows: usize, columns: &[Column<'_>], look: Look) -> bool {
        range::of(&self.evaluator.nodes, columns, rows, look, &mut self.ranges);
        let ranges = &self.ranges;
        if ranges.iter().any(Option::is_none) {
            return false;
        }
        let reached: Option<Vec<u128>> =
            self.accumulators.iter().map(|sum| sum.reach(rows, ranges[sum.node])).collect();
        match reached {
            Some(reached) => {
                self.accumulators.iter_mut().zip(reached).for_each(|(sum, reached)| sum.set_reached(reached));
                true
            }
            None => false,
        }
    }

    fn add_chunk(&mut self, columns: &[Column<'_>], start: usize, count: usize) -> Result<(), Damaged> {
        self.selector.select(&mut self.evaluator, columns, start, count)?;
        let left = self.selector.rows();
        let counted = left.map_or(count, <[u32]>::len);
        if counted == 0 {
            return Ok(());
        }
        let dense = counted as f64 >= count as f64 * DENSE_FROM;
        let rows = match left {
            Some(left) if !dense => Rows::Listed(left),
            _ => Rows::Dense(start, count),
        };
        let grouped = self.groups.has_keys() || (dense && left.is_some());
        let of = if grouped {
            self.group_of.clear();
            self.group_of.resize(rows.count(), 0);
            match left {
                // Group 1, where there are no keys.
                Some(left) if !self.groups.has_keys() => {
                    left.iter().for_each(|&row| self.group_of[row as usize - start] = 1);
                }
                Some(left) if dense => {
                    let places = left.iter().map(|&row| (row as usize - start, row as usize));
                    self.groups.assign(columns, places, &mut self.group_of)?;
                }
                Some(left) => {
                    let places = left.iter().enumerate().map(|(place, &row)| (place, row as usize));
                    self.groups.assign(columns, places, &mut self.group_of)?;
                }
                None => {
                    let places = (0..count).map(|place| (place, start + place));
                    self.groups.assign(columns, places, &mut self.group_of)?;
                }
            }
            Some(&self.group_of[..])
        } else {
            None
        };
        let groups = self.groups.count();
        self.rows.resize(groups, 0);
        let counts = &mut self.rows;
        scattered(&mut self.local, of, rows.count(), groups, |_| 1, |group, sum| counts[group] += sum);
        self.evaluator.evaluate(&self.wanted, columns, rows)?;
        for accumulator in &mut self.accumulators {
            let slot = &self.evaluator.slots[accumulator.node];
            // A chunk of such numbers does not exceed 64 bits.
            let is_small = self.ranges[accumulator.node].is_some_and(|range| magnitude(range) < 1 << 52);
            accumulator.add(slot, of, rows.count(), groups, is_small);
        }
        Ok(())
    }

    /// Gives out groups as bytes, about 16 MiB of them; nothing where there are no more, and then forgets them.
    ///
    /// Per group and key a byte: 0, null; 1, followed by a whole number of 8 bytes; 2, followed by the length of a text in
    /// 4 bytes and the text. Then per aggregate the number of rows that had a value, in 8 bytes, and the result in 16:
    /// a whole number, or the bits of a double. All numbers are little-endian. A plan without keys has one group.
    pub fn take(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.is_out {
            self.forget();
            return out;
        }
        while self.next < self.groups.count() && out.len() < PIECE_BYTES {
            let group = self.next;
            self.next += 1;
            for value in self.groups.values(group) {
                match value {
                    Value::Null => out.push(0),
                    Value::Whole(value) => {
                        out.push(1);
                        out.extend_from_slice(&value.to_le_bytes());
                    }
                    Value::Text(text) => {
                        out.push(2);
                        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
                        out.extend_from_slice(text);
                    }
                }
            }
            let rows = self.rows.get(group).copied().unwrap_or(0);
            for accumulator in &self.accumulators {
                let (present, bits) = accumulator.result(group, rows);
                out.extend_from_slice(&present.to_le_bytes());
                out.extend_from_slice(&bits.to_le_bytes());
            }
        }
        self.is_out = self.next == self.groups.count();
        out
    }

    fn forget(&mut self) {
        self.groups.clear();
        self.rows.clear();
        self.accumulators.iter_mut().for_each(Accumulator::clear);
        (self.next, self.is_out) = (1, false);
    }
}
