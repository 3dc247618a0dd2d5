//! `warmset run`: starts a program while its profile is fetched.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, ExitCode};
use std::time::Instant;

use warmset_platform::detach::{detached, detached_with};
use warmset_prefetch::{Choice, Profile, Store, StoreError, is_resident, replay, replay_at_once};

use super::STALE_SHARE_MAX;
use crate::args::{RunArgs, TriggerKind};
use crate::command::{Command, printable};

/// Does `warmset run [--] CMD` without the parser of arguments, which takes a millisecond. Anything else is left to it.
pub fn run_early() -> Option<ExitCode> {
    let mut words = env::args_os().skip(1);
    if words.next()? != "run" {
        return None;
    }
    let words: Vec<OsString> = words.collect();
    let command = match words.as_slice() {
        [dashes, command @ ..] if dashes == "--" => command,
        command if command.first().is_some_and(|word| !word.as_bytes().starts_with(b"-")) => command,
        _ => return None,
    };
    if command.is_empty() {
        return None;
    }
    run_command(command, Choice::Chosen, false).ok()
}

/// Starts a program while its profile is fetched. Returns only if the program could not be started.
pub fn run(wanted: &RunArgs) -> io::Result<ExitCode> {
    let choice = match wanted.trigger {
        None => Choice::Chosen,
        Some(TriggerKind::Launch) => Choice::Launch,
        Some(TriggerKind::File) => Choice::File,
        Some(TriggerKind::Instruction) => Choice::Instruction,
    };
    run_command(&wanted.command, choice, wanted.verbose)
}

fn run_command(command: &[OsString], choice: Choice, verbose: bool) -> io::Result<ExitCode> {
    let command = match Command::find(command) {
        Ok(command) => command,
        Err(code) => return Ok(code),
    };
    let profile = Store::of_user().and_then(|store| store.find(&command.program, &command.arguments()));
    let started = match profile {
        Ok(profile) => {
            // A process beside the program is started where it has enough to do, or is asked for.
            let wanted = choice != Choice::Chosen || verbose;
            let started = if !wanted && (is_resident(&profile) || replay_at_once(&profile)) {
                Ok(())
            } else {
                start(&profile, process::id(), choice, verbose).map_err(|error| error.to_string())
            };
            // After the start, so that fetching does not wait for it.
            advise(&profile, &command);
            started
        }
        Err(StoreError::Missing(_)) => {
            let line = command.line();
            let _ = writeln!(io::stderr(), "warmset: no profile yet; to record one: warmset learn -- {line}");
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    };
    if let Err(reason) = started {
        let name = printable(&command.program);
        let _ = writeln!(io::stderr(), "warmset: {name} runs without prefetching: {reason}");
    }
    let error = command.start().exec();
    Ok(command.failed(&error))
}

/// Says to learn again when too much of what was recorded has changed.
fn advise(profile: &Profile, command: &Command<'_>) {
    let changed = profile.changed_share(STALE_SHARE_MAX);
    if changed > STALE_SHARE_MAX {
        let (percent, line) = (changed * 100.0, command.line());
        let _ = writeln!(
            io::stderr(),
            "warmset: files with {percent:.0} % of the profile's bytes have changed; to record it again: warmset learn -- {line}"
        );
    }
}

/// Fetches in a process of its own. If that is to tell what it does, it keeps the standard error open until it ends.
fn start(profile: &Profile, process: u32, choice: Choice, verbose: bool) -> io::Result<()> {
    if !verbose {
        return detached(|| replay(profile, process, choice, &mut |_| {}));
    }
    let errors = io::stderr().as_fd().try_clone_to_owned()?;
    detached_with(errors, |errors| {
        let mut errors = File::from(errors);
        let started = Instant::now();
        replay(profile, process, choice, &mut |line| {
            let line = printable(Path::new(line));
            let line = format!("warmset: {} ms: {line}\n", started.elapsed().as_millis());
            let _ = errors.write_all(line.as_bytes());
        });
    })
}
