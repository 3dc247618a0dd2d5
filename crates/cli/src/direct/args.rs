//! What `warmset direct` can do.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::size::parse_size;

/// The commands of `warmset direct`.
#[derive(Debug, Subcommand)]
pub enum DirectCommand {
    /// Make the directories
    ///
    /// As root: a tmpfs for each NUMA node below /mnt/warmset/direct, bound to that node's memory, which all users may
    /// use. As another user: one directory in /dev/shm, for that user alone.
    Setup(SetupArgs),
    /// Show the directories, how full they are and where their memory is
    ///
    /// Exit code 1 if there are none.
    Status {
        /// Write JSON (schema 1)
        #[arg(long)]
        json: bool,
    },
    /// Remove the directories and all files in them
    ///
    /// Refused while a process uses one of the files, or works in one of the directories; the processes are named.
    Teardown,
    /// Start a program that reads and writes these directories without system calls
    ///
    /// The program takes this command's place. All that it starts inherits the library. A program that is statically
    /// linked, or written in Go, runs as without it, and a line on stderr says so. Exit code 126 if the program cannot
    /// be started, 127 if there is none of that name.
    Run(RunArgs),
    /// Write files to stdout, read around the page cache
    Cat {
        /// The files, in order
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Copy a file, read and written around the page cache
    ///
    /// For moving large files between a disk and memory. The copy appears under its name when it is whole.
    Cp {
        /// The file to copy
        source: PathBuf,
        /// The copy, or the directory to put it in
        target: PathBuf,
    },
}

/// The options of `warmset direct setup`.
#[derive(Debug, Args)]
pub struct SetupArgs {
    /// The most that the directory of each node may hold, for example 8G; by default half of the node's memory
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// Put files on huge pages as far as their size fills them (huge=within_size)
    #[arg(long)]
    pub huge: bool,
    /// Write what was made as JSON (schema 1)
    #[arg(long)]
    pub json: bool,
}

/// The options of `warmset direct run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A directory that is served; may be given several times. By default all that `status` shows
    #[arg(long = "dir", value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// Keep modification times exact after each write; otherwise they are brought up to date at fsync and close
    #[arg(long)]
    pub strict: bool,
    /// When the program ends, append a line of JSON to this file: how many calls were served and passed on
    #[arg(long, value_name = "FILE")]
    pub stats: Option<PathBuf>,
    /// The program, found on the PATH, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}
