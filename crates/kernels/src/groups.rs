//! Which group each row belongs to.
//!
//! Invariant: group 0 is that of rows that do not count, and is never given out. Groups have numbers in the order in
//! which they were met, and the same values the same number until [`Groups::clear`].

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::column::{Codes, Column, Damaged, Nulls, Packed, Text, Values};
use crate::eval::Slot;

const UNKNOWN: u32 = u32::MAX;
/// The number of null among the values of a key.
const NULL: u32 = 0;
/// Values per key in the table of two keys; that of one key has a place for each value.
const SIDE: u32 = 1 << 7;
/// Places for values that are found without a hash: at most, always, and per value.
const NEAR_MAX: usize = 1 << 20;
const NEAR_MIN: usize = 1 << 16;
const NEAR_PER_VALUE: usize = 16;
/// Batches of so many rows have a table of the values of two bytes, which is cleared for each of them.
const CODED_ROWS_MIN: usize = 4096;
/// Tables larger than this are not kept when groups are forgotten: the next may be few.
const KEPT_BYTES_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Groups {
    keys: Vec<Key>,
    /// The numbers of a group's key values, group by group.
    combined: Vec<u32>,
    /// Groups by their combination of values; unused with one key.
    by_values: HashTable<u32>,
    /// Groups by the value of one key, or by the values of two if these are few.
    table: Vec<u32>,
    scratch: Vec<u32>,
    count: usize,
    hasher: RandomState,
}

/// The values of one key that were met, with numbers from 1.
#[derive(Debug)]
struct Key {
    source: Source,
    /// Numbers of values.
    known: HashTable<u32>,
    values: Vec<Stored>,
    texts: Vec<u8>,
    /// Numbers of whole values from `near_base` on, where they are known: values that lie close together need no hash.
    near: Vec<u32>,
    near_base: i64,
    /// For the batch: numbers of values by their codes.
    by_code: Vec<u32>,
    hasher: RandomState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Column(usize),
    Node(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    Null,
    Whole(i64),
    /// Where in the texts.
    Text(usize, u32),
}

/// What the keys of a chunk's rows are looked up in: columns by the row, slots by its place among those that are worked on.
pub(crate) struct Given<'a> {
    pub(crate) columns: &'a [Column<'a>],
    pub(crate) slots: &'a [Slot],
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Whole(i64),
    Text(&'a [u8]),
}

impl Groups {
    pub(crate) fn new(columns: &[usize], nodes: &[usize]) -> Groups {
        let key = |source: Source| Key {
            source,
            known: HashTable::new(),
            values: vec![Stored::Null],
            texts: Vec::new(),
            near: Vec::new(),
            near_base: 0,
            by_code: Vec::new(),
            hasher: RandomState::default(),
        };
        let nodes = nodes.iter().copied().map(Source::Node);
        let sources = columns.iter().copied().map(Source::Column).chain(nodes);
        let mut groups = Groups {
            keys: sources.clone().map(key).collect(),
            combined: Vec::new(),
            by_values: HashTable::new(),
            table: Vec::new(),
            scratch: vec![NULL; sources.count()],
            count: 0,
            hasher: RandomState::default(),
        };
        groups.clear();
        groups
    }

    pub(crate) fn clear(&mut self) {
        for key in &mut self.keys {
            emptied(&mut key.known);
            key.values.clear();
            key.texts.clear();
            shrink(&mut key.values);
            shrink(&mut key.texts);
            key.near.clear();
            shrink(&mut key.near);
            key.values.push(Stored::Null);
        }
        emptied(&mut self.by_values);
        self.table.clear();
        self.combined.clear();
        shrink(&mut self.table);
        shrink(&mut self.combined);
        self.combined.resize(self.keys.len(), NULL);
        // Without keys there is one group, whether or not it has rows.
        self.count = if self.keys.is_empty() { 2 } else { 1 };
    }

    /// Groups, the one of rows that do not count among them.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// What it takes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let numbers = self.combined.capacity() + self.table.capacity();
        let own = size_of::<u32>() * numbers + self.by_values.allocation_size();
        own + self.keys.iter().map(Key::bytes).sum::<usize>()
    }

    pub(crate) fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The value of a group's key.
    pub(crate) fn value(&self, group: usize, key: usize) -> Value<'_> {
        let number = self.combined[group * self.keys.len() + key];
        let key = &self.keys[key];
        match key.values[number as usize] {
            Stored::Null => Value::Null,
            Stored::Whole(value) => Value::Whole(value),
            Stored::Text(from, length) => Value::Text(&key.texts[from..from + length as usize]),
        }
    }

    /// Prepares for a batch: whether its columns can be keys.
    pub(crate) fn begin(&mut self, columns: &[Column<'_>], rows: usize) -> Result<(), Damaged> {
        for key in &mut self.keys {
            key.by_code.clear();
            let Source::Column(column) = key.source else { continue };
            match columns[column].values {
                Values::Packed(packed) => {
                    if packed.width <= 1 || (packed.width == 2 && rows >= CODED_ROWS_MIN) {
                        key.by_code.resize(1 << (8 * packed.width), UNKNOWN);
                    }
                    if packed.width > 1 {
                        key.come_near(packed.base);
                    }
                }
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

    /// Numbers below this find groups in the table.
    fn side(&self) -> u32 {
        match self.keys.len() {
            1 => UNKNOWN,
            2 => SIDE,
            _ => 0,
        }
    }

    /// The group of a row.
    #[inline]
    fn group(&mut self, of: &Given<'_>, place: usize, row: usize) -> Result<u32, Damaged> {
        let side = self.side();
        let (mut at, mut in_table) = (0_usize, true);
        for (key, number) in self.keys.iter_mut().zip(&mut self.scratch) {
            *number = match key.source {
                Source::Column(column) => key.number(&of.columns[column], row)?,
                Source::Node(node) if of.slots[node].is_present(place) => {
                    key.of_whole(of.slots[node].narrow[place])?
                }
                Source::Node(_) => NULL,
            };
            in_table &= *number < side;
            at = at.wrapping_mul(SIDE as usize).wrapping_add(*number as usize);
        }
        if in_table {
            let known = self.table.get(at).copied().unwrap_or(UNKNOWN);
            if known != UNKNOWN {
                return Ok(known);
            }
        }
        let group = if self.keys.len() == 1 { self.fresh()? } else { self.of_combination()? };
        if in_table {
            if at >= self.table.len() {
                self.table.resize((at + 1).next_power_of_two(), UNKNOWN);
            }
            self.table[at] = group;
        }
        Ok(group)
    }

    fn of_combination(&mut self) -> Result<u32, Damaged> {
        let (wanted, width) = (&self.scratch[..], self.keys.len());
        let combined = &self.combined;
        let values = |group: u32| &combined[group as usize * width..(group as usize + 1) * width];
        let hash = self.hasher.hash_one(wanted);
        if let Some(&group) = self.by_values.find(hash, |&group| values(group) == wanted) {
            return Ok(group);
        }
        let group = self.fresh()?;
        let (hasher, combined) = (&self.hasher, &self.combined);
        self.by_values.insert_unique(hash, group, |&group| {
            hasher.hash_one(&combined[group as usize * width..(group as usize + 1) * width])
        });
        Ok(group)
    }

    /// A new group of the values in `scratch`.
    fn fresh(&mut self) -> Result<u32, Damaged> {
        let group = number(self.count)?;
        self.combined.extend_from_slice(&self.scratch);
        self.count += 1;
        Ok(group)
    }

    /// Puts the groups of these rows into `out`, which is 0 there, each at its place.
    pub(crate) fn assign(
        &mut self,
        of: &Given<'_>,
        rows: impl Iterator<Item = (usize, usize)> + Clone,
        out: &mut [u32],
    ) -> Result<(), Damaged> {
        let columns = of.columns;
        if !self.is_coded(columns) {
            for (place, row) in rows {
                out[place] = self.group(of, place, row)?;
            }
            return Ok(());
        }
        // A loop per key, so that none asks what kind of key it has: first `out` has places in the table.
        let side = self.side();
        for key in &self.keys {
            let Source::Column(column) = key.source else { continue };
            let column = &columns[column];
            match column.values {
                Values::Packed(packed) if packed.width == 0 => {
                    key.combine(column, rows.clone(), side, out, |_| 0);
                }
                Values::Packed(packed) if packed.width == 1 => {
                    key.combine(column, rows.clone(), side, out, |row| usize::from(packed.data[row]));
                }
                Values::Packed(packed) => {
                    key.combine(column, rows.clone(), side, out, |row| packed.stored(row) as usize);
                }
                Values::Text(Text { codes: Some(codes), .. }) => {
                    key.combine(column, rows.clone(), side, out, |row| codes.code(row));
                }
                _ => return Err(Damaged("a key that is neither whole nor text")),
            }
        }
        for (place, row) in rows {
            let known = self.table.get(out[place] as usize).copied().unwrap_or(UNKNOWN);
            out[place] = if known == UNKNOWN { self.group(of, place, row)? } else { known };
        }
        Ok(())
    }

    /// Whether each key has few codes in this batch, and there are few enough keys for the table.
    fn is_coded(&self, columns: &[Column<'_>]) -> bool {
        let alone = self.keys.len() == 1;
        self.keys.len() <= 2
            && self.keys.iter().all(|key| match key.source {
                Source::Column(column) => match columns[column].values {
                    Values::Packed(packed) => !key.by_code.is_empty() && (alone || packed.width <= 1),
                    Values::Text(text) => text.codes.is_some(),
                    _ => false,
                },
                Source::Node(_) => false,
            })
    }
}

impl Key {
    /// Goes on from places in the table by the numbers of this key's values; `UNKNOWN` where there is no place.
    #[inline]
    fn combine(
        &self,
        column: &Column<'_>,
        rows: impl Iterator<Item = (usize, usize)>,
        side: u32,
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
            // Of one key, `out` is 0 before.
            let is_known = number < side && out[place] != UNKNOWN;
            out[place] = if is_known { out[place] * SIDE + number } else { UNKNOWN };
        }
    }

    #[inline]
    fn number(&mut self, column: &Column<'_>, row: usize) -> Result<u32, Damaged> {
        if !matches!(column.nulls, Nulls::None) && !column.is_present(row) {
            return Ok(NULL);
        }
        match column.values {
            Values::Packed(packed) if !self.by_code.is_empty() => self.packed_code(&packed, row),
            Values::Packed(packed) => self.of_whole(packed.value(row)),
            Values::Text(text) => match text.codes {
                Some(codes) => self.text_code(&text, &codes, row),
                None => self.of_text(text.value(row)?),
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
        let number = self.of_whole(packed.shown(code))?;
        self.by_code[code as usize] = number;
        Ok(number)
    }

    fn text_code(&mut self, text: &Text<'_>, codes: &Codes<'_>, row: usize) -> Result<u32, Damaged> {
        let code = codes.code(row);
        match self.by_code.get(code) {
            Some(&known) if known != UNKNOWN => Ok(known),
            Some(_) => {
                let number = self.of_text(text.value(code)?)?;
                self.by_code[code] = number;
                Ok(number)
            }
            None => Err(Damaged("a code of no value")),
        }
    }

    /// Has values from about this one on found without a hash.
    fn come_near(&mut self, base: i64) {
        let distance = base.wrapping_sub(self.near_base) as u64;
        if base < self.near_base || distance >= NEAR_MAX as u64 {
            self.near.clear();
            // The next batches may have values that are a little less.
            self.near_base = base.saturating_sub(NEAR_MAX as i64 / 8);
        }
    }

    fn of_whole(&mut self, value: i64) -> Result<u32, Damaged> {
        let at = usize::try_from(value.wrapping_sub(self.near_base)).unwrap_or(usize::MAX);
        match self.near.get(at) {
            Some(&number) if number != UNKNOWN => return Ok(number),
            _ => {}
        }
        let number = self.of_distant(value)?;
        if at < NEAR_MAX.min(NEAR_MIN.max(NEAR_PER_VALUE * self.values.len())) {
            if at >= self.near.len() {
                self.near.resize((at + 1).next_power_of_two(), UNKNOWN);
            }
            self.near[at] = number;
        }
        Ok(number)
    }

    fn of_distant(&mut self, value: i64) -> Result<u32, Damaged> {
        let hash = self.hasher.hash_one(value);
        let values = &self.values;
        let is_it = |&number: &u32| values[number as usize] == Stored::Whole(value);
        if let Some(&number) = self.known.find(hash, is_it) {
            return Ok(number);
        }
        self.put(hash, Stored::Whole(value))
    }

    fn of_text(&mut self, value: &[u8]) -> Result<u32, Damaged> {
        let hash = self.hasher.hash_one(value);
        let (values, texts) = (&self.values, &self.texts);
        let is_it = |&number: &u32| match values[number as usize] {
            Stored::Text(from, length) => texts[from..from + length as usize] == *value,
            _ => false,
        };
        if let Some(&number) = self.known.find(hash, is_it) {
            return Ok(number);
        }
        let stored = Stored::Text(self.texts.len(), number(value.len())?);
        self.texts.extend_from_slice(value);
        self.put(hash, stored)
    }

    fn put(&mut self, hash: u64, value: Stored) -> Result<u32, Damaged> {
        let fresh = number(self.values.len())?;
        self.values.push(value);
        let (hasher, values, texts) = (&self.hasher, &self.values, &self.texts);
        self.known.insert_unique(hash, fresh, |&number| match values[number as usize] {
            Stored::Null => 0,
            Stored::Whole(value) => hasher.hash_one(value),
            Stored::Text(from, length) => hasher.hash_one(&texts[from..from + length as usize]),
        });
        Ok(fresh)
    }

    fn bytes(&self) -> usize {
        let values = self.values.capacity() * size_of::<Stored>();
        values
            + self.known.allocation_size()
            + self.texts.capacity()
            + (self.by_code.capacity() + self.near.capacity()) * size_of::<u32>()
    }
}

fn number(of: usize) -> Result<u32, Damaged> {
    u32::try_from(of).ok().filter(|&of| of != UNKNOWN).ok_or(Damaged("too many groups, or too long a text"))
}

fn emptied(table: &mut HashTable<u32>) {
    if table.allocation_size() > KEPT_BYTES_MAX {
        *table = HashTable::new();
    } else {
        table.clear();
    }
}

/// Gives back the memory of an empty vector, if it is large.
pub(crate) fn shrink<T>(empty: &mut Vec<T>) {
    if empty.capacity() * size_of::<T>() > KEPT_BYTES_MAX {
        *empty = Vec::new();
    }
}
