//! The least and greatest text and lengths of texts, in all encodings, against a plain evaluation row by row.

mod encoded;

use std::collections::BTreeMap;

use encoded::{Encoded, Held, LONG, Row, encode, taken};
use proptest::prelude::*;
use warmset_kernels::{Aggregator, Column, Outcome, Plan};

/// Of (a whole, t text): least and greatest t, the sum of its characters, its values; where a is at least 0.
fn plan(keys: &str) -> Plan {
    let key = if keys == "[]" { "" } else { r#"{"key":{"key":0,"bytes":8}},"# };
    let json = format!(
        r#"{{"columns":2,"nodes":[{{"whole":{{"column":0,"bounds":{LONG}}}}}, {{"text":{{"column":1}}}},
            {{"text_length":{{"column":1}}}}],
        "filters":[{{"within":{{"node":0,"bounds":{{"least":"0","greatest":"9223372036854775807"}}}}}}],
        "keys":{keys},
        "aggregates":[{{"least":{{"node":1}}}}, {{"greatest":{{"node":1}}}}, {{"sum":{{"node":2,"bounds":{LONG}}}}},
            {{"count":{{"node":1}}}}],
        "output":[{key}{{"text":{{"aggregate":0}}}}, {{"text":{{"aggregate":1}}}},
            {{"result":{{"aggregate":2,"bytes":8,"or_null":true}}}}, {{"count":{{"aggregate":3}}}}]}}"#
    );
    serde_json::from_str(&json).unwrap()
}

type Two = (Option<i64>, Option<String>);
type Found = (Option<String>, Option<String>, Option<i64>, i64);

fn expected(rows: &[Two], by_key: bool) -> BTreeMap<i64, Found> {
    let mut groups: BTreeMap<i64, Found> = BTreeMap::new();
    if !by_key {
        groups.insert(0, Found::default());
    }
    for (a, t) in rows {
        let Some(a) = a.filter(|a| *a >= 0) else { continue };
        let found = groups.entry(if by_key { a } else { 0 }).or_default();
        if let Some(t) = t {
            found.0 = Some(found.0.take().map_or(t.clone(), |least| least.min(t.clone())));
            found.1 = Some(found.1.take().map_or(t.clone(), |greatest| greatest.max(t.clone())));
            found.2 = Some(found.2.unwrap_or(0) + t.chars().count() as i64);
            found.3 += 1;
        }
    }
    groups
}

fn decoded(bytes: &[u8], by_key: bool) -> BTreeMap<i64, Found> {
    let first = usize::from(by_key);
    let rows = Row::all(bytes, first + 4);
    let text = |row: Row<'_>, field| {
        (!row.is_null(field)).then(|| String::from_utf8(row.outside(field).to_vec()).unwrap())
    };
    rows.iter()
        .map(|&row| {
            let sum = (!row.is_null(first + 2)).then(|| row.word(first + 2) as i64);
            let key = if by_key { row.word(0) as i64 } else { 0 };
            (key, (text(row, first), text(row, first + 1), sum, row.word(first + 3) as i64))
        })
        .collect()
}

fn a_text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop_oneof![Just(""), Just("a"), Just("ab"), Just("b\u{fc}"), Just("\u{20ac}")].prop_map(str::to_owned),
        1 => "[a-c\u{e4}\u{1f600}]{0,40}",
    ]
}

fn a_row() -> impl Strategy<Value = Two> {
    (prop::option::weighted(0.9, -2_i64..6), prop::option::weighted(0.8, a_text()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn texts_equal_a_plain_evaluation(
        batches in prop::collection::vec((prop::collection::vec(a_row(), 0..1400), any::<u8>()), 1..4),
        by_key in any::<bool>(), few in any::<bool>(),
    ) {
        let mut aggregator = Aggregator::new(&plan(if by_key { "[0]" } else { "[]" })).unwrap();
        let mut added: Vec<Two> = Vec::new();
        for (mut rows, form) in batches {
            if few {
                rows.retain(|(_, t)| t.as_deref().is_none_or(|t| t.len() < 3));
            }
            let held = [
                Held::Whole(rows.iter().map(|r| r.0).collect()),
                Held::Text(rows.iter().map(|r| r.1.clone()).collect()),
            ];
            let encoded: Vec<Encoded> = held.iter().map(|held| encode(held, form)).collect();
            let columns: Vec<Column<'_>> = encoded.iter().map(Encoded::column).collect();
            prop_assert_eq!(aggregator.add(rows.len(), &columns).unwrap(), Outcome::Added);
            added.extend(rows);
        }
        prop_assert_eq!(decoded(&taken(&mut aggregator), by_key), expected(&added, by_key));
        let none = if by_key { BTreeMap::new() } else { expected(&[], false) };
        prop_assert_eq!(decoded(&taken(&mut aggregator), by_key), none);
    }
}

#[test]
fn texts_and_numbers_are_not_mixed() {
    let with = |from: &str, to: &str| {
        let json = r#"{"columns":1,"nodes":[{"text":{"column":0}},{"text_length":{"column":0}}],"filters":[],"keys":[],
            "aggregates":[{"least":{"node":0}}],"output":[{"text":{"aggregate":0}}]}"#;
        Aggregator::new(&serde_json::from_str(&json.replace(from, to)).unwrap()).is_ok()
    };
    assert!(with("", ""));
    for (from, to) in [
        (r#"{"text":{"aggregate":0}}"#, r#"{"result":{"aggregate":0,"bytes":8,"or_null":true}}"#),
        (r#"{"text":{"aggregate":0}}"#, r#"{"text":{"aggregate":1}}"#),
        (r#""least":{"node":0}"#, r#""least":{"node":1}"#),
        (r#""least":{"node":0}"#, r#""sum":{"node":0,"bounds":null}"#),
        (r#""least":{"node":0}"#, r#""count":{"node":2}"#),
    ] {
        assert!(!with(from, to), "{to}");
    }
}
