//! The device's limit: the region's own file, read with O_DIRECT through a bare ring into ready huge pages.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Instant;

use io_uring::{IoUring, opcode, types};
use warmset_platform::mm::Reservation;
use warmset_region::FRAME_BYTES;

use crate::Outcome;

const DEPTHS: [usize; 5] = [2, 4, 8, 16, 32];

/// A file that holds a region's bytes, and how many of them.
pub struct RawFile {
    file: File,
    bytes: u64,
}

/// Finds the nameless file of the only region of about `bytes` among this process's own descriptors.
pub fn region_file(bytes: u64) -> Outcome<RawFile> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let path = entry?.path();
        let nameless =
            fs::read_link(&path).is_ok_and(|target| target.to_string_lossy().ends_with(" (deleted)"));
        if nameless && fs::metadata(&path)?.len() > bytes / 2 {
            let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
            let file = OpenOptions::new().read(true).custom_flags(direct).open(&path)?;
            let len = file.metadata()?.len();
            return Ok(RawFile { file, bytes: len - len % FRAME_BYTES as u64 });
        }
    }
    Err("the region's file is not among this process's descriptors".into())
}

/// Huge pages that are read into in turns; touched once, before anything is timed.
pub struct Buffers {
    range: Reservation,
}

impl Buffers {
    /// As many frames as hold so many bytes.
    pub fn of(bytes: usize) -> Outcome<Self> {
        let range = Reservation::anonymous(bytes.next_multiple_of(FRAME_BYTES))?;
        drop(range.prefer_huge_pages());
        // SAFETY: nobody else knows the range.
        unsafe { range.populate(0, range.len())? };
        Ok(Self { range })
    }

    fn frames(&self) -> usize {
        self.range.len() / FRAME_BYTES
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: nobody has a reference into it, and no read is in flight.
        drop(unsafe { self.range.discard(0, self.range.len()) });
    }
}

/// The queue depth at which the file is read fastest, into so many bytes of memory or as few as that takes.
pub fn best_depth(file: &RawFile, memory: usize) -> Outcome<usize> {
    let mut best = (f64::INFINITY, DEPTHS[0]);
    for depth in DEPTHS {
        let buffers = Buffers::of(memory.max(depth * FRAME_BYTES))?;
        let began = Instant::now();
        read_all(file, depth, &buffers)?;
        let seconds = began.elapsed().as_secs_f64();
        eprintln!("raw at depth {depth}: {:.2} GB/s", file.bytes as f64 / seconds / 1e9);
        best = if seconds < best.0 { (seconds, depth) } else { best };
    }
    Ok(best.1)
}

/// Reads the whole file with up to `depth` reads of 2 MiB in flight, into the buffer that was filled longest ago; returns its
/// length.
pub fn read_all(file: &RawFile, depth: usize, buffers: &Buffers) -> Outcome<u64> {
    let mut ring = IoUring::new(64)?;
    let mut free: VecDeque<usize> = (0..buffers.frames()).collect();
    let (mut next, mut done, mut in_flight) = (0, 0, 0);
    while done < file.bytes {
        while let Some(buffer) = (next < file.bytes && in_flight < depth).then(|| free.pop_front()).flatten()
        {
            in_flight += 1;
            let address = (buffers.range.base() + buffer * FRAME_BYTES) as *mut u8;
            let read = opcode::Read::new(types::Fd(file.file.as_raw_fd()), address, FRAME_BYTES as u32)
                .offset(next)
                .build()
                .user_data(buffer as u64);
            // SAFETY: the buffer is in a reservation that is never unmapped and is not reused before completion.
            unsafe { ring.submission().push(&read)? };
            next += FRAME_BYTES as u64;
        }
        ring.submit_and_wait(1)?;
        for completion in ring.completion() {
            if completion.result() != FRAME_BYTES as i32 {
                return Err(format!("a raw read returned {}", completion.result()).into());
            }
            done += FRAME_BYTES as u64;
            free.push_back(completion.user_data() as usize);
            in_flight -= 1;
        }
    }
    Ok(file.bytes)
}
