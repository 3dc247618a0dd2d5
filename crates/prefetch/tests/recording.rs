//! A program whose reads are known is recorded, as root, on a kernel with page-cache tracepoints.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use warmset_prefetch::{Recorded, record};

/// Runs a shell script under the recorder; `None`, and a line, where this machine cannot record.
fn recorded(test: &str, script: &str) -> Option<Recorded> {
    match record(PathBuf::from("/bin/sh"), vec!["-c".into(), script.into()]) {
        Ok(recorded) => Some(recorded),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::PermissionDenied | ErrorKind::NotFound | ErrorKind::Unsupported
            ) =>
        {
            eprintln!("SKIPPED {test}: this machine cannot record: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The recorded ranges of one file, merged.
fn ranges(recorded: &Recorded, path: &std::path::Path) -> Vec<(u64, u64)> {
    let profile = &recorded.profile;
    let file = profile.files.iter().position(|file| file.path == path);
    let mut found: Vec<_> = profile
        .reads
        .iter()
        .filter(|read| Some(read.file) == file)
        .map(|read| (read.start, read.end))
        .collect();
    found.sort_unstable();
    found.dedup_by(|next, last| {
        let touching = last.1 == next.0;
        if touching {
            last.1 = next.1;
        }
        touching
    });
    found
}

#[test]
fn the_recorded_set_is_what_the_program_and_its_children_read() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let directory = directory.path().canonicalize().unwrap();
    let (first, second) = (directory.join("first"), directory.join("second file"));
    let untouched = directory.join("untouched");
    for path in [&first, &second, &untouched] {
        fs::write(path, vec![7; 4 << 20]).unwrap();
    }
    // dd reads one MiB from the second one on; a grandchild reads the other file whole, in the background.
    let script = format!(
        "dd if='{}' of=/dev/null bs=1M skip=1 count=1 2>/dev/null; (cat '{}' >/dev/null) & wait; exit 3",
        first.display(),
        second.display()
    );
    let test = "the_recorded_set_is_what_the_program_and_its_children_read";
    let Some(recorded) = recorded(test, &script) else { return };
    assert_eq!(recorded.status.code(), Some(3));
    assert_eq!(recorded.lost, 0);
    assert_eq!(ranges(&recorded, &first), [(1 << 20, 2 << 20)]);
    assert_eq!(ranges(&recorded, &second), [(0, 4 << 20)]);
    assert!(ranges(&recorded, &untouched).is_empty());
    let shell = fs::canonicalize("/bin/sh").unwrap();
    assert!(
        recorded.profile.files.iter().any(|file| file.path == shell),
        "the program's own file is missing"
    );
    assert!(record(PathBuf::from("/no/such/program"), Vec::new()).is_err());
    assert_eq!(instances(), 0, "trace instances are left in tracefs");
}

/// How many trace instances this process has.
fn instances() -> usize {
    let ours = format!("warmset-learn-{}-", std::process::id());
    let names = fs::read_dir("/sys/kernel/tracing/instances").unwrap();
    names.filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().starts_with(&ours)).count()
}
