//! `move_pages` in short calls.

use std::io;
use std::time::{Duration, Instant};

use warmset_platform::migrate::{locations, move_to_node};
use warmset_platform::mm::BASE_PAGE_BYTES;

use super::{CALL_MS_MAX, Mover, Outcome};
use crate::CHUNK_BYTES;

const PAGE_BYTES: u64 = BASE_PAGE_BYTES as u64;
/// Pages asked about in one call.
const LOOK_MAX: usize = 4096;
/// Pages of the first call, before the speed is known.
const PAGES_FIRST: usize = 16;
/// Tries for pages that are busy, or that another page of the same folio took along.
const ROUNDS: usize = 3;
// linux/errno.h; the kernel's statuses are negative.
const ENOENT: i32 = 2;
const ENOMEM: i32 = 12;
const EACCES: i32 = 13;
const EFAULT: i32 = 14;

/// Moves pages, as many in a call as it takes half of [`CALL_MS_MAX`] for.
#[derive(Debug, Default)]
pub struct KernelMover {
    page_ns: Option<f64>,
    /// The longest call so far.
    pub longest: Duration,
}

impl KernelMover {
    fn pages_per_call(&self) -> usize {
        let goal_ns = CALL_MS_MAX as f64 * 1e6 / 2.0;
        self.page_ns.map_or(PAGES_FIRST, |page_ns| ((goal_ns / page_ns.max(1.0)) as usize).clamp(1, 512))
    }

    fn timed(&mut self, pid: u32, addresses: &[u64], node: u32) -> io::Result<Vec<i32>> {
        let begin = Instant::now();
        let status = move_to_node(pid, addresses, node)?;
        let took = begin.elapsed();
        self.longest = self.longest.max(took);
        if addresses.len() > 1 {
            let page_ns = took.as_nanos() as f64 / addresses.len() as f64;
            // Slower counts at once, faster only after a while.
            let before = self.page_ns.unwrap_or(page_ns);
            self.page_ns =
                Some(if page_ns > before { page_ns } else { 0.2_f64.mul_add(page_ns - before, before) });
        }
        Ok(status)
    }
}

/// Present pages that are elsewhere.
fn elsewhere(addresses: &[u64], places: &[i32], node: u32) -> Vec<u64> {
    let is_elsewhere = |place: i32| place >= 0 && place.unsigned_abs() != node;
    addresses
        .iter()
        .zip(places)
        .filter(|(_, place)| is_elsewhere(**place))
        .map(|(address, _)| *address)
        .collect()
}

impl Mover for KernelMover {
    fn locations(&mut self, pid: u32, addresses: &[u64]) -> io::Result<Vec<i32>> {
        let mut found = Vec::with_capacity(addresses.len());
        for part in addresses.chunks(LOOK_MAX) {
            found.extend(locations(pid, part)?);
        }
        Ok(found)
    }

    fn move_chunk(&mut self, pid: u32, start: u64, node: u32) -> io::Result<Outcome> {
        let addresses: Vec<u64> =
            (0..CHUNK_BYTES / PAGE_BYTES).map(|page| start + page * PAGE_BYTES).collect();
        let mut outcome = Outcome::default();
        let mut places = self.locations(pid, &addresses)?;
        let there_before = on(&places, node);
        for round in 0..ROUNDS {
            let left = elsewhere(&addresses, &places, node);
            if left.is_empty() {
                break;
            }
            (outcome.busy, outcome.shared, outcome.full) = (0, 0, 0);
            let mut tried = Vec::with_capacity(left.len());
            // At first one page alone: if it is a huge page, this address takes all of it along.
            let mut rest = if round == 0 { &left[..1] } else { &left[..] };
            while !rest.is_empty() {
                let (part, behind) = rest.split_at(self.pages_per_call().min(rest.len()));
                tried.extend(self.timed(pid, part, node)?);
                rest = behind;
            }
            for status in tried {
                match -status {
                    ENOMEM => outcome.full += 1,
                    EACCES => outcome.shared += 1,
                    ENOENT | EFAULT => {}
                    error if error > 0 => outcome.busy += 1,
                    _ => {}
                }
            }
            places = self.locations(pid, &addresses)?;
            if outcome.full > 0 || (round > 0 && outcome.busy == 0) {
                break;
            }
        }
        outcome.there = on(&places, node);
        outcome.left = elsewhere(&addresses, &places, node).len() as u64;
        outcome.moved_bytes = outcome.there.saturating_sub(there_before) * PAGE_BYTES;
        Ok(outcome)
    }
}

/// How many pages are on the node.
fn on(places: &[i32], node: u32) -> u64 {
    places.iter().filter(|place| u32::try_from(**place) == Ok(node)).count() as u64
}
