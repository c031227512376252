//! Which processors reactors keep to.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::running::{Server, TestDir};

/// What a thread's or a process's `status` says of `key`.
fn said(folder: &Path, key: &str) -> Option<String> {
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim().to_owned())
}

/// As the kernel lists them.
fn processors_of(folder: &Path) -> Option<String> {
    said(folder, "Cpus_allowed_list:")
}

/// The processors that each reactor may use.
fn processors(server: &Server) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
    let mut all: Vec<(String, String)> = threads
        .filter_map(|thread| {
            let folder = thread.ok()?.path();
            Some((said(&folder, "Name:")?, processors_of(&folder)?))
        })
        .filter(|(name, _)| name.starts_with("reactor-"))
        .collect();
    all.sort();
    all.into_iter().map(|(_, list)| list).collect()
}

#[test]
fn reactors_keep_to_processors_where_there_is_one_for_each() {
    let dir = TestDir::new();
    let ours = processors_of(Path::new("/proc/self")).expect("it runs");
    let usable = rustix::thread::sched_getaffinity(None).expect("a mask");
    let usable = usable.count() as usize;
    let shared = |reactors: usize| vec![ours.clone(); reactors];
    let served = |reactors: usize, options: &[&str]| {
        let server = dir.serve(&[&["--reactors", &reactors.to_string()], options].concat());
        let kept = processors(&server);
        server.stop();
        assert_eq!(kept.len(), reactors, "{kept:?}");
        kept
    };

    let kept = served(usable, &[]);
    if std::thread::available_parallelism().map_or(1, usize::from) == usable {
        let each: BTreeSet<&String> = kept.iter().collect();
        assert_eq!(each.len(), usable, "{kept:?}");
        let is_one = |list: &String| list.parse::<usize>().is_ok();
        assert!(kept.iter().all(is_one), "{kept:?}");
    } else {
        assert_eq!(kept, shared(usable), "a container whose time is limited");
    }
    assert_eq!(served(usable + 1, &[]), shared(usable + 1), "too many");
    assert_eq!(served(usable, &["--pin", "off"]), shared(usable));
}
