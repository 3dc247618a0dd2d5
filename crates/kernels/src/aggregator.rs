//! A filter and a partial aggregate over the batches of one partition.

use crate::column::{Column, Damaged};
use crate::eval::{CHUNK, Evaluator, Lane, Rows};
use crate::filter::Selector;
use crate::groups::{Given, Groups, Value, shrink};
use crate::plan::{Field, InvalidPlan, Plan};
use crate::range::{self, Look, Range, magnitude};
use crate::rows;
use crate::sums::{Accumulator, group, scattered};

/// Of a chunk's rows: with more of them left, all are worked on, those that do not count for a group of their own.
const DENSE_FROM: f64 = 0.5;

/// Of the rows that made groups: with more groups, those of each batch are given out with it. Keeping them would save
/// less than a tenth of the rows.
const REDUCING_UP_TO: f64 = 0.9;
/// Groups are given out in pieces of about so many bytes: each is in memory twice while Java copies it.
const PIECE_BYTES: usize = 1 << 20;

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was added.
    Added,
    /// The rows before this one were added. With those from it on, a value or a sum may leave its type, and nothing of
    /// them was added.
    Refused(usize),
}

/// Sums, counts and bounds per group, of the batches that it was given.
#[derive(Debug)]
pub struct Aggregator {
    columns: usize,
    evaluator: Evaluator,
    selector: Selector,
    groups: Groups,
    accumulators: Vec<Accumulator>,
    output: Vec<Field>,
    key_nodes: Vec<usize>,
    /// Nodes that keys need.
    of_keys: Vec<usize>,
    /// Nodes that aggregates need.
    wanted: Vec<usize>,
    /// Rows per group.
    rows: Vec<i64>,
    ranges: Vec<Range>,
    /// Nodes whose values have to be looked at in this batch: they might leave their type.
    watched: Vec<usize>,
    group_of: Vec<u32>,
    local: Vec<i64>,
    /// Rows that made the groups.
    counted: usize,
    full_bytes: usize,
    /// Groups are hardly fewer than rows.
    is_distinct: bool,
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
        if let Some(node) = plan.key_nodes.iter().find(|&&node| !evaluator.is_whole(node)) {
            return Err(InvalidPlan(format!("the key is node {node}, which is no whole number")));
        }
        let of_keys = evaluator.closure(plan.key_nodes.iter().copied());
        rows::check(plan, &evaluator)?;
        let selector = Selector::new(&plan.filters, &evaluator)?;
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
            groups: Groups::new(&plan.keys, &plan.key_nodes),
            of_keys,
            key_nodes: plan.key_nodes.clone(),
            accumulators,
            output: plan.output.clone(),
            wanted,
            rows: Vec::new(),
            ranges: Vec::new(),
            watched: Vec::new(),
            group_of: Vec::new(),
            local: Vec::new(),
            counted: 0,
            full_bytes: plan.group_bytes,
            is_distinct: false,
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
        self.find_ranges(rows, columns, Look::Encoding);
        if !self.watched.is_empty() {
            self.find_ranges(rows, columns, Look::Values);
        }
        // Which rows Spark's filters meet depends on their order. Keys come before values are looked at.
        if self.watched.iter().any(|node| self.selector.needs(*node) || self.of_keys.contains(node)) {
            return Ok(Outcome::Refused(0));
        }
        self.evaluator.choose_lanes(columns, &self.ranges, &self.watched);
        self.evaluator.begin(columns)?;
        // Keys have 64 bits.
        if self.key_nodes.iter().any(|&node| self.evaluator.slots[node].lane != Lane::Narrow) {
            return Ok(Outcome::Refused(0));
        }
        self.selector.check(columns)?;
        self.groups.begin(columns, rows)?;
        for start in (0..rows).step_by(CHUNK) {
            if !self.add_chunk(columns, start, CHUNK.min(rows - start))? {
                return Ok(Outcome::Refused(start));
            }
        }
        Ok(Outcome::Added)
    }

    /// Whether the groups should be given out: they take much memory, or come one per row.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.groups() > 0 && (self.is_distinct || self.bytes() >= self.full_bytes)
    }

    /// The groups that it has. A plan without keys always has one.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups.count() - 1
    }

    /// How many keys there are.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.groups.keys()
    }

    /// The least and the greatest value of a key of whole numbers among the groups that it has, for each of the ranges that begin
    /// with these numbers, which ascend; what is below the first counts to it. The numbers themselves do not count. The first
    /// is above the second where there is none.
    #[must_use]
    pub fn key_ranges(&self, key: usize, begins: &[i64]) -> Vec<(i64, i64)> {
        let mut ranges = vec![(i64::MAX, i64::MIN); begins.len()];
        for group in 1..self.groups.count() {
            if let Value::Whole(value) = self.groups.value(group, key) {
                let at = begins.partition_point(|&begin| begin <= value).saturating_sub(1);
                if begins.get(at) == Some(&value) {
                    continue;
                }
                if let Some((least, most)) = ranges.get_mut(at) {
                    (*least, *most) = ((*least).min(value), (*most).max(value));
                }
            }
        }
        ranges
    }

    /// What the groups take of memory.
    fn bytes(&self) -> usize {
        let own = self.groups.bytes() + self.rows.capacity() * size_of::<i64>();
        own + self.accumulators.iter().map(Accumulator::bytes).sum::<usize>()
    }

    fn find_ranges(&mut self, rows: usize, columns: &[Column<'_>], look: Look) {
        range::of(&self.evaluator.nodes, columns, rows, look, &mut self.ranges, &mut self.watched);
    }

    /// Adds the rows of a chunk, or nothing where a value or a sum would leave its type.
    fn add_chunk(&mut self, columns: &[Column<'_>], start: usize, count: usize) -> Result<bool, Damaged> {
        self.selector.select(&mut self.evaluator, columns, start, count)?;
        let left = self.selector.rows();
        let counted = left.map_or(count, <[u32]>::len);
        if counted == 0 {
            return Ok(true);
        }
        let dense = counted as f64 >= count as f64 * DENSE_FROM;
        let rows = match left {
            Some(left) if !dense => Rows::Listed(left),
            _ => Rows::Dense(start, count),
        };
        let grouped = self.groups.has_keys() || (dense && left.is_some());
        self.evaluator.evaluate(&self.of_keys, columns, rows)?;
        let given = Given { columns, slots: &self.evaluator.slots };
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
                    self.groups.assign(&given, places, &mut self.group_of)?;
                }
                Some(left) => {
                    let places = left.iter().enumerate().map(|(place, &row)| (place, row as usize));
                    self.groups.assign(&given, places, &mut self.group_of)?;
                }
                None => {
                    let places = (0..count).map(|place| (place, start + place));
                    self.groups.assign(&given, places, &mut self.group_of)?;
                }
            }
            Some(&self.group_of[..])
        } else {
            None
        };
        let groups = self.groups.count();
        let (evaluator, count) = (&mut self.evaluator, rows.count());
        evaluator.evaluate(&self.wanted, columns, rows)?;
        let stays = |&node: &usize| evaluator.stays(node, (0..count).filter(|&i| group(of, i) != 0));
        if !self.watched.iter().filter(|node| self.wanted.contains(node)).all(stays) {
            return Ok(false);
        }
        let accumulators = &mut self.accumulators;
        let admitted = accumulators.iter_mut().all(|accumulator| {
            let node = accumulator.node;
            accumulator.admits(&evaluator.slots[node], of, count, groups, self.ranges[node])
        });
        if !admitted {
            accumulators
                .iter_mut()
                .for_each(|accumulator| accumulator.take_back(&evaluator.slots[accumulator.node], of, count));
            return Ok(false);
        }
        self.rows.resize(groups, 0);
        let numbers = &mut self.rows;
        scattered(&mut self.local, of, count, groups, |_| 1, |group, sum| numbers[group] += sum);
        for accumulator in accumulators {
            // A chunk of such numbers does not exceed 64 bits.
            let is_small = magnitude(self.ranges[accumulator.node]) < 1 << 52;
            accumulator.add(&evaluator.slots[accumulator.node], of, (columns, rows), groups, is_small)?;
        }
        self.counted += counted;
        Ok(true)
    }

    /// Gives out groups as rows (see `rows`), each behind its length in 8 bytes, about 1 MiB of them; nothing where there
    /// are no more, and then forgets them. A plan without keys has one group.
    pub fn take(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.is_out {
            self.forget();
            return out;
        }
        while self.next < self.groups.count() && out.len() < PIECE_BYTES {
            let group = self.next;
            self.next += 1;
            let rows = self.rows.get(group).copied().unwrap_or(0);
            let result = |aggregate: usize| self.accumulators[aggregate].result(group, rows);
            let text = |aggregate: usize| self.accumulators[aggregate].text(group);
            rows::write(&mut out, &self.output, |key| self.groups.value(group, key), result, text);
        }
        self.is_out = self.next == self.groups.count();
        out
    }

    fn forget(&mut self) {
        self.is_distinct = self.groups.has_keys()
            && (self.is_distinct || self.bytes() >= self.full_bytes)
            && self.groups() as f64 > self.counted as f64 * REDUCING_UP_TO;
        self.counted = 0;
        self.groups.clear();
        self.rows.clear();
        shrink(&mut self.rows);
        self.accumulators.iter_mut().for_each(Accumulator::clear);
        (self.next, self.is_out) = (1, false);
    }
}
