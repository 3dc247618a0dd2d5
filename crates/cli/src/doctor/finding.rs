//! One line of the report.

use serde::Serialize;
use serde_json::Value;

/// How good a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing to do.
    Ok,
    /// Works, and costs speed or safety.
    Warn,
    /// Something that Warmset offers does not work here.
    Bad,
}

/// A fact, and what it means.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The stable name of the check.
    pub check: &'static str,
    /// How good it is.
    pub state: State,
    /// The fact in words.
    pub value: String,
    /// What it means, and what to do.
    pub follows: String,
    /// The fact as data; its shape belongs to the check.
    pub data: Value,
}

impl Finding {
    /// A finding without data.
    pub fn new(
        check: &'static str,
        state: State,
        value: impl Into<String>,
        follows: impl Into<String>,
    ) -> Self {
        Finding { check, state, value: value.into(), follows: follows.into(), data: Value::Null }
    }

    /// Adds the fact as data.
    pub fn with(mut self, data: impl Serialize) -> Self {
        self.data = serde_json::to_value(data).unwrap_or(Value::Null);
        self
    }
}
