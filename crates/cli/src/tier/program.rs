//! A program that `warmset tier` starts.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{Child, ExitCode};

use rustix::process::{Pid, Signal, kill_process};

use crate::command::Command;
use crate::prefetch::code_of;

/// A program that runs beside this command.
#[derive(Debug)]
pub struct Program {
    child: Child,
}

impl Program {
    /// Starts it; an exit code if it cannot be.
    pub fn start(command: &[OsString]) -> io::Result<Result<Self, ExitCode>> {
        let command = match Command::find(command) {
            Ok(command) => command,
            Err(code) => return Ok(Err(code)),
        };
        let started = command.start().spawn();
        Ok(started.map(|child| Self { child }).map_err(|error| command.failed(&error)))
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end.
    pub fn terminate(&mut self) {
        if !self.has_ended() {
            if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
    }

    /// Waits for its end and takes over its exit code.
    pub fn finish(&mut self, unmanaged: bool) -> io::Result<ExitCode> {
        if unmanaged && !self.has_ended() {
            writeln!(io::stderr(), "warmset: the program runs on without tiering")?;
        }
        Ok(code_of(self.child.wait()?))
    }
}
