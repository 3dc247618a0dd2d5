//! Runs a program and records what it touches, with the kernel's page-cache tracepoints. Needs root.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use warmset_platform::opens::{FileId, OpenWatcher};
use warmset_platform::tracing::TraceInstance;

use crate::profile::Profile;
use crate::trace::Trace;

const EVENTS: [&str; 3] =
    ["filemap/mm_filemap_get_pages", "filemap/mm_filemap_map_pages", "filemap/mm_filemap_fault"];
const BUFFER_KIB: u32 = 32 << 10;
/// How often the queue of opened files is emptied; it is unlimited, so this bounds its length only.
const DRAIN_EVERY: Duration = Duration::from_millis(20);

/// A recorded run.
#[derive(Debug)]
pub struct Recorded {
    /// What it touched.
    pub profile: Profile,
    /// How it ended.
    pub status: ExitStatus,
    /// Events that found no room in the kernel's buffers.
    pub lost: u64,
    /// Files that were touched and whose path is not known.
    pub unknown_files: usize,
}

/// Runs the program to its end. A warm run is as good as a cold one: a new process has to map and read its pages anew.
///
/// # Errors
/// The kernel's: `PermissionDenied` for all but root; `NotFound` if there is no such program.
pub fn record(program: PathBuf, arguments: Vec<String>) -> io::Result<Recorded> {
    let mut watcher = OpenWatcher::new(&file_systems()?)?;
    let trace = TraceInstance::of_this_thread(&instance_name(), BUFFER_KIB)?;
    for event in EVENTS {
        trace.enable(event)?;
    }
    let mut child = Command::new(&program).args(&arguments).spawn()?;
    let mut paths = HashMap::new();
    let status = watch(&mut watcher, &mut paths, &mut child)?;
    trace.stop()?;
    watcher.drain(&mut paths)?;
    let mut touched = Trace::parse(&trace.text()?);
    forget_own_file(&mut touched);
    let (profile, unknown_files) = Profile::of((program, arguments), &touched, &paths);
    Ok(Recorded { profile, status, lost: trace.lost()?, unknown_files })
}

/// A name that no other recording has.
fn instance_name() -> String {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    format!("warmset-learn-{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed))
}

/// Empties the queue of opened files until the child has ended.
fn watch(
    watcher: &mut OpenWatcher,
    paths: &mut HashMap<FileId, PathBuf>,
    child: &mut Child,
) -> io::Result<ExitStatus> {
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let drainer = scope.spawn(|| -> io::Result<()> {
            while !ended.load(Ordering::Acquire) {
                watcher.drain(paths)?;
                thread::park_timeout(DRAIN_EVERY);
            }
            Ok(())
        });
        let status = child.wait();
        ended.store(true, Ordering::Release);
        drainer.thread().unpark();
        drainer.join().expect("the drainer does not panic")?;
        status
    })
}

/// The recorder's own pages are no reads of the program.
fn forget_own_file(trace: &mut Trace) {
    if let Ok(own) = std::fs::metadata("/proc/self/exe") {
        trace.touches.retain(|touch| {
            (touch.inode, rustix::fs::makedev(touch.device.0, touch.device.1)) != (own.ino(), own.dev())
        });
    }
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
