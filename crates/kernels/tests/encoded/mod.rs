//! Columns of the tests in encodings, and the rows that aggregates give out.

#![allow(dead_code, reason = "each of the tests uses a part")]

use warmset_kernels::{Aggregator, Codes, Column, Nulls, Packed, Text, Values};

/// The bounds of a condition that is true.
pub const TRUE: &str = r#"{"least":"1","greatest":"1"}"#;
pub const LONG: &str = r#"{"least":"-9223372036854775808","greatest":"9223372036854775807"}"#;

/// What a column of the tests holds.
#[derive(Clone, Debug)]
pub enum Held {
    Whole(Vec<Option<i64>>),
    Wide(Vec<Option<i128>>),
    Double(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

/// The bytes of a column, and what describes them.
pub struct Encoded {
    validity: Vec<u8>,
    data: Vec<u8>,
    entries: Vec<u8>,
    offsets: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Packed { base: i64, width: usize },
    Wide,
    Doubles,
    DoubleCodes,
    ConstantDouble(f64),
    Scaled { base: i64, width: usize },
    TextCodes { count: usize, width: usize },
    Text { count: usize, base: i64, slope: i64, offset_width: usize },
}

impl Encoded {
    pub fn column(&self) -> Column<'_> {
        let nulls = if self.validity.is_empty() { Nulls::None } else { Nulls::Bits(&self.validity) };
        let data = &self.data[..];
        let text = |codes, count, base, slope, offset_width| {
            Values::Text(Text {
                codes,
                count,
                offset_width,
                offsets: &self.offsets,
                base,
                slope,
                bytes: &self.entries,
            })
        };
        let values = match self.kind {
            Kind::Packed { base, width } => Values::Packed(Packed { base, width, word: 8, data }),
            Kind::Wide => Values::Wide(data),
            Kind::Doubles => Values::Doubles(data),
            Kind::ConstantDouble(value) => Values::ConstantDouble(value),
            Kind::DoubleCodes => Values::DoubleCodes(Codes { width: 1, data }, &self.entries),
            Kind::Scaled { base, width } => {
                Values::ScaledDoubles(Packed { base, width, word: 8, data }, 100.0)
            }
            Kind::TextCodes { count, width } => text(Some(Codes { width, data }), count, 0, 0, 8),
            Kind::Text { count, base, slope, offset_width } => text(None, count, base, slope, offset_width),
        };
        Column { nulls, values }
    }
}

pub fn validity<T>(values: &[Option<T>]) -> Vec<u8> {
    if values.iter().all(Option::is_some) {
        return Vec::new();
    }
    let mut bits = vec![0; values.len().div_ceil(8)];
    for (row, value) in values.iter().enumerate() {
        bits[row / 8] |= u8::from(value.is_some()) << (row % 8);
    }
    bits
}

/// Numbers as a base and `more` bytes more than they need.
pub fn packed(values: &[Option<i64>], more: usize) -> (i64, usize, Vec<u8>) {
    let least = values.iter().flatten().min().copied().unwrap_or(7);
    let greatest = values.iter().flatten().max().copied().unwrap_or(7);
    let range = greatest.wrapping_sub(least) as u64;
    let needed = (64 - range.leading_zeros() as usize).div_ceil(8);
    let width = if i128::from(greatest) - i128::from(least) > i128::from(i64::MAX) {
        8
    } else {
        (needed + more).min(8)
    };
    let base = if width == 8 { 0 } else { least };
    let mut data = Vec::new();
    for value in values {
        let stored = value.map_or(0, |value| value.wrapping_sub(base)) as u64;
        data.extend_from_slice(&stored.to_le_bytes()[..width]);
    }
    data.extend_from_slice(&[0xA5; 8][..8 - width]);
    (base, width, data)
}

pub fn encode(held: &Held, form: u8) -> Encoded {
    let mut encoded = Encoded {
        validity: Vec::new(),
        data: Vec::new(),
        entries: Vec::new(),
        offsets: Vec::new(),
        kind: Kind::Wide,
    };
    match held {
        Held::Whole(values) => {
            encoded.validity = validity(values);
            let (base, width, data) = packed(values, usize::from(form % 4));
            (encoded.data, encoded.kind) = (data, Kind::Packed { base, width });
        }
        Held::Wide(values) => {
            encoded.validity = validity(values);
            encoded.data = values.iter().flat_map(|v| v.unwrap_or(-1).to_le_bytes()).collect();
        }
        Held::Double(values) => {
            encoded.validity = validity(values);
            doubles(values, form, &mut encoded);
        }
        Held::Text(values) => {
            encoded.validity = validity(values);
            texts(values, form, &mut encoded);
        }
    }
    encoded
}

pub fn doubles(values: &[Option<f64>], form: u8, encoded: &mut Encoded) {
    let whole: Vec<Option<i64>> = values.iter().map(|v| v.map(|v| (v * 100.0).round() as i64)).collect();
    let comes_back = |(v, whole): (&Option<f64>, &Option<i64>)| {
        v.zip(*whole).is_none_or(|(v, whole)| (whole as f64 / 100.0).to_bits() == v.to_bits())
    };
    if form % 3 == 0
        && values.iter().zip(&whole).all(comes_back)
        && values.iter().flatten().all(|v| v.abs() < 1e9)
    {
        let (base, width, data) = packed(&whole, 0);
        if width <= 6 {
            (encoded.data, encoded.kind) = (data, Kind::Scaled { base, width });
            return;
        }
    }
    let mut distinct: Vec<u64> = values.iter().map(|v| v.unwrap_or(0.5).to_bits()).collect();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() == 1 && form % 2 == 0 {
        encoded.kind = Kind::ConstantDouble(f64::from_bits(distinct[0]));
    } else if distinct.len() <= 256 && form % 3 != 2 {
        encoded.kind = Kind::DoubleCodes;
        encoded.entries = distinct.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let code = |v: &Option<f64>| distinct.binary_search(&v.unwrap_or(0.5).to_bits()).unwrap() as u8;
        encoded.data = values.iter().map(code).collect();
    } else {
        encoded.kind = Kind::Doubles;
        encoded.data = values.iter().flat_map(|v| v.unwrap_or(f64::NAN).to_le_bytes()).collect();
    }
}

pub fn texts(values: &[Option<String>], form: u8, encoded: &mut Encoded) {
    let texts: Vec<&str> = values.iter().map(|v| v.as_deref().unwrap_or("")).collect();
    let mut distinct = texts.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let kept = if form % 2 == 0 { &distinct } else { &texts };
    let mut ends = vec![0_i64];
    for text in kept {
        encoded.entries.extend_from_slice(text.as_bytes());
        ends.push(encoded.entries.len() as i64);
    }
    if form % 2 == 0 {
        let width = match distinct.len() {
            ..=1 => 0,
            2..=256 => 1 + usize::from(form % 4 / 2),
            _ => 2,
        };
        let code =
            |text: &&str| (distinct.binary_search(text).unwrap() as u16).to_le_bytes()[..width].to_vec();
        encoded.data = texts.iter().flat_map(code).collect();
        encoded.offsets = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        encoded.kind = Kind::TextCodes { count: distinct.len(), width };
    } else {
        // On a line: what is left is at least 0 once the least of it is the base.
        let slope = (ends[ends.len() - 1] << 16) / (ends.len() as i64);
        let left: Vec<i64> =
            ends.iter().enumerate().map(|(i, end)| end - ((i as i64 * slope) >> 16)).collect();
        let base = *left.iter().min().unwrap();
        encoded.offsets = left.iter().flat_map(|v| ((v - base) as u64).to_le_bytes()[..3].to_vec()).collect();
        encoded.offsets.extend_from_slice(&[0; 5]);
        encoded.kind = Kind::Text { count: texts.len(), base, slope, offset_width: 3 };
    }
}

/// Keys, and of each aggregate the number of rows with a value and the result.
pub fn output(keys: usize, aggregates: usize) -> String {
    let keys = (0..keys).map(|key| format!(r#"{{"key":{{"key":{key},"bytes":8}}}}"#));
    let results = (0..aggregates).map(|at| {
        format!(
            r#"{{"count":{{"aggregate":{at}}}}},{{"result":{{"aggregate":{at},"bytes":16,"or_null":false}}}}"#
        )
    });
    format!("[{}]", keys.chain(results).collect::<Vec<_>>().join(","))
}

/// A row in Spark's format of so many fields.
#[derive(Clone, Copy)]
pub struct Row<'a>(pub &'a [u8], usize);

impl<'a> Row<'a> {
    pub fn all(mut bytes: &'a [u8], fields: usize) -> Vec<Row<'a>> {
        let mut rows = Vec::new();
        while !bytes.is_empty() {
            let (length, rest) = bytes.split_at(8);
            let (row, rest) = rest.split_at(u64::from_le_bytes(length.try_into().unwrap()) as usize);
            assert!(row.len() % 8 == 0);
            rows.push(Row(row, fields));
            bytes = rest;
        }
        rows
    }

    pub fn is_null(self, field: usize) -> bool {
        self.0[field / 8] >> (field % 8) & 1 == 1
    }

    pub fn word(self, field: usize) -> u64 {
        let at = 8 * (self.1.div_ceil(64) + field);
        u64::from_le_bytes(self.0[at..at + 8].try_into().unwrap())
    }

    pub fn outside(self, field: usize) -> &'a [u8] {
        let (at, length) = ((self.word(field) >> 32) as usize, self.word(field) as u32 as usize);
        &self.0[at..at + length]
    }

    pub fn wide(self, field: usize) -> i128 {
        let bytes = self.outside(field);
        let first = if bytes[0] >= 0x80 { -1 } else { 0 };
        bytes.iter().fold(first, |value: i128, byte| value << 8 | i128::from(*byte))
    }
}

/// All pieces of the groups.
pub fn taken(aggregator: &mut Aggregator) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let piece = aggregator.take();
        if piece.is_empty() {
            return all;
        }
        all.extend(piece);
    }
}
