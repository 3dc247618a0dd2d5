//! The recorder for any user: ptrace stops the program when it reads or maps files, and when it ends, what it has touched
//! of its mapped files is read from `/proc`.
//!
//! Where a thread reads again after a pause, the calls that it is in are candidates for triggers; a later run counts, with
//! the processor's breakpoint registers, how often each is executed. Few are asked for, since there are few registers.
//!
//! It misses what is unmapped again before the end. The time of a touch in a mapped file is that of the mapping. Programs
//! with more rights than their user (setuid) run without them, and a program that uses ptrace itself cannot.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use warmset_platform::opens::FileId;
use warmset_platform::ptrace::{self, Stop};
use warmset_platform::signals::Relay;

use super::count::{REGISTERS, executions};
use super::{Invocation, Recording, now_ns};
use crate::analysis::QUIET_MS;
use crate::profile::{Recorder, Trigger};
use crate::trace::{Open, Touch, Trace};

const PAGE_BYTES: u64 = 4096;

struct Watcher {
    started: Instant,
    trace: Trace,
    paths: HashMap<FileId, PathBuf>,
    mapped_us: HashMap<FileId, u64>,
    /// When it last read or mapped something.
    last_us: u64,
}

pub(super) fn record(command: Invocation<'_>, instructions: &[Trigger]) -> io::Result<Recording> {
    let mut watcher = Watcher {
        started: Instant::now(),
        trace: Trace::default(),
        paths: HashMap::new(),
        mapped_us: HashMap::new(),
        last_us: 0,
    };
    let ended = AtomicBool::new(false);
    let started_ns = now_ns();
    let mut relay = Relay::start()?;
    let (status, executed) = thread::scope(|scope| {
        let mut counter = None;
        let started = |process| {
            let ended = &ended;
            relay.set_receiver(process);
            counter = Some(scope.spawn(move || executions(instructions, process, ended)));
        };
        let status =
            ptrace::run(command.file, command.words, started, |thread, stop| watcher.stopped(thread, stop));
        ended.store(true, Ordering::Release);
        (status, counter.map(|counter| counter.join().expect("the counter does not panic")))
    });
    let status = status?;
    let seconds = watcher.started.elapsed().as_secs_f64();
    let Watcher { mut trace, paths, .. } = watcher;
    trace.touches.sort_by_key(|touch| touch.at_us);
    let at_us = |at_ns: u64| at_ns.saturating_sub(started_ns) / 1000;
    let executed = executed.unwrap_or_default().into_iter();
    let executed_us =
        executed.map(|(trigger, at_ns)| (trigger, at_ns.into_iter().map(at_us).collect())).collect();
    Ok(Recording { recorder: Recorder::Ptrace, trace, paths, executed_us, status, seconds, lost: 0 })
}

impl Watcher {
    fn stopped(&mut self, thread: u32, stop: Stop) {
        let at_us = self.started.elapsed().as_micros() as u64;
        match stop {
            Stop::Read { fd, offset, bytes } => {
                let Some((file, size)) = self.file(thread, fd, at_us) else { return };
                let Some(start) = offset.or_else(|| position(thread, fd)) else { return };
                let end = start.saturating_add(bytes).min(size).next_multiple_of(PAGE_BYTES);
                let start = start / PAGE_BYTES * PAGE_BYTES;
                if start < end {
                    self.after_pause(thread, at_us);
                    self.trace.touches.push(Touch { at_us, file, start, end, instruction: None });
                }
            }
            Stop::Map { fd } => {
                if let Some((file, _)) = self.file(thread, fd, at_us) {
                    self.after_pause(thread, at_us);
                    self.mapped_us.entry(file).or_insert(at_us);
                }
            }
            Stop::End => self.end(thread, at_us),
        }
    }

    /// Notes from where the thread was called, if nothing was read for a while: a few calls of all depths.
    fn after_pause(&mut self, thread: u32, at_us: u64) {
        let quiet_us = at_us.saturating_sub(std::mem::replace(&mut self.last_us, at_us));
        if quiet_us < QUIET_MS * 1000 {
            return;
        }
        let callers = ptrace::callers(thread);
        let step = callers.len().div_ceil(REGISTERS).max(1);
        for caller in callers.into_iter().step_by(step) {
            let start = caller.offset / PAGE_BYTES * PAGE_BYTES;
            let (file, end, instruction) = (caller.file, start + PAGE_BYTES, Some(caller.offset));
            self.paths.entry(file).or_insert(caller.path);
            self.trace.touches.push(Touch { at_us, file, start, end, instruction });
        }
    }

    /// The regular file behind a descriptor, and its size.
    fn file(&mut self, thread: u32, fd: i32, at_us: u64) -> Option<(FileId, u64)> {
        let link = format!("/proc/{thread}/fd/{fd}");
        let metadata = fs::metadata(&link).ok().filter(fs::Metadata::is_file)?;
        let file = FileId { device: metadata.dev(), inode: metadata.ino() };
        if let Entry::Vacant(vacant) = self.paths.entry(file) {
            vacant.insert(fs::read_link(&link).ok()?);
            // Its first use stands for its first open, which is a little earlier.
            self.trace.opens.push(Open { at_us, file, nth: 1 });
        }
        Some((file, metadata.len()))
    }

    /// The threads of a process share its address space: the first one's end is enough.
    fn end(&mut self, thread: u32, at_us: u64) {
        let Ok(mapped) = ptrace::touched(thread) else { return };
        for each in mapped {
            self.paths.entry(each.file).or_insert(each.path);
            // The program itself and its interpreter are mapped by the kernel, at the start.
            let first_us = self.mapped_us.get(&each.file).copied().unwrap_or(0).min(at_us);
            let touch =
                |&(start, end)| Touch { at_us: first_us, file: each.file, start, end, instruction: None };
            self.trace.touches.extend(each.ranges.iter().map(touch));
        }
    }
}

/// The descriptor's position.
fn position(thread: u32, fd: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{thread}/fdinfo/{fd}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("pos:"))?.trim().parse().ok()
}
