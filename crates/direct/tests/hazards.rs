//! What programs do behind a library's back: each case of `hazards.c` ends as without the library.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::{compiled, counted, room, said, served, source};

const CASES: [&str; 27] = [
    "cancel first read",
    "cancel read",
    "cancel open",
    "cancel recvmsg",
    "cancel pread",
    "cancel pwrite",
    "closed by syscall",
    "opened unseen",
    "closed and opened unseen",
    "ring",
    "files go",
    "_Fork",
    "clone",
    "daemon",
    "system",
    "of another's",
    "exec",
    "vfork",
    "blocked",
    "blocked in a handler",
    "old signal",
    "filter",
    "locks all",
    "address space",
    "holes",
    "allocates",
    "cut and close",
];

#[test]
fn what_programs_do_unseen_ends_as_without_the_library() {
    let Some((_folder, program)) =
        compiled("what_programs_do_unseen_ends_as_without_the_library", &[source("hazards.c")])
    else {
        return;
    };
    let (mut wrong, mut reads) = (Vec::new(), 0);
    for case in CASES {
        for is_served in [false, true] {
            let Some(room) = room("what_programs_do_unseen_ends_as_without_the_library") else { return };
            std::fs::set_permissions(room.path(), PermissionsExt::from_mode(0o777)).unwrap();
            let counts = room.path().join("counts");
            let mut command = if is_served { served(&program, room.path()) } else { Command::new(&program) };
            // Mapped at the first operation, but where the point is what the program did before that.
            command.env("WARMSET_DIRECT_AFTER", if case == "blocked" { "20" } else { "0" });
            command.env("WARMSET_DIRECT_STATS", &counts).arg(case).current_dir(room.path());
            let output = command.output().unwrap();
            if !output.status.success() {
                wrong.push(format!("{case}, served: {is_served}: {} {}", output.status, said(&output)));
            }
            reads += counted(&counts, "reads");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(reads > 10_000, "{reads}");
}
