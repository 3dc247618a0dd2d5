//! Runs a program and records what it touches; a second run chooses the triggers.

mod build;
mod choose;
mod count;
mod exact;
mod root;
#[cfg(target_arch = "x86_64")]
mod user;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use warmset_platform::opens::FileId;

use crate::profile::{Profile, Recorder, Trigger};
use crate::trace::Trace;

/// The monotonic clock, which the kernel's events have, too.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What a recorder saw of one run.
#[derive(Debug)]
pub(crate) struct Recording {
    recorder: Recorder,
    trace: Trace,
    paths: HashMap<FileId, PathBuf>,
    /// When each of the instructions that were asked for was executed, since the start of the run.
    executed_us: HashMap<Trigger, Vec<u64>>,
    status: ExitStatus,
    seconds: f64,
    lost: u64,
}

/// A profile, and what is missing in it.
#[derive(Debug)]
pub struct Learned {
    /// The profile.
    pub profile: Profile,
    /// Whether this run chose the triggers of a profile that was there before.
    pub validated: bool,
    /// How the run ended.
    pub status: ExitStatus,
    /// Events that were lost.
    pub lost: u64,
    /// Files that were touched and whose path is not known.
    pub unknown_files: usize,
    /// Why the kernel's tracepoints were not used, if they were wanted.
    pub no_tracepoints: Option<String>,
}

impl Learned {
    /// Whether the run was a whole one: it succeeded, or was asked to end, as by ctrl-C. Shells, the JVM and others then
    /// return 128 and the signal's number.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let by = |signal: Signal| self.status.signal() == Some(signal.as_raw());
        let says = |signal: Signal| self.status.code() == Some(128 + signal.as_raw());
        let asked = [Signal::INT, Signal::TERM].into_iter().any(|signal| by(signal) || says(signal));
        self.status.success() || asked || by(Signal::HUP)
    }
}

/// A program with its arguments, as it is started.
#[derive(Debug, Clone, Copy)]
pub struct Invocation<'a> {
    /// Its absolute path, by which profiles are kept.
    pub program: &'a Path,
    /// The path that is executed, which scripts are told: it may be relative.
    pub file: &'a Path,
    /// The name that it is told, and its arguments.
    pub words: &'a [OsString],
}

/// How a program is recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Record as any user can.
    pub user: bool,
    /// Run the program once more, evicted and without read-ahead, and keep only the pages that it touches.
    pub exact: bool,
    /// The profile is for all arguments that match, not for exactly these words.
    pub is_pattern: bool,
    /// Fetch in the order of the disk, whether or not it is found to have moving heads.
    pub disk_order: bool,
}

/// Runs the program to its end, and makes a profile for the arguments that match `pattern`. If there is one already whose
/// bursts have candidates, the run chooses among these, unless other options are asked for than it was recorded with: then
/// it is recorded again. A warm run is as good as a cold one: a new process has to map and read its pages again.
///
/// # Errors
/// The kernel's; `NotFound` if there is no such program.
pub fn learn(
    command: Invocation<'_>,
    pattern: Vec<String>,
    before: Option<Profile>,
    options: Options,
) -> io::Result<Learned> {
    let asked_for =
        |profile: &Profile| (profile.exact || !options.exact) && (profile.disk_order || !options.disk_order);
    let before =
        before.filter(|profile| choose::is_open(profile) && profile.stale_bytes() == 0 && asked_for(profile));
    let instructions = before.as_ref().map(choose::instructions).unwrap_or_default();
    let (recording, no_tracepoints) = match root_recording(command, &instructions, options)? {
        Ok(recording) => (recording, None),
        Err(reason) => (user_recording(command, &instructions)?, reason),
    };
    if let Some(profile) = before {
        let profile = choose::choose(profile, &recording);
        let Recording { status, lost, .. } = recording;
        return Ok(Learned { profile, validated: true, status, lost, unknown_files: 0, no_tracepoints });
    }
    let mut learned = build::profile(command.program.to_owned(), pattern, recording);
    learned.no_tracepoints = no_tracepoints;
    if options.exact && learned.is_whole() {
        learned = exactly(learned, command)?;
    }
    learned.profile.is_pattern = options.is_pattern;
    if options.disk_order {
        learned.profile.disk_order = true;
        build::locate(&mut learned.profile.files, &mut learned.profile.reads, true);
    }
    Ok(learned)
}

/// A cold run shows single pages, where a warm one shows windows, or nothing at all of a file in huge pages.
fn exactly(learned: Learned, command: Invocation<'_>) -> io::Result<Learned> {
    let evicted = exact::evict(&learned.profile)?;
    let again = match root::record(command, &[]) {
        Ok(recording) => {
            build::profile(command.program.to_owned(), learned.profile.arguments.clone(), recording)
        }
        Err(root::Failure::Watching(error) | root::Failure::Running(error)) => return Err(error),
    };
    if !again.is_whole() {
        return Ok(again);
    }
    let mut profile = evicted.refine(again.profile)?;
    // The slow run's pauses are the same, but not its duration.
    profile.seconds = learned.profile.seconds;
    profile.exact = true;
    Ok(Learned { profile, ..again })
}

/// The inner error, with its reason if there is one, where a user wants, or needs, the other recorder.
fn root_recording(
    command: Invocation<'_>,
    instructions: &[Trigger],
    options: Options,
) -> io::Result<Result<Recording, Option<String>>> {
    if options.user {
        return Ok(Err(None));
    }
    match root::record(command, instructions) {
        Ok(recording) => Ok(Ok(recording)),
        // Both are asked for before the program is started.
        Err(root::Failure::Watching(error)) if !options.exact => Ok(Err(Some(error.to_string()))),
        Err(root::Failure::Watching(error) | root::Failure::Running(error)) => Err(error),
    }
}

#[cfg(target_arch = "x86_64")]
fn user_recording(command: Invocation<'_>, instructions: &[Trigger]) -> io::Result<Recording> {
    user::record(command, instructions)
}

#[cfg(not(target_arch = "x86_64"))]
fn user_recording(_: Invocation<'_>, _: &[Trigger]) -> io::Result<Recording> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "recording without root works on x86-64 only: use sudo"))
}
