//! The two scans: through pins, and over a plain array.

use std::thread;

use warmset_platform::mm::Reservation;
use warmset_region::{FRAME_BYTES, Prefetch, Region};

use crate::Outcome;

/// Fills a region with the bytes that [`PlainArray`] has.
pub fn fill(region: &Region, bytes: usize) -> Outcome<()> {
    for segment in 0..bytes / FRAME_BYTES {
        let mut draft = region.draft(FRAME_BYTES)?;
        write_numbers(&mut draft, segment);
        draft.seal(FRAME_BYTES)?;
    }
    Ok(())
}

fn write_numbers(bytes: &mut [u8], segment: usize) {
    let first = (segment * FRAME_BYTES / 8) as u64;
    for (n, word) in bytes.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(first + n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    }
}

fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
    words.fold(0, u64::wrapping_add)
}

/// A scan of a region's segments.
pub struct Scan<'a> {
    pub region: &'a Region,
    pub segments: u64,
    /// Segments that a thread asks for ahead of the one it sums; 0: none.
    pub window: u64,
}

impl Scan<'_> {
    /// Sums all words, each thread a contiguous part.
    pub fn run(&self, threads: usize) -> Outcome<u64> {
        let share = self.segments.div_ceil(threads as u64);
        let part = |n: u64| (n * share).min(self.segments)..((n + 1) * share).min(self.segments);
        if threads == 1 {
            return Ok(self.part(part(0))?);
        }
        thread::scope(|scope| {
            let parts: Vec<_> =
                (0..threads as u64).map(|n| scope.spawn(move || self.part(part(n)))).collect();
            let mut total: u64 = 0;
            for part in parts {
                total = total.wrapping_add(part.join().map_err(|_| "a scanning thread panicked")??);
            }
            Ok(total)
        })
    }

    fn part(&self, segments: std::ops::Range<u64>) -> Result<u64, warmset_region::Error> {
        let mut total: u64 = 0;
        let mut ahead: std::collections::VecDeque<Option<Prefetch>> = std::collections::VecDeque::new();
        let mut next = segments.start;
        for segment in segments.clone() {
            while next < segments.end && next <= segment + self.window {
                ahead.push_back(if self.window == 0 { None } else { self.region.prefetch(next)? });
                next += 1;
            }
            let pin = match ahead.pop_front().flatten() {
                Some(prefetch) => prefetch.wait()?,
                None => self.region.pin(segment)?,
            };
            total = total.wrapping_add(sum(&pin));
        }
        Ok(total)
    }
}

/// The sum of the words of so many places, which a xorshift generator fed with them picks (Marsaglia, 2003).
fn picked(bytes: &[u8], lookups: usize) -> u64 {
    let words = bytes.len() / 8;
    let (mut total, mut state) = (0_u64, 0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..lookups {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let place = (((state >> 32) * words as u64) >> 32) as usize * 8;
        let word = bytes[place..place + 8].try_into().map_or(0, u64::from_ne_bytes);
        total = total.wrapping_add(word);
        state = state.wrapping_add(word).max(1);
    }
    total
}

/// The same words as one array on huge pages.
pub struct PlainArray {
    range: Reservation,
}

impl PlainArray {
    pub fn filled(bytes: usize, huge_pages: bool) -> Outcome<Self> {
        let range = Reservation::anonymous(bytes)?;
        if huge_pages {
            // Without transparent huge pages both sides are on base pages.
            drop(range.prefer_huge_pages());
        }
        let array = Self { range };
        for segment in 0..bytes / FRAME_BYTES {
            let start = (array.range.base() + segment * FRAME_BYTES) as *mut u8;
            // SAFETY: the range is ours, `segment` lies inside it, and no other reference to it exists yet.
            write_numbers(unsafe { std::slice::from_raw_parts_mut(start, FRAME_BYTES) }, segment);
        }
        Ok(array)
    }

    pub fn sum(&self) -> u64 {
        sum(self.bytes())
    }

    /// Each thread reads so many words at random in its own part. The next place depends on the word
    /// that was read: one access at a time, as in a lookup.
    pub fn sum_at_random(&self, threads: usize, lookups: usize) -> u64 {
        let parts = self.bytes().chunks(self.range.len() / threads);
        thread::scope(|scope| {
            let readers: Vec<_> = parts.map(|part| scope.spawn(|| picked(part, lookups))).collect();
            readers.into_iter().map(|reader| reader.join().unwrap_or(0)).fold(0, u64::wrapping_add)
        })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the range was filled in `filled` and is not written to since.
        unsafe { std::slice::from_raw_parts(self.range.base() as *const u8, self.range.len()) }
    }
}
