//! `warmset run`: starts a program while its profile is fetched.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use warmset_platform::detach::detached;
use warmset_prefetch::{Choice, Profile, Store, StoreError, is_resident, replay, replay_at_once};

use super::{NOT_FOUND, found, not_found};
use crate::args::{RunArgs, TriggerKind};

/// Does `warmset run [--] CMD` without the parser of arguments, which takes a millisecond. Anything else is left to it.
pub fn run_early() -> Option<ExitCode> {
    let mut words = env::args_os().skip(1);
    if words.next()? != "run" {
        return None;
    }
    let words: Vec<String> = words.map(OsString::into_string).collect::<Result<_, _>>().ok()?;
    let command = match words.as_slice() {
        [dashes, command @ ..] if dashes == "--" => command,
        command if command.first().is_some_and(|word| !word.starts_with('-')) => command,
        _ => return None,
    };
    if command.is_empty() {
        return None;
    }
    run_command(command, Choice::Chosen).ok()
}

/// Starts a program while its profile is fetched. Returns only if the program could not be started.
pub fn run(wanted: &RunArgs) -> io::Result<ExitCode> {
    let choice = match wanted.trigger {
        None => Choice::Chosen,
        Some(TriggerKind::Launch) => Choice::Launch,
        Some(TriggerKind::File) => Choice::File,
        Some(TriggerKind::Instruction) => Choice::Instruction,
    };
    run_command(&wanted.command, choice)
}

fn run_command(command: &[String], choice: Choice) -> io::Result<ExitCode> {
    let Some(program) = found(&command[0]) else { return Ok(not_found(&command[0])) };
    let process = std::process::id();
    let profile = Store::of_user().and_then(|store| store.find(&program, &command[1..]));
    let started = match profile {
        // A process beside the program is started only where it has enough to do.
        Ok(profile) if is_resident(&profile) || replay_at_once(&profile, choice) => Ok(()),
        Ok(profile) => start(profile, process, choice).map_err(|error| error.to_string()),
        Err(StoreError::Missing(_)) => {
            let line = command.join(" ");
            let _ = writeln!(io::stderr(), "warmset: no profile yet; to record one: warmset learn -- {line}");
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    };
    if let Err(reason) = started {
        let _ = writeln!(io::stderr(), "warmset: {} runs without prefetching: {reason}", command[0]);
    }
    let error = Command::new(&program).arg0(&command[0]).args(&command[1..]).exec();
    writeln!(io::stderr(), "warmset: cannot start {}: {error}", program.display())?;
    Ok(ExitCode::from(NOT_FOUND - 1))
}

fn start(profile: Profile, process: u32, choice: Choice) -> io::Result<()> {
    detached(move || replay(&profile, process, choice))
}
