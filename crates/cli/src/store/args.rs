//! The options of `warmset store`.

use std::path::PathBuf;

use clap::Subcommand;

/// What `warmset store` can do.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// List tables and arrays: kind, rows, columns or shape, bytes, and when they were written
    ///
    /// Exit code 1 if a file could not be read; the message says which, and why.
    Ls {
        /// The store's directory
        dir: PathBuf,
        /// Only this table or array
        name: Option<String>,
        /// Write JSON (schema 1)
        #[arg(long)]
        json: bool,
    },
    /// Compare all bytes with their checksums
    ///
    /// One line for each name on stdout, and one for each damaged part: its file, offset and length in bytes. Exit code 1
    /// if anything is damaged.
    Verify {
        /// The store's directory
        dir: PathBuf,
        /// Only this table or array
        name: Option<String>,
        /// Write JSON (schema 1)
        #[arg(long)]
        json: bool,
    },
    /// Remove tables and arrays, without asking
    ///
    /// Says on stderr what goes. A program that has one open can read it to the end; the disk space is free then. Nothing
    /// is removed if one of the names is not there, or while another process writes to the store.
    Rm {
        /// The store's directory
        dir: PathBuf,
        /// Their names
        #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "NAME")]
        names: Vec<String>,
        /// Remove all that the store has
        #[arg(long)]
        all: bool,
    },
}
