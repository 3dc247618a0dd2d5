//! Commands that are started: from the words of the command line to the program that they name, and back to a line that a
//! shell reads.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use warmset_platform::signals::pass_on;
use warmset_prefetch::{Invocation, Profile};

/// What a shell returns for a program that is not found, and for one that it cannot execute.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTED: u8 = 126;
/// Where the C library looks if there is no PATH.
const PATH: &str = "/bin:/usr/bin";

/// A command whose program was found.
#[derive(Debug)]
pub struct Command<'a> {
    /// The absolute path.
    pub program: PathBuf,
    file: PathBuf,
    words: &'a [OsString],
}

impl<'a> Command<'a> {
    /// The program as the shell would find it. If there is none, says so, and returns what a shell would.
    pub fn find(words: &'a [OsString]) -> Result<Self, ExitCode> {
        let name = &words[0];
        let file = if name.as_bytes().contains(&b'/') {
            let path = PathBuf::from(name);
            runs(&path).map(|()| path)
        } else {
            on_path(name)
        };
        let found = file.and_then(|file| Ok((std::path::absolute(&file)?, file)));
        found.map(|(program, file)| Self { program, file, words }).map_err(|error| {
            let name = printable(Path::new(name));
            let (reason, code) = match error.kind() {
                io::ErrorKind::NotFound => ("there is no such program", NOT_FOUND),
                io::ErrorKind::IsADirectory => ("is a directory", NOT_EXECUTED),
                _ => ("there is no permission to execute it", NOT_EXECUTED),
            };
            let _ = writeln!(io::stderr(), "warmset: {name}: {reason}");
            ExitCode::from(code)
        })
    }

    /// Starts it as a shell would, with the signals that this process was started with.
    pub fn start(&self) -> process::Command {
        let mut command = process::Command::new(&self.file);
        pass_on(command.arg0(&self.words[0]).args(&self.words[1..]));
        command
    }

    /// Says why it could not be started, and returns what a shell would.
    pub fn failed(&self, error: &io::Error) -> ExitCode {
        let _ = writeln!(io::stderr(), "warmset: cannot start {}: {error}", printable(&self.program));
        ExitCode::from(NOT_EXECUTED)
    }

    /// How a recorder starts it.
    pub fn invocation(&self) -> Invocation<'_> {
        Invocation { program: &self.program, file: &self.file, words: self.words }
    }

    /// Its arguments as a profile keeps them; other bytes than UTF-8 have a stand-in there.
    pub fn arguments(&self) -> Vec<String> {
        self.words[1..].iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// The line that starts it, for a shell.
    pub fn line(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|word| quoted(&word.to_string_lossy())).collect();
        words.join(" ")
    }
}

/// Why a file cannot be executed, if it cannot.
fn runs(path: &Path) -> io::Result<()> {
    if path.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)?)
}

/// The first file of this name that can be executed; else why the last one cannot, as the C library has it.
fn on_path(name: &OsStr) -> io::Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_else(|| PATH.into());
    let mut refused = io::ErrorKind::NotFound;
    for directory in env::split_paths(&path) {
        // To the byte, since a script sees it.
        let mut file = directory.into_os_string();
        file.push(if file.is_empty() { "" } else { "/" });
        file.push(name);
        let file = PathBuf::from(file);
        match runs(&file) {
            Ok(()) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => refused = error.kind(),
            Err(_) => {}
        }
    }
    Err(refused.into())
}

/// A program and its arguments or their pattern.
pub fn line(profile: &Profile) -> String {
    let words = profile.arguments.iter().map(|word| quoted(word));
    let program = quoted(&profile.program.to_string_lossy());
    [program].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// A word for a shell, on one line and without anything that a terminal would obey.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "%+,-./:=@_".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if !word.contains(char::is_control) {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    let mut text = "$'".to_owned();
    for letter in word.chars() {
        match letter {
            '\'' | '\\' => text.extend(['\\', letter]),
            letter if letter.is_control() => {
                let _ = write!(text, "\\u{:04x}", u32::from(letter));
            }
            letter => text.push(letter),
        }
    }
    text + "'"
}

/// A path in a sentence: nothing in it moves the cursor, ends the line, or turns the order of what is beside it round.
pub fn printable(path: &Path) -> String {
    let moves = |letter: char| {
        let turns =
            matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || letter.is_control()
    };
    let escaped = |letter: char| moves(letter).then(|| letter.escape_default().to_string());
    path.to_string_lossy()
        .chars()
        .map(|letter| escaped(letter).unwrap_or_else(|| letter.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_words_back() {
        let words =
            ["", "a b", "it's", "$HOME;", "plain-1.0/x", "*", "line\nand\ttab \\ 'q'", "\u{1b}[31m", "ä"];
        let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        assert!(!line.concat().contains(char::is_control), "{line:?}");
        let script = format!("printf '%s\\0' {}", line.join(" "));
        let found = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        assert_eq!(found.split_terminator('\0').collect::<Vec<_>>(), words);
        assert_eq!(quoted("plain-1.0/x"), "plain-1.0/x");
    }

    #[test]
    fn a_path_is_shown_on_one_line() {
        assert_eq!(printable(Path::new("/a b/\u{1b}]0;x\u{7}\n")), "/a b/\\u{1b}]0;x\\u{7}\\n");
        assert_eq!(printable(Path::new("a\u{202e}cb\u{2066}ä")), "a\\u{202e}cb\\u{2066}ä");
    }
}
