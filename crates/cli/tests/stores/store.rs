//! `warmset store` as a user meets it: what is listed, where damage is, what goes.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::{Command, Output};
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use serde_json::{Value, json};

use crate::filled;

fn warmset(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warmset")).args(["store"]).args(args).output().unwrap()
}

fn json_of(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout).unwrap()
}

#[test]
fn tables_and_arrays_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    drop(filled(dir.path()));
    let found = json_of(&warmset(&["ls", path, "--json"]));
    assert_eq!((&found["schema"], &found["unreadable"]), (&json!(1), &json!([])));
    let [x, numbers] = &found["entries"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!((&x["name"], &x["kind"], &x["dtype"]), (&json!("X"), &json!("array"), &json!("<f8")));
    assert_eq!((&x["shape"], &x["bytes"]), (&json!([1000, 4]), &json!(32_000)));
    assert_eq!((&numbers["kind"], &numbers["rows"]), (&json!("table"), &json!(1_000_000)));
    assert_eq!(numbers["columns"], json!([{ "name": "n", "type": "Int64", "nullable": false }]));
    assert!(numbers["modified"].as_str().unwrap().ends_with('Z'));
    let out = warmset(&["ls", path]);
    let text = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].starts_with("X        array     1000  31.2 KiB"), "{text}");
    assert!(lines[2].contains("7.6 MiB") && lines[2].ends_with("  n Int64"), "{text}");
    assert_eq!(out.status.code(), Some(0));
    let one = json_of(&warmset(&["ls", path, "X", "--json"]));
    assert_eq!(one["entries"].as_array().unwrap().len(), 1);
}

#[test]
fn damage_is_named_with_file_offset_and_length() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    drop(filled(dir.path()));
    let out = warmset(&["verify", path]);
    assert_eq!(out.status.code(), Some(0));
    assert!(String::from_utf8(out.stdout).unwrap().lines().all(|line| line.starts_with("ok ")));
    let file = dir.path().join("numbers.arrow");
    OpenOptions::new().write(true).open(&file).unwrap().write_all_at(&[255], 4_000_000).unwrap();
    fs::write(dir.path().join("foreign.arrow"), "not Arrow").unwrap();
    let out = warmset(&["verify", path, "--json"]);
    assert_eq!(out.status.code(), Some(1));
    let found = json_of(&out);
    let [x, foreign, numbers] = &found["entries"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!((&x["ok"], &x["damage"]), (&json!(true), &json!([])));
    assert!(foreign["problem"].as_str().unwrap().contains("fewer than any Arrow file"), "{foreign}");
    let damage = &numbers["damage"][0];
    let (offset, bytes) = (damage["offset"].as_u64().unwrap(), damage["bytes"].as_u64().unwrap());
    assert!(offset <= 4_000_000 && 4_000_000 < offset + bytes, "{damage}");
    assert_eq!(damage["file"], file.canonicalize().unwrap().to_str().unwrap());
    let out = warmset(&["verify", path, "numbers"]);
    let (code, text) = (out.status.code(), String::from_utf8(out.stdout).unwrap());
    assert_eq!(code, Some(1));
    assert!(text.contains(&format!("numbers.arrow: {bytes} bytes at offset {offset} are not")), "{text}");
    // What can be read is listed, and the rest is named.
    let out = warmset(&["ls", path]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8(out.stderr).unwrap().contains("foreign.arrow"));
    assert_eq!(String::from_utf8(out.stdout).unwrap().lines().count(), 3);
}

#[test]
fn only_what_is_named_goes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let store = filled(dir.path());
    let names = || store.names().unwrap();
    let out = warmset(&["rm", path, "X", "missing"]);
    assert_eq!((out.status.code(), names().len()), (Some(2), 2));
    assert!(String::from_utf8(out.stderr).unwrap().contains("there is no `missing`"));
    assert_eq!(warmset(&["rm", path]).status.code(), Some(2), "all only where it is said");
    assert_eq!(warmset(&["rm", path, "X", "--all"]).status.code(), Some(2));
    let out = warmset(&["rm", path, "X", "X"]);
    assert_eq!((out.status.code(), names()), (Some(0), vec!["numbers".to_owned()]));
    assert!(String::from_utf8(out.stderr).unwrap().starts_with("warmset: removed X, "));
    // A writer of another process keeps what there is.
    let batch = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1])) as _)]).unwrap();
    let writer = store.writer("more", &batch.schema(), None).unwrap();
    let out = warmset(&["rm", path, "--all"]);
    assert_eq!((out.status.code(), names().len()), (Some(2), 1));
    assert!(String::from_utf8(out.stderr).unwrap().contains(&format!("process {}", std::process::id())));
    drop(writer);
    fs::write(dir.path().join("foreign.arrow"), "not Arrow").unwrap();
    fs::write(dir.path().join("notes.txt"), "of the user").unwrap();
    assert_eq!(warmset(&["rm", path, "--all"]).status.code(), Some(0));
    assert!(names().is_empty() && dir.path().join("notes.txt").exists());
}

#[test]
fn a_directory_that_is_none_is_named_and_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    for command in ["ls", "verify", "rm"] {
        let mut args = vec![command, missing.to_str().unwrap()];
        args.extend((command == "rm").then_some("X"));
        let out = warmset(&args);
        assert_eq!(out.status.code(), Some(2), "{command}");
        assert!(String::from_utf8(out.stderr).unwrap().contains(missing.to_str().unwrap()));
        assert!(!missing.exists());
    }
    let out = warmset(&["ls", dir.path().to_str().unwrap()]);
    assert_eq!((out.status.code(), out.stdout.len()), (Some(0), 0));
}
