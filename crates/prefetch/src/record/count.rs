//! When instructions are executed by a program that is recorded, with the processor's breakpoint registers.
//!
//! Not with uprobes, which root could have and which are not limited in number: they are in the code of every process that
//! has the file mapped. On Linux 6.18 some of them in libc changed what other programs computed, and crashed compilers.
//!
//! Invariant: no program's memory is written.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::profile::Trigger;
use crate::replay::Executions;

/// Breakpoint registers of an x86-64 processor.
pub(super) const REGISTERS: usize = 4;

/// When each of the first few instructions is executed by the process and what it starts, on the monotonic clock, until
/// `ended` is set. One that cannot be watched is never seen to be executed, and so not chosen.
pub(super) fn executions(
    instructions: &[Trigger],
    process: u32,
    ended: &AtomicBool,
) -> HashMap<Trigger, Vec<u64>> {
    let mut watched: Vec<(Trigger, Executions)> = Vec::new();
    for trigger in instructions.iter().take(REGISTERS) {
        if let Some(executions) = Executions::of(trigger, process) {
            watched.push((trigger.clone(), executions));
        }
    }
    let mut found: HashMap<Trigger, Vec<u64>> = HashMap::new();
    let mut going_on = true;
    // Once more after the end: what was executed last.
    while std::mem::replace(&mut going_on, !ended.load(Ordering::Acquire)) && !watched.is_empty() {
        Executions::wait(watched.iter().map(|(_, executions)| executions));
        for (trigger, executions) in &mut watched {
            found.entry(trigger.clone()).or_default().extend(executions.drain_ns());
        }
    }
    found
}
