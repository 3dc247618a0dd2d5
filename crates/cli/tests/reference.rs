//! `docs/reference/command-line.md` is what the command says of itself; `make reference` writes it again.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

const PAGES: [&[&str]; 22] = [
    &["--help"],
    &["doctor", "--help"],
    &["learn", "--help"],
    &["run", "--help"],
    &["profile", "list", "--help"],
    &["profile", "show", "--help"],
    &["profile", "check", "--help"],
    &["profile", "rm", "--help"],
    &["direct", "setup", "--help"],
    &["direct", "status", "--help"],
    &["direct", "teardown", "--help"],
    &["direct", "run", "--help"],
    &["direct", "cat", "--help"],
    &["direct", "cp", "--help"],
    &["store", "ls", "--help"],
    &["store", "verify", "--help"],
    &["store", "rm", "--help"],
    &["top", "--help"],
    &["generate", "man", "--help"],
    &["generate", "completions", "--help"],
    &["sim", "--help"],
    &["tier", "--help"],
];

fn help(args: &[&str]) -> String {
    // The width of the help text follows the terminal; here it is fixed.
    let out = Command::new(env!("CARGO_BIN_EXE_warmset")).args(args).env("COLUMNS", "100").output().unwrap();
    assert!(out.status.success());
    String::from_utf8(out.stdout).unwrap()
}

fn rendered() -> String {
    let mut page = String::from(
        "# The `warmset` command\n\n\
         Written by `make reference` from the command itself. Data goes to stdout, messages to stderr.\n\n\
         | exit code | meaning |\n|---|---|\n\
         | 0 | done; for `doctor`: every finding is `ok` |\n\
         | 1 | `doctor` has a finding that is `warn` or `bad`; `profile check` found a profile to learn again; \
         `store verify` found damage; `store ls` found a file that it cannot read |\n\
         | 2 | the call was wrong, or it could not be carried out (the message says why) |\n\
         | 3, 4, 5 | of `tier`: [its reference](tier.md) has them |\n\n\
         `warmset learn`, `warmset run` and `warmset tier -- CMD` end with the exit code of the program; 127 says that\n\
         there is no such program, 126 that it cannot be executed.\n\n\
         `NO_COLOR` is respected. `warmset doctor --json` has a field `schema`, now 1, that is raised when a field is\n\
         renamed, removed, or changes its meaning; `data` within a finding belongs to the check.\n",
    );
    for args in PAGES {
        let name = args[..args.len() - 1].join(" ");
        let title = format!("warmset {name}");
        let text = help(args);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        write!(page, "\n## `{}`\n```\n{}\n```\n", title.trim_end(), lines.join("\n")).unwrap();
    }
    page
}

#[test]
fn the_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/command-line.md");
    let page = rendered();
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "docs/reference/command-line.md is not current: run `make reference`");
}
