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
/// Values per key in the table of two keys.
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
    /// The numbers of a group's key values, group by group. With one key a group has the number of its value.
    combined: Vec<u32>,
    /// Groups of several keys by their combination of values.
    by_values: HashTable<u32>,
    /// Groups of two keys by the numbers of their values, if these are few.
    table: Vec<u32>,
    scratch: Vec<u32>,
    /// Groups without a key, or with several.
    count: usize,
    hasher: RandomState,
}

/// The values of one key that were met, null among them, with numbers from 1.
#[derive(Debug)]
struct Key {
    source: Source,
    /// Numbers of values but for null.
    known: HashTable<u32>,
    is_text: bool,
    /// Whole values by their numbers.
    wholes: Vec<i64>,
    /// Where the text of each number ends in `texts`; it begins where the one before ends.
    ends: Vec<usize>,
    texts: Vec<u8>,
    /// The number of null.
    null: u32,
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
            is_text: false,
            wholes: Vec::new(),
            ends: Vec::new(),
            texts: Vec::new(),
            null: UNKNOWN,
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
            scratch: vec![UNKNOWN; sources.count()],
            count: 0,
            hasher: RandomState::default(),
        };
        groups.clear();
        groups
    }

    pub(crate) fn clear(&mut self) {
        self.keys.iter_mut().for_each(Key::clear);
        emptied(&mut self.by_values);
        self.table.clear();
        self.combined.clear();
        shrink(&mut self.table);
        shrink(&mut self.combined);
        self.combined.resize(self.keys.len(), UNKNOWN);
        // Without keys there is one group, whether or not it has rows.
        self.count = if self.keys.is_empty() { 2 } else { 1 };
    }

    /// Groups, the one of rows that do not count among them.
    pub(crate) fn count(&self) -> usize {
        if let [key] = &self.keys[..] { key.count() } else { self.count }
    }

    pub(crate) fn keys(&self) -> usize {
        self.keys.len()
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
        match &self.keys[..] {
            [only] => only.value(group),
            keys => keys[key].value(self.combined[group * keys.len() + key] as usize),
        }
    }

    /// Prepares for a batch: whether its columns can be keys.
    pub(crate) fn begin(&mut self, columns: &[Column<'_>], rows: usize) -> Result<(), Damaged> {
        for key in &mut self.keys {
            key.by_code.clear();
            let Source::Column(column) = key.source else { continue };
            key.expect(matches!(columns[column].values, Values::Text(_)))?;
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

    /// The group of a row.
    #[inline]
    fn group(&mut self, of: &Given<'_>, place: usize, row: usize) -> Result<u32, Damaged> {
        if let [key] = &mut self.keys[..] {
            return key.of_row(of, place, row);
        }
        let (mut at, mut in_table) = (0_usize, self.keys.len() == 2);
        for (key, number) in self.keys.iter_mut().zip(&mut self.scratch) {
            *number = key.of_row(of, place, row)?;
            in_table &= *number < SIDE;
            at = at.wrapping_mul(SIDE as usize).wrapping_add(*number as usize);
        }
        if in_table {
            let known = self.table.get(at).copied().unwrap_or(UNKNOWN);
            if known != UNKNOWN {
                return Ok(known);
            }
        }
        let group = self.of_combination()?;
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
        // A loop per key, so that none asks what kind of key it has: first `out` has places in the table, or with one key groups.
        let alone = self.keys.len() == 1;
        let side = if alone { UNKNOWN } else { SIDE };
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
            let at = out[place];
            let known = if alone { at } else { self.table.get(at as usize).copied().unwrap_or(UNKNOWN) };
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
    fn clear(&mut self) {
        emptied(&mut self.known);
        self.wholes.clear();
        self.ends.clear();
        self.texts.clear();
        self.near.clear();
        shrink(&mut self.wholes);
        shrink(&mut self.ends);
        shrink(&mut self.texts);
        shrink(&mut self.near);
        self.wholes.push(0);
        self.ends.push(0);
        self.null = UNKNOWN;
    }

    /// One more than the values that were met.
    fn count(&self) -> usize {
        if self.is_text { self.ends.len() } else { self.wholes.len() }
    }

    fn value(&self, number: usize) -> Value<'_> {
        if number == self.null as usize {
            Value::Null
        } else if self.is_text {
            Value::Text(text_of(&self.ends, &self.texts, number))
        } else {
            Value::Whole(self.wholes[number])
        }
    }

    /// The kind of the values to come, which stays the same until all are forgotten.
    fn expect(&mut self, is_text: bool) -> Result<(), Damaged> {
        if is_text != self.is_text && self.count() > 1 {
            return Err(Damaged("a key of another kind than before"));
        }
        self.is_text = is_text;
        Ok(())
    }

    #[inline]
    fn of_row(&mut self, of: &Given<'_>, place: usize, row: usize) -> Result<u32, Damaged> {
        match self.source {
            Source::Column(column) => self.number(&of.columns[column], row),
            Source::Node(node) if of.slots[node].is_present(place) => {
                self.of_whole(of.slots[node].narrow[place])
            }
            Source::Node(_) => self.of_null(),
        }
    }

    fn of_null(&mut self) -> Result<u32, Damaged> {
        if self.null == UNKNOWN {
            self.null = self.fresh()?;
            if self.is_text {
                self.ends.push(self.texts.len());
            } else {
                self.wholes.push(0);
            }
        }
        Ok(self.null)
    }

    fn fresh(&self) -> Result<u32, Damaged> {
        number(self.count())
    }

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
                _ if has_nulls && !column.is_present(row) => self.null,
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
            return self.of_null();
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
        if at < NEAR_MAX.min(NEAR_MIN.max(NEAR_PER_VALUE * self.wholes.len())) {
            if at >= self.near.len() {
                self.near.resize((at + 1).next_power_of_two(), UNKNOWN);
            }
            self.near[at] = number;
        }
        Ok(number)
    }

    fn of_distant(&mut self, value: i64) -> Result<u32, Damaged> {
        let hash = self.hasher.hash_one(value);
        if let Some(&number) = self.known.find(hash, |&number| self.wholes[number as usize] == value) {
            return Ok(number);
        }
        let fresh = self.fresh()?;
        self.wholes.push(value);
        let (hasher, wholes) = (&self.hasher, &self.wholes);
        self.known.insert_unique(hash, fresh, |&number| hasher.hash_one(wholes[number as usize]));
        Ok(fresh)
    }

    fn of_text(&mut self, value: &[u8]) -> Result<u32, Damaged> {
        let hash = self.hasher.hash_one(value);
        let is_it = |&number: &u32| text_of(&self.ends, &self.texts, number as usize) == value;
        if let Some(&number) = self.known.find(hash, is_it) {
            return Ok(number);
        }
        let fresh = self.fresh()?;
        self.texts.extend_from_slice(value);
        self.ends.push(self.texts.len());
        let (hasher, ends, texts) = (&self.hasher, &self.ends, &self.texts);
        self.known
            .insert_unique(hash, fresh, |&number| hasher.hash_one(text_of(ends, texts, number as usize)));
        Ok(fresh)
    }

    fn bytes(&self) -> usize {
        let values = self.wholes.capacity() * size_of::<i64>() + self.ends.capacity() * size_of::<usize>();
        values
            + self.known.allocation_size()
            + self.texts.capacity()
            + (self.by_code.capacity() + self.near.capacity()) * size_of::<u32>()
    }
}

fn text_of<'a>(ends: &[usize], texts: &'a [u8], number: usize) -> &'a [u8] {
    &texts[ends[number - 1]..ends[number]]
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
