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

use std::io;
use std::process::ExitCode;

pub use args::DirectCommand;

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
