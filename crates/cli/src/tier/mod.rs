//! `warmset tier`: places the memory of a running process by measured latency.

mod args;
mod live;
mod program;
mod view;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use warmset_platform::damon::DamonError;
use warmset_platform::status::{Published, publish};
use warmset_platform::sysinfo::Root;
use warmset_tiering::latency::{CounterSource, LoadSource, ProbeSource, ScriptedSource};
use warmset_tiering::mover::KernelMover;
use warmset_tiering::tracker::{DamonTracker, LoadTracker, ScriptedTracker};
use warmset_tiering::{
    Daemon, Error, LatencySource, Managed, Report, Settings, Target, Topology, Tracker, prometheus,
};

pub use args::TierArgs;
use args::{LatencyKind, TrackerKind};
use program::Program;
use view::View;

/// Exit codes beside 0: what is wrong is the call, this machine, a permission, or something that stopped on the way.
const CALL: u8 = 2;
const MACHINE: u8 = 3;
const PERMISSION: u8 = 4;
const STOPPED: u8 = 5;

/// Manages a process until it or this command is ended.
pub fn run(wanted: &TierArgs) -> io::Result<ExitCode> {
    let mut program = None;
    let pid = match wanted.pid {
        Some(pid) => pid,
        None => match Program::start(&wanted.command)? {
            Ok(started) => program.insert(started).pid(),
            Err(code) => return Ok(code),
        },
    };
    let outcome = stop_flag(program.is_some())
        .map_err(Failure::Io)
        .and_then(|stop| manage(wanted, pid, program.as_mut(), &stop));
    let code = match outcome {
        Ok(()) => 0,
        // It ended before it could be looked at: there is nothing to be said.
        Err(Failure::Tier(Error::NoProcess(_))) if program.as_mut().is_some_and(Program::has_ended) => 0,
        Err(Failure::Tier(error)) => {
            writeln!(io::stderr(), "warmset: {error}")?;
            code(&error)
        }
        Err(Failure::Io(error)) if program.is_none() => return Err(error),
        Err(Failure::Io(error)) => {
            writeln!(io::stderr(), "warmset: {error}")?;
            CALL
        }
    };
    // A program that was started here runs on to its end, with or without our help.
    match program {
        Some(mut program) => program.finish(code != 0),
        None => Ok(ExitCode::from(code)),
    }
}

enum Failure {
    Tier(Error),
    Io(io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Tier(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Io(error)
    }
}

fn code(error: &Error) -> u8 {
    match error {
        Error::NoLoads(error) if error.kind() == io::ErrorKind::PermissionDenied => PERMISSION,
        Error::OneNode(_) | Error::Confined { .. } | Error::NoLatency(_) | Error::NoLoads(_) => MACHINE,
        Error::Damon(DamonError::Denied { .. }) | Error::OtherUser { .. } | Error::MayNotMove { .. } => {
            PERMISSION
        }
        Error::Damon(_) => MACHINE,
        Error::NodesGone(_) | Error::TrackerStopped { .. } => STOPPED,
        _ => CALL,
    }
}

/// Set by a signal that asks to end. Ctrl-C reaches a program of this terminal by itself, which may well go on.
fn stop_flag(has_program: bool) -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let interrupt = if has_program { Arc::default() } else { Arc::clone(&stop) };
    signal_hook::flag::register(SIGINT, interrupt)?;
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn manage(
    wanted: &TierArgs,
    pid: u32,
    mut program: Option<&mut Program>,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let interval = Duration::from_millis(wanted.interval);
    let mut daemon = daemon(wanted, pid, interval)?;
    let mut view = View::new(wanted, &daemon)?;
    let shown = Shown::new(wanted);
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let report = daemon.step()?;
        view.show(&daemon, &report)?;
        shown.set(&daemon, &report);
        if let Some(path) = &wanted.metrics {
            let managed = Managed { pid, counters: daemon.counters(), last: &report };
            replace(path, &prometheus(&[managed]))?;
        }
        if wanted.once || view.is_left() {
            break;
        }
        daemon.target().wait(interval.saturating_sub(begin.elapsed()));
        if program.as_mut().is_some_and(|program| program.has_ended()) || !daemon.target().runs() {
            break;
        }
    }
    view.end(&daemon)?;
    // A signal to this command alone is handed on.
    if let Some(program) = program.filter(|_| stop.load(Ordering::Relaxed)) {
        program.terminate();
    }
    Ok(())
}

/// What `warmset top` shows of this process.
struct Shown {
    status: Arc<Mutex<Option<String>>>,
    policy: String,
    dry_run: bool,
    _published: Published,
}

impl Shown {
    fn new(wanted: &TierArgs) -> Self {
        let status = Arc::new(Mutex::new(None));
        let source = Arc::clone(&status);
        let published = publish(move || source.lock().unwrap_or_else(PoisonError::into_inner).clone());
        Self { status, policy: wanted.policy.clone(), dry_run: wanted.dry_run, _published: published }
    }

    fn set(&self, daemon: &Daemon, report: &Report) {
        // Moves may be many, and are in the log.
        let last = Report { moves: Vec::new(), ..report.clone() };
        let (target, (tracker, latency)) = (daemon.target(), daemon.sources());
        let status = json!({
            "kind": "tier", "target_pid": target.pid(), "target_name": target.name(), "policy": self.policy,
            "dry_run": self.dry_run, "tracker": tracker, "latency": latency, "counters": daemon.counters(), "last": last,
        });
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status.to_string());
    }
}

fn daemon(wanted: &TierArgs, pid: u32, interval: Duration) -> Result<Daemon, Failure> {
    let root = Root::live();
    let target = Target::new(pid)?;
    let topology = Topology::read(&root, pid, wanted.dry_run)?;
    let settings = Settings {
        policy: wanted.policy.clone(),
        dry_run: wanted.dry_run,
        limit_bytes_per_s: wanted.limit.saturating_mul(1_000_000),
        interval,
    };
    settings.check(topology.tiers.len())?;
    let latency = latency(wanted, &root, &topology)?;
    // The clap definition asks for the file where this is scripted.
    let tracker: Box<dyn Tracker> = match (&wanted.tracker, &wanted.accesses) {
        (TrackerKind::Scripted, Some(path)) => Box::new(ScriptedTracker::open(path)?),
        (TrackerKind::Loads, _) => Box::new(LoadTracker::start(&root, pid).map_err(Error::NoLoads)?),
        _ => Box::new(DamonTracker::start(pid, interval).map_err(Error::from)?),
    };
    let mover = Box::new(KernelMover::default());
    Ok(Daemon::new(root, settings, target, topology, tracker, latency, mover)?)
}

fn latency(wanted: &TierArgs, root: &Root, topology: &Topology) -> Result<Box<dyn LatencySource>, Failure> {
    let probe = || ProbeSource::new(root, topology);
    Ok(match (wanted.latency, &wanted.script) {
        (LatencyKind::Scripted, Some(path)) => Box::new(ScriptedSource::open(path)?),
        (LatencyKind::Loads, _) if wanted.tracker != TrackerKind::Loads => {
            return Err(Error::LatencyOfLoads.into());
        }
        (LatencyKind::Loads, _) => Box::new(LoadSource::new(root, topology)?),
        (LatencyKind::Counters, _) => Box::new(CounterSource::open(root, topology)?),
        (LatencyKind::Auto, _) => match CounterSource::open(root, topology) {
            Ok(counters) => Box::new(counters),
            Err(_) => Box::new(probe()?),
        },
        _ => Box::new(probe()?),
    })
}

/// A reader never sees half of the file.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let aside = path.with_file_name(name);
    fs::write(&aside, text)
        .and_then(|()| fs::rename(&aside, path))
        .map_err(|error| io::Error::new(error.kind(), format!("--metrics {}: {error}", path.display())))
}
