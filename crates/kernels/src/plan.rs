//! What to compute: a list of nodes, each of columns, literals or earlier nodes; filters, keys and aggregates over them.
//!
//! Fields that a variant's line explains have no line of their own.

#![allow(missing_docs)]

use serde::Deserialize;

/// A filter and a partial aggregate over the columns of a scan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Number of columns that each batch has.
    pub columns: usize,
    /// Expressions. A node refers only to nodes before it.
    pub nodes: Vec<Node>,
    /// A row counts where all of these are true.
    pub filters: Vec<Filter>,
    /// Columns of whole numbers or text that rows are grouped by; none: all rows are one group.
    pub keys: Vec<usize>,
    /// Nodes of whole numbers that rows are grouped by as well; as keys they are numbered after those of columns.
    #[serde(default)]
    pub key_nodes: Vec<usize>,
    /// Memory of groups from which on they should be given out.
    #[serde(default = "group_bytes")]
    pub group_bytes: usize,
    /// What is computed per group.
    pub aggregates: Vec<Aggregate>,
    /// What the row of a group has.
    pub output: Vec<Field>,
}

const fn group_bytes() -> usize {
    32 << 20
}

/// The least and the greatest value of a type, both included, as decimal text: JSON has no numbers of 128 bits.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Least value.
    pub least: String,
    /// Greatest value.
    pub greatest: String,
}

/// One expression. Whole numbers are integers, days, microseconds, and decimals by their unscaled value.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Node {
    /// Whole numbers of a column whose type has these bounds.
    Whole { column: usize, bounds: Bounds },
    /// Doubles of a column.
    Double { column: usize },
    /// Text of a column, of which there may be a least or greatest one.
    Text { column: usize },
    /// How many characters the text of a column has in UTF-8; a byte that begins none is one.
    TextLength { column: usize },
    /// A column of which only nulls are looked at.
    Presence { column: usize },
    /// A whole number.
    WholeLiteral { value: String },
    /// A double, by its bits.
    DoubleLiteral { bits: i64 },
    /// Sum, difference or product of whole numbers, in a type with these bounds.
    Arithmetic { operator: Operator, left: usize, right: usize, bounds: Bounds },
    /// The same of doubles.
    DoubleArithmetic { operator: Operator, left: usize, right: usize },
    /// The double nearest to a whole number.
    ToDouble { of: usize },
    /// A part of the date that is so many days after 1970-01-01.
    DatePart { part: DatePart, of: usize },
    /// Left compared with right, both whole or both doubles. NaN equals itself and is above all else; zeros are equal.
    /// This and the next seven are 1 or 0, or have no value.
    Compare { comparison: Comparison, left: usize, right: usize },
    /// Whether the whole number lies in these bounds.
    Within { of: usize, bounds: Bounds },
    /// Whether the whole number is one of these, as decimal text.
    AnyOf { of: usize, values: Vec<String> },
    /// Whether the text of a column matches one of these, byte by byte.
    TextMatches { column: usize, patterns: Vec<Pattern> },
    /// Whether the node has a value.
    HasValue { of: usize },
    /// Of a condition.
    Not { of: usize },
    /// Of two conditions: false where one is, else no value where one has none.
    And { left: usize, right: usize },
    /// Of two conditions: true where one is, else no value where one has none.
    Or { left: usize, right: usize },
    /// `then` where the condition is true, else `otherwise`; without that, no value. Both are whole, or both doubles.
    Choice { condition: usize, then: usize, otherwise: Option<usize> },
}

/// A part of a date in the proleptic Gregorian calendar.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum DatePart {
    Year,
    Quarter,
    Month,
    Day,
}

/// What a text is to be like.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    Is(Vec<u8>),
    Begins(Vec<u8>),
    Ends(Vec<u8>),
    Has(Vec<u8>),
}

/// What is done with two numbers.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
}

/// A predicate. It is not true where a value is null.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Filter {
    /// The node has a value.
    Present { node: usize },
    /// The whole number lies in these bounds; of a condition, 1 to 1: it is true.
    Within { node: usize, bounds: Bounds },
}

/// How two numbers are compared.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What is computed per group, of rows where the node has a value.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Aggregate {
    /// How many rows have a value.
    Count { node: usize },
    /// The exact sum of whole numbers; with bounds, a sum that might leave them refuses its batch.
    Sum { node: usize, bounds: Option<Bounds> },
    /// The sum of doubles in the order of rows, from 0.0.
    DoubleSum { node: usize },
    /// The least value; of doubles that are equal the first, of texts byte by byte.
    Least { node: usize },
    /// The greatest value; the same.
    Greatest { node: usize },
}

/// A field of a group's row. Whole numbers of up to 8 bytes are in the field's word, those of 16 outside it, with the
/// most significant byte first and no more bytes than they need, as Spark has its decimals.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Field {
    /// The value of the key of this number; of text, all bytes.
    Key { key: usize, bytes: usize },
    /// How many rows have a value.
    Count { aggregate: usize },
    /// Whether no row has a value.
    IsEmpty { aggregate: usize },
    /// A whole number, or the bits of a double. Where no row has a value: null, or 0.
    Result { aggregate: usize, bytes: usize, or_null: bool },
    /// The least or greatest text; null where no row has a value.
    Text { aggregate: usize },
}

/// A plan that cannot be computed: says what of it is wrong.
#[derive(Debug, thiserror::Error)]
#[error("the plan of an aggregate is wrong: {0}")]
pub struct InvalidPlan(pub(crate) String);

impl Bounds {
    pub(crate) fn parse(&self) -> Result<(i128, i128), InvalidPlan> {
        Ok((number(&self.least)?, number(&self.greatest)?))
    }
}

pub(crate) fn number(text: &str) -> Result<i128, InvalidPlan> {
    text.parse().map_err(|_| InvalidPlan(format!("{text} is no whole number of 128 bits")))
}
