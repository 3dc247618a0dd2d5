//! `warmset direct`: memory files that programs read and write without system calls.
//!
//! This command makes the directories, starts programs with the library `libwarmset_direct.so` and moves files in and
//! out. What the library does to a program's calls is in the library.

mod args;
mod bulk;
mod launch;
mod places;
mod program;
mod size;
mod users;

use std::env;
use std::ffi::OsString;
use std::io;
use std::iter::once;
use std::process::ExitCode;

pub use args::DirectCommand;
use clap::Parser;

/// `warmset direct run`, alone.
#[derive(Debug, Parser)]
#[command(version)]
struct EarlyRun {
    #[command(flatten)]
    wanted: args::RunArgs,
}

/// `warmset direct run` before the whole command line is built, which would take longer than all that it does. None for
/// everything else, for help, and for what it does not understand.
pub fn run_early() -> Option<io::Result<ExitCode>> {
    let mut words = env::args_os().skip(1);
    if words.next()? != "direct" || words.next()? != "run" {
        return None;
    }
    let run = EarlyRun::try_parse_from(once(OsString::from("warmset direct run")).chain(words)).ok()?;
    Some(launch::run(&run.wanted))
}

/// Does what was asked for.
pub fn run(what: &DirectCommand) -> io::Result<ExitCode> {
    match what {
        DirectCommand::Setup(wanted) => places::setup(wanted),
        DirectCommand::Status { json } => places::status(*json),
        DirectCommand::Teardown => places::teardown(),
        DirectCommand::Run(wanted) => launch::run(wanted),
        DirectCommand::Cat { files } => bulk::cat(files),
        DirectCommand::Cp { source, target } => bulk::copy(source, target),
    }
}
