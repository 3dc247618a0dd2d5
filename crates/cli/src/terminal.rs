//! What happens on a terminal that may be closed at any time.
//!
//! Invariant: `event::poll` is not called on a terminal that was closed: it would read its end again and again, and
//! never return (crossterm 0.28).

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// What happened.
pub enum Happened {
    /// Nothing yet.
    Nothing,
    /// A key was pressed, or the size has changed.
    Event(Event),
    /// There is no terminal any more.
    Closed,
}

/// Waits for that at most so long.
pub fn wait(most: Duration) -> io::Result<Happened> {
    let (stdin, stdout) = (io::stdin(), io::stdout());
    // crossterm reads keys from stdin, or else from the process's own terminal, which stdout is then.
    let (terminal, keys) = if stdin.is_terminal() {
        (stdin.as_fd(), PollFlags::IN)
    } else {
        (stdout.as_fd(), PollFlags::empty())
    };
    let mut seen = [PollFd::from_borrowed_fd(terminal, keys)];
    let timeout = Timespec::try_from(most).map_err(io::Error::other)?;
    match poll(&mut seen, Some(&timeout)) {
        // A signal: the size may have changed.
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    if seen[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Ok(Happened::Closed);
    }
    Ok(if event::poll(Duration::ZERO)? { Happened::Event(event::read()?) } else { Happened::Nothing })
}
