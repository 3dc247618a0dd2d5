//! Progress of bytes on the terminal.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on stderr if that is a terminal and the data does not go to one.
pub fn progress(total: u64, data_on_terminal: bool) -> ProgressBar {
    if data_on_terminal || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let template = "{bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("##."));
    }
    bar
}
