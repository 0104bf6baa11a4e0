use std::os::unix::fs::PermissionsExt as _;

use serde_json::value::RawValue;
use toolbus_testkit::scratch::Scratch;

use super::super::{ProcessMark, State};
use super::*;

fn node(index: usize) -> NodeRecord {
    NodeRecord::pending(format!("action.echo.n{index}"), "echo".into(), "e".into())
}

/// A record of a process that is gone.
fn record(nodes: usize) -> Record {
    Record {
        format_version: "1.0".into(),
        toolbus_version: "0".into(),
        run_id: run_id(SystemTime::UNIX_EPOCH, 0xab),
        scenario: "a shop/1".into(),
        scenario_path: "/shop.hcl".into(),
        files: Vec::new(),
        status: Status::Running,
        started_at: time::rfc3339(SystemTime::UNIX_EPOCH),
        ended_at: None,
        seed: u64::MAX,
        process: ProcessMark { pid: u32::MAX, started: Some(1) },
        variables: BTreeMap::new(),
        providers: Vec::new(),
        nodes: (0..nodes).map(node).collect(),
        outputs: BTreeMap::new(),
        error: None,
        teardown: None,
    }
}

fn begin(file: &mut RecordFile, index: usize) {
    file.record.nodes[index].state = State::Running;
    file.node_changed(index).unwrap();
}

#[test]
fn a_record_is_private_and_its_name_is_plain() {
    let scratch = Scratch::new();
    let folder = scratch.path().join("deep/er");
    let file = RecordFile::create(&folder, record(1)).unwrap();
    let path = file.path().unwrap();
    assert_eq!(
        path.file_name().unwrap().to_str().unwrap(),
        "orchard_a_shop_1_run_19700101T000000Z_000000ab.json"
    );
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    // Nothing is left beside it.
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    assert_eq!(list(&folder).unwrap(), [path]);
}

#[test]
fn a_small_record_is_written_whole_at_each_change() {
    let scratch = Scratch::new();
    let mut file = RecordFile::create(scratch.path(), record(3)).unwrap();
    begin(&mut file, 1);
    let path = file.path().unwrap().to_owned();
    assert!(!log_path(&path).exists());
    assert_eq!(read(&path).unwrap().nodes[1].state, State::Running);
}

#[test]
fn of_a_large_record_the_log_says_what_happened_since() {
    let scratch = Scratch::new();
    let mut file = RecordFile::create(scratch.path(), record(2000)).unwrap();
    let path = file.path().unwrap().to_owned();
    for index in 0..10 {
        begin(&mut file, index);
        file.record.nodes[index].state = State::Succeeded;
        file.record.nodes[index].outputs =
            Some(RawValue::from_string(r#"{"n":1.50}"#.into()).unwrap());
        file.node_changed(index).unwrap();
    }
    begin(&mut file, 10);
    assert!(log_path(&path).exists());
    assert_eq!(fs::metadata(log_path(&path)).unwrap().permissions().mode() & 0o777, 0o600);
    // Killed here, in the middle of a line.
    let mut log = OpenOptions::new().append(true).open(log_path(&path)).unwrap();
    log.write_all(br#"{"node":[11,{"addr"#).unwrap();
    drop(file);
    let loaded = load(&path).unwrap();
    let states: Vec<_> = loaded.nodes[8..12].iter().map(|node| node.state).collect();
    assert_eq!(states, [State::Succeeded, State::Succeeded, State::Running, State::Pending]);
    assert_eq!(loaded.nodes[9].outputs.as_ref().unwrap().get(), r#"{"n":1.50}"#);
    // From now on the file says so itself.
    assert!(!log_path(&path).exists());
    assert_eq!(read(&path).unwrap().nodes[10].state, State::Running);
}

#[test]
fn at_the_end_there_is_only_the_file() {
    let scratch = Scratch::new();
    let mut file = RecordFile::create(scratch.path(), record(2000)).unwrap();
    (0..2000).for_each(|index| begin(&mut file, index));
    file.record.status = Status::Succeeded;
    file.run_changed().unwrap();
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    let loaded = load(file.path().unwrap()).unwrap();
    assert_eq!(loaded.status, Status::Succeeded);
    assert!(loaded.nodes.iter().all(|node| node.state == State::Running));
    assert_eq!(loaded.seed, u64::MAX);
}

#[test]
fn what_is_no_record_is_told() {
    let scratch = Scratch::new();
    let path = scratch.path().join("x.json");
    let told = |text: &str| {
        fs::write(&path, text).unwrap();
        load(&path).unwrap_err().to_string()
    };
    assert!(told("{}").contains("is no record of a run"));
    assert!(told(r#"{"format_version":"2.0"}"#).contains("is of format 2.0"));
    fs::remove_file(&path).unwrap();
    assert!(load(&path).unwrap_err().to_string().starts_with("cannot read the record"));
}

#[test]
fn the_newest_record_is_first() {
    let scratch = Scratch::new();
    for name in [
        "orchard_b_run_20260101T000000Z_00000001.json",
        "orchard_a_run_20260102T000000Z_00000000.json",
        "orchard_a_run_20260101T000000Z_00000002.json",
        ".orchard_a_run_20260103T000000Z_00000002.json.tmp",
        "notes.json",
    ] {
        fs::write(scratch.path().join(name), "").unwrap();
    }
    let names: Vec<_> = list(scratch.path()).unwrap();
    let names: Vec<_> =
        names.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "orchard_a_run_20260102T000000Z_00000000.json",
            "orchard_a_run_20260101T000000Z_00000002.json",
            "orchard_b_run_20260101T000000Z_00000001.json",
        ]
    );
}

#[test]
fn a_process_is_known_by_its_start() {
    let ours = ProcessMark::ours();
    assert!(ours.is_alive());
    if let Some(started) = ours.started {
        assert!(!ProcessMark { started: Some(started + 1), ..ours }.is_alive());
    }
    assert!(!ProcessMark { pid: u32::MAX, started: None }.is_alive());
}
