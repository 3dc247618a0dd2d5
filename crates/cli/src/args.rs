//! The command line, from which help, man pages and completions are made as well.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::direct::DirectCommand;
use crate::store::StoreCommand;
use crate::tier::TierArgs;
use crate::top::TopArgs;

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
    /// Report what this machine offers, and what to change
    ///
    /// One line per finding on stdout: its state (ok, warn, bad), its value, and what it means. Exit code 0 if all
    /// is ok, 1 if there is a warning or something bad, 2 if the report could not be made.
    Doctor(DoctorArgs),
    /// Record what a program reads, for `warmset run`
    ///
    /// Runs the program once, to its end or until it is asked to end, as by ctrl-C, and writes a profile. The files may be
    /// in the page cache already. As root, the kernel's page-cache tracepoints and fanotify show what is read; for other
    /// users, ptrace does. If the program reads in several bursts, a second `learn` chooses what starts the fetching of
    /// each. The exit code is the program's.
    Learn(LearnArgs),
    /// Start a program while its files are prefetched
    ///
    /// A process of its own asks the kernel for the recorded ranges; the program takes this command's place, so that
    /// signals, terminal, environment and exit code are its own. If anything fails, it runs as without this command.
    Run(RunArgs),
    /// List, show, check or remove profiles
    Profile {
        /// What to do.
        #[command(subcommand)]
        what: ProfileCommand,
    },
    /// Read and write memory files without system calls
    ///
    /// Directories on memory, one for each NUMA node, whose files programs read and write by copying. The kernel keeps
    /// names, sizes and permissions, and every other program sees the same files.
    Direct {
        /// What to do.
        #[command(subcommand)]
        what: DirectCommand,
    },
    /// List, verify or remove the tables and arrays of a store
    ///
    /// A store is a directory that `warmset.Store` of the Python package writes. No memory is taken for it, and nobody who
    /// uses it has to stop.
    Store {
        /// What to do.
        #[command(subcommand)]
        what: StoreCommand,
    },
    /// Show the stores, tiering and prefetching of the programs on this machine
    ///
    /// Programs that cache with Warmset publish what they do once a second, in a file that only their user can read: root
    /// sees all users' programs, and others their own. Keys: s sorts by the next figure, r turns the order round, / filters,
    /// the arrows select the store whose regions are shown, q ends.
    Top(TopArgs),
    /// Write the man pages or the shell completions
    Generate {
        /// What to write.
        #[command(subcommand)]
        what: Generated,
    },
    /// Simulate placement policies on tiered memory
    ///
    /// Without a scenario: runs the published experiments and writes the tables beside the published figures. With one: runs
    /// policies on it side by side. Every figure is simulated; none is measured on this machine. Exit code 2 if the
    /// scenario is wrong or cannot be read.
    Sim(SimArgs),
    /// Place the memory of a running process on NUMA nodes by measured latency
    ///
    /// Manages process N, or starts CMD and manages it, until it ends or this command is interrupted. Needs root, and at
    /// least two nodes with memory. Exit code 0 when it was ended in order, 2 if the call is wrong (no such process, a
    /// kernel thread), 3 if this machine cannot do it (one node, no DAMON), 4 if a permission is missing, 5 if something
    /// stopped on the way (tracker, nodes). With CMD it is the program's: CMD runs on without tiering if need be.
    Tier(TierArgs),
}

/// The options of `warmset sim`.
#[derive(Debug, ClapArgs)]
pub struct SimArgs {
    /// A scenario file (TOML), or the name of one that ships with Warmset
    pub scenario: Option<String>,
    /// The policies to run on the scenario, by commas; by default all but `equal`, which is what `warmset tier` uses
    #[arg(long, value_name = "POLICIES", value_delimiter = ',', requires = "scenario")]
    pub compare: Vec<String>,
    /// List the scenarios that ship with Warmset
    #[arg(long, conflicts_with = "scenario")]
    pub list: bool,
    /// Write a scenario that ships with Warmset, to begin your own with
    #[arg(long, requires = "scenario", conflicts_with_all = ["compare", "json", "svg"])]
    pub show: bool,
    /// Write JSON (schema 2)
    #[arg(long)]
    pub json: bool,
    /// Draw charts into a directory, which is created if it is missing
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// The seed of the samples; the same seed gives the same figures [default: the scenario's, or 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Run on this many cores; the figures do not depend on it [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Without a scenario: also run `warm` and the others on the scenarios that it was not tuned on
    #[arg(long, conflicts_with = "scenario")]
    pub held_out: bool,
}

/// The options of `warmset learn`.
#[derive(Debug, ClapArgs)]
pub struct LearnArgs {
    /// Make the profile for all arguments that match: `*` stands for any characters, the word `**` for any arguments
    #[arg(long = "match", value_name = "PATTERN", allow_hyphen_values = true)]
    pub pattern: Option<String>,
    /// Keep only the pages that the program touches, not the windows that the kernel maps around them
    ///
    /// Needs root. The program runs twice, the second time with its files evicted from the page cache and its disks'
    /// read-ahead off, which makes that run slow.
    #[arg(long, conflicts_with = "user")]
    pub exact: bool,
    /// Fetch in the order in which the files are on the disk
    ///
    /// This is chosen by itself for a disk that says it is rotational and takes milliseconds to reach a page.
    #[arg(long)]
    pub disk_order: bool,
    /// Record with ptrace, as any user can
    #[arg(long)]
    pub user: bool,
    /// The program, found on the PATH, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// The options of `warmset run`.
#[derive(Debug, ClapArgs)]
pub struct RunArgs {
    /// What starts the fetching of the later bursts, instead of what was chosen for each
    #[arg(long, value_enum)]
    pub trigger: Option<TriggerKind>,
    /// Tell which triggers are watched, in which way, and when they fire
    ///
    /// The lines come while the program runs. Who reads the program's standard error until its end waits for the process
    /// that fetches, too.
    #[arg(long, short)]
    pub verbose: bool,
    /// The program, found on the PATH, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// A kind of trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TriggerKind {
    /// The program's start
    Launch,
    /// A file is opened
    File,
    /// An instruction is executed
    Instruction,
}

/// What `warmset profile` can do.
#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// List all profiles
    List {
        /// Write JSON (schema 1)
        #[arg(long)]
        json: bool,
    },
    /// Show when a program reads how much
    Show {
        /// The profile's name, from `warmset profile list`; its program's will do if that has only one profile
        name: String,
        /// Write JSON (schema 2)
        #[arg(long)]
        json: bool,
        /// Write a drawing
        #[arg(long, value_name = "FILE", conflicts_with = "json")]
        svg: Option<PathBuf>,
    },
    /// Check that the profiles' files have not changed: exit code 1 if more than 10 % of a profile's bytes have
    Check,
    /// Remove profiles
    Rm {
        /// Their names, as for `warmset profile show`
        #[arg(required = true)]
        names: Vec<String>,
    },
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
