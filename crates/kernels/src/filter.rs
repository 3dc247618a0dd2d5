//! Which rows of a chunk count.
//!
//! Invariant: rows that are left ascend, and none is left for which a filter is not true.

use std::collections::BTreeMap;

use crate::column::{Column, Damaged, Nulls, Packed, Values, array};
use crate::eval::{CHUNK, Evaluator, Rows};
use crate::expressions::Expression;
use crate::plan::{Filter, InvalidPlan};
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
}

/// The filters of a plan, joined by `AND`.
#[derive(Debug)]
pub(crate) struct Selector {
    steps: Vec<Step>,
    rows: Vec<u32>,
    all: bool,
}

impl Selector {
    pub(crate) fn new(filters: &[Filter], evaluator: &Evaluator) -> Result<Selector, InvalidPlan> {
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
            }
        }
        let first = encoded.into_iter().map(|(column, within)| Step::Encoded { column, within });
        Ok(Selector { steps: first.chain(steps).collect(), rows: Vec::with_capacity(CHUNK), all: true })
    }

    /// Whether a filter looks at the node.
    pub(crate) fn needs(&self, node: usize) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Within { wanted, .. } => wanted.contains(&node),
            _ => false,
        })
    }

    /// Whether columns are of the kinds that the filters look at.
    pub(crate) fn check(&self, columns: &[Column<'_>]) -> Result<(), Damaged> {
        let fits = |step: &Step| match step {
            Step::Encoded { column, .. } => {
                matches!(columns[*column].values, Values::Packed(_) | Values::Wide(_))
            }
            _ => true,
        };
        if self.steps.iter().all(fits) { Ok(()) } else { Err(Damaged("not whole numbers")) }
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
