//! What a store warns of, for the host's logger: kept until Java fetches it, and on stderr where Java does not.
//!
//! Invariant: a line is handed on once, in its order; of those that do not fit the number is told. A warning waits for
//! nobody but another one.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

use warmset_region::hand_warnings_to;

/// Lines that are kept. The store warns of each kind of trouble once a minute, or once.
const KEPT_MAX: usize = 256;

static LINES: Mutex<Lines> = Mutex::new(Lines::new());

#[derive(Debug)]
struct Lines {
    /// Somebody comes for them.
    fetched: bool,
    kept: VecDeque<String>,
    /// Since the last time.
    dropped: u64,
}

impl Lines {
    const fn new() -> Self {
        Self { fetched: false, kept: VecDeque::new(), dropped: 0 }
    }

    /// Keeps a line; gives it back where nobody comes for it.
    fn add<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        if !self.fetched {
            return Some(line);
        }
        if self.kept.len() < KEPT_MAX {
            self.kept.push_back(line.to_owned());
        } else {
            self.dropped += 1;
        }
        None
    }

    /// What was kept. `again`: somebody comes for the next ones, too.
    fn take(&mut self, again: bool) -> Vec<String> {
        self.fetched = again;
        let mut lines: Vec<_> = std::mem::take(&mut self.kept).into();
        match std::mem::take(&mut self.dropped) {
            0 => {}
            dropped => lines.push(format!("{dropped} more warnings were not kept")),
        }
        lines
    }
}

/// Collects warnings from now on.
pub(crate) fn collect() {
    hand_warnings_to(|line| {
        let left = LINES.lock().unwrap_or_else(PoisonError::into_inner).add(line);
        if let Some(line) = left {
            let _ = writeln!(std::io::stderr(), "warmset: {line}");
        }
    });
}

/// What was kept since the last time: lines without breaks. `again`: the caller comes back for the next ones, and until then
/// none goes to stderr.
pub(crate) fn take(again: bool) -> Vec<String> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner).take(again)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_for_whoever_comes_and_given_back_where_nobody_does() {
        let mut lines = Lines::new();
        assert_eq!(lines.add("before"), Some("before"));
        assert!(lines.take(true).is_empty());
        assert_eq!((lines.add("one"), lines.add("two")), (None, None));
        assert_eq!(lines.take(true), ["one", "two"]);
        assert_eq!(lines.add("three"), None);
        assert_eq!(lines.take(false), ["three"]);
        assert_eq!(lines.add("after"), Some("after"));
        assert!(lines.take(false).is_empty());
    }

    #[test]
    fn more_than_fit_are_counted_and_the_first_ones_stay() {
        let mut lines = Lines::new();
        lines.take(true);
        (0..KEPT_MAX + 3).for_each(|n| assert_eq!(lines.add(&n.to_string()), None));
        let taken = lines.take(true);
        assert_eq!(taken.len(), KEPT_MAX + 1);
        assert_eq!((taken[0].as_str(), taken[KEPT_MAX - 1].as_str()), ("0", "255"));
        assert_eq!(taken[KEPT_MAX], "3 more warnings were not kept");
        assert!(lines.take(true).is_empty(), "told once");
        assert_eq!(lines.add("next"), None);
        assert_eq!(lines.take(true), ["next"]);
    }
}
