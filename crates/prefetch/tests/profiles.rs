//! Profiles that are corrupt, foreign or malicious: a clear error, or nothing read; never a panic or a wait.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, CWD, FileType, Mode, fadvise, inotify, mknodat};
use warmset_prefetch::{
    Burst, Choice, Fetched, Fetcher, FileRecord, FormatError, Limits, Profile, Read, Recorder, Store,
    StoreError, Trigger, is_resident, pieces, replay, replay_at_once,
};

fn profile_of(paths: &[&Path], reads: Vec<Read>) -> Profile {
    let files = paths.iter().map(|path| FileRecord::of(path, &fs::metadata(path).unwrap())).collect();
    let (program, arguments) = (PathBuf::from("/bin/true"), vec!["a".to_owned()]);
    let burst = Burst {
        reads: reads.len(),
        start_ms: 0,
        end_ms: 0,
        quiet_ms: 0,
        trigger: Trigger::Launch,
        candidates: Vec::new(),
        lead_ms: None,
    };
    let (recorder, bursts) = (Recorder::Tracepoints, vec![burst]);
    let (is_pattern, exact, disk_order) = (false, false, false);
    Profile {
        program,
        arguments,
        is_pattern,
        recorder,
        exact,
        disk_order,
        seconds: 0.1,
        files,
        reads,
        bursts,
    }
}

fn read(file: usize, start: u64, end: u64) -> Read {
    Read { file, start, end, at_ms: 0, disk_offset: 0 }
}

fn fetch(profile: &Profile, bytes_max: u64) -> Fetched {
    Fetcher::new(profile, Limits::of_bytes(bytes_max)).fetch(&profile.reads)
}

#[test]
fn what_was_saved_is_loaded_listed_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("data");
    fs::write(&file, vec![1; 10_000]).unwrap();
    let store = Store::at(directory.path().join("profiles"));
    assert!(store.names().unwrap().is_empty());
    let profile = profile_of(&[&file], vec![read(0, 0, 8192)]);
    let name = store.save(&profile).unwrap();
    assert_eq!(store.load(&name).unwrap(), profile);
    assert_eq!(store.names().unwrap(), std::slice::from_ref(&name));
    store.remove(&name).unwrap();
    assert!(matches!(store.load(&name), Err(StoreError::Missing(_))));
    assert!(matches!(store.remove("../data"), Err(StoreError::Missing(_))));
}

#[test]
fn a_file_that_is_no_profile_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::at(directory.path().to_owned());
    let data = directory.path().join("data");
    fs::write(&data, vec![1; 10_000]).unwrap();
    let good = profile_of(&[&data], vec![read(0, 0, 8192)]).to_bytes().unwrap();
    assert!(Profile::parse(&good).is_ok());
    let mut newer = good.clone();
    newer[8] += 1;
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let cut = good[..good.len() - 1].to_vec();
    for bytes in [b"".to_vec(), b"{}".to_vec(), vec![0; 100], newer, flipped, cut] {
        fs::write(store.path("bad"), &bytes).unwrap();
        let error = store.load("bad").unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains("bad.profile"), "{error}");
    }
    fs::remove_file(store.path("bad")).unwrap();
    fs::create_dir(store.path("bad")).unwrap();
    assert!(matches!(store.load("bad"), Err(StoreError::Corrupt { .. })));
}

#[test]
fn a_profile_that_contradicts_itself_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fs::write(&data, vec![1; 10_000]).unwrap();
    let refused = |change: fn(&mut Profile)| {
        let mut profile = profile_of(&[&data], vec![read(0, 0, 8192)]);
        change(&mut profile);
        let parsed = Profile::parse(&profile.to_bytes().unwrap());
        assert!(matches!(parsed, Err(FormatError::Content(_))), "{parsed:?}");
    };
    refused(|profile| profile.reads[0].file = 1);
    refused(|profile| profile.reads[0].start = 20_000);
    refused(|profile| profile.reads[0].end = 0);
    refused(|profile| profile.bursts[0].reads = 2);
    refused(|profile| profile.bursts[0].reads = usize::MAX);
    refused(|profile| profile.files[0].path = "../etc/passwd".into());
    refused(|profile| profile.program = "sh".into());
    refused(|profile| profile.seconds = f64::NAN);
}

#[test]
fn a_pattern_finds_what_has_no_profile_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fs::write(&data, vec![1; 10_000]).unwrap();
    let store = Store::at(directory.path().join("profiles"));
    let mut profile = profile_of(&[&data], vec![read(0, 0, 8192)]);
    profile.arguments = vec!["--out=*".into(), "**".into()];
    profile.is_pattern = true;
    store.save(&profile).unwrap();
    let found = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        store.find(Path::new("/bin/true"), &words).map(|profile| profile.arguments)
    };
    assert_eq!(found(&["--out=x", "y"]).unwrap(), profile.arguments);
    assert!(matches!(found(&["x"]), Err(StoreError::Missing(_))));
    (profile.arguments, profile.is_pattern) = (vec!["--out=x".into()], false);
    store.save(&profile).unwrap();
    assert_eq!(found(&["--out=x"]).unwrap(), ["--out=x"]);
    // Recorded for exactly these arguments, stars are characters.
    profile.arguments = vec!["-c".into(), "ls *".into()];
    store.save(&profile).unwrap();
    assert_eq!(found(&["-c", "ls *"]).unwrap(), profile.arguments);
    assert!(matches!(found(&["-c", "ls x"]), Err(StoreError::Missing(_))));
}

#[test]
fn disks_with_moving_heads_are_read_in_their_order() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fs::write(&data, vec![1; 300 << 10]).unwrap();
    let at = |start: u64, disk_offset| Read { disk_offset, ..read(0, start, start + 4096) };
    let mut profile = profile_of(&[&data], vec![at(0, 900), at(8192, 100), at(4096, 500)]);
    let starts = |profile: &Profile| {
        pieces(&profile.files, &profile.reads, u64::MAX).iter().map(|piece| piece.start).collect::<Vec<_>>()
    };
    assert_eq!(starts(&profile), [0, 8192, 4096]);
    profile.files[0].rotational = true;
    assert_eq!(starts(&profile), [8192, 4096, 0]);
}

#[test]
fn only_recorded_regular_files_are_read_and_never_beyond_their_end() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let fifo = directory.path().join("fifo");
    fs::write(&data, vec![1; 300 << 10]).unwrap();
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let null = Path::new("/dev/null");
    let reads = vec![
        read(0, 0, u64::MAX),
        read(1, 0, 4096),
        read(2, 0, 4096),
        read(3, 0, 4096),
        read(77, 0, 4096),
        read(0, 8192, 4096),
    ];
    let mut profile = profile_of(&[&data, &fifo, null, directory.path()], reads);
    for record in &mut profile.files[1..] {
        record.size_bytes = 1 << 40;
    }
    // Opening a device may do something, and a FIFO would wake who waits to write: neither is opened.
    let opens = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    for path in [&fifo, null] {
        inotify::add_watch(&opens, path, inotify::WatchFlags::OPEN).unwrap();
    }
    let fetched = fetch(&profile, u64::MAX);
    assert_eq!(fetched.bytes, 300 << 10);
    assert_eq!(fetched.stale_bytes, 3 * 4096);
    let mut buffer = [std::mem::MaybeUninit::uninit(); 1024];
    let mut reader = inotify::Reader::new(&opens, &mut buffer);
    // Others open /dev/null all the time, too.
    while let Ok(event) = reader.next() {
        assert_ne!(event.wd(), 1, "the FIFO was opened");
    }
}

#[test]
fn a_changed_file_is_stale_and_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fs::write(&data, vec![1; 8192]).unwrap();
    let profile = profile_of(&[&data], vec![read(0, 0, 8192)]);
    assert_eq!(profile.stale_bytes(), 0);
    let other = directory.path().join("other");
    fs::write(&other, vec![2; 8192]).unwrap();
    fs::rename(&other, &data).unwrap();
    assert_eq!(profile.stale_bytes(), 8192);
    let fetched = fetch(&profile, u64::MAX);
    assert_eq!((fetched.bytes, fetched.stale_bytes), (0, 8192));
}

#[test]
fn pieces_are_small_in_order_and_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fs::write(&data, vec![1; 300 << 10]).unwrap();
    let profile = profile_of(&[&data], vec![read(0, 0, 300 << 10)]);
    let sizes = |max| {
        pieces(&profile.files, &profile.reads, max).iter().map(|piece| piece.bytes >> 10).collect::<Vec<_>>()
    };
    assert_eq!(sizes(u64::MAX), [128, 128, 44]);
    assert_eq!(sizes(256 << 10), [128, 128]);
    assert!(sizes(1000).is_empty());
}

#[test]
fn triggers_at_anybodys_paths_neither_wait_nor_read() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let fifo = directory.path().join("fifo");
    let link = directory.path().join("link");
    fs::write(&data, vec![1; 8192]).unwrap();
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    std::os::unix::fs::symlink(&fifo, &link).unwrap();
    let paths = [&data, &fifo, &link, directory.path(), Path::new("/dev/null"), Path::new("/dev/zero")];
    for path in paths.into_iter().chain([Path::new("/proc/self/mem"), Path::new("/nowhere")]) {
        let path = path.to_owned();
        let file = Trigger::File { path: path.clone(), nth: u32::MAX };
        let code = Trigger::Instruction { path, build_id: "00".into(), offset: u64::MAX };
        for (trigger, choice) in [(file, Choice::File), (code, Choice::Instruction)] {
            let mut profile = profile_of(&[&data], vec![read(0, 0, 8192)]);
            profile.bursts[0].trigger = trigger;
            assert!(Profile::parse(&profile.to_bytes().unwrap()).is_ok());
            let mut program = std::process::Command::new("sleep").arg("0.01").spawn().unwrap();
            let (told, heard) = std::sync::mpsc::channel();
            let process = program.id();
            std::thread::spawn(move || {
                let mut lines = Vec::new();
                replay(&profile, process, choice, &mut |line| lines.push(line.to_owned()));
                let _ = told.send(lines);
            });
            // Until the program ends at the latest.
            program.wait().unwrap();
            let lines = heard.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
            assert!(choice == Choice::File || lines.concat().contains("it has changed"), "{lines:?}");
        }
    }
}

#[test]
fn a_trigger_at_a_relative_path_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fs::write(&data, vec![1; 8192]).unwrap();
    let mut profile = profile_of(&[&data], vec![read(0, 0, 8192)]);
    profile.bursts[0].candidates = vec![Trigger::File { path: "data".into(), nth: 1 }];
    assert!(matches!(Profile::parse(&profile.to_bytes().unwrap()), Err(FormatError::Content(_))));
}

#[test]
fn what_has_changed_is_known_without_a_disk() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for (name, bytes) in [("large", 80 << 10), ("small", 20 << 10)] {
        fs::write(path(name), vec![1; bytes]).unwrap();
    }
    let reads = vec![read(0, 0, 80 << 10), read(1, 0, 20 << 10)];
    let profile = profile_of(&[&path("large"), &path("small")], reads);
    // What the kernel knows of names it may forget at any time, so they are looked up before each try.
    let comes_to = |interesting: f64, expected: f64| {
        (0..100).any(|_| {
            let _ = (path("large").exists(), path("small").exists());
            profile.changed_share(interesting) == expected
        })
    };
    assert!(comes_to(0.1, 0.0));
    fs::write(path("small"), [2]).unwrap();
    assert!(comes_to(0.1, 0.2));
    // Not worth a look.
    assert_eq!(profile.changed_share(0.3), 0.0);
    fs::remove_file(path("large")).unwrap();
    assert!(comes_to(0.1, 1.0));
}

#[test]
fn neighbours_on_a_disk_with_moving_heads_are_read_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fs::write(&data, vec![1; 4 << 20]).unwrap();
    let at = |kib: u64, disk_offset| Read { disk_offset, ..read(0, kib << 10, (kib + 4) << 10) };
    let mut profile = profile_of(
        &[&data],
        vec![
            at(2000, 9 << 20),
            at(100, (1 << 20) + (100 << 10)),
            at(0, 1 << 20),
            at(900, (1 << 20) + (900 << 10)),
        ],
    );
    profile.files[0].rotational = true;
    let found: Vec<_> = pieces(&profile.files, &profile.reads, u64::MAX)
        .iter()
        .map(|piece| (piece.start >> 10, piece.bytes >> 10))
        .collect();
    assert_eq!(found, [(0, 104), (900, 4), (2000, 4)]);
}

#[test]
fn a_sample_tells_whether_a_set_is_in_the_page_cache() {
    // Memory file systems have nothing but the page cache, and /tmp may be one.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let data = directory.path().join("data");
    fs::write(&data, vec![1; 1 << 20]).unwrap();
    let file = fs::File::open(&data).unwrap();
    let reads: Vec<Read> = (0..32).map(|piece| read(0, piece << 15, (piece + 1) << 15)).collect();
    let profile = profile_of(&[&data], reads);
    fs::read(&data).unwrap();
    assert!(is_resident(&profile));
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    assert!(!is_resident(&profile));
    assert!(replay_at_once(&profile));
    // The requests are under way: a read waits for its page.
    fs::read(&data).unwrap();
    assert!(is_resident(&profile));
    assert!(is_resident(&profile_of(&[], Vec::new())));
}
