//! Deleting an aggregate: refused while something would be lost, complete when it is done, taken up
//! again when it was cut short.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::devices::sparse;
use super::{GIB, MIB, TestDir, ask, ask_json, assert_clean, everything, refused, serve, text};
use crate::operate::http;
use crate::wire::Client;

/// Nothing of a label is left at the ends of a device.
fn is_blank(path: &Path) -> bool {
    let file = fs::File::open(path).expect("open");
    let length = file.metadata().expect("its length").len();
    [0, length - MIB].into_iter().all(|offset| {
        let mut end = vec![0; 1 << 20];
        file.read_exact_at(&mut end, offset).expect("read");
        end.iter().all(|byte| *byte == 0)
    })
}

#[test]
fn an_aggregate_is_deleted_only_when_that_is_meant() {
    let dir = TestDir::new();
    let server = serve(&dir);
    refused(
        &dir,
        &["aggregate", "delete", "aggr0", "--yes", "--discard-volumes"],
        5,
        &["only aggregate", "EVG-2009"],
    );
    ask(&dir, &["aggregate", "create", "b", "--size", "1GiB"]);
    ask(&dir, &["volume", "create", "v", "--aggregate", "b"]);
    ask(&dir, &["lun", "create", "v/l", "--size", "16MiB"]);
    let before = everything(&dir);
    let delete = ["aggregate", "delete", "b"];
    refused(&dir, &delete, 6, &["its volume v", "--yes"]);
    let with = |more: &[&'static str]| [&delete[..], more].concat();
    refused(
        &dir,
        &with(&["--yes"]),
        6,
        &["has a volume", "--discard-volumes", "EVG-2004"],
    );
    refused(
        &dir,
        &with(&["--discard-volumes"]),
        6,
        &["its volume v", "--yes"],
    );
    refused(
        &dir,
        &["aggregate", "delete", "nix", "--yes"],
        4,
        &["no aggregate nix"],
    );
    refused(&dir, &["aggregate", "delete"], 2, &["AGGREGATE"]);
    let said = ask(&dir, &with(&["--dry-run"]));
    for part in [
        "would be lost",
        "volume v (1 LUN, 16.0 MiB",
        "segment files",
        "--discard-volumes",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = ask_json(&dir, &with(&["--dry-run"]));
    assert_eq!(said["needs_discard_volumes"], true);
    assert_eq!(said["lost"]["volumes"][0]["name"], "v");
    for (query, status, code) in [
        ("", 409, "EVG-2004"),
        ("?discard_volumes=maybe", 422, "EVG-1004"),
        (
            "?discard_volumes=true&discard_volumes=true",
            422,
            "EVG-1004",
        ),
        ("?force=true", 400, "EVG-1002"),
    ] {
        let path = format!("/v1/aggregates/b{query}");
        let answer = http::unix(&dir, "DELETE", &path, "", "");
        assert_eq!(answer.status, status, "{query}");
        assert_eq!(answer.json()["code"], code, "{query}");
    }
    let path = "/v1/aggregates/b?discard_volumes=true";
    let answer = http::unix(&dir, "DELETE", path, "If-Match: \"no\"\r\n", "");
    assert_eq!(answer.status, 412);
    assert_eq!(everything(&dir), before, "nothing was changed");
    server.stop();
    assert_clean(&dir, 2);
}

#[test]
fn a_deleted_aggregate_leaves_nothing_behind_and_takes_nothing_along() {
    let dir = TestDir::new();
    let mut server = serve(&dir);
    let file = sparse(&dir, "file", GIB);
    let folder = dir.file("folder");
    fs::create_dir(&folder).expect("create");
    let devices = format!("{},{}", text(&file), text(&folder));
    let create = |name: &str| {
        let words = ["aggregate", "create", name, "--size", "1GiB", "--devices"];
        ask(&dir, &[&words[..], &[&devices]].concat());
        ask(&dir, &["volume", "create", "v", "--aggregate", name]);
        ask(&dir, &["lun", "create", "v/l", "--size", "16MiB"]);
    };
    ask(&dir, &["aggregate", "create", "own", "--size", "1GiB"]);
    create("b");
    let open = |lun: &str| Client::open(&server.tcp, lun).expect("a client").0;
    let (mut lost, mut kept) = (open("v/l"), open("vol0/lun0"));
    lost.write(0, &[1; 4096]).expect("written");
    kept.write(0, &[2; 4096]).expect("written");
    // Its space is being given back when the aggregate goes.
    ask(&dir, &["lun", "create", "v/gone", "--size", "64MiB"]);
    let mut gone = open("v/gone");
    for mib in 0..16 {
        gone.write(mib * MIB, &vec![7; 1 << 20]).expect("written");
    }
    ask(&dir, &["lun", "delete", "v/gone", "--yes", "--disconnect"]);
    ask(&dir, &["aggregate", "delete", "own", "--yes"]);
    ask(
        &dir,
        &[
            "aggregate",
            "delete",
            "b",
            "--yes",
            "--discard-volumes",
            "--disconnect",
        ],
    );
    assert!(lost.is_closed_by_server(), "who uses it is sent away");
    assert_eq!(kept.read(0, 4096), Ok(vec![2; 4096]), "others go on");
    assert!(is_blank(&file));
    let left = fs::read_dir(&folder).expect("read").count();
    assert_eq!(left, 0, "the folder stays, empty");
    let own = dir.data_dir().join("aggregates/own");
    assert!(!own.exists());
    for name in ["b", "own"] {
        refused(&dir, &["aggregate", "show", name], 4, &["no aggregate"]);
    }
    refused(&dir, &["volume", "show", "v"], 4, &["no volume v"]);
    let jobs = ask_json(&dir, &["job", "show"]);
    let jobs = jobs["jobs"].as_array().expect("a list").clone();
    assert!(jobs.iter().all(|job| job["state"] == "done"), "{jobs:?}");
    let history = ask(&dir, &["history"]);
    assert!(history.contains("aggregate delete"), "{history}");
    // Names and devices can be had again, many times.
    for _ in 0..5 {
        create("b");
        ask(
            &dir,
            &["aggregate", "delete", "b", "--yes", "--discard-volumes"],
        );
    }
    create("b");
    let mut again = Client::open(&server.tcp, "v/l").expect("a client").0;
    assert_eq!(again.read(0, 4096), Ok(vec![0; 4096]), "nothing of before");
    again.write(0, &[3; 4096]).expect("written");
    again.flush().expect("flushed");
    kept.flush().expect("flushed");
    drop((again, kept, gone));
    server.stop();
    assert_clean(&dir, 2);
    server = serve(&dir);
    let open = |lun: &str| Client::open(&server.tcp, lun).expect("a client").0;
    assert_eq!(open("v/l").read(0, 4096), Ok(vec![3; 4096]));
    assert_eq!(open("vol0/lun0").read(0, 4096), Ok(vec![2; 4096]));
    server.stop();
}

/// The files below a folder that a process has open.
fn open_below(pid: u32, folder: &Path) -> Vec<PathBuf> {
    let folder = folder.canonicalize().expect("it exists");
    let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("a running process");
    let targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    targets
        .filter(|target| target.starts_with(&folder))
        .collect()
}

/// `umount` said that the file system of a deleted aggregate was busy until another aggregate had
/// its place; and a file on tmpfs was still locked by the daemon itself, which then answered with
/// EVG-9001.
#[test]
fn the_files_of_a_deleted_aggregate_are_closed_at_once() {
    let shm = Path::new("/dev/shm");
    let memory = fs::metadata(shm).is_ok_and(|found| found.is_dir());
    let dir = TestDir::new();
    let server = serve(&dir);
    let beside = memory.then(|| TestDir::within(shm));
    let places = [Some(&dir), beside.as_ref()].into_iter().flatten();
    for place in places {
        let (folder, file) = (place.file("folder"), sparse(place, "file", GIB));
        fs::create_dir(&folder).expect("create");
        let both = format!("{},{}", text(&folder), text(&file));
        for devices in [text(&folder), text(&file), &both].repeat(4) {
            let size: &[&str] = match devices == text(&file) {
                true => &[],
                false => &["--size", "1GiB"],
            };
            let create = ["aggregate", "create", "b", "--devices", devices];
            ask(&dir, &[&create[..], size].concat());
            ask(&dir, &["volume", "create", "v", "--aggregate", "b"]);
            ask(&dir, &["lun", "create", "v/l", "--size", "64MiB"]);
            let mut client = Client::open(&server.tcp, "v/l").expect("a client").0;
            for mib in 0..16 {
                client.write(mib * MIB, &vec![7; 1 << 20]).expect("written");
            }
            ask(
                &dir,
                &[
                    "aggregate",
                    "delete",
                    "b",
                    "--yes",
                    "--discard-volumes",
                    "--disconnect",
                ],
            );
            assert_eq!(open_below(server.pid(), &folder), Vec::<PathBuf>::new());
            let whole = folder.parent().expect("a parent");
            let left = open_below(server.pid(), whole);
            let is_of_device = |path: &&PathBuf| path.starts_with(&file);
            assert_eq!(left.iter().find(is_of_device), None);
            assert!(is_blank(&file), "{devices}");
            assert_eq!(fs::read_dir(&folder).expect("read").count(), 0);
        }
    }
    server.stop();
}

/// Makes the record of `b` say that somebody has deleted it, as if power had failed right then.
fn record_deleting(dir: &TestDir) {
    let path = dir.data_dir().join("state.toml");
    let state = fs::read_to_string(&path).expect("read");
    let (first, second) = state.split_once("name = \"b\"").expect("recorded");
    let second = second.replacen("phase = \"ready\"", "phase = \"deleting\"", 1);
    fs::write(path, format!("{first}name = \"b\"{second}")).expect("write");
}

#[test]
fn a_deletion_that_was_cut_short_is_finished_by_the_next_start() {
    let dir = TestDir::new();
    let (first, second) = (sparse(&dir, "first", GIB), sparse(&dir, "second", GIB));
    let folder = dir.file("folder");
    fs::create_dir(&folder).expect("create");
    let devices = [text(&first), text(&folder), text(&second)].join(",");
    for cleared in 0..4 {
        let server = serve(&dir);
        let words = ["aggregate", "create", "b", "--size", "1GiB", "--devices"];
        ask(&dir, &[&words[..], &[&devices]].concat());
        ask(&dir, &["volume", "create", "v", "--aggregate", "b"]);
        server.stop();
        record_deleting(&dir);
        refused(&dir, &["check", "b"], 2, &["was deleted"]);
        assert_clean(&dir, 1);
        // As far as a deletion may have come.
        if cleared > 0 {
            let blank = fs::File::options().write(true).open(&first).expect("open");
            blank.set_len(0).expect("emptied");
            blank.set_len(GIB).expect("sparse");
        }
        if cleared > 1 {
            fs::remove_file(folder.join("00000000.seg")).expect("removed");
        }
        if cleared > 2 {
            fs::remove_file(&second).expect("removed");
        }
        let server = serve(&dir);
        refused(&dir, &["aggregate", "show", "b"], 4, &["no aggregate b"]);
        refused(&dir, &["volume", "show", "v"], 4, &["no volume v"]);
        assert!(is_blank(&first));
        assert_eq!(fs::read_dir(&folder).expect("read").count(), 0);
        if cleared > 2 {
            assert!(!second.exists(), "it is not made again");
        } else {
            assert!(is_blank(&second));
        }
        server.stop();
        assert_clean(&dir, 1);
    }
}

#[test]
fn an_aggregate_that_cannot_be_opened_can_be_got_rid_of() {
    let dir = TestDir::new();
    let (first, second) = (sparse(&dir, "first", GIB), sparse(&dir, "second", GIB));
    let server = serve(&dir);
    let devices = [text(&first), text(&second)].join(",");
    ask(&dir, &["aggregate", "create", "b", "--devices", &devices]);
    server.stop();
    fs::remove_file(&second).expect("removed");
    let server = serve(&dir);
    let delete = ["aggregate", "delete", "b", "--yes"];
    refused(&dir, &delete, 6, &["cannot be opened", "--discard-volumes"]);
    ask(&dir, &[&delete[..], &["--discard-volumes"]].concat());
    refused(&dir, &["aggregate", "show", "b"], 4, &["no aggregate b"]);
    assert!(is_blank(&first));
    assert_eq!(ask_json(&dir, &["status"])["health"], "healthy");
    server.stop();
    assert_clean(&dir, 1);
}
