//! The recorder for root: page-cache tracepoints of the program and its children, and fanotify for the files' paths.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use warmset_platform::opens::{FileId, OpenWatcher};
use warmset_platform::perf::{Event, Mapping, TreeEvents};
use warmset_platform::signals::{Relay, pass_on};

use super::count::executions;
use super::{Invocation, Recording, now_ns};
use crate::profile::{Recorder, Trigger};
use crate::trace::{Open, Touch, Trace};

/// How often the buffers are emptied at least.
const DRAIN_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// All that arrived, in no order.
#[derive(Default)]
struct Seen {
    events: Vec<Event>,
    opens: Vec<(u64, u32, FileId)>,
    paths: HashMap<FileId, PathBuf>,
}

/// Why there is no recording.
pub(super) enum Failure {
    /// The kernel does not let us watch, or cannot. The program has not been started.
    Watching(io::Error),
    /// The program could not be started or followed.
    Running(io::Error),
}

pub(super) fn record(command: Invocation<'_>, instructions: &[Trigger]) -> Result<Recording, Failure> {
    let watching = || Ok((OpenWatcher::new(&file_systems()?)?, TreeEvents::of_this_thread()?));
    let (mut watcher, mut events) = watching().map_err(Failure::Watching)?;
    followed(command, instructions, &mut watcher, &mut events).map_err(Failure::Running)
}

fn followed(
    command: Invocation<'_>,
    instructions: &[Trigger],
    watcher: &mut OpenWatcher,
    events: &mut TreeEvents,
) -> io::Result<Recording> {
    let started_ns = now_ns();
    let clock = Instant::now();
    let mut relay = Relay::start()?;
    let mut start = Command::new(command.file);
    start.arg0(&command.words[0]).args(&command.words[1..]);
    let mut child = pass_on(&mut start).spawn()?;
    let process = child.id();
    relay.set_receiver(process);
    let mut seen = Seen::default();
    let (status, executed) = watch(watcher, events, &mut seen, &mut child, instructions)?;
    let seconds = clock.elapsed().as_secs_f64();
    drain(watcher, events, &mut seen)?;
    let lost = events.lost();
    seen.events.sort_by_key(Event::at_ns);
    let trace = trace(&mut seen, process, started_ns);
    let at_us = |at_ns: u64| at_ns.saturating_sub(started_ns) / 1000;
    let executed = executed.into_iter();
    let executed_us =
        executed.map(|(trigger, at_ns)| (trigger, at_ns.into_iter().map(at_us).collect())).collect();
    Ok(Recording {
        recorder: Recorder::Tracepoints,
        trace,
        paths: seen.paths,
        executed_us,
        status,
        seconds,
        lost,
    })
}

/// Empties the buffers until the child has ended. Returns when the instructions were executed, too.
fn watch(
    watcher: &mut OpenWatcher,
    events: &mut TreeEvents,
    seen: &mut Seen,
    child: &mut Child,
    instructions: &[Trigger],
) -> io::Result<(ExitStatus, HashMap<Trigger, Vec<u64>>)> {
    let ended = AtomicBool::new(false);
    let process = child.id();
    thread::scope(|scope| {
        let counter = scope.spawn(|| executions(instructions, process, &ended));
        let drainer = scope.spawn(|| -> io::Result<()> {
            while !ended.load(Ordering::Acquire) {
                drain(watcher, events, seen)?;
                // Opens arrive in crowds: one look for many of them is enough.
                thread::sleep(Duration::from_millis(1));
                let _ = poll(&mut [PollFd::new(&*watcher, PollFlags::IN)], Some(&DRAIN_EVERY));
            }
            Ok(())
        });
        let status = child.wait();
        ended.store(true, Ordering::Release);
        drainer.join().expect("the drainer does not panic")?;
        let executed = counter.join().expect("the counter does not panic");
        status.map(|status| (status, executed))
    })
}

fn drain(watcher: &mut OpenWatcher, events: &mut TreeEvents, seen: &mut Seen) -> io::Result<()> {
    let Seen { events: all, opens, paths } = seen;
    events.drain(|event| all.push(event));
    let at_ns = now_ns();
    watcher.drain(paths, |process, file| opens.push((at_ns, process, file)))
}

/// What the program and its children did, on the clock of the run.
fn trace(seen: &mut Seen, process: u32, started_ns: u64) -> Trace {
    let at_us = |at_ns: u64| at_ns.saturating_sub(started_ns) / 1000;
    let mut family = HashSet::from([process]);
    let mut mappings: HashMap<u32, Vec<Mapping>> = HashMap::new();
    let mut trace = Trace::default();
    for event in &seen.events {
        match event {
            Event::Fork { process, parent, .. } => {
                family.insert(*process);
                if process != parent {
                    if let Some(inherited) = mappings.get(parent).cloned() {
                        mappings.insert(*process, inherited);
                    }
                }
            }
            Event::Map(mapping) => {
                family.insert(mapping.process);
                seen.paths.entry(mapping.file).or_insert_with(|| mapping.path.clone());
                mappings.entry(mapping.process).or_default().push(mapping.clone());
            }
            Event::Touch { at_ns, process, file, start, end, instruction } => {
                let own = mappings.get(process).and_then(|maps| code(maps, *file, *instruction));
                let instruction = own.filter(|offset| (*start..*end).contains(offset));
                let (file, start, end) = (*file, *start, *end);
                trace.touches.push(Touch { at_us: at_us(*at_ns), file, start, end, instruction });
            }
        }
    }
    let mut counts: HashMap<FileId, u32> = HashMap::new();
    for &(at_ns, _, file) in seen.opens.iter().filter(|open| family.contains(&open.1)) {
        let nth = counts.entry(file).or_default();
        *nth += 1;
        trace.opens.push(Open { at_us: at_us(at_ns), file, nth: *nth });
    }
    trace
}

/// Where in the file the address is, if the file is mapped there.
fn code(mappings: &[Mapping], file: FileId, address: u64) -> Option<u64> {
    let holds =
        |each: &&Mapping| each.file == file && (each.address..each.address + each.bytes).contains(&address);
    let mapping = mappings.iter().rev().find(holds)?;
    Some(address - mapping.address + mapping.offset)
}

/// A directory of each file system that is kept on something, or in memory.
fn file_systems() -> io::Result<Vec<PathBuf>> {
    const KINDS: [&str; 8] = ["ext4", "ext3", "ext2", "xfs", "btrfs", "overlay", "tmpfs", "f2fs"];
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    let found = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (directory, kind) = (fields.next()?, fields.next()?);
        KINDS.contains(&kind).then(|| PathBuf::from(directory.replace("\\040", " ")))
    });
    Ok(found.collect())
}
