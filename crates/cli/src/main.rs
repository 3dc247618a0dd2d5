//! The `warmset` command.
//!
//! Data goes to stdout, messages to stderr. Exit codes: 0 all well, 1 the machine has findings, 2 the call or its
//! execution failed; `warmset tier` has more.

mod args;
mod command;
mod direct;
mod doctor;
mod generate;
mod prefetch;
mod progress;
mod sim;
mod store;
mod terminal;
mod tier;
mod top;

use std::io::{self, Write};
use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser;

fn main() -> ExitCode {
    // A program that is started waits for nothing that it does not need.
    if let Some(code) = prefetch::run_early() {
        return code;
    }
    let done = direct::run_early().unwrap_or_else(run);
    match done {
        Ok(code) => code,
        // The reader has seen enough: `warmset doctor | head` is no error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "warmset: {error}");
            ExitCode::from(2)
        }
    }
}

/// Does what the command line says.
fn run() -> io::Result<ExitCode> {
    let args = Args::parse();
    match args.command {
        Command::Doctor(wanted) => doctor::run(&wanted),
        Command::Learn(wanted) => prefetch::learn(&wanted),
        Command::Run(wanted) => prefetch::run(&wanted),
        Command::Profile { what } => prefetch::profile(&what),
        Command::Direct { what } => direct::run(&what),
        Command::Store { what } => store::run(&what),
        Command::Sim(wanted) => sim::run(&wanted),
        Command::Tier(wanted) => tier::run(&wanted),
        Command::Top(wanted) => top::run(&wanted),
        Command::Generate { what } => generate::run(what).map(|()| ExitCode::SUCCESS),
    }
}
