//! What aggregates do at the bounds: of types, of memory, of plans that are wrong.

mod encoded;

use std::collections::BTreeMap;

use encoded::{Encoded, Held, LONG, Row, encode, output, taken};
use warmset_kernels::{Aggregator, Outcome, Plan};

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
    assert!(piece.len() >= 1 << 20 && piece.len() < 3 << 20, "{}", piece.len());
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
            "group_bytes":10485760,"aggregates":[{{"sum":{{"node":0,"bounds":null}}}}],"output":{}}}"#,
        output(1, 1)
    );
    let mut aggregator = Aggregator::new(&serde_json::from_str(&json).unwrap()).unwrap();
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

/// Of batches of these numbers, given out when their groups take 64 KiB: the sum of each key, and how often groups were given out.
fn sums_in_parts(batches: &[Vec<(Option<i64>, i64)>], form: u8) -> (BTreeMap<Option<i64>, i128>, usize) {
    let json = format!(
        r#"{{"columns":2,"nodes":[{{"whole":{{"column":1,"bounds":{LONG}}}}}],"filters":[],"keys":[0],"group_bytes":65536,
            "aggregates":[{{"sum":{{"node":0,"bounds":{LONG}}}}}],"output":{}}}"#,
        output(1, 1)
    );
    let mut aggregator = Aggregator::new(&serde_json::from_str(&json).unwrap()).unwrap();
    let (mut sums, mut times) = (BTreeMap::new(), 0);
    let mut take = |aggregator: &mut Aggregator| {
        times += 1;
        let groups = aggregator.groups();
        let bytes = taken(aggregator);
        let rows = Row::all(&bytes, 3);
        assert_eq!(rows.len(), groups);
        for row in rows {
            let key = (!row.is_null(0)).then(|| row.word(0) as i64);
            *sums.entry(key).or_insert(0) += row.wide(2);
        }
    };
    for batch in batches {
        let keys = encode(&Held::Whole(batch.iter().map(|row| row.0).collect()), form);
        let values = encode(&Held::Whole(batch.iter().map(|row| Some(row.1)).collect()), 0);
        let outcome = aggregator.add(batch.len(), &[keys.column(), values.column()]);
        assert_eq!(outcome, Ok(Outcome::Added));
        if aggregator.is_full() {
            take(&mut aggregator);
        }
    }
    take(&mut aggregator);
    (sums, times)
}

#[test]
fn groups_that_are_given_out_several_times_add_up() {
    // Keys of two bytes in batches that have a table of them and in batches that have none; of three and of eight.
    for (rows, spread, form) in
        [(5000, 3, 0), (5000, 40, 0), (4095, 40, 0), (5000, 40, 1), (5000, 1_000_003, 0)]
    {
        let batches: Vec<Vec<(Option<i64>, i64)>> = (0..40_i64)
            .map(|batch| {
                (0..rows)
                    .map(|row| {
                        // One group in all batches, that of null, and groups of about four rows.
                        let key = (row % 50 != 1).then_some((batch * rows + row) / 4 * spread);
                        (key, batch * 1_000 + row)
                    })
                    .collect()
            })
            .collect();
        let mut expected = BTreeMap::new();
        for &(key, value) in batches.iter().flatten() {
            *expected.entry(key).or_insert(0) += i128::from(value);
        }
        let (sums, times) = sums_in_parts(&batches, form);
        assert_eq!(sums, expected, "{rows} rows, {spread}, {form}");
        assert!(times > 10, "{times}");
    }
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

#[test]
fn keys_that_are_nodes() {
    let json = format!(
        r#"{{"columns":2,"nodes":[{{"whole":{{"column":0,"bounds":{LONG}}}}}, {{"date_part":{{"part":"year","of":0}}}},
            {{"has_value":{{"of":0}}}}, {{"whole":{{"column":1,"bounds":{LONG}}}}},
            {{"arithmetic":{{"operator":"add","left":3,"right":3,"bounds":{LONG}}}}}],
            "filters":[{{"within":{{"node":3,"bounds":{{"least":"0","greatest":"9"}}}}}}],"keys":[1],"key_nodes":[2,1,4],
            "aggregates":[{{"count":{{"node":3}}}}],"output":{}}}"#,
        output(4, 1)
    );
    let mut aggregator = Aggregator::new(&serde_json::from_str(&json).unwrap()).unwrap();
    let days = encode(&Held::Whole(vec![Some(0), Some(364), None, Some(365), Some(-1), Some(0)]), 0);
    let numbers = longs(&[1, 1, 1, 1, 1, 100]);
    assert_eq!(aggregator.add(6, &[days.column(), numbers.column()]), Ok(Outcome::Added));
    let out = taken(&mut aggregator);
    let shown = |row: &Row<'_>| {
        let year = (!row.is_null(2)).then(|| row.word(2) as i64);
        (row.word(0), row.word(1), year, row.word(3), row.word(4))
    };
    let groups: Vec<_> = Row::all(&out, 6).iter().map(shown).collect();
    let expected =
        [(1, 1, Some(1970), 2, 2), (1, 0, None, 2, 1), (1, 1, Some(1971), 2, 1), (1, 1, Some(1969), 2, 1)];
    assert_eq!(groups, expected);
    // A key that might leave its type.
    assert_eq!(aggregator.add(1, &[days.column(), longs(&[i64::MAX]).column()]), Ok(Outcome::Refused(0)));
}

#[test]
fn keys_are_told_by_ranges_without_the_numbers_that_begin_them() {
    let json = format!(
        r#"{{"columns":2,"nodes":[{{"whole":{{"column":0,"bounds":{LONG}}}}}],"filters":[],"keys":[0,1],
            "aggregates":[{{"count":{{"node":0}}}}],"output":{}}}"#,
        output(2, 1)
    );
    let mut aggregator = Aggregator::new(&serde_json::from_str(&json).unwrap()).unwrap();
    let none = (i64::MAX, i64::MIN);
    assert_eq!((aggregator.keys(), aggregator.key_ranges(0, &[0, 9])), (2, vec![none, none]));
    let numbers = [Some(-3), Some(0), Some(4), None, Some(8), Some(9), Some(30), Some(31), Some(30)];
    let texts = numbers.map(|n| Some(format!("{n:?}"))).to_vec();
    let columns = [encode(&Held::Whole(numbers.to_vec()), 3), encode(&Held::Text(texts), 0)];
    let columns: Vec<_> = columns.iter().map(Encoded::column).collect();
    assert_eq!(aggregator.add(numbers.len(), &columns), Ok(Outcome::Added));
    assert_eq!(aggregator.key_ranges(0, &[0, 9]), [(-3, 8), (30, 31)]);
    assert_eq!(aggregator.key_ranges(0, &[4, 30, 40]), [(-3, 9), (31, 31), none]);
    assert_eq!(aggregator.key_ranges(0, &[]), []);
    assert_eq!(aggregator.key_ranges(1, &[0]), [none], "of texts");
}
