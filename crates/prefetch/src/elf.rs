//! The build-id of a program or library, which tells whether an offset still is the same instruction.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use object::Object;
use object::read::ReadCache;
use rustix::fs::OFlags;

/// The file's build-id in hexadecimal digits; `None` if it has none or is no ELF file. The path may be anybody's: a
/// FIFO does not make it wait.
#[must_use]
pub fn build_id(path: &Path) -> Option<String> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let cache = ReadCache::new(file.metadata().is_ok_and(|now| now.is_file()).then_some(file)?);
    let file = object::File::parse(&cache).ok()?;
    let id = file.build_id().ok()??;
    Some(id.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
