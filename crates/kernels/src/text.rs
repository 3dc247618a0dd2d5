//! Texts of a column: how many characters they have, and which is the least or the greatest of a group.
//!
//! Invariant: a text is looked at only where its row has one. Texts are compared byte by byte, as Spark's are in its binary
//! collation.

use std::cmp::Ordering;

use crate::column::{Column, Damaged, Text, Values};
use crate::eval::{Rows, Slot};
use crate::sums::group;

/// With so many groups, the texts of a dictionary are compared once per chunk, not once per row: group 1, and 0 for rows
/// that do not count.
const ONE_GROUP: usize = 2;

pub(crate) fn of<'a>(column: &Column<'a>) -> Result<Text<'a>, Damaged> {
    match column.values {
        Values::Text(text) => Ok(text),
        _ => Err(Damaged("not text")),
    }
}

/// Fills in the characters of each row's text, where the slot says that it has one.
pub(crate) fn lengths(column: &Column<'_>, rows: Rows<'_>, slot: &mut Slot) -> Result<(), Damaged> {
    let text = of(column)?;
    slot.narrow.clear();
    match text.codes {
        Some(codes) if text.count <= rows.count() => {
            let known = (0..text.count)
                .map(|code| text.value(code).map(characters))
                .collect::<Result<Vec<_>, _>>()?;
            for i in 0..rows.count() {
                let length = if slot.is_present(i) { known.get(codes.code(rows.row(i))) } else { Some(&0) };
                slot.narrow.push(*length.ok_or(Damaged("a code of no value"))?);
            }
        }
        _ => {
            for i in 0..rows.count() {
                let length = if slot.is_present(i) { characters(text.of_row(rows.row(i))?) } else { 0 };
                slot.narrow.push(length);
            }
        }
    }
    Ok(())
}

/// As `UTF8String.numChars` counts: a first byte says how long its character is, and what is no first byte is one.
fn characters(text: &[u8]) -> i64 {
    if text.is_ascii() {
        return text.len() as i64;
    }
    let (mut at, mut count) = (0, 0);
    while let Some(first) = text.get(at) {
        at += match first {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => 1,
        };
        count += 1;
    }
    count
}

/// The least or the greatest text of each group.
#[derive(Debug, Default)]
pub(crate) struct Extremes {
    best: Vec<Option<Box<[u8]>>>,
    bytes: usize,
    /// Whether a row of the chunk has the text of a code.
    used: Vec<bool>,
}

impl Extremes {
    /// Compares the texts of the rows of a chunk, to the groups that `of` says, or all to group 1; group 0 does not count.
    pub(crate) fn add(
        &mut self,
        wanted: Ordering,
        slot: &Slot,
        of_rows: Option<&[u32]>,
        groups: usize,
        column: &Column<'_>,
        rows: Rows<'_>,
    ) -> Result<(), Damaged> {
        let text = of(column)?;
        self.best.resize(groups, None);
        let counted = |i: &usize| slot.is_present(*i) && group(of_rows, *i) != 0;
        match text.codes {
            Some(codes) if groups <= ONE_GROUP && text.count <= rows.count() => {
                self.used.clear();
                self.used.resize(text.count, false);
                for i in (0..rows.count()).filter(counted) {
                    let used = self.used.get_mut(codes.code(rows.row(i)));
                    *used.ok_or(Damaged("a code of no value"))? = true;
                }
                for code in 0..text.count {
                    if self.used[code] {
                        self.compare(wanted, 1, text.value(code)?);
                    }
                }
            }
            _ => {
                for i in (0..rows.count()).filter(counted) {
                    self.compare(wanted, group(of_rows, i), text.of_row(rows.row(i))?);
                }
            }
        }
        Ok(())
    }

    fn compare(&mut self, wanted: Ordering, group: usize, text: &[u8]) {
        let best = &mut self.best[group];
        if best.as_deref().is_none_or(|best| text.cmp(best) == wanted) {
            self.bytes += text.len();
            self.bytes -= best.as_deref().map_or(0, <[u8]>::len);
            *best = Some(text.into());
        }
    }

    pub(crate) fn get(&self, group: usize) -> Option<&[u8]> {
        self.best.get(group)?.as_deref()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.best.capacity() * size_of::<Option<Box<[u8]>>>()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::characters;

    #[test]
    fn characters_are_those_of_first_bytes() {
        let texts: [(&[u8], i64); 7] = [
            (b"", 0),
            (b"abc", 3),
            ("gr\u{fc}n".as_bytes(), 4),
            ("\u{20ac}\u{1f600}".as_bytes(), 2),
            // What is no first byte, alone and at the end of a text.
            (&[0x80, 0xC0, 0xFF], 3),
            (&[b'a', 0xE2], 2),
            (&[0xF4, b'a', b'b'], 1),
        ];
        for (text, count) in texts {
            assert_eq!(characters(text), count, "{text:?}");
        }
    }
}
