//! What one run did, as a recorder saw it. Pure data: the analysis is tested on traces that are written down.

use warmset_platform::opens::FileId;

/// One look at a range of a file's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch {
    /// When, since the start of the run.
    pub at_us: u64,
    /// The file.
    pub file: FileId,
    /// The first byte.
    pub start: u64,
    /// The byte after the last one.
    pub end: u64,
    /// Where in this file the instruction is that made the program touch its own code, if it did.
    pub instruction: Option<u64>,
}

/// A file was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// When, since the start of the run; a little late, never early.
    pub at_us: u64,
    /// The file.
    pub file: FileId,
    /// How often it had been opened then, with this time.
    pub nth: u32,
}

/// All that a run touched and opened, in order of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// The touches.
    pub touches: Vec<Touch>,
    /// The opens.
    pub opens: Vec<Open>,
}
