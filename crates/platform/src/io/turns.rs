//! Whose turn it is: requests that somebody waits for, before those that somebody will wait for, before write-backs.
//!
//! Invariant: within one urgency, first come, first served. Whatever comes before it, a request is passed over no more
//! than [`PASSED_OVER_MAX`] times in a row by more urgent ones, so that none waits for ever.

use std::collections::VecDeque;

/// How soon a transfer is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Somebody waits for it.
    Demand,
    /// Somebody will.
    Prefetch,
    /// Nobody does, but for the memory that it frees.
    WriteBack,
}

const KINDS: usize = 3;
/// Eight reads of 2 MiB take a few milliseconds on a flash device.
const PASSED_OVER_MAX: u32 = 8;

/// What waits, by urgency, with the tag by which it can be found.
#[derive(Debug)]
pub(super) struct Turns<T> {
    queues: [VecDeque<(u64, T)>; KINDS],
    /// How often the first of each was passed over.
    passed_over: [u32; KINDS],
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { queues: Default::default(), passed_over: [0; KINDS] }
    }
}

impl<T> Turns<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    pub(super) fn push(&mut self, urgency: Urgency, tag: u64, item: T) {
        self.queues[urgency as usize].push_back((tag, item));
    }

    /// The urgency whose turn it is.
    fn turn(&self) -> Option<usize> {
        let waits = |kind: &usize| !self.queues[*kind].is_empty();
        let overdue = (0..KINDS).rev().filter(waits).find(|&kind| self.passed_over[kind] >= PASSED_OVER_MAX);
        overdue.or_else(|| (0..KINDS).find(waits))
    }

    /// What is next, without taking it.
    pub(super) fn peek(&self) -> Option<&T> {
        self.turn().and_then(|kind| self.queues[kind].front()).map(|(_, item)| item)
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let turn = self.turn()?;
        self.passed_over[turn] = 0;
        for kind in turn + 1..KINDS {
            self.passed_over[kind] += u32::from(!self.queues[kind].is_empty());
        }
        self.queues[turn].pop_front().map(|(_, item)| item)
    }

    /// Somebody waits for what was to be prefetched; ignored if it does not wait here.
    pub(super) fn hasten(&mut self, tag: u64) {
        let prefetches = &mut self.queues[Urgency::Prefetch as usize];
        let found = prefetches.iter().position(|&(other, _)| other == tag);
        if let Some(item) = found.and_then(|at| prefetches.remove(at)) {
            self.queues[Urgency::Demand as usize].push_back(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Urgency::{Demand, Prefetch, WriteBack};
    use super::*;

    fn drain(turns: &mut Turns<u64>) -> Vec<u64> {
        std::iter::from_fn(|| {
            let next = turns.peek().copied();
            let popped = turns.pop();
            assert_eq!(popped, next, "what was looked at is what comes");
            popped
        })
        .collect()
    }

    fn waiting(items: &[(Urgency, u64)]) -> Turns<u64> {
        let mut turns = Turns::default();
        items.iter().for_each(|&(urgency, item)| turns.push(urgency, item, item));
        turns
    }

    #[test]
    fn what_is_waited_for_comes_first_and_write_backs_last() {
        let mut turns = waiting(&[(WriteBack, 1), (Prefetch, 2), (Demand, 3), (Prefetch, 4), (Demand, 5)]);
        assert!(!turns.is_empty());
        assert_eq!(drain(&mut turns), [3, 5, 2, 4, 1]);
        assert!(turns.is_empty());
    }

    #[test]
    fn a_prefetch_that_somebody_waits_for_is_one_no_more() {
        let mut turns = waiting(&[(Prefetch, 1), (Prefetch, 2), (Prefetch, 3), (Demand, 4), (WriteBack, 5)]);
        turns.hasten(2);
        turns.hasten(5);
        turns.hasten(77);
        assert_eq!(drain(&mut turns), [4, 2, 1, 3, 5]);
    }

    #[test]
    fn nothing_waits_for_ever() {
        let mut turns = waiting(&[(WriteBack, 0), (WriteBack, 1), (Prefetch, 2)]);
        let mut order = Vec::new();
        for demand in 100..130 {
            turns.push(Demand, demand, demand);
            order.extend(turns.pop());
        }
        let at = |item| order.iter().position(|&other| other == item);
        let (first, second, prefetch) = (at(0), at(1), at(2));
        assert_eq!(first, Some(PASSED_OVER_MAX as usize), "{order:?}");
        assert!(prefetch.is_some_and(|at| at <= PASSED_OVER_MAX as usize + 1), "{order:?}");
        assert!(second.is_some_and(|at| at <= 2 * PASSED_OVER_MAX as usize + 2), "{order:?}");
    }
}
