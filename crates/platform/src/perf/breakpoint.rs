//! An event each time one instruction is executed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use perf_event_open_sys::bindings::{
    HW_BREAKPOINT_X, PERF_RECORD_SAMPLE, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_BREAKPOINT,
    perf_event_attr,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::ring::Ring;
use super::{attributes, open};
use crate::sysinfo::{Root, numa};

/// A program's instruction that is watched. Readable when it was executed.
///
/// Invariant: no instruction of the program is skipped or run twice, whether or not this process lives: the kernel handles
/// each execution, and takes a breakpoint register back when its descriptor is closed.
#[derive(Debug)]
pub struct Breakpoint {
    events: Vec<(OwnedFd, Ring)>,
}

impl Breakpoint {
    /// Watches an address in one thread and in the threads and processes that it starts from now on, until they execute
    /// another program: one of the processor's few breakpoint registers.
    ///
    /// # Errors
    /// The kernel's: `PermissionDenied` for another user's process, and where `kernel.perf_event_paranoid` is above 2
    /// (which some distributions have); `StorageFull` if all registers are taken.
    pub fn in_thread(thread: u32, address: u64) -> io::Result<Self> {
        let mut attr = attributes(PERF_TYPE_BREAKPOINT, 0);
        attr.bp_type = HW_BREAKPOINT_X;
        attr.__bindgen_anon_3.bp_addr = address;
        attr.__bindgen_anon_4.bp_len = size_of::<libc::c_long>() as u64;
        attr.set_exclude_kernel(1);
        attr.set_exclude_hv(1);
        attr.set_inherit(1);
        // At this address another program has another instruction.
        attr.set_remove_on_exec(1);
        Ok(Self { events: on_each_processor(&mut attr, thread as i32)? })
    }

    /// Tells which processes have executed it since the last call, and when on the monotonic clock, in nanoseconds; once for
    /// each time.
    pub fn drain(&mut self, mut executed: impl FnMut(u32, u64)) {
        for (_, ring) in &mut self.events {
            ring.drain(|kind, bytes| {
                let by = bytes.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
                let at_ns =
                    bytes.get(8..).and_then(<[u8]>::first_chunk).map(|bytes| u64::from_ne_bytes(*bytes));
                if let (PERF_RECORD_SAMPLE, Some(by), Some(at_ns)) = (kind, by, at_ns) {
                    executed(by, at_ns);
                }
            });
        }
    }

    /// Whether the thread and all that it started are gone, or execute another program. Afterwards the descriptors are not
    /// readable for what was executed before: call [`Breakpoint::drain`] next.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.events.iter().all(|(event, _)| {
            let mut polled = [PollFd::new(event, PollFlags::empty())];
            let found = poll(&mut polled, Some(&Timespec::default()));
            found.is_ok() && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
        })
    }

    /// What becomes readable when it is executed.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.events.iter().map(|(event, _)| event.as_fd())
    }
}

/// An event has a buffer only if it is of one processor.
fn on_each_processor(attr: &mut perf_event_attr, thread: i32) -> io::Result<Vec<(OwnedFd, Ring)>> {
    attr.sample_type = (PERF_SAMPLE_TID | PERF_SAMPLE_TIME).into();
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.__bindgen_anon_1.sample_period = 1;
    attr.__bindgen_anon_2.wakeup_events = 1;
    let mut events = Vec::new();
    for processor in numa::online_cpus(&Root::live()) {
        let event = open(attr, thread, processor as i32)?;
        let ring = Ring::map(&event, 1)?;
        events.push((event, ring));
    }
    Ok(events)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[inline(never)]
    extern "C" fn watched(number: u64) -> u64 {
        std::hint::black_box(number) + 1
    }

    #[test]
    fn executions_in_this_thread_and_in_later_ones_are_told() {
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let mut breakpoint = match Breakpoint::in_thread(thread, watched as *const () as u64) {
            Ok(breakpoint) => breakpoint,
            Err(error) => {
                eprintln!(
                    "SKIPPED executions_in_this_thread_and_in_later_ones_are_told: no breakpoints here: {error}"
                );
                return;
            }
        };
        let hits = |breakpoint: &mut Breakpoint| {
            let mut hits = 0;
            breakpoint.drain(|_, _| hits += 1);
            hits
        };
        assert_eq!(hits(&mut breakpoint), 0);
        let called: extern "C" fn(u64) -> u64 = std::hint::black_box(watched);
        assert_eq!(called(1), 2);
        assert_eq!((hits(&mut breakpoint), hits(&mut breakpoint)), (1, 0));
        assert_eq!(std::thread::spawn(move || called(2)).join().unwrap(), 3);
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let mut told = Vec::new();
        breakpoint
            .drain(|process, at_ns| told.push((process, now_ns.saturating_sub(at_ns) / 10_000_000_000)));
        assert_eq!(told, [(std::process::id(), 0)]);
        assert!(!breakpoint.is_over());
    }

    #[test]
    fn the_breakpoint_of_a_thread_that_has_ended_is_over() {
        let (told, heard) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            told.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let _ = wait.recv();
        });
        let found = Breakpoint::in_thread(heard.recv().unwrap(), watched as *const () as u64);
        drop(go);
        thread.join().unwrap();
        match found {
            Ok(breakpoint) => {
                // A joined thread may still be on its way out.
                let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
                while !breakpoint.is_over() {
                    assert!(std::time::Instant::now() < end);
                    std::thread::yield_now();
                }
            }
            Err(error) => {
                eprintln!(
                    "SKIPPED the_breakpoint_of_a_thread_that_has_ended_is_over: no breakpoints here: {error}"
                );
            }
        }
    }
}
