//! Nodes of a plan with their numbers parsed, and what they may refer to.
//!
//! Invariant: the operands of an expression come before it and are of the types that it takes ([`check`]).

use crate::conditions::TextMatcher;
use crate::eval::Lane;
use crate::plan::{Comparison, DatePart, InvalidPlan, Node, Operator, number};
use crate::range::Range;

/// A node; lists of numbers and of texts have numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expression {
    Whole { column: usize, bounds: Range },
    Double { column: usize },
    Text { column: usize },
    TextLength { column: usize },
    Presence { column: usize },
    WholeLiteral(i128),
    DoubleLiteral(f64),
    Arithmetic { operator: Operator, left: usize, right: usize, bounds: Range },
    DoubleArithmetic { operator: Operator, left: usize, right: usize },
    ToDouble { of: usize },
    DatePart { part: DatePart, of: usize },
    Compare { comparison: Comparison, left: usize, right: usize },
    Within { of: usize, bounds: Range },
    AnyOf { of: usize, list: usize },
    TextMatches { column: usize, matcher: usize },
    HasValue { of: usize },
    Not { of: usize },
    And { left: usize, right: usize },
    Or { left: usize, right: usize },
    Choice { condition: usize, then: usize, otherwise: Option<usize> },
}

impl Expression {
    /// Whether its values are 1 and 0.
    pub(crate) fn is_condition(&self) -> bool {
        matches!(
            self,
            Expression::Compare { .. }
                | Expression::Within { .. }
                | Expression::AnyOf { .. }
                | Expression::TextMatches { .. }
                | Expression::HasValue { .. }
                | Expression::Not { .. }
                | Expression::And { .. }
                | Expression::Or { .. }
        )
    }
}

/// Lists that expressions refer to.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    /// Ascending.
    pub(crate) lists: Vec<Vec<i128>>,
    pub(crate) matchers: Vec<TextMatcher>,
}

impl Parsed {
    pub(crate) fn expression(&mut self, node: &Node) -> Result<Expression, InvalidPlan> {
        Ok(match *node {
            Node::Whole { column, ref bounds } => Expression::Whole { column, bounds: bounds.parse()? },
            Node::Double { column } => Expression::Double { column },
            Node::Text { column } => Expression::Text { column },
            Node::TextLength { column } => Expression::TextLength { column },
            Node::Presence { column } => Expression::Presence { column },
            Node::WholeLiteral { ref value } => Expression::WholeLiteral(number(value)?),
            Node::DoubleLiteral { bits } => Expression::DoubleLiteral(f64::from_bits(bits as u64)),
            Node::Arithmetic { operator, left, right, ref bounds } => {
                Expression::Arithmetic { operator, left, right, bounds: bounds.parse()? }
            }
            Node::DoubleArithmetic { operator, left, right } => {
                Expression::DoubleArithmetic { operator, left, right }
            }
            Node::ToDouble { of } => Expression::ToDouble { of },
            Node::DatePart { part, of } => Expression::DatePart { part, of },
            Node::Compare { comparison, left, right } => Expression::Compare { comparison, left, right },
            Node::Within { of, ref bounds } => Expression::Within { of, bounds: bounds.parse()? },
            Node::AnyOf { of, ref values } => {
                let mut ascending = values.iter().map(|v| number(v)).collect::<Result<Vec<_>, _>>()?;
                ascending.sort_unstable();
                self.lists.push(ascending);
                Expression::AnyOf { of, list: self.lists.len() - 1 }
            }
            Node::TextMatches { column, ref patterns } => {
                self.matchers.push(TextMatcher::new(column, patterns));
                Expression::TextMatches { column, matcher: self.matchers.len() - 1 }
            }
            Node::HasValue { of } => Expression::HasValue { of },
            Node::Not { of } => Expression::Not { of },
            Node::And { left, right } => Expression::And { left, right },
            Node::Or { left, right } => Expression::Or { left, right },
            Node::Choice { condition, then, otherwise } => Expression::Choice { condition, then, otherwise },
        })
    }
}

pub(crate) fn operands(node: &Expression) -> [Option<usize>; 3] {
    match *node {
        Expression::Arithmetic { left, right, .. }
        | Expression::DoubleArithmetic { left, right, .. }
        | Expression::Compare { left, right, .. }
        | Expression::And { left, right }
        | Expression::Or { left, right } => [Some(left), Some(right), None],
        Expression::ToDouble { of }
        | Expression::DatePart { of, .. }
        | Expression::Within { of, .. }
        | Expression::AnyOf { of, .. }
        | Expression::HasValue { of }
        | Expression::Not { of } => [Some(of), None, None],
        Expression::Choice { condition, then, otherwise } => [Some(condition), Some(then), otherwise],
        _ => [None; 3],
    }
}

pub(crate) fn check(node: &Expression, before: &[Expression], columns: usize) -> Result<(), InvalidPlan> {
    let [first, second, third] = operands(node)
        .map(|operand| operand.map(|at| before.get(at).map(|node| (node, lane_of_type(node, before)))));
    let lane = |operand: Option<Option<(&Expression, Lane)>>| operand.flatten().map(|(_, lane)| lane);
    let is_condition = |operand: Option<Option<(&Expression, Lane)>>| {
        operand.flatten().is_some_and(|(node, _)| node.is_condition())
    };
    let (whole, double) = (Some(Lane::Wide), Some(Lane::Double));
    let fits = match *node {
        Expression::Whole { column, .. }
        | Expression::Double { column }
        | Expression::Presence { column }
        | Expression::Text { column }
        | Expression::TextLength { column }
        | Expression::TextMatches { column, .. } => column < columns,
        Expression::WholeLiteral(_) | Expression::DoubleLiteral(_) => true,
        Expression::Arithmetic { .. } => lane(first) == whole && lane(second) == whole,
        Expression::DoubleArithmetic { .. } => lane(first) == double && lane(second) == double,
        Expression::ToDouble { .. }
        | Expression::DatePart { .. }
        | Expression::Within { .. }
        | Expression::AnyOf { .. } => lane(first) == whole,
        Expression::Compare { .. } => lane(first) == lane(second) && [whole, double].contains(&lane(first)),
        Expression::HasValue { .. } => lane(first).is_some(),
        Expression::Not { .. } => is_condition(first),
        Expression::And { .. } | Expression::Or { .. } => is_condition(first) && is_condition(second),
        Expression::Choice { .. } => {
            is_condition(first)
                && [whole, double].contains(&lane(second))
                && (third.is_none() || lane(third) == lane(second))
        }
    };
    if fits {
        Ok(())
    } else {
        Err(InvalidPlan(format!("node {} is {node:?} of {columns} columns", before.len())))
    }
}

/// `Wide` stands for whole numbers of either width.
pub(crate) fn lane_of_type(node: &Expression, before: &[Expression]) -> Lane {
    match *node {
        Expression::Double { .. }
        | Expression::DoubleLiteral(_)
        | Expression::DoubleArithmetic { .. }
        | Expression::ToDouble { .. } => Lane::Double,
        Expression::Presence { .. } | Expression::Text { .. } => Lane::Presence,
        Expression::Choice { then, .. } => {
            before.get(then).map_or(Lane::Wide, |then| lane_of_type(then, before))
        }
        _ => Lane::Wide,
    }
}
