//! Conditions of three values and choices by them, against a plain evaluation row by row.

mod encoded;

use encoded::{Held, LONG, Row, TRUE, encode, output};
use proptest::prelude::*;
use warmset_kernels::{Aggregator, Column, Outcome};

#[derive(Clone, Debug)]
enum Condition {
    Less,
    Within(i64, i64),
    AnyOf(Vec<i64>),
    Begins(String),
    Ends(String),
    Has(String),
    Is(String),
    HasNumber,
    HasText,
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

type Three = (Option<i64>, Option<i64>, Option<String>);

impl Condition {
    /// SQL's answer.
    fn of(&self, row: &Three) -> Option<bool> {
        let (a, b, text) = row;
        let text = text.as_deref();
        match self {
            Condition::Less => a.zip(*b).map(|(a, b)| a < b),
            Condition::Within(least, greatest) => a.map(|a| (*least..=*greatest).contains(&a)),
            Condition::AnyOf(some) => a.map(|a| some.contains(&a)),
            Condition::Begins(part) => text.map(|text| text.starts_with(part.as_str())),
            Condition::Ends(part) => text.map(|text| text.ends_with(part.as_str())),
            Condition::Has(part) => text.map(|text| text.contains(part.as_str())),
            Condition::Is(whole) => text.map(|text| text == whole),
            Condition::HasNumber => Some(b.is_some()),
            Condition::HasText => Some(text.is_some()),
            Condition::Not(of) => of.of(row).map(|of| !of),
            Condition::And(left, right) => match (left.of(row), right.of(row)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (left, right) => left.and(right),
            },
            Condition::Or(left, right) => match (left.of(row), right.of(row)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (left, right) => left.and(right),
            },
        }
    }

    /// Adds its nodes, of which the first three are the columns; its number.
    fn write(&self, nodes: &mut Vec<String>) -> usize {
        let text = |how: &str, part: &str| {
            let bytes: Vec<String> = part.bytes().map(|byte| byte.to_string()).collect();
            format!(r#"{{"text_matches":{{"column":2,"patterns":[{{"{how}":[{}]}}]}}}}"#, bytes.join(","))
        };
        let json = match self {
            Condition::Less => r#"{"compare":{"comparison":"less","left":0,"right":1}}"#.to_owned(),
            Condition::Within(least, greatest) => {
                format!(r#"{{"within":{{"of":0,"bounds":{{"least":"{least}","greatest":"{greatest}"}}}}}}"#)
            }
            Condition::AnyOf(some) => {
                let some: Vec<String> = some.iter().map(|v| format!("\"{v}\"")).collect();
                format!(r#"{{"any_of":{{"of":0,"values":[{}]}}}}"#, some.join(","))
            }
            Condition::Begins(part) => text("begins", part),
            Condition::Ends(part) => text("ends", part),
            Condition::Has(part) => text("has", part),
            Condition::Is(whole) => text("is", whole),
            Condition::HasNumber => r#"{"has_value":{"of":1}}"#.to_owned(),
            Condition::HasText => r#"{"has_value":{"of":2}}"#.to_owned(),
            Condition::Not(of) => format!(r#"{{"not":{{"of":{}}}}}"#, of.write(nodes)),
            Condition::And(left, right) => {
                format!(r#"{{"and":{{"left":{},"right":{}}}}}"#, left.write(nodes), right.write(nodes))
            }
            Condition::Or(left, right) => {
                format!(r#"{{"or":{{"left":{},"right":{}}}}}"#, left.write(nodes), right.write(nodes))
            }
        };
        nodes.push(json);
        nodes.len() - 1
    }
}

fn a_condition() -> impl Strategy<Value = Condition> {
    let leaf = prop_oneof![
        Just(Condition::Less),
        (-10_i64..10, 0_i64..8).prop_map(|(least, more)| Condition::Within(least, least + more)),
        prop::collection::vec(-10_i64..10, 0..4).prop_map(Condition::AnyOf),
        "[ab]{0,2}".prop_map(Condition::Begins),
        "[ab]{0,2}".prop_map(Condition::Ends),
        "[ab]{0,2}".prop_map(Condition::Has),
        "[ab]{0,2}".prop_map(Condition::Is),
        Just(Condition::HasNumber),
        Just(Condition::HasText),
    ];
    leaf.prop_recursive(4, 12, 2, |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            inner.prop_map(|of| Condition::Not(Box::new(of))),
            pair.clone().prop_map(|(l, r)| Condition::And(Box::new(l), Box::new(r))),
            pair.prop_map(|(l, r)| Condition::Or(Box::new(l), Box::new(r))),
        ]
    })
}

fn a_row() -> impl Strategy<Value = Three> {
    let number = || prop::option::weighted(0.8, -10_i64..10);
    (number(), number(), prop::option::weighted(0.8, "[ab]{0,3}"))
}

fn cases(default: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(100), ..ProptestConfig::default() })]

    #[test]
    fn conditions_are_those_of_sql(
        rows in prop::collection::vec(a_row(), 0..1500), form in any::<u8>(),
        filter in prop::option::of(a_condition()), condition in a_condition(), without_nulls in any::<bool>(),
    ) {
        let rows: Vec<Three> =
            rows.into_iter().filter(|(a, b, t)| !without_nulls || (a.is_some() && b.is_some() && t.is_some())).collect();
        let mut nodes = vec![
            format!(r#"{{"whole":{{"column":0,"bounds":{LONG}}}}}"#), format!(r#"{{"whole":{{"column":1,"bounds":{LONG}}}}}"#),
            r#"{"presence":{"column":2}}"#.to_owned(),
        ];
        let at = condition.write(&mut nodes);
        let filters = filter.as_ref().map(|filter| {
            format!(r#"{{"within":{{"node":{},"bounds":{TRUE}}}}}"#, filter.write(&mut nodes))
        });
        nodes.push(format!(r#"{{"choice":{{"condition":{at},"then":0,"otherwise":1}}}}"#));
        nodes.push(format!(r#"{{"choice":{{"condition":{at},"then":1,"otherwise":null}}}}"#));
        nodes.push(r#"{"to_double":{"of":1}}"#.to_owned());
        let last = nodes.len();
        nodes.push(format!(r#"{{"choice":{{"condition":{at},"then":{},"otherwise":null}}}}"#, last - 1));
        let sum = |node: usize| format!(r#"{{"sum":{{"node":{node},"bounds":{LONG}}}}}"#);
        let json = format!(
            r#"{{"columns":3,"nodes":[{}],"filters":[{}],"keys":[],
                "aggregates":[{},{},{},{{"double_sum":{{"node":{last}}}}}],"output":{}}}"#,
            nodes.join(","), filters.unwrap_or_default(), sum(last - 3), sum(last - 2), sum(at), output(0, 4)
        );
        let mut aggregator = Aggregator::new(&serde_json::from_str(&json).unwrap()).unwrap();
        let held = [
            Held::Whole(rows.iter().map(|row| row.0).collect()), Held::Whole(rows.iter().map(|row| row.1).collect()),
            Held::Text(rows.iter().map(|row| row.2.clone()).collect()),
        ];
        let encoded = held.map(|held| encode(&held, form));
        let columns: Vec<Column<'_>> = encoded.iter().map(|encoded| encoded.column()).collect();
        prop_assert_eq!(aggregator.add(rows.len(), &columns), Ok(Outcome::Added));

        let mut expected = [(0, 0), (0, 0), (0, 0)];
        for row in rows.iter().filter(|row| filter.as_ref().is_none_or(|filter| filter.of(row) == Some(true))) {
            let is_true = condition.of(row);
            let values = [
                if is_true == Some(true) { row.0 } else { row.1 },
                row.1.filter(|_| is_true == Some(true)),
                is_true.map(i64::from),
            ];
            for (sum, value) in expected.iter_mut().zip(values) {
                *sum = value.map_or(*sum, |value| (sum.0 + 1, sum.1 + i128::from(value)));
            }
        }
        let out = aggregator.take();
        let row = Row::all(&out, 8)[0];
        let got = [0, 1, 2].map(|at| (row.word(2 * at) as i64, row.wide(2 * at + 1)));
        prop_assert_eq!(got, expected);
        prop_assert_eq!(f64::from_bits(row.wide(7) as u64), expected[1].1 as f64);
    }
}
