//! Aggregates of random columns in random encodings against a plain evaluation row by row.

mod encoded;

use std::collections::BTreeMap;

use encoded::{Encoded, Held, LONG, Row, TRUE, encode, output, taken};
use proptest::prelude::*;
use warmset_kernels::{Aggregator, Column, Outcome, Plan};

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
