//! Which group each row belongs to.
//!
//! Invariant: group 0 is that of rows that do not count, and is never given out. Groups have numbers in the order in
//! which they were met, and the same values the same number until [`Groups::clear`].

use foldhash::{HashMap, HashMapExt};

use crate::column::{Codes, Column, Damaged, Nulls, Packed, Text, Values};

const UNKNOWN: u32 = u32::MAX;
/// The number of null among the values of a key.
const NULL: u32 = 0;
/// Combinations of keys that a table finds; beyond, a hash map does.
const TABLE_MAX: usize = 1 << 14;

#[derive(Debug)]
pub(crate) struct Groups {
    keys: Vec<Key>,
    /// The numbers of a group's key values, group by group.
    combined: Vec<u32>,
    by_values: HashMap<Box<[u32]>, u32>,
    /// Groups by their combination of values, if these are few.
    table: Vec<u32>,
    scratch: Vec<u32>,
    count: usize,
}

/// The values of one key that were met, with numbers from 1.
#[derive(Debug)]
struct Key {
    column: usize,
    whole: HashMap<i64, u32>,
    text: HashMap<Box<[u8]>, u32>,
    values: Vec<Value>,
    /// Of these, the texts' lengths in bytes.
    text_bytes: usize,
    /// For the batch: numbers of values by their codes.
    by_code: Vec<u32>,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Whole(i64),
    Text(Box<[u8]>),
}

impl Groups {
    pub(crate) fn new(keys: &[usize]) -> Groups {
        let key = |&column: &usize| Key {
            column,
            whole: HashMap::new(),
            text: HashMap::new(),
            values: vec![Value::Null],
            text_bytes: 0,
            by_code: Vec::new(),
        };
        let mut groups = Groups {
            keys: keys.iter().map(key).collect(),
            combined: Vec::new(),
            by_values: HashMap::new(),
            table: Vec::new(),
            scratch: vec![NULL; keys.len()],
            count: 0,
        };
        groups.clear();
        groups
    }

    pub(crate) fn clear(&mut self) {
        for key in &mut self.keys {
            key.whole.clear();
            key.text.clear();
            key.values.truncate(1);
            key.text_bytes = 0;
        }
        self.by_values.clear();
        self.table.clear();
        self.combined.clear();
        self.combined.resize(self.keys.len(), NULL);
        // Without keys there is one group, whether or not it has rows.
        self.count = if self.keys.is_empty() { 2 } else { 1 };
    }

    /// Groups, the one of rows that do not count among them.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the texts among the keys' values.
    pub(crate) fn text_bytes(&self) -> usize {
        self.keys.iter().map(|key| key.text_bytes).sum()
    }

    pub(crate) fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The key values of a group.
    pub(crate) fn values(&self, group: usize) -> impl Iterator<Item = &Value> {
        let numbers = &self.combined[group * self.keys.len()..(group + 1) * self.keys.len()];
        self.keys.iter().zip(numbers).map(|(key, &number)| &key.values[number as usize])
    }

    /// Prepares for a batch: whether its columns can be keys.
    pub(crate) fn begin(&mut self, columns: &[Column<'_>]) -> Result<(), Damaged> {
        for key in &mut self.keys {
            key.by_code.clear();
            match columns[key.column].values {
                Values::Packed(packed) if packed.width <= 1 => {
                    key.by_code.resize(1 << (8 * packed.width), UNKNOWN)
                }
                Values::Packed(_) => {}
                Values::Text(text) => {
                    if text.codes.is_some() {
                        key.by_code.resize(text.count, UNKNOWN);
                    }
                }
                _ => return Err(Damaged("a key that is neither whole nor text")),
            }
        }
        Ok(())
    }

    /// The group of a row.
    #[inline]
    fn group(&mut self, columns: &[Column<'_>], row: usize) -> Result<u32, Damaged> {
        let mut at = 0;
        for (key, number) in self.keys.iter_mut().zip(&mut self.scratch) {
            *number = key.number(&columns[key.column], row)?;
            at = at * SIDE + (*number as usize).min(SIDE - 1);
        }
        let small = self.keys.len() <= 2 && self.scratch.iter().all(|&number| (number as usize) < SIDE);
        if small {
            if self.table.is_empty() {
                self.table.resize(TABLE_MAX, UNKNOWN);
            }
            let known = self.table[at];
            if known != UNKNOWN {
                return Ok(known);
            }
        }
        let group = match self.by_values.get(&self.scratch[..]) {
            Some(&group) => group,
            None => {
                let group = u32::try_from(self.count).map_err(|_| Damaged("too many groups"))?;
                self.by_values.insert(self.scratch.clone().into_boxed_slice(), group);
                self.combined.extend_from_slice(&self.scratch);
                self.count += 1;
                group
            }
        };
        if small {
            self.table[at] = group;
        }
        Ok(group)
    }

    /// Puts the groups of these rows into `out`, which is 0 there, each at its place.
    pub(crate) fn assign(
        &mut self,
        columns: &[Column<'_>],
        rows: impl Iterator<Item = (usize, usize)> + Clone,
        out: &mut [u32],
    ) -> Result<(), Damaged> {
        if !self.is_coded(columns) {
            for (place, row) in rows {
                out[place] = self.group(columns, row)?;
            }
            return Ok(());
        }
        // A loop per key, so that none asks what kind of key it has: first `out` has places in the table.
        for key in &self.keys {
            let column = &columns[key.column];
            match column.values {
                Values::Packed(packed) if packed.width == 0 => key.combine(column, rows.clone(), out, |_| 0),
                Values::Packed(packed) => {
                    key.combine(column, rows.clone(), out, |row| usize::from(packed.data[row]))
                }
                Values::Text(Text { codes: Some(codes), .. }) => {
                    key.combine(column, rows.clone(), out, |row| codes.code(row));
                }
                _ => return Err(Damaged("a key that is neither whole nor text")),
            }
        }
        for (place, row) in rows {
            let known = self.table.get(out[place] as usize).copied().unwrap_or(UNKNOWN);
            out[place] = if known == UNKNOWN { self.group(columns, row)? } else { known };
        }
        Ok(())
    }

    /// Whether each key has few codes in this batch, and there are few enough keys for the table.
    fn is_coded(&self, columns: &[Column<'_>]) -> bool {
        self.keys.len() <= 2
            && self.keys.iter().all(|key| match columns[key.column].values {
                Values::Packed(packed) => packed.width <= 1,
                Values::Text(text) => text.codes.is_some(),
                _ => false,
            })
    }
}

/// Values per key in the table of two keys.
const SIDE: usize = 1 << 7;

impl Key {
    /// Goes on from places in the table by the numbers of this key's values; `UNKNOWN` where there is no place.
    #[inline]
    fn combine(
        &self,
        column: &Column<'_>,
        rows: impl Iterator<Item = (usize, usize)>,
        out: &mut [u32],
        code: impl Fn(usize) -> usize,
    ) {
        let has_nulls = !matches!(column.nulls, Nulls::None);
        for (place, row) in rows {
            let number = match self.by_code.get(code(row)) {
                _ if has_nulls && !column.is_present(row) => NULL,
                Some(&number) => number,
                None => UNKNOWN,
            };
            let is_known = (number as usize) < SIDE && out[place] != UNKNOWN;
            out[place] = if is_known { out[place] * SIDE as u32 + number } else { UNKNOWN };
        }
    }

    #[inline]
    fn number(&mut self, column: &Column<'_>, row: usize) -> Result<u32, Damaged> {
        if !matches!(column.nulls, Nulls::None) && !column.is_present(row) {
            return Ok(NULL);
        }
        match column.values {
            Values::Packed(packed) if packed.width <= 1 => self.packed_code(&packed, row),
            Values::Packed(packed) => Ok(self.of_whole(packed.value(row))),
            Values::Text(text) => match text.codes {
                Some(codes) => self.text_code(&text, &codes, row),
                None => Ok(self.of_text(text.value(row)?)),
            },
            _ => Err(Damaged("a key that is neither whole nor text")),
        }
    }

    fn packed_code(&mut self, packed: &Packed<'_>, row: usize) -> Result<u32, Damaged> {
        let code = packed.stored(row);
        let known = self.by_code[code as usize];
        if known != UNKNOWN {
            return Ok(known);
        }
        let number = self.of_whole(packed.shown(code));
        self.by_code[code as usize] = number;
        Ok(number)
    }

    fn text_code(&mut self, text: &Text<'_>, codes: &Codes<'_>, row: usize) -> Result<u32, Damaged> {
        let code = codes.code(row);
        match self.by_code.get(code) {
            Some(&known) if known != UNKNOWN => Ok(known),
            Some(_) => {
                let number = self.of_text(text.value(code)?);
                self.by_code[code] = number;
                Ok(number)
            }
            None => Err(Damaged("a code of no value")),
        }
    }

    fn of_whole(&mut self, value: i64) -> u32 {
        let next = self.values.len() as u32;
        let number = *self.whole.entry(value).or_insert(next);
        if number == next {
            self.values.push(Value::Whole(value));
        }
        number
    }

    fn of_text(&mut self, value: &[u8]) -> u32 {
        if let Some(&number) = self.text.get(value) {
            return number;
        }
        let number = self.values.len() as u32;
        self.text_bytes += value.len();
        self.text.insert(value.into(), number);
        self.values.push(Value::Text(value.into()));
        number
    }
}
