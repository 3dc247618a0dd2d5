//! Filters and partial aggregates over encoded columns, as Spark's cached batches have them.
//!
//! An [`Aggregator`] is made of a [`Plan`] and is given batch after batch of one partition as [`Column`]s: bytes with the
//! description of how values lie in them (docs/internals/column-layout.md). It keeps sums, counts and bounds per group
//! and gives them out as rows in Spark's format.
//!
//! Invariant: whole numbers are exact. Before a batch is looked at, the range of every intermediate value follows
//! from the columns' encodings; where a value might leave its type, each is looked at. Rows with which one does are
//! refused, with nothing changed by them ([`Outcome::Refused`]), and the rules of overflow are left to the caller.
//! Doubles are added in the order of rows. It does no I/O, and what it is given cannot make it read outside.

#![forbid(unsafe_code)]

mod aggregator;
mod column;
mod conditions;
mod dates;
mod eval;
mod expressions;
mod filter;
mod groups;
mod plan;
mod range;
mod rows;
mod sums;
mod text;

pub use aggregator::{Aggregator, Outcome};
pub use column::{Codes, Column, Damaged, Nulls, Packed, Text, Values};
pub use plan::{Aggregate, Bounds, DatePart, Field, Filter, InvalidPlan, Node, Operator, Pattern, Plan};
