//! Aggregates of random columns in random encodings against a plain evaluation row by row.

use std::collections::BTreeMap;

use proptest::prelude::*;
use warmset_kernels::{Aggregator, Codes, Column, Nulls, Outcome, Packed, Plan, Text, Values};

/// What a column of the tests holds.
#[derive(Clone, Debug)]
enum Held {
    Whole(Vec<Option<i64>>),
    Wide(Vec<Option<i128>>),
    Double(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

/// The bytes of a column, and what describes them.
struct Encoded {
    validity: Vec<u8>,
    data: Vec<u8>,
    entries: Vec<u8>,
    offsets: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
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
    fn column(&self) -> Column<'_> {
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

fn validity<T>(values: &[Option<T>]) -> Vec<u8> {
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
fn packed(values: &[Option<i64>], more: usize) -> (i64, usize, Vec<u8>) {
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

fn encode(held: &Held, form: u8) -> Encoded {
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

fn doubles(values: &[Option<f64>], form: u8, encoded: &mut Encoded) {
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

fn texts(values: &[Option<String>], form: u8, encoded: &mut Encoded) {
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
        let width = if distinct.len() <= 1 { 0 } else { 1 + usize::from(form % 4 / 2) };
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

const LONG: &str = r#"{"least":"-9223372036854775808","greatest":"9223372036854775807"}"#;
const TRUE: &str = r#"{"least":"1","greatest":"1"}"#;
const DECIMAL_38: &str = r#"{"least":"-99999999999999999999999999999999999999","greatest":"99999999999999999999999999999999999999"}"#;

/// (a whole, b whole, d double, t text, w wide): a between and b >= a; sums of a, a * b + 7, w, d; bounds of a, d; counts.
fn plan(keys: &str, least: i64, greatest: i64, word: &str) -> Plan {
    let word: Vec<String> = word.bytes().map(|b| b.to_string()).collect();
    let json = format!(
        r#"{{"columns":5,"nodes":[
            {{"whole":{{"column":0,"bounds":{LONG}}}}}, {{"whole":{{"column":1,"bounds":{LONG}}}}},
            {{"double":{{"column":2}}}}, {{"presence":{{"column":3}}}}, {{"whole":{{"column":4,"bounds":{DECIMAL_38}}}}},
            {{"arithmetic":{{"operator":"multiply","left":0,"right":1,"bounds":{DECIMAL_38}}}}},
            {{"whole_literal":{{"value":"7"}}}},
            {{"arithmetic":{{"operator":"add","left":5,"right":6,"bounds":{DECIMAL_38}}}}},
            {{"to_double":{{"of":0}}}},
            {{"double_arithmetic":{{"operator":"subtract","left":2,"right":8}}}},
            {{"compare":{{"comparison":"less_or_equal","left":0,"right":1}}}},
            {{"text_matches":{{"column":3,"patterns":[{{"is":[{word}]}},{{"is":[97]}},{{"is":[]}}]}}}}],
        "filters":[{{"within":{{"node":0,"bounds":{{"least":"{least}","greatest":"{greatest}"}}}}}},
            {{"within":{{"node":10,"bounds":{TRUE}}}}}, {{"within":{{"node":11,"bounds":{TRUE}}}}}],
        "keys":{keys},
        "aggregates":[{{"sum":{{"node":0,"bounds":null}}}}, {{"sum":{{"node":7,"bounds":{DECIMAL_38}}}}},
            {{"double_sum":{{"node":9}}}}, {{"least":{{"node":0}}}}, {{"greatest":{{"node":2}}}}, {{"count":{{"node":4}}}},
            {{"sum":{{"node":4,"bounds":{DECIMAL_38}}}}}, {{"least":{{"node":2}}}}, {{"greatest":{{"node":4}}}}],
        "output":{output}}}"#,
        word = word.join(","),
        output = output(keys.matches(|c: char| c.is_ascii_digit()).count(), 9)
    );
    serde_json::from_str(&json).unwrap()
}

type Five = (Option<i64>, Option<i64>, Option<f64>, Option<String>, Option<i128>);
/// Rows with a value, and the result's bits.
type Results = Vec<(i64, i128)>;

fn above(left: f64, right: f64) -> bool {
    if left.is_nan() { !right.is_nan() } else { left > right }
}

/// Row by row, as the documentation of the plan says.
fn expected(
    rows: &[Five],
    keys: &[usize],
    least: i64,
    greatest: i64,
    word: &str,
) -> Option<BTreeMap<String, Results>> {
    let mut groups: BTreeMap<String, Results> = BTreeMap::new();
    if keys.is_empty() {
        groups.insert(String::new(), vec![(0, 0); 9]);
    }
    let limit = 10_i128.pow(38) - 1;
    for (a, b, d, t, w) in rows {
        let passes = a.is_some_and(|a| least <= a && a <= greatest)
            && a.zip(*b).is_some_and(|(a, b)| a <= b)
            && t.as_deref().is_some_and(|t| t == word || t == "a" || t.is_empty());
        if !passes {
            continue;
        }
        let key: Vec<String> =
            keys.iter().map(|key| if *key == 3 { format!("{t:?}") } else { format!("{b:?}") }).collect();
        let sums = groups.entry(key.join("|")).or_insert_with(|| vec![(0, 0); 9]);
        let of_double = |bits: i128| f64::from_bits(bits as u64);
        let mut put = |at: usize,
                       value: Option<i128>,
                       with: &dyn Fn(i128, i128) -> i128,
                       first: &dyn Fn(i128) -> i128| {
            if let Some(value) = value {
                sums[at] =
                    (sums[at].0 + 1, if sums[at].0 == 0 { first(value) } else { with(sums[at].1, value) });
            }
        };
        let product = a.zip(*b).map(|(a, b)| i128::from(a) * i128::from(b) + 7);
        put(0, a.map(i128::from), &|x, y| x + y, &|x| x);
        put(1, product, &|x, y| x + y, &|x| x);
        let difference = d.zip(*a).map(|(d, a)| i128::from((d - a as f64).to_bits()));
        let add = |x: i128, y: i128| i128::from((of_double(x) + of_double(y)).to_bits());
        put(2, difference, &add, &|x| i128::from((0.0 + of_double(x)).to_bits()));
        put(3, a.map(i128::from), &|x, y| x.min(y), &|x| x);
        let bits = d.map(|d| i128::from(d.to_bits()));
        put(4, bits, &|x, y| if above(of_double(y), of_double(x)) { y } else { x }, &|x| x);
        put(5, w.map(|_| 0), &|_, _| 0, &|_| 0);
        put(6, *w, &|x, y| x + y, &|x| x);
        put(7, bits, &|x, y| if above(of_double(x), of_double(y)) { y } else { x }, &|x| x);
        put(8, *w, &|x, y| x.max(y), &|x| x);
        if [sums[1].1, sums[6].1].iter().any(|sum| sum.abs() > limit) {
            return None;
        }
    }
    Some(groups)
}

/// Keys, and of each aggregate the number of rows with a value and the result.
fn output(keys: usize, aggregates: usize) -> String {
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
struct Row<'a>(&'a [u8], usize);

impl<'a> Row<'a> {
    fn all(mut bytes: &'a [u8], fields: usize) -> Vec<Row<'a>> {
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

    fn is_null(self, field: usize) -> bool {
        self.0[field / 8] >> (field % 8) & 1 == 1
    }

    fn word(self, field: usize) -> u64 {
        let at = 8 * (self.1.div_ceil(64) + field);
        u64::from_le_bytes(self.0[at..at + 8].try_into().unwrap())
    }

    fn outside(self, field: usize) -> &'a [u8] {
        let (at, length) = ((self.word(field) >> 32) as usize, self.word(field) as u32 as usize);
        &self.0[at..at + length]
    }

    fn wide(self, field: usize) -> i128 {
        let bytes = self.outside(field);
        let first = if bytes[0] >= 0x80 { -1 } else { 0 };
        bytes.iter().fold(first, |value: i128, byte| value << 8 | i128::from(*byte))
    }
}

fn decoded(bytes: &[u8], keys: &[usize]) -> BTreeMap<String, Results> {
    let mut groups = BTreeMap::new();
    for row in Row::all(bytes, keys.len() + 18) {
        let shown = |(field, key): (usize, &usize)| match (row.is_null(field), key) {
            (true, _) => "None".to_owned(),
            (false, 3) => format!("Some({:?})", std::str::from_utf8(row.outside(field)).unwrap()),
            _ => format!("Some({})", row.word(field) as i64),
        };
        let key: Vec<String> = keys.iter().enumerate().map(shown).collect();
        let result = |at: usize| {
            let count = row.word(keys.len() + 2 * at) as i64;
            // What no row had a value for has no result.
            (count, if count == 0 || at == 5 { 0 } else { row.wide(keys.len() + 2 * at + 1) })
        };
        assert!(groups.insert(key.join("|"), (0..9).map(result).collect()).is_none(), "a group came twice");
    }
    groups
}

/// NaN of one kind: which one a sum gives is the processor's affair.
fn canonical(groups: BTreeMap<String, Results>) -> BTreeMap<String, Results> {
    let same = |(at, (count, bits)): (usize, (i64, i128))| {
        let is_nan = [2, 4, 7].contains(&at) && f64::from_bits(bits as u64).is_nan();
        (count, if is_nan { -1 } else { bits })
    };
    groups
        .into_iter()
        .map(|(key, results)| (key, results.into_iter().enumerate().map(same).collect()))
        .collect()
}

fn a_double() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-1000_i64..1000).prop_map(|v| v as f64 / 100.0),
        1 => any::<f64>(),
        1 => prop_oneof![Just(f64::NAN), Just(-0.0), Just(0.0), Just(f64::INFINITY), Just(f64::NEG_INFINITY)],
    ]
}

fn a_row() -> impl Strategy<Value = Five> {
    let small = -300_i64..300;
    let large = prop_oneof![20 => small.clone(), 1 => any::<i32>().prop_map(i64::from)];
    let wide = prop_oneof![3 => -1000_i128..1000, 1 => -(10_i128.pow(34))..10_i128.pow(34)];
    let some = |p| move |v| prop::option::weighted(p, v);
    (
        some(0.95)(small.boxed()),
        some(0.9)(large.boxed()),
        prop::option::weighted(0.9, a_double()),
        prop::option::weighted(
            0.9,
            prop_oneof![Just(""), Just("a"), Just("bc"), Just("def")].prop_map(str::to_owned),
        ),
        prop::option::weighted(0.8, wide),
    )
}

fn cases(default: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

proptest! {
    // PROPTEST_CASES=4000 for a long run.
    #![proptest_config(ProptestConfig { cases: cases(40), ..ProptestConfig::default() })]

    #[test]
    fn equals_a_plain_evaluation(
        batches in prop::collection::vec((prop::collection::vec(a_row(), 0..1400), any::<u8>()), 1..4),
        keys in prop_oneof![Just(vec![]), Just(vec![3]), Just(vec![1]), Just(vec![3, 1])],
        least in -320_i64..100, span in 0_i64..600,
        without_nulls in any::<bool>(), is_large in any::<bool>(),
    ) {
        let greatest = least + span;
        let large = [1, 10_i128.pow(3)][usize::from(is_large)];
        let mut aggregator =
            Aggregator::new(&plan(&format!("{keys:?}"), least, greatest, "bc")).unwrap();
        let mut added: Vec<Five> = Vec::new();
        for (mut rows, form) in batches {
            rows.iter_mut().for_each(|row| row.4 = row.4.map(|w| w * large));
            if without_nulls {
                rows.retain(|(a, b, d, t, w)| {
                    a.is_some() && b.is_some() && d.is_some() && t.is_some() && w.is_some()
                });
            }
            let held = [
                Held::Whole(rows.iter().map(|r| r.0).collect()),
                Held::Whole(rows.iter().map(|r| r.1).collect()),
                Held::Double(rows.iter().map(|r| r.2).collect()),
                Held::Text(rows.iter().map(|r| r.3.clone()).collect()),
                Held::Wide(rows.iter().map(|r| r.4).collect()),
            ];
            let encoded: Vec<Encoded> = held.iter().map(|held| encode(held, form)).collect();
            let columns: Vec<Column<'_>> = encoded.iter().map(Encoded::column).collect();
            match aggregator.add(rows.len(), &columns).unwrap() {
                Outcome::Added => added.extend(rows),
                // With the next rows, a value or a sum leaves its type.
                Outcome::Refused(from) => {
                    let next = 1024.min(rows.len() - from);
                    let mut more = added.clone();
                    more.extend_from_slice(&rows[..from + next]);
                    prop_assert!(expected(&more, &keys, least, greatest, "bc").is_none());
                    added.extend_from_slice(&rows[..from]);
                }
            }
        }
        let expected = expected(&added, &keys, least, greatest, "bc").expect("what is added fits");
        prop_assert_eq!(canonical(decoded(&taken(&mut aggregator), &keys)), canonical(expected));
        let empty = decoded(&taken(&mut aggregator), &keys);
        prop_assert!(empty.values().flatten().all(|&(count, bits)| count == 0 && bits == 0));
    }
}

/// All pieces of the groups.
fn taken(aggregator: &mut Aggregator) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let piece = aggregator.take();
        if piece.is_empty() {
            return all;
        }
        all.extend(piece);
    }
}

/// Groups by a text.
fn count_by_text() -> Aggregator {
    let json = format!(
        r#"{{"columns":1,"nodes":[{{"presence":{{"column":0}}}}],"filters":[],"keys":[0],"aggregates":[{{"count":{{"node":0}}}}],
            "output":{}}}"#,
        output(1, 1)
    );
    Aggregator::new(&serde_json::from_str(&json).unwrap()).unwrap()
}

#[test]
fn long_keys_fill_it_and_are_given_out_in_pieces() {
    let texts = |from: usize| -> Vec<Option<String>> {
        (from..from + 80).map(|n| Some(format!("{n:0>50000}").repeat(20))).collect()
    };
    let (first, second) = (encode(&Held::Text(texts(0)), 0), encode(&Held::Text(texts(25)), 0));
    let mut aggregator = count_by_text();
    assert_eq!(aggregator.add(80, &[first.column()]), Ok(Outcome::Added));
    assert!(aggregator.is_full(), "80 MB of keys");
    let piece = aggregator.take();
    assert!(piece.len() >= 16 << 20 && piece.len() < 17 << 20, "{}", piece.len());
    assert!(aggregator.add(80, &[second.column()]).is_err(), "in the middle of giving out");
    assert_eq!(piece.len() + taken(&mut aggregator).len(), 80 * (8 + 8 + 3 * 8 + 1_000_000 + 16));
    assert!(!aggregator.is_full());
    assert_eq!(aggregator.add(80, &[second.column()]), Ok(Outcome::Added), "the first are forgotten");
    assert!(aggregator.is_full());
    assert_eq!(taken(&mut aggregator).len(), 80 * (8 + 8 + 3 * 8 + 1_000_000 + 16));
    assert_eq!(aggregator.add(80, &[first.column()]), Ok(Outcome::Added), "and so are the second");
}

#[test]
fn groups_are_given_out_batch_by_batch_where_they_are_as_many_as_rows() {
    let numbers = |from: i64, step: i64| -> Encoded {
        encode(&Held::Whole((0..1000).map(|n| Some(from + n / step)).collect()), 3)
    };
    let json = format!(
        r#"{{"columns":1,"nodes":[{{"whole":{{"column":0,"bounds":{LONG}}}}}],"filters":[],"keys":[0],
            "aggregates":[{{"sum":{{"node":0,"bounds":null}}}}],"output":{}}}"#,
        output(1, 1)
    );
    let mut aggregator = Aggregator::bounded(&serde_json::from_str(&json).unwrap(), 10 << 20).unwrap();
    let add = |aggregator: &mut Aggregator, from, step| {
        assert_eq!(aggregator.add(1000, &[numbers(from, step).column()]), Ok(Outcome::Added));
        let groups = aggregator.groups();
        (groups, aggregator.is_full().then(|| taken(aggregator).len() / (8 + 8 + 3 * 8 + 16)))
    };
    assert_eq!(add(&mut aggregator, 0, 1), (1000, None));
    assert_eq!(add(&mut aggregator, 1000, 1), (2000, None));
    let (groups, out) =
        (2..).map(|batch| add(&mut aggregator, batch * 1000, 1)).find(|(_, out)| out.is_some()).unwrap();
    assert!((50_000..200_000).contains(&groups) && out == Some(groups), "{groups}");
    // The next batch begins anew, and is given out by itself.
    assert_eq!(add(&mut aggregator, 0, 1), (1000, Some(1000)));
    assert_eq!(add(&mut aggregator, 5, 2), (500, Some(500)));
    // Since that one has fewer groups than rows, groups are kept again.
    assert_eq!(add(&mut aggregator, 7, 1), (1000, None));
    assert_eq!(add(&mut aggregator, 7, 1), (1000, None));
}

/// A column of longs and their sum, with these bounds.
fn sum_of(bounds: &str) -> Aggregator {
    let json = format!(
        r#"{{"columns":1,"nodes":[{{"whole":{{"column":0,"bounds":{LONG}}}}}],"filters":[],"keys":[],
            "aggregates":[{{"sum":{{"node":0,"bounds":{bounds}}}}}],"output":{}}}"#,
        output(0, 1)
    );
    Aggregator::new(&serde_json::from_str(&json).unwrap()).unwrap()
}

fn longs(values: &[i64]) -> Encoded {
    encode(&Held::Whole(values.iter().map(|&v| Some(v)).collect()), 0)
}

fn sum_in(aggregator: &mut Aggregator) -> i128 {
    Row::all(&aggregator.take(), 2)[0].wide(1)
}

#[test]
fn rows_before_a_sum_leaves_its_type_are_added_and_none_after() {
    let mut sum = sum_of(LONG);
    let (large, small) = (longs(&[i64::MAX, i64::MAX]), longs(&[1, 2, 3]));
    assert_eq!(sum.add(3, &[small.column()]), Ok(Outcome::Added));
    assert_eq!(sum.add(2, &[large.column()]), Ok(Outcome::Refused(0)));
    assert_eq!(sum_in(&mut sum), 6);
    // 3,000 of these do not fit, 2,048 do.
    let many = longs(&[4_000_000_000_000_000; 3000]);
    assert_eq!(sum.add(3000, &[many.column()]), Ok(Outcome::Refused(2048)));
    assert_eq!(sum_in(&mut sum), 2048 * 4_000_000_000_000_000);
    let mut wrapping = sum_of("null");
    assert_eq!(wrapping.add(2, &[large.column()]), Ok(Outcome::Added));
    assert_eq!(sum_in(&mut wrapping), 2 * i128::from(i64::MAX));
}

#[test]
fn sums_may_come_close_to_the_bounds_of_their_type_and_go_away_again() {
    let mut sum = sum_of(LONG);
    let there = longs(&[i64::MAX - 1, 1, -5, i64::MIN + 5, i64::MIN + 1, 0, i64::MAX]);
    for _ in 0..3 {
        assert_eq!(sum.add(7, &[there.column()]), Ok(Outcome::Added));
        assert_eq!(sum.add(1, &[longs(&[1]).column()]), Ok(Outcome::Added));
    }
    assert_eq!(sum_in(&mut sum), 0);
    let over_and_back = longs(&[i64::MAX, 1, -1]);
    assert_eq!(sum.add(3, &[over_and_back.column()]), Ok(Outcome::Refused(0)));
}

#[test]
fn sums_of_microseconds_in_many_groups() {
    let json = format!(
        r#"{{"columns":2,"nodes":[{{"whole":{{"column":0,"bounds":{LONG}}}}}],"filters":[],"keys":[1],
            "aggregates":[{{"sum":{{"node":0,"bounds":{LONG}}}}}],"output":{}}}"#,
        output(1, 1)
    );
    let mut aggregator = Aggregator::new(&serde_json::from_str(&json).unwrap()).unwrap();
    let at = |row: i64| 1_700_000_000_000_000 + row * 1_000_003 % 77_777_777;
    for batch in 0..4 {
        for groups in [50, 3000] {
            let values: Vec<i64> = (0..10_000).map(|row| at(row + batch)).collect();
            let keys: Vec<Option<i64>> = (0..10_000).map(|row| Some(row % groups)).collect();
            let (values, keys) = (longs(&values), encode(&Held::Whole(keys), 0));
            assert_eq!(aggregator.add(10_000, &[values.column(), keys.column()]), Ok(Outcome::Added));
        }
    }
    let out = taken(&mut aggregator);
    let sums: i128 = Row::all(&out, 3).iter().map(|row| row.wide(2)).sum();
    let expected: i128 = (0..4).flat_map(|b| (0..10_000).map(move |row| i128::from(at(row + b)))).sum();
    assert_eq!(sums, 2 * expected);
}

#[test]
fn products_are_looked_at_where_the_bounds_of_their_factors_say_too_little() {
    let int = r#"{"least":"-2147483648","greatest":"2147483647"}"#;
    let json = format!(
        r#"{{"columns":2,"nodes":[{{"whole":{{"column":0,"bounds":{int}}}}}, {{"whole":{{"column":1,"bounds":{int}}}}},
            {{"arithmetic":{{"operator":"multiply","left":0,"right":1,"bounds":{int}}}}}],
            "filters":[{{"within":{{"node":0,"bounds":{{"least":"-9","greatest":"2000000000"}}}}}}],"keys":[],
            "aggregates":[{{"sum":{{"node":2,"bounds":{LONG}}}}}],"output":{}}}"#,
        output(0, 1)
    );
    let mut aggregator = Aggregator::new(&serde_json::from_str(&json).unwrap()).unwrap();
    // What is filtered out may have a product that is too large.
    let (left, right) = (longs(&[2_000_000_000, 3, 2_000_000_001, 7]), longs(&[1, 2_000_000, 2_000_000, -5]));
    assert_eq!(aggregator.add(4, &[left.column(), right.column()]), Ok(Outcome::Added));
    let (left, right) = (longs(&[2_000_000_000, 3]), longs(&[1, 2_000_000_000]));
    assert_eq!(aggregator.add(2, &[left.column(), right.column()]), Ok(Outcome::Refused(0)));
    assert_eq!(sum_in(&mut aggregator), 2_000_000_000 + 6_000_000 - 35);
}

#[test]
fn what_is_damaged_is_an_error() {
    let mut sum = sum_of(LONG);
    let encoded = longs(&[1, 2, 300]);
    assert!(sum.add(100, &[encoded.column()]).is_err());
    assert!(sum.add(3, &[]).is_err());
    let double = encode(&Held::Double(vec![Some(1.0)]), 2);
    assert!(sum.add(1, &[double.column()]).is_err());
}

#[test]
fn a_plan_that_refers_to_nothing_is_an_error() {
    for (nodes, filters, keys, aggregates) in [
        (r#"{"double":{"column":1}}"#, "", "", ""),
        (r#"{"to_double":{"of":0}}"#, "", "", ""),
        (r#"{"double":{"column":0}}"#, "", "", r#"{"sum":{"node":0,"bounds":null}}"#),
        (r#"{"double":{"column":0}}"#, "", "", r#"{"count":{"node":3}}"#),
        (r#"{"text_matches":{"column":4,"patterns":[]}}"#, "", "", ""),
        (r#"{"double":{"column":0}}, {"not":{"of":0}}"#, "", "", ""),
        (r#"{"has_value":{"of":0}}"#, "", "", ""),
        (
            r#"{"double":{"column":0}}, {"has_value":{"of":0}}, {"choice":{"condition":1,"then":1,"otherwise":0}}"#,
            "",
            "",
            "",
        ),
        ("", r#"{"present":{"node":0}}"#, "", ""),
        ("", "", "1", ""),
        (r#"{"whole_literal":{"value":"1e5"}}"#, "", "", ""),
        ("", "", "0", ""),
    ] {
        let json = format!(
            r#"{{"columns":1,"nodes":[{nodes}],"filters":[{filters}],"keys":[{keys}],"aggregates":[{aggregates}],
                "output":[{{"key":{{"key":0,"bytes":16}}}}]}}"#
        );
        let plan: Plan = serde_json::from_str(&json).unwrap();
        assert!(Aggregator::new(&plan).is_err(), "{json}");
    }
}

#[test]
fn rows_are_in_the_format_of_spark() {
    let json = format!(
        r#"{{"columns":2,"nodes":[{{"whole":{{"column":0,"bounds":{LONG}}}}}],"filters":[],"keys":[1,0],
            "aggregates":[{{"sum":{{"node":0,"bounds":null}}}}, {{"least":{{"node":0}}}}],
            "output":[{{"key":{{"key":0,"bytes":8}}}}, {{"key":{{"key":1,"bytes":2}}}}, {{"is_empty":{{"aggregate":0}}}},
                {{"result":{{"aggregate":0,"bytes":16,"or_null":true}}}}, {{"result":{{"aggregate":1,"bytes":4,"or_null":true}}}},
                {{"result":{{"aggregate":1,"bytes":8,"or_null":false}}}}]}}"#
    );
    let mut aggregator = Aggregator::new(&serde_json::from_str(&json).unwrap()).unwrap();
    let texts = encode(&Held::Text(vec![Some("a text of 20 bytes..".to_owned()), None]), 1);
    let values = encode(&Held::Whole(vec![Some(-300), None]), 0);
    assert_eq!(aggregator.add(2, &[values.column(), texts.column()]), Ok(Outcome::Added));
    let out = taken(&mut aggregator);
    let [first, second] = Row::all(&out, 6)[..] else { panic!("two groups") };
    assert_eq!(first.outside(0), b"a text of 20 bytes..");
    assert_eq!((first.word(1), first.word(2), first.word(4)), (0xFED4, 0, 0xFFFF_FED4));
    assert_eq!((first.outside(3), first.wide(3), first.word(5) as i64), (&[0xFE, 0xD4][..], -300, -300));
    assert_eq!(first.0.len(), 8 + 6 * 8 + 24 + 16);
    let nulls: Vec<bool> = (0..6).map(|field| second.is_null(field)).collect();
    assert_eq!(nulls, [true, true, false, true, true, false]);
    assert_eq!(
        (second.word(2), second.word(4), second.outside(3).len(), second.0.len()),
        (1, 0, 0, 8 + 6 * 8 + 16)
    );
}
