//! Memory latency, measured by following pointers through memory of one node.

use std::io;
use std::time::{Duration, Instant};

use crate::mm::{HUGE_PAGE_BYTES, Reservation};
use crate::sysinfo::Root;

const LINE_BYTES: usize = 64;
/// Steps between two looks at the clock.
const STEPS: usize = 256;
/// Steps at first that bring back translations and are not timed.
const STEPS_WARM: usize = 64;
// Multiplier and increment of a sequence that meets every line once (Hull and Dobell) and no prefetcher follows.
const MULTIPLIER: usize = 0x5851_F42D_4C95_7F2D;
const INCREMENT: usize = 0x1405_7B7E_F767_814F;

/// A ring of cache lines in random order on one node.
#[derive(Debug)]
pub struct Chase {
    range: Reservation,
    mask: usize,
    at: usize,
}

impl Chase {
    /// Takes `bytes` of a node's memory; a power of two from 2 MiB on.
    ///
    /// # Errors
    /// When the node does not exist or has no memory left.
    pub fn on_node(node: u32, bytes: usize) -> io::Result<Self> {
        if !bytes.is_power_of_two() || bytes < HUGE_PAGE_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let range = Reservation::anonymous(bytes)?;
        range.bind_to_node(node)?;
        let _ = range.prefer_huge_pages();
        // SAFETY: nobody else knows the range.
        unsafe { range.populate(0, bytes)? };
        Ok(Self { range, mask: bytes / LINE_BYTES - 1, at: 0 }.linked())
    }

    fn linked(self) -> Self {
        for line in 0..=self.mask {
            let next = line.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & self.mask;
            let place = (self.range.base() + line * LINE_BYTES) as *mut usize;
            // SAFETY: the line lies inside the reservation, which is mapped, writable and this value's own.
            unsafe { place.write(next) };
        }
        self
    }

    /// Nanoseconds per step, followed for about that long.
    pub fn latency_ns(&mut self, timeout: Duration) -> f64 {
        self.walk(STEPS_WARM);
        let begin = Instant::now();
        let mut steps = 0_usize;
        while steps == 0 || begin.elapsed() < timeout {
            self.walk(STEPS);
            steps += STEPS;
        }
        begin.elapsed().as_nanos() as f64 / steps as f64
    }

    fn walk(&mut self, steps: usize) {
        for _ in 0..steps {
            let place = (self.range.base() + self.at * LINE_BYTES) as *const usize;
            // SAFETY: `at` is at most `mask`, so the line lies inside the reservation, which is mapped for good.
            self.at = unsafe { place.read_volatile() } & self.mask;
        }
    }
}

impl Drop for Chase {
    fn drop(&mut self) {
        // The addresses stay; the memory goes back.
        // SAFETY: nobody has a reference into it.
        let _ = unsafe { self.range.discard(0, self.range.len()) };
    }
}

/// The size of the largest cache of processor 0; `None` where the kernel does not say.
#[must_use]
pub fn largest_cache_bytes(root: &Root) -> Option<u64> {
    let caches = "/sys/devices/system/cpu/cpu0/cache";
    let size = |name: &String| {
        let text = root.text(format!("{caches}/{name}/size"))?;
        text.trim().strip_suffix('K')?.parse::<u64>().ok()?.checked_mul(1024)
    };
    root.names(caches).iter().filter_map(size).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_met_once() {
        let Ok(mut chase) = Chase::on_node(0, HUGE_PAGE_BYTES) else {
            return eprintln!("SKIPPED every_line_is_met_once: memory cannot be bound to node 0 here");
        };
        let mut met = vec![false; chase.mask + 1];
        for _ in 0..=chase.mask {
            assert!(!std::mem::replace(&mut met[chase.at], true), "line {} twice", chase.at);
            chase.walk(1);
        }
        assert_eq!(chase.at, 0, "the ring is closed");
        let latency = chase.latency_ns(Duration::from_micros(100));
        assert!(latency > 0.0 && latency.is_finite());
    }

    #[test]
    fn sizes_that_make_no_ring_are_errors() {
        assert!(Chase::on_node(0, 3 << 20).is_err());
        assert!(Chase::on_node(1000, HUGE_PAGE_BYTES).is_err());
    }
}
