//! Which rows of a chunk count.
//!
//! Invariant: rows that are left ascend, and none is left for which a filter is not true.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use std::cell::Cell;

use crate::column::{Column, Damaged, Nulls, Packed, Values, array};
use crate::eval::{CHUNK, Evaluator, Expression, Lane, Rows, Slot};
use crate::plan::{Comparison, Filter, InvalidPlan, number};
use crate::range::Range;

#[derive(Debug)]
enum Step {
    /// Of a column of whole numbers, by its encoded values.
    Encoded {
        column: usize,
        within: Range,
    },
    Present {
        column: usize,
    },
    Within {
        node: usize,
        within: Range,
        wanted: Vec<usize>,
    },
    AnyOf {
        node: usize,
        ascending: Vec<i128>,
        wanted: Vec<usize>,
    },
    Compare {
        comparison: Comparison,
        left: usize,
        right: usize,
        wanted: Vec<usize>,
    },
    Text {
        column: usize,
        ascending: Vec<Vec<u8>>,
        matching: Vec<bool>,
    },
}

/// The filters of a plan, joined by `AND`.
#[derive(Debug)]
pub(crate) struct Selector {
    steps: Vec<Step>,
    rows: Vec<u32>,
    all: bool,
}

fn has(ascending: &[Vec<u8>], value: &[u8]) -> bool {
    ascending.binary_search_by(|wanted| wanted.as_slice().cmp(value)).is_ok()
}

impl Selector {
    pub(crate) fn new(
        filters: &[Filter],
        evaluator: &Evaluator,
        columns: usize,
    ) -> Result<Selector, InvalidPlan> {
        let mut encoded: BTreeMap<usize, Range> = BTreeMap::new();
        let mut steps = Vec::new();
        for filter in filters {
            match filter {
                Filter::Present { node } => match evaluator.nodes.get(*node) {
                    Some(
                        Expression::Whole { column, .. }
                        | Expression::Double { column }
                        | Expression::Presence { column },
                    ) => steps.push(Step::Present { column: *column }),
                    _ => return Err(InvalidPlan(format!("presence of node {node}, which is no column"))),
                },
                Filter::Within { node, bounds } => {
                    let within = bounds.parse()?;
                    match evaluator.nodes.get(*node) {
                        Some(Expression::Whole { column, .. }) => {
                            let known = encoded.entry(*column).or_insert((i128::MIN, i128::MAX));
                            *known = (known.0.max(within.0), known.1.min(within.1));
                        }
                        _ => steps.push(Step::Within {
                            node: whole(evaluator, *node)?,
                            within,
                            wanted: evaluator.closure([*node]),
                        }),
                    }
                }
                Filter::AnyOf { node, values } => {
                    let mut ascending = values.iter().map(|v| number(v)).collect::<Result<Vec<_>, _>>()?;
                    ascending.sort_unstable();
                    let node = whole(evaluator, *node)?;
                    steps.push(Step::AnyOf { node, ascending, wanted: evaluator.closure([node]) });
                }
                Filter::Compare { comparison, left, right } => {
                    let whole = evaluator.is_whole(*left) && evaluator.is_whole(*right);
                    let double = evaluator.is_double(*left) && evaluator.is_double(*right);
                    if !whole && !double {
                        return Err(InvalidPlan(format!("nodes {left} and {right} are compared")));
                    }
                    steps.push(Step::Compare {
                        comparison: *comparison,
                        left: *left,
                        right: *right,
                        wanted: evaluator.closure([*left, *right]),
                    });
                }
                Filter::TextAnyOf { column, .. } if *column >= columns => {
                    return Err(InvalidPlan(format!("text of column {column} of {columns}")));
                }
                Filter::TextAnyOf { column, values } => {
                    let mut ascending = values.clone();
                    ascending.sort_unstable();
                    steps.push(Step::Text { column: *column, ascending, matching: Vec::new() });
                }
            }
        }
        let first = encoded.into_iter().map(|(column, within)| Step::Encoded { column, within });
        Ok(Selector { steps: first.chain(steps).collect(), rows: Vec::with_capacity(CHUNK), all: true })
    }

    /// Whether a filter looks at the node.
    pub(crate) fn needs(&self, node: usize) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Within { wanted, .. } | Step::AnyOf { wanted, .. } | Step::Compare { wanted, .. } => {
                wanted.contains(&node)
            }
            _ => false,
        })
    }

    /// Whether columns are of the kinds that the filters look at, and what dictionaries say of the batch.
    pub(crate) fn begin(&mut self, columns: &[Column<'_>]) -> Result<(), Damaged> {
        for step in &mut self.steps {
            match step {
                Step::Encoded { column, .. } => match columns[*column].values {
                    Values::Packed(_) | Values::Wide(_) => {}
                    _ => return Err(Damaged("not whole numbers")),
                },
                Step::Text { column, ascending, matching } => {
                    let Values::Text(text) = columns[*column].values else { return Err(Damaged("not text")) };
                    matching.clear();
                    if text.codes.is_some() {
                        for code in 0..text.count {
                            let value = text.value(code)?;
                            matching.push(has(ascending, value));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Finds the rows of a chunk that count; [`Selector::rows`] then has them.
    pub(crate) fn select(
        &mut self,
        evaluator: &mut Evaluator,
        columns: &[Column<'_>],
        start: usize,
        count: usize,
    ) -> Result<(), Damaged> {
        self.all = true;
        let mut left = Left { rows: &mut self.rows, all: &mut self.all, start, count };
        for step in &self.steps {
            if left.len() == 0 {
                break;
            }
            match step {
                Step::Encoded { column, within } => {
                    left.keep_present(&columns[*column]);
                    match columns[*column].values {
                        Values::Packed(packed) => left.keep_packed(&packed, *within),
                        Values::Wide(data) => left.keep(|row, _| {
                            let value = i128::from_le_bytes(array(&data[row * 16..]));
                            within.0 <= value && value <= within.1
                        }),
                        _ => return Err(Damaged("not whole numbers")),
                    }
                }
                Step::Present { column } => left.keep_present(&columns[*column]),
                Step::Within { node, within, wanted } => {
                    evaluator.evaluate(wanted, columns, left.as_rows())?;
                    let slot = &evaluator.slots[*node];
                    left.keep(|_, i| {
                        slot.is_present(i) && within.0 <= slot.whole(i) && slot.whole(i) <= within.1
                    });
                }
                Step::AnyOf { node, ascending, wanted } => {
                    evaluator.evaluate(wanted, columns, left.as_rows())?;
                    let slot = &evaluator.slots[*node];
                    left.keep(|_, i| slot.is_present(i) && ascending.binary_search(&slot.whole(i)).is_ok());
                }
                Step::Compare { comparison, left: l, right: r, wanted } => {
                    evaluator.evaluate(wanted, columns, left.as_rows())?;
                    let (l, r) = (&evaluator.slots[*l], &evaluator.slots[*r]);
                    left.keep(|_, i| {
                        l.is_present(i) && r.is_present(i) && is_true(*comparison, order(l, r, i))
                    });
                }
                Step::Text { column, ascending, matching } => {
                    let damaged = Cell::new(false);
                    let spoilt = || {
                        damaged.set(true);
                        false
                    };
                    left.keep_present(&columns[*column]);
                    let Values::Text(text) = columns[*column].values else { return Err(Damaged("not text")) };
                    match text.codes {
                        Some(codes) => {
                            left.keep(|row, _| matching.get(codes.code(row)).copied().unwrap_or_else(spoilt))
                        }
                        None => left.keep(|row, _| {
                            text.value(row).map_or_else(|_| spoilt(), |value| has(ascending, value))
                        }),
                    }
                    if damaged.get() {
                        return Err(Damaged("a code or an offset of no value"));
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows that count; `None`: all of the chunk.
    pub(crate) fn rows(&self) -> Option<&[u32]> {
        if self.all { None } else { Some(&self.rows) }
    }
}

fn whole(evaluator: &Evaluator, node: usize) -> Result<usize, InvalidPlan> {
    if evaluator.is_whole(node) {
        Ok(node)
    } else {
        Err(InvalidPlan(format!("node {node} is no whole number")))
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

/// The rows of a chunk that are left.
struct Left<'a> {
    rows: &'a mut Vec<u32>,
    all: &'a mut bool,
    start: usize,
    count: usize,
}

impl Left<'_> {
    fn len(&self) -> usize {
        if *self.all { self.count } else { self.rows.len() }
    }

    fn as_rows(&self) -> Rows<'_> {
        if *self.all { Rows::Dense(self.start, self.count) } else { Rows::Listed(self.rows) }
    }

    /// Keeps rows that pass, told their number in the batch and their place among those that are left. No branch in
    /// the loop: whether a row passes is hard to foresee.
    #[inline]
    fn keep(&mut self, passes: impl Fn(usize, usize) -> bool) {
        let mut kept = 0;
        if *self.all {
            self.rows.resize(self.count, 0);
            for i in 0..self.count {
                let row = self.start + i;
                self.rows[kept] = row as u32;
                kept += usize::from(passes(row, i));
            }
            *self.all = kept == self.count;
        } else {
            for i in 0..self.rows.len() {
                let row = self.rows[i];
                self.rows[kept] = row;
                kept += usize::from(passes(row as usize, i));
            }
        }
        self.rows.truncate(kept);
    }

    fn keep_present(&mut self, column: &Column<'_>) {
        match column.nulls {
            Nulls::None => {}
            Nulls::All => self.keep(|_, _| false),
            Nulls::Bits(_) => self.keep(|row, _| column.is_present(row)),
        }
    }

    fn keep_packed(&mut self, packed: &Packed<'_>, within: Range) {
        let least = within.0.max(i128::from(i64::MIN));
        let greatest = within.1.min(i128::from(i64::MAX));
        if least > greatest {
            return self.keep(|_, _| false);
        }
        if !packed.wraps() {
            let base = i128::from(packed.base);
            if least <= base && base + i128::from(packed.span()) <= greatest {
                return;
            }
        }
        // The distance from the least value, which is at most so much where the row passes.
        let from = (least as i64).wrapping_neg();
        let most = greatest.wrapping_sub(least) as u64;
        let shift = packed.base.wrapping_add(from);
        let data = packed.data;
        match packed.width {
            1 => self.keep(|row, _| shift.wrapping_add(i64::from(data[row])) as u64 <= most),
            2 => self.keep(|row, _| {
                let stored = u16::from_le_bytes(array(&data[2 * row..]));
                shift.wrapping_add(i64::from(stored)) as u64 <= most
            }),
            _ => self.keep(|row, _| packed.value(row).wrapping_add(from) as u64 <= most),
        }
    }
}
