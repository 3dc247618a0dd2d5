//! `warmset doctor`: what this machine offers, and what to change.
//!
//! Facts come from `warmset_platform::sysinfo`; the modules here judge them, each a pure function from facts to findings.
//! It changes nothing on the machine: the disk is measured on an unnamed file.

mod finding;
mod kernel;
mod memory;
mod pages;
mod permissions;
mod storage;
mod view;

use std::io;
use std::process::ExitCode;

use warmset_platform::sysinfo::{Root, uring};

use crate::args::DoctorArgs;
use finding::{Finding, State};

/// Makes the report and writes it to stdout.
pub fn run(args: &DoctorArgs) -> io::Result<ExitCode> {
    let findings = examine(&Root::live(), args)?;
    let out = io::stdout().lock();
    if args.json {
        view::json(out, &findings)?
    } else {
        view::human(out, &findings, args.color)?
    }
    let all_ok = findings.iter().all(|finding| finding.state == State::Ok);
    Ok(if all_ok { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn examine(root: &Root, args: &DoctorArgs) -> io::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    findings.extend(kernel::findings(root));
    findings.push(kernel::io_uring(&uring::probe(), root));
    findings.extend(pages::findings(root));
    findings.extend(memory::findings(root));
    findings.extend(memory::nodes(root));
    findings.extend(storage::findings(root, args)?);
    findings.extend(permissions::findings(root));
    Ok(findings)
}
