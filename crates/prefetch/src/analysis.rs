//! From a trace to reads, bursts and trigger candidates. Pure code.

use std::collections::HashMap;

use warmset_platform::opens::FileId;

use crate::trace::Trace;

/// Ranges closer than this are read as one.
pub const GAP_BYTES: u64 = 32 << 10;
/// A pause of this long ends a burst.
pub const QUIET_MS: u64 = 100;
/// A burst with fewer bytes does not end a quiet stretch: it belongs to the burst before it.
pub const BURST_BYTES_MIN: u64 = 256 << 10;
/// Candidates are looked for this far into a burst.
const INTO_BURST_MS: u64 = 20;
/// At most so many candidates of each kind are validated.
const CANDIDATES_MAX: usize = 12;

/// A range of a file that was touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The file.
    pub file: FileId,
    /// The first byte.
    pub start: u64,
    /// The byte after the last one.
    pub end: u64,
    /// When it was first touched.
    pub at_ms: u64,
}

/// A run of ranges close in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// How many ranges.
    pub ranges: usize,
    /// When the first is touched.
    pub start_ms: u64,
    /// When the last is touched.
    pub end_ms: u64,
    /// How long nothing new was touched before it.
    pub quiet_ms: u64,
}

/// An event in the quiet stretch before a burst, or at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Candidate {
    /// This file is opened for the n-th time.
    Open(FileId, u32),
    /// The instruction at this offset in this file is executed.
    Instruction(FileId, u64),
}

/// What was touched, without overlaps and in order of first touch; small gaps are closed within a burst.
#[must_use]
pub fn ranges(trace: &Trace, size_of: impl Fn(FileId) -> Option<u64>) -> Vec<Range> {
    let mut sizes: HashMap<FileId, Option<u64>> = HashMap::new();
    let mut taken: HashMap<FileId, Vec<(u64, u64)>> = HashMap::new();
    let mut found: Vec<Range> = Vec::new();
    let mut last_of: HashMap<FileId, usize> = HashMap::new();
    for touch in &trace.touches {
        let file = touch.file;
        let Some(size) = *sizes.entry(file).or_insert_with(|| size_of(file)) else { continue };
        let end = touch.end.min(size.next_multiple_of(4096));
        let at_ms = touch.at_us / 1000;
        for (start, end) in uncovered(taken.entry(file).or_default(), touch.start, end) {
            // A later range of the same file that follows closely is fetched with the earlier one.
            let taken = taken.entry(file).or_default();
            let near = last_of.get(&file).copied().filter(|&index| {
                let last = &found[index];
                let close =
                    last.end <= start && start - last.end <= GAP_BYTES && at_ms - last.at_ms < QUIET_MS;
                close && !taken.iter().any(|range| range.0 < start && last.end < range.1)
            });
            if let Some(index) = near {
                // What closes the gap is fetched, too.
                uncovered(taken, found[index].end, start);
                found[index].end = end;
            } else {
                last_of.insert(file, found.len());
                found.push(Range { file, start, end, at_ms });
            }
        }
    }
    found
}

/// Divides ranges, which are in order of time, where nothing new is touched for a while.
#[must_use]
pub fn spans(ranges: &[Range]) -> Vec<Span> {
    let mut found: Vec<(Span, u64)> = Vec::new();
    for range in ranges {
        let bytes = range.end - range.start;
        match found.last_mut() {
            Some((last, sum)) if range.at_ms.saturating_sub(last.end_ms) < QUIET_MS => {
                last.ranges += 1;
                last.end_ms = last.end_ms.max(range.at_ms);
                *sum += bytes;
            }
            last => {
                let quiet_ms = last.map_or(0, |(last, _)| range.at_ms - last.end_ms);
                let span = Span { ranges: 1, start_ms: range.at_ms, end_ms: range.at_ms, quiet_ms };
                found.push((span, bytes));
            }
        }
    }
    let mut spans: Vec<Span> = Vec::new();
    for (span, bytes) in found {
        match spans.last_mut() {
            Some(last) if bytes < BURST_BYTES_MIN => {
                last.ranges += span.ranges;
                last.end_ms = span.end_ms;
            }
            _ => spans.push(span),
        }
    }
    for index in 1..spans.len() {
        spans[index].quiet_ms = spans[index].start_ms.saturating_sub(spans[index - 1].end_ms);
    }
    spans
}

/// What happens in the quiet stretch before a burst or as it starts, in order of time.
#[must_use]
pub fn candidates(trace: &Trace, span: &Span) -> Vec<Candidate> {
    let from = (span.start_ms - span.quiet_ms) * 1000 + 1000;
    let to = (span.start_ms + INTO_BURST_MS) * 1000;
    let inside = |at_us: u64| (from..=to).contains(&at_us);
    let opens = trace.opens.iter().filter(|open| inside(open.at_us));
    let opens = opens.map(|open| Candidate::Open(open.file, open.nth)).take(CANDIDATES_MAX);
    // A page of code that is touched for the first time has not been executed before.
    let mut seen = std::collections::HashSet::new();
    let code = trace.touches.iter().filter(|touch| inside(touch.at_us)).filter_map(|touch| {
        let offset = touch.instruction?;
        seen.insert((touch.file, offset)).then_some(Candidate::Instruction(touch.file, offset))
    });
    opens.chain(code.take(CANDIDATES_MAX)).collect()
}

/// The parts of a range that are not in `taken`, which then has them, sorted and without overlaps.
fn uncovered(taken: &mut Vec<(u64, u64)>, start: u64, end: u64) -> Vec<(u64, u64)> {
    let from = taken.partition_point(|range| range.1 < start);
    let to = taken.partition_point(|range| range.0 <= end);
    let mut parts = Vec::new();
    let mut at = start;
    for range in &taken[from..to.max(from)] {
        if at < range.0 {
            parts.push((at, range.0.min(end)));
        }
        at = at.max(range.1);
    }
    if at < end {
        parts.push((at, end));
    }
    if start < end {
        let low = taken[from..to].first().map_or(start, |range| range.0.min(start));
        let high = taken[from..to].last().map_or(end, |range| range.1.max(end));
        taken.splice(from..to, [(low, high)]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Open, Touch};
    use proptest::prelude::*;

    const A: FileId = FileId { device: 1, inode: 1 };
    const B: FileId = FileId { device: 1, inode: 2 };

    fn touch(at_ms: u64, file: FileId, start: u64, end: u64) -> Touch {
        Touch { at_us: at_ms * 1000, file, start, end, instruction: None }
    }

    #[test]
    fn a_pause_divides_bursts_and_a_small_burst_does_not() {
        let range = |at_ms, bytes| Range { file: A, start: 0, end: bytes, at_ms };
        let big = BURST_BYTES_MIN;
        let found =
            spans(&[range(0, 4096), range(99, 4096), range(600, big), range(900, 4096), range(1500, big)]);
        let span = |ranges, start_ms, end_ms, quiet_ms| Span { ranges, start_ms, end_ms, quiet_ms };
        assert_eq!(found, [span(2, 0, 99, 0), span(2, 600, 900, 501), span(1, 1500, 1500, 600)]);
    }

    #[test]
    fn gaps_are_closed_within_a_burst_only() {
        let touches = vec![
            touch(0, A, 0, 4096),
            touch(1, B, 0, 4096),
            touch(2, A, 20_480, 24_576),
            touch(500, A, 40_960, 45_056),
            touch(501, A, 0, 65_536),
        ];
        let trace = Trace { touches, opens: Vec::new() };
        let found = ranges(&trace, |file| (file == A).then_some(1 << 20));
        let range = |start, end, at_ms| Range { file: A, start, end, at_ms };
        let wanted = [
            range(0, 24_576, 0),
            range(40_960, 45_056, 500),
            range(24_576, 40_960, 501),
            range(45_056, 65_536, 501),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn candidates_are_what_happens_from_the_quiet_stretch_on() {
        let open = |at_ms: u64, nth| Open { at_us: at_ms * 1000, file: B, nth };
        let mut code = touch(700, A, 0, 4096);
        code.instruction = Some(77);
        let trace = Trace {
            touches: vec![touch(0, A, 0, 4096), code],
            opens: vec![open(0, 1), open(500, 2), open(900, 3)],
        };
        let span = Span { ranges: 1, start_ms: 701, end_ms: 710, quiet_ms: 600 };
        assert_eq!(candidates(&trace, &span), [Candidate::Open(B, 2), Candidate::Instruction(A, 77)]);
    }

    proptest! {
        #[test]
        fn each_byte_is_read_once(ranges in prop::collection::vec((0u64..200, 0u64..40), 0..40)) {
            let (mut taken, mut seen) = (Vec::new(), vec![0; 256]);
            let mut wanted = vec![0; 256];
            for (start, length) in ranges {
                for (from, to) in uncovered(&mut taken, start, start + length) {
                    (from..to).for_each(|byte| seen[byte as usize] += 1);
                }
                (start..start + length).for_each(|byte| wanted[byte as usize] = 1);
            }
            prop_assert_eq!(seen, wanted);
            prop_assert!(taken.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
