//! Columns of any bytes and any description: an error or an answer, never a panic or a read outside.

use proptest::prelude::*;
use warmset_kernels::{Aggregator, Codes, Column, Nulls, Packed, Plan, Text, Values};

/// Any column, by the form of its values, with its bytes.
#[derive(Clone, Debug)]
struct Any {
    form: u8,
    nulls: u8,
    width: usize,
    word: usize,
    base: i64,
    slope: i64,
    count: usize,
    offset_width: usize,
    validity: Vec<u8>,
    data: Vec<u8>,
    offsets: Vec<u8>,
    bytes: Vec<u8>,
}

impl Any {
    fn column(&self) -> Column<'_> {
        let packed = Packed { base: self.base, width: self.width, word: self.word, data: &self.data };
        let codes = Codes { width: self.width, data: &self.data };
        let text = |codes| Text {
            codes,
            count: self.count,
            offset_width: self.offset_width,
            offsets: &self.offsets,
            base: self.base,
            slope: self.slope,
            bytes: &self.bytes,
        };
        let values = match self.form {
            0 => Values::Packed(packed),
            1 => Values::Wide(&self.data),
            2 => Values::Doubles(&self.data),
            3 => Values::ConstantDouble(self.base as f64),
            4 => Values::DoubleCodes(codes, &self.bytes),
            5 => Values::ScaledDoubles(packed, 100.0),
            6 => Values::Text(text(Some(codes))),
            7 => Values::Text(text(None)),
            _ => Values::Opaque,
        };
        let nulls = match self.nulls {
            0 => Nulls::None,
            1 => Nulls::All,
            _ => Nulls::Bits(&self.validity),
        };
        Column { nulls, values }
    }
}

fn a_number() -> impl Strategy<Value = i64> {
    prop_oneof![3 => -70_000_i64..70_000, 1 => any::<i64>(), 1 => Just(i64::MAX), 1 => Just(i64::MIN)]
}

fn a_row_count() -> impl Strategy<Value = usize> {
    prop_oneof![0_usize..5, 0_usize..2500, 1_usize << 32..usize::MAX]
}

/// Bytes of a generator: a strategy for each of them would take most of the time.
fn some_bytes() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![1 => 0_usize..40, 2 => 0_usize..20_000];
    (length, any::<u64>(), any::<bool>()).prop_map(|(length, seed, is_small)| {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..length)
            .map(|_| match next() {
                byte if is_small => byte % 4,
                byte => byte,
            })
            .collect()
    })
}

/// A column whose form is mostly one of these.
fn any_column(forms: std::ops::Range<u8>) -> impl Strategy<Value = Any> {
    let form = prop_oneof![9 => forms, 1 => 0_u8..9];
    let width = prop_oneof![8 => 0_usize..9, 1 => any::<usize>()];
    let word = prop_oneof![4 => Just(8_usize), 4 => Just(4), 1 => any::<usize>()];
    let count = prop_oneof![3 => 0_usize..10, 3 => 0_usize..3000, 1 => any::<usize>(), 1 => Just(1 << 16)];
    let shape = (form, 0_u8..3, width.clone(), word, a_number(), a_number(), count, width);
    (shape, some_bytes(), some_bytes(), some_bytes(), some_bytes()).prop_map(
        |((form, nulls, width, word, base, slope, count, offset_width), validity, data, offsets, bytes)| {
            Any { form, nulls, width, word, base, slope, count, offset_width, validity, data, offsets, bytes }
        },
    )
}

/// Of (whole, whole, double, text): every kind of node, filter, key and aggregate.
fn plan(keys: &[usize], has_filters: bool) -> Plan {
    let long = r#"{"least":"-9223372036854775808","greatest":"9223372036854775807"}"#;
    let wide = r#"{"least":"-170141183460469231731687303715884105728","greatest":"170141183460469231731687303715884105727"}"#;
    let filters = format!(
        r#"{{"within":{{"node":0,"bounds":{{"least":"-100000","greatest":"200000"}}}}}},
        {{"present":{{"node":1}}}}, {{"within":{{"node":4,"bounds":{long}}}}},
        {{"within":{{"node":12,"bounds":{{"least":"1","greatest":"1"}}}}}},
        {{"within":{{"node":14,"bounds":{{"least":"1","greatest":"1"}}}}}}"#
    );
    let output: Vec<String> =
        (0..keys.len()).map(|key| format!(r#"{{"key":{{"key":{key},"bytes":8}}}},"#)).collect();
    let json = format!(
        r#"{{"columns":4,"nodes":[{{"whole":{{"column":0,"bounds":{long}}}}}, {{"whole":{{"column":1,"bounds":{wide}}}}},
            {{"double":{{"column":2}}}}, {{"presence":{{"column":3}}}},
            {{"arithmetic":{{"operator":"multiply","left":0,"right":1,"bounds":{wide}}}}},
            {{"arithmetic":{{"operator":"subtract","left":4,"right":0,"bounds":{wide}}}}}, {{"to_double":{{"of":5}}}},
            {{"double_arithmetic":{{"operator":"add","left":2,"right":6}}}},
            {{"any_of":{{"of":0,"values":["0","1","2","3","70"]}}}},
            {{"compare":{{"comparison":"less","left":2,"right":6}}}},
            {{"text_matches":{{"column":3,"patterns":[{{"is":[]}},{{"begins":[0]}},{{"ends":[1,2]}},{{"has":[7]}}]}}}},
            {{"and":{{"left":8,"right":9}}}}, {{"or":{{"left":10,"right":11}}}}, {{"has_value":{{"of":3}}}}, {{"not":{{"of":13}}}},
            {{"choice":{{"condition":12,"then":5,"otherwise":0}}}}, {{"choice":{{"condition":10,"then":7,"otherwise":null}}}},
            {{"text":{{"column":3}}}}, {{"text_length":{{"column":3}}}}],
        "filters":[{}],"keys":{keys:?},
        "aggregates":[{{"sum":{{"node":15,"bounds":null}}}}, {{"sum":{{"node":0,"bounds":{wide}}}}}, {{"double_sum":{{"node":16}}}},
            {{"least":{{"node":1}}}}, {{"greatest":{{"node":2}}}}, {{"count":{{"node":3}}}},
            {{"greatest":{{"node":17}}}}, {{"sum":{{"node":18,"bounds":null}}}}],
        "output":[{}{{"is_empty":{{"aggregate":0}}}}, {{"count":{{"aggregate":5}}}},
            {{"result":{{"aggregate":1,"bytes":16,"or_null":true}}}}, {{"result":{{"aggregate":3,"bytes":16,"or_null":false}}}},
            {{"result":{{"aggregate":2,"bytes":8,"or_null":true}}}}, {{"result":{{"aggregate":4,"bytes":4,"or_null":false}}}},
            {{"text":{{"aggregate":6}}}}, {{"result":{{"aggregate":7,"bytes":8,"or_null":true}}}}]}}"#,
        if has_filters { &filters } else { "" },
        output.join("")
    );
    serde_json::from_str(&json).unwrap()
}

fn cases(default: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

proptest! {
    // PROPTEST_CASES=1000000 for a long run.
    #![proptest_config(ProptestConfig { cases: cases(2000), max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn never_panics(
        batches in prop::collection::vec(
            (a_row_count(), any_column(0..2), any_column(0..2), any_column(2..6), any_column(6..8)),
            1..4,
        ),
        keys in prop_oneof![Just(vec![]), Just(vec![0]), Just(vec![3]), Just(vec![3, 0]), Just(vec![0, 1, 3])],
        has_filters in any::<bool>(),
    ) {
        let mut aggregator = Aggregator::new(&plan(&keys, has_filters)).unwrap();
        let mut is_damaged = false;
        for (rows, a, b, c, d) in &batches {
            let columns = [a.column(), b.column(), c.column(), d.column()];
            let is_short = columns.iter().any(|column| column.check(*rows).is_err());
            let outcome = aggregator.add(*rows, &columns);
            prop_assert!(!is_short || outcome.is_err());
            is_damaged |= outcome.is_err();
        }
        let groups = aggregator.take();
        // And the greatest text.
        let is_row = groups.len() >= 8 + 8 + 8 * 8 + 2 * 16 && groups.len() % 8 == 0;
        prop_assert!(is_damaged || !keys.is_empty() || is_row);
    }
}
