//! The command line, from which help, man pages and completions are made as well.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Keeps data that outgrows DRAM at memory speed
#[derive(Debug, Parser)]
#[command(name = "warmset", version, propagate_version = true)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What `warmset` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Report what this machine offers, and what follows from it
    ///
    /// One line per finding on stdout: its state (ok, warn, bad), its value, and what follows from it. Exit code 0 if all
    /// is ok, 1 if there is a warning or something bad, 2 if the report could not be made.
    Doctor(DoctorArgs),
    /// Write the man pages or the shell completions
    Generate {
        /// What to write.
        #[command(subcommand)]
        what: Generated,
    },
    /// Simulate the published experiments with tiered memory
    ///
    /// Runs each placement policy on a model of the published machine and writes the table beside the published
    /// figures. Every figure is simulated; none is measured on this machine.
    Sim(SimArgs),
}

/// The options of `warmset sim`.
#[derive(Debug, ClapArgs)]
pub struct SimArgs {
    /// Write the tables as JSON (schema 1)
    #[arg(long)]
    pub json: bool,
    /// The seed of the samples; the same seed gives the same figures
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// The options of `warmset doctor`.
#[derive(Debug, ClapArgs)]
pub struct DoctorArgs {
    /// Write the report as JSON (schema 1)
    #[arg(long)]
    pub json: bool,
    /// The directory whose disk is looked at and measured; by default the current one
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Do not measure the disk's speed (which takes two seconds and up to 1 GiB of free space)
    #[arg(long)]
    pub no_measure: bool,
    /// Colour the human view
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Colour::Auto)]
    pub color: Colour,
}

/// When to write in colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What `warmset generate` can write.
#[derive(Debug, Subcommand)]
pub enum Generated {
    /// Write one man page per command into a directory
    Man {
        /// The directory; created if it is missing.
        dir: PathBuf,
    },
    /// Write the completions of a shell to stdout
    Completions {
        /// The shell.
        shell: Shell,
    },
}
