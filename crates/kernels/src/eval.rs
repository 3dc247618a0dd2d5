//! Values of a plan's nodes for some rows of a batch.
//!
//! Invariant: a slot's values are right for rows that have one; what the others have is arbitrary, so that arithmetic
//! wraps and never fails. Ranges (see `range`) say beforehand that no value of a row that has one does, or the
//! values are looked at afterwards ([`Evaluator::stays`]).

use crate::column::{Column, Damaged, Nulls, Packed, Values, array};
use crate::conditions::{self, TextMatcher};
use crate::dates;
use crate::expressions::{Expression, Parsed, check, lane_of_type, operands};
use crate::plan::{InvalidPlan, Operator, Plan};
use crate::range::{Range, is_narrow};
use crate::text;

/// Rows that are worked on at a time: what they need of a few nodes stays in the first caches.
pub(crate) const CHUNK: usize = 1024;

/// What the values of a slot are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    Narrow,
    Wide,
    Double,
    /// No values: only whether there are any.
    Presence,
}

/// Rows of a batch.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a> {
    /// From this one, so many.
    Dense(usize, usize),
    /// These, which ascend.
    Listed(&'a [u32]),
}

impl Rows<'_> {
    /// The number in the batch of the row at that place.
    #[inline]
    pub(crate) fn row(&self, place: usize) -> usize {
        match self {
            Rows::Dense(start, _) => start + place,
            Rows::Listed(rows) => rows[place] as usize,
        }
    }

    pub(crate) fn count(&self) -> usize {
        match self {
            Rows::Dense(_, count) => *count,
            Rows::Listed(rows) => rows.len(),
        }
    }
}

/// The values of one node for the rows of a chunk.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) lane: Lane,
    pub(crate) narrow: Vec<i64>,
    pub(crate) wide: Vec<i128>,
    pub(crate) double: Vec<f64>,
    /// Whether some rows may have no value; then `present` has a 0 for each of them and a 1 for the others.
    pub(crate) has_nulls: bool,
    pub(crate) present: Vec<u8>,
}

impl Slot {
    fn new() -> Slot {
        Slot {
            lane: Lane::Presence,
            narrow: Vec::new(),
            wide: Vec::new(),
            double: Vec::new(),
            has_nulls: false,
            present: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn whole(&self, i: usize) -> i128 {
        if self.lane == Lane::Narrow { i128::from(self.narrow[i]) } else { self.wide[i] }
    }

    #[inline]
    pub(crate) fn is_present(&self, i: usize) -> bool {
        !self.has_nulls || self.present[i] == 1
    }
}

/// The nodes of a plan and a slot for each.
#[derive(Debug)]
pub(crate) struct Evaluator {
    pub(crate) nodes: Vec<Expression>,
    pub(crate) slots: Vec<Slot>,
    lists: Vec<Vec<i128>>,
    matchers: Vec<TextMatcher>,
}

impl Evaluator {
    pub(crate) fn new(plan: &Plan) -> Result<Evaluator, InvalidPlan> {
        let mut nodes: Vec<Expression> = Vec::with_capacity(plan.nodes.len());
        let mut slots = Vec::with_capacity(plan.nodes.len());
        let mut parsed = Parsed::default();
        for node in &plan.nodes {
            let expression = parsed.expression(node)?;
            check(&expression, &nodes, plan.columns)?;
            let mut slot = Slot::new();
            slot.lane = lane_of_type(&expression, &nodes);
            let is_short = matches!(expression, Expression::DatePart { .. } | Expression::TextLength { .. });
            if expression.is_condition() || is_short {
                slot.lane = Lane::Narrow;
            }
            fill_literal(&expression, &mut slot);
            nodes.push(expression);
            slots.push(slot);
        }
        Ok(Evaluator { nodes, slots, lists: parsed.lists, matchers: parsed.matchers })
    }

    /// Prepares for a batch whose columns have passed [`Evaluator::check`].
    pub(crate) fn begin(&mut self, columns: &[Column<'_>]) -> Result<(), Damaged> {
        self.matchers.iter_mut().try_for_each(|matcher| matcher.begin(columns))
    }

    /// Whether columns are of the kinds that nodes take them for.
    pub(crate) fn check(&self, columns: &[Column<'_>]) -> Result<(), Damaged> {
        for node in &self.nodes {
            match *node {
                Expression::Whole { column, .. } => match columns[column].values {
                    Values::Packed(_) | Values::Wide(_) => {}
                    _ => return Err(Damaged("not whole numbers")),
                },
                Expression::Double { column } => match columns[column].values {
                    Values::Doubles(_)
                    | Values::ConstantDouble(_)
                    | Values::DoubleCodes(..)
                    | Values::ScaledDoubles(..) => {}
                    _ => return Err(Damaged("not doubles")),
                },
                Expression::Text { column }
                | Expression::TextLength { column }
                | Expression::TextMatches { column, .. } => drop(text::of(&columns[column])?),
                _ => {}
            }
        }
        Ok(())
    }

    /// Chooses 64 or 128 bits for each node of whole numbers.
    pub(crate) fn choose_lanes(&mut self, columns: &[Column<'_>], ranges: &[Range], watched: &[usize]) {
        for (index, node) in self.nodes.iter().enumerate() {
            let lane = match *node {
                Expression::Whole { column, .. } => match columns[column].values {
                    Values::Packed(_) => Lane::Narrow,
                    _ => Lane::Wide,
                },
                Expression::Arithmetic { left, right, .. } => {
                    let operands = [left, right].iter().all(|&at| self.slots[at].lane == Lane::Narrow);
                    let is_narrow = operands && is_narrow(ranges[index]) && !watched.contains(&index);
                    if is_narrow { Lane::Narrow } else { Lane::Wide }
                }
                Expression::Choice { then, otherwise, .. } => {
                    let lanes = [self.slots[then].lane, self.slots[otherwise.unwrap_or(then)].lane];
                    lanes[0].max(lanes[1])
                }
                _ => continue,
            };
            self.slots[index].lane = lane;
        }
    }

    /// Computes these nodes, which ascend, and have with each node those that it is made of.
    pub(crate) fn evaluate(
        &mut self,
        wanted: &[usize],
        columns: &[Column<'_>],
        rows: Rows<'_>,
    ) -> Result<(), Damaged> {
        for &index in wanted {
            let (before, rest) = self.slots.split_at_mut(index);
            let slot = &mut rest[0];
            match self.nodes[index] {
                Expression::Whole { column, .. } => {
                    presence(&columns[column], rows, slot);
                    whole(&columns[column], rows, slot)?;
                }
                Expression::Double { column } => {
                    presence(&columns[column], rows, slot);
                    doubles(&columns[column], rows, slot)?;
                }
                Expression::Presence { column } | Expression::Text { column } => {
                    presence(&columns[column], rows, slot);
                }
                Expression::TextLength { column } => {
                    presence(&columns[column], rows, slot);
                    text::lengths(&columns[column], rows, slot)?;
                }
                Expression::WholeLiteral(_) | Expression::DoubleLiteral(_) => {}
                Expression::Arithmetic { operator, left, right, .. } => {
                    both_present(&before[left], &before[right], rows.count(), slot);
                    arithmetic(operator, &before[left], &before[right], rows.count(), slot);
                }
                Expression::DoubleArithmetic { operator, left, right } => {
                    both_present(&before[left], &before[right], rows.count(), slot);
                    double_arithmetic(operator, &before[left], &before[right], rows.count(), slot);
                }
                Expression::ToDouble { of } => {
                    let of = &before[of];
                    both_present(of, of, rows.count(), slot);
                    slot.double.clear();
                    match of.lane {
                        Lane::Narrow => {
                            slot.double.extend(of.narrow[..rows.count()].iter().map(|&v| v as f64))
                        }
                        _ => slot.double.extend(of.wide[..rows.count()].iter().map(|&v| v as f64)),
                    }
                }
                Expression::DatePart { part, of } => {
                    let of = &before[of];
                    both_present(of, of, rows.count(), slot);
                    slot.narrow.clear();
                    slot.narrow.extend((0..rows.count()).map(|i| dates::part(part, of.whole(i) as i64)));
                }
                Expression::Compare { comparison, left, right } => {
                    both_present(&before[left], &before[right], rows.count(), slot);
                    conditions::compare(comparison, &before[left], &before[right], rows.count(), slot);
                }
                Expression::Within { of, bounds } => {
                    both_present(&before[of], &before[of], rows.count(), slot);
                    conditions::within(&before[of], bounds, rows.count(), slot);
                }
                Expression::AnyOf { of, list } => {
                    both_present(&before[of], &before[of], rows.count(), slot);
                    conditions::any_of(&before[of], &self.lists[list], rows.count(), slot);
                }
                Expression::TextMatches { column, matcher } => {
                    presence(&columns[column], rows, slot);
                    self.matchers[matcher].fill(columns, rows, &mut slot.narrow)?;
                }
                Expression::HasValue { of } => conditions::has_value(&before[of], rows.count(), slot),
                Expression::Not { of } => {
                    both_present(&before[of], &before[of], rows.count(), slot);
                    conditions::not(&before[of], rows.count(), slot);
                }
                Expression::And { left, right } => {
                    conditions::either(&before[left], &before[right], false, rows.count(), slot);
                }
                Expression::Or { left, right } => {
                    conditions::either(&before[left], &before[right], true, rows.count(), slot);
                }
                Expression::Choice { condition, then, otherwise } => {
                    let otherwise = otherwise.map(|at| &before[at]);
                    conditions::choose(&before[condition], &before[then], otherwise, rows.count(), slot);
                }
            }
        }
        Ok(())
    }

    /// Whether an operation, which has been computed for the rows of a chunk, stays in its type for these of them.
    pub(crate) fn stays(&self, node: usize, mut rows: impl Iterator<Item = usize>) -> bool {
        let Expression::Arithmetic { operator, left, right, bounds } = self.nodes[node] else { return true };
        let (slot, left, right) = (&self.slots[node], &self.slots[left], &self.slots[right]);
        rows.all(|i| {
            let (l, r) = (left.whole(i), right.whole(i));
            let value = match operator {
                Operator::Add => l.checked_add(r),
                Operator::Subtract => l.checked_sub(r),
                Operator::Multiply => l.checked_mul(r),
            };
            !slot.is_present(i) || value.is_some_and(|value| bounds.0 <= value && value <= bounds.1)
        })
    }

    /// These nodes with all that they are made of, ascending.
    pub(crate) fn closure(&self, of: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut wanted = vec![false; self.nodes.len()];
        of.into_iter().for_each(|index| wanted[index] = true);
        for index in (0..wanted.len()).rev() {
            if wanted[index] {
                for operand in operands(&self.nodes[index]).into_iter().flatten() {
                    wanted[operand] = true;
                }
            }
        }
        (0..wanted.len()).filter(|&index| wanted[index]).collect()
    }

    pub(crate) fn is_whole(&self, node: usize) -> bool {
        self.lane(node) == Some(Lane::Wide)
    }

    pub(crate) fn is_double(&self, node: usize) -> bool {
        self.lane(node) == Some(Lane::Double)
    }

    /// The column of a node that is text.
    pub(crate) fn text_column(&self, node: usize) -> Option<usize> {
        match self.nodes.get(node) {
            Some(&Expression::Text { column }) => Some(column),
            _ => None,
        }
    }

    fn lane(&self, node: usize) -> Option<Lane> {
        self.nodes.get(node).map(|expression| lane_of_type(expression, &self.nodes))
    }
}

fn fill_literal(node: &Expression, slot: &mut Slot) {
    match *node {
        Expression::WholeLiteral(value) => match i64::try_from(value) {
            Ok(value) => {
                slot.lane = Lane::Narrow;
                slot.narrow = vec![value; CHUNK];
            }
            Err(_) => slot.wide = vec![value; CHUNK],
        },
        Expression::DoubleLiteral(value) => slot.double = vec![value; CHUNK],
        _ => {}
    }
}

fn presence(column: &Column<'_>, rows: Rows<'_>, slot: &mut Slot) {
    slot.has_nulls = !matches!(column.nulls, Nulls::None);
    if slot.has_nulls {
        slot.present.clear();
        match rows {
            Rows::Dense(start, count) => {
                slot.present.extend((start..start + count).map(|row| u8::from(column.is_present(row))));
            }
            Rows::Listed(rows) => {
                slot.present.extend(rows.iter().map(|&row| u8::from(column.is_present(row as usize))));
            }
        }
    }
}

fn both_present(left: &Slot, right: &Slot, count: usize, slot: &mut Slot) {
    slot.has_nulls = left.has_nulls || right.has_nulls;
    if slot.has_nulls {
        slot.present.clear();
        match (left.has_nulls, right.has_nulls) {
            (true, true) => slot.present.extend(left.present.iter().zip(&right.present).map(|(l, r)| l & r)),
            (true, false) => slot.present.extend_from_slice(&left.present[..count]),
            _ => slot.present.extend_from_slice(&right.present[..count]),
        }
    }
}

fn whole(column: &Column<'_>, rows: Rows<'_>, slot: &mut Slot) -> Result<(), Damaged> {
    match column.values {
        Values::Packed(packed) => unpacked(&packed, rows, &mut slot.narrow),
        Values::Wide(data) => {
            slot.wide.clear();
            let value = |row: usize| i128::from_le_bytes(array(&data[row * 16..]));
            match rows {
                Rows::Dense(start, count) => slot.wide.extend((start..start + count).map(value)),
                Rows::Listed(rows) => slot.wide.extend(rows.iter().map(|&row| value(row as usize))),
            }
        }
        _ => return Err(Damaged("not whole numbers")),
    }
    Ok(())
}

/// A loop of its own for each of the usual widths, so that it has no branch.
fn unpacked(packed: &Packed<'_>, rows: Rows<'_>, out: &mut Vec<i64>) {
    out.clear();
    let (base, data) = (packed.base, packed.data);
    match (rows, packed.width) {
        (_, 0) => out.resize(rows.count(), packed.shown(0)),
        (Rows::Dense(start, count), 1) => {
            out.extend(data[start..start + count].iter().map(|&v| base.wrapping_add(i64::from(v))));
        }
        (Rows::Dense(start, count), 2) => {
            let stored = data[2 * start..2 * (start + count)].chunks_exact(2);
            out.extend(stored.map(|v| base.wrapping_add(i64::from(u16::from_le_bytes(array(v))))));
        }
        (Rows::Dense(start, count), 4) if packed.word == 8 => {
            let stored = data[4 * start..4 * (start + count)].chunks_exact(4);
            out.extend(stored.map(|v| base.wrapping_add(i64::from(u32::from_le_bytes(array(v))))));
        }
        (Rows::Dense(start, count), 3) if packed.word == 8 => {
            let stored = data[3 * start..].windows(8).step_by(3).take(count);
            out.extend(stored.map(|v| base.wrapping_add((u64::from_le_bytes(array(v)) & 0xFF_FFFF) as i64)));
        }
        (Rows::Dense(start, count), 8) => {
            let stored = data[8 * start..8 * (start + count)].chunks_exact(8);
            out.extend(stored.map(|v| base.wrapping_add(i64::from_le_bytes(array(v)))));
        }
        (Rows::Dense(start, count), _) => out.extend((start..start + count).map(|row| packed.value(row))),
        (Rows::Listed(rows), _) => out.extend(rows.iter().map(|&row| packed.value(row as usize))),
    }
}

fn doubles(column: &Column<'_>, rows: Rows<'_>, slot: &mut Slot) -> Result<(), Damaged> {
    let out = &mut slot.double;
    out.clear();
    match column.values {
        Values::ConstantDouble(value) => out.resize(rows.count(), value),
        Values::Doubles(data) => each(rows, out, |row| f64::from_le_bytes(array(&data[row * 8..]))),
        Values::DoubleCodes(codes, entries) => {
            let entries: Vec<f64> =
                entries.chunks_exact(8).map(|entry| f64::from_le_bytes(array(entry))).collect();
            // A row without a value has any code.
            let none = f64::NAN;
            each(rows, out, |row| entries.get(codes.code(row)).copied().unwrap_or(none));
        }
        // The same operations as `WarmDoubleVector`'s: base and number are below 2^52.
        Values::ScaledDoubles(packed, divisor) => {
            let bias = 4_503_599_627_370_496.0 - packed.base as f64;
            let whole = |stored: u64| f64::from_bits(0x4330_0000_0000_0000 | stored);
            each(rows, out, |row| (whole(packed.stored(row)) - bias) / divisor);
        }
        _ => return Err(Damaged("not doubles")),
    }
    Ok(())
}

fn each(rows: Rows<'_>, out: &mut Vec<f64>, value: impl Fn(usize) -> f64) {
    match rows {
        Rows::Dense(start, count) => out.extend((start..start + count).map(value)),
        Rows::Listed(rows) => out.extend(rows.iter().map(|&row| value(row as usize))),
    }
}

fn arithmetic(operator: Operator, left: &Slot, right: &Slot, count: usize, slot: &mut Slot) {
    if slot.lane == Lane::Narrow {
        slot.narrow.clear();
        let pairs = left.narrow[..count].iter().zip(&right.narrow[..count]);
        match operator {
            Operator::Add => slot.narrow.extend(pairs.map(|(l, r)| l.wrapping_add(*r))),
            Operator::Subtract => slot.narrow.extend(pairs.map(|(l, r)| l.wrapping_sub(*r))),
            Operator::Multiply => slot.narrow.extend(pairs.map(|(l, r)| l.wrapping_mul(*r))),
        }
    } else {
        slot.wide.clear();
        let pairs = (0..count).map(|i| (left.whole(i), right.whole(i)));
        match operator {
            Operator::Add => slot.wide.extend(pairs.map(|(l, r)| l.wrapping_add(r))),
            Operator::Subtract => slot.wide.extend(pairs.map(|(l, r)| l.wrapping_sub(r))),
            Operator::Multiply => slot.wide.extend(pairs.map(|(l, r)| l.wrapping_mul(r))),
        }
    }
}

fn double_arithmetic(operator: Operator, left: &Slot, right: &Slot, count: usize, slot: &mut Slot) {
    slot.double.clear();
    let pairs = left.double[..count].iter().zip(&right.double[..count]);
    match operator {
        Operator::Add => slot.double.extend(pairs.map(|(l, r)| l + r)),
        Operator::Subtract => slot.double.extend(pairs.map(|(l, r)| l - r)),
        Operator::Multiply => slot.double.extend(pairs.map(|(l, r)| l * r)),
    }
}
