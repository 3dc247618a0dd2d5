//! Where a file's bytes go: past the page cache in large aligned writes, cut into parts with a checksum each.
//!
//! Invariant: a part begins at the last multiple of 4096 at or before the end of the one before, so that each can be
//! read alone by direct I/O; together they have every byte that was written.

use std::collections::VecDeque;
use std::hash::Hasher;
use std::io::{self, Write};

use twox_hash::XxHash3_64;
use warmset_platform::io::{DIRECT_ALIGN_BYTES, DataFile};

use crate::layout::{ALIGN_BYTES, Part};

/// Bytes that go to the device at once.
const BUFFER_BYTES: usize = 4 << 20;

pub(crate) struct Sink {
    file: DataFile,
    /// Has an aligned stretch of [`BUFFER_BYTES`] from `start`.
    storage: Vec<u8>,
    start: usize,
    filled: usize,
    /// Bytes that went to the file: a multiple of the alignment.
    flushed: u64,
    part_offset: u64,
    hasher: XxHash3_64,
    parts: Vec<Part>,
    /// Where parts end that are not written yet.
    cuts: VecDeque<u64>,
}

impl Sink {
    pub fn new(file: DataFile) -> Self {
        let storage = vec![0; BUFFER_BYTES + DIRECT_ALIGN_BYTES];
        let start = storage.as_ptr().align_offset(DIRECT_ALIGN_BYTES);
        Self {
            file,
            storage,
            start,
            filled: 0,
            flushed: 0,
            part_offset: 0,
            hasher: XxHash3_64::new(),
            parts: Vec::new(),
            cuts: VecDeque::new(),
        }
    }

    /// Bytes written so far.
    pub fn position(&self) -> u64 {
        self.flushed + self.filled as u64
    }

    /// Ends a part here.
    pub fn cut(&mut self) {
        let (offset, end) = (self.part_offset, self.position());
        self.parts.push(Part { offset, bytes: end - offset, checksum: self.hasher.finish() });
        self.part_offset = end - end % ALIGN_BYTES;
        self.hasher = XxHash3_64::new();
        let carried = (end - self.part_offset) as usize;
        self.hasher.write(&self.storage[self.start + self.filled - carried..self.start + self.filled]);
    }

    /// Has parts end at these positions, which are ahead and ascend.
    pub fn cut_at(&mut self, positions: impl IntoIterator<Item = u64>) {
        self.cuts.extend(positions);
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Writes what is left; returns the number of bytes, to which the file is to be cut.
    pub fn finish(mut self) -> io::Result<u64> {
        let end = self.position();
        let padded = self.filled.next_multiple_of(DIRECT_ALIGN_BYTES);
        self.storage[self.start + self.filled..self.start + padded].fill(0);
        self.filled = padded;
        self.flush_buffer()?;
        Ok(end)
    }

    fn flush_buffer(&mut self) -> io::Result<()> {
        let mut done = 0;
        while done < self.filled {
            let bytes = &self.storage[self.start + done..self.start + self.filled];
            match self.file.write_at(bytes, self.flushed + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.flushed += self.filled as u64;
        self.filled = 0;
        Ok(())
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.filled == BUFFER_BYTES {
            self.flush_buffer()?;
        }
        let left = self.cuts.front().map_or(u64::MAX, |&cut| cut - self.position());
        let count =
            bytes.len().min(BUFFER_BYTES - self.filled).min(usize::try_from(left).unwrap_or(usize::MAX));
        let taken = &bytes[..count];
        let at = self.start + self.filled;
        self.storage[at..at + count].copy_from_slice(taken);
        self.hasher.write(taken);
        self.filled += count;
        if left == count as u64 {
            self.cuts.pop_front();
            self.cut();
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Counts what would be written.
#[derive(Default)]
pub(crate) struct Measure {
    bytes: u64,
}

impl Measure {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Write for Measure {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
