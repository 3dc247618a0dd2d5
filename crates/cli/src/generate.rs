//! Man pages and shell completions, made from the same table as the command line itself.

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory;

use crate::args::{Args, Generated};

/// Writes what was asked for.
pub fn run(what: Generated) -> io::Result<()> {
    match what {
        Generated::Man { dir } => man(&dir),
        Generated::Completions { shell } => {
            clap_complete::generate(shell, &mut Args::command(), "warmset", &mut io::stdout());
            Ok(())
        }
    }
}

fn man(dir: &Path) -> io::Result<()> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", dir.display()));
    fs::create_dir_all(dir).map_err(named)?;
    clap_mangen::generate_to(Args::command(), dir).map_err(named)
}
