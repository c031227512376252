//! Metrics and health, and what is built on them: the dashboard and the alert rules.

use std::collections::BTreeSet;
use std::fs;

use super::http;
use crate::manage::{ask, copy_in, noise, serve};
use crate::running::{TestDir, code, everglade, stdout};
use crate::tools::have;
use crate::wire::Client;

/// Names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c));
    let ours = |word: &&str| word.starts_with("everglade_") || word.starts_with("process_");
    words.filter(ours).map(str::to_owned).collect()
}

/// The names that a page of metrics has, with those that a histogram becomes.
fn families(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in page.lines() {
        let Some(rest) = line.strip_prefix("# TYPE ") else {
            continue;
        };
        let (name, kind) = rest.split_once(' ').expect("a name and a kind");
        found.insert(name.to_owned());
        if kind == "histogram" {
            found.extend(["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")));
        }
    }
    found
}

/// The value of a sample.
#[track_caller]
pub(crate) fn value(page: &str, sample: &str) -> f64 {
    let found = page
        .lines()
        .find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    let found = found.unwrap_or_else(|| panic!("no {sample} in {page}"));
    found.parse().expect("a number")
}

#[test]
fn what_clients_do_is_counted() {
    if !have(&["nbdcopy"]) {
        return;
    }
    let dir = TestDir::new();
    // A protocol that is off has no metrics.
    let sizes = ["--lun-size", "64MiB", "--aggregate-size", "2GiB"];
    let protocols = ["--iscsi-tcp", ":0", "--nvme-tcp", ":0"];
    let server = dir.serve(&[sizes, protocols].concat());
    let page = || {
        let answer = http::tcp(&server.metrics, "GET", "/metrics", "");
        assert_eq!(answer.status, 200);
        assert!(
            answer
                .header("content-type")
                .is_some_and(|kind| kind.contains("version=0.0.4"))
        );
        answer.body
    };
    let before = page();
    assert_eq!(
        value(&before, "everglade_nbd_requests_total{op=\"write\"}"),
        0.0
    );
    copy_in(&server, &noise(&dir, "noise", 8 << 20), "vol0/lun0");
    let after = page();
    assert_eq!(
        value(&after, "everglade_nbd_bytes_total{op=\"write\"}"),
        f64::from(8 << 20)
    );
    let writes = value(&after, "everglade_nbd_requests_total{op=\"write\"}");
    assert!(writes >= 1.0);
    let histogram = "everglade_nbd_request_duration_seconds";
    assert_eq!(
        value(&after, &format!("{histogram}_count{{op=\"write\"}}")),
        writes
    );
    assert_eq!(
        value(
            &after,
            &format!("{histogram}_bucket{{op=\"write\",le=\"+Inf\"}}")
        ),
        writes
    );
    // Of the LUN, also now that its client has gone.
    let of_lun = "{lun=\"vol0/lun0\",op=\"write\"}";
    let bytes = value(&after, &format!("everglade_lun_bytes_total{of_lun}"));
    assert_eq!(bytes, f64::from(8 << 20));
    for name in ["operations_total", "duration_seconds_count"] {
        let count = value(&after, &format!("everglade_lun_{name}{of_lun}"));
        assert_eq!(count, writes, "{name}");
    }
    assert!(value(&after, "everglade_nbd_requests_total{op=\"flush\"}") >= 1.0);
    assert!(value(&after, "process_resident_memory_bytes") > 1e6);
    let written = "everglade_volume_written_bytes_total{volume=\"vol0\"}";
    assert_eq!(value(&after, written), f64::from(8 << 20));
    let logical = "everglade_volume_space_bytes{volume=\"vol0\",kind=\"logical\"}";
    assert_eq!(value(&after, logical), f64::from(64 << 20));
    let freezes = "everglade_cp_phase_seconds_count{aggregate=\"aggr0\",phase=\"freeze\"}";
    assert!(value(&after, freezes) >= 1.0);
    let device = dir.data_dir().join("aggregates/aggr0/dev0");
    let errors = format!(
        "everglade_device_errors_total{{device=\"{}\",kind=\"io\"}}",
        device.display()
    );
    assert_eq!(value(&after, &errors), 0.0);
    assert_eq!(
        value(&after, "everglade_aggregate_up{aggregate=\"aggr0\"}"),
        1.0
    );
    // Every metric of the table is on the page, and nothing else.
    let table = dir.run(&["reference", "metrics"]);
    assert_eq!(code(&table), 0);
    let listed: BTreeSet<_> = stdout(&table)
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned()))
        .collect();
    let on_page = after
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    assert_eq!(on_page.map(str::to_owned).collect::<BTreeSet<_>>(), listed);
    server.stop();
}

/// Blocks of consistency points: data as it was written, and far more metadata for each block of it
/// where the blocks lie far apart.
#[test]
fn blocks_of_consistency_points_are_counted_by_what_they_are() {
    const BLOCK: u64 = 4096;
    /// Blocks below a level-1 block.
    const REGION: u64 = 255;
    const COUNT: u64 = 40;
    let dir = TestDir::new();
    let server = dir.serve(&["--lun-size", "64MiB", "--aggregate-size", "2GiB"]);
    let mut client = Client::open(&server.tcp, "vol0/lun0").expect("opened").0;
    let counts = || {
        let page = http::tcp(&server.metrics, "GET", "/metrics", "").body;
        ["data", "volume_metadata", "aggregate_metadata", "moved"].map(|kind| {
            let labels = format!("{{aggregate=\"aggr0\",kind=\"{kind}\"}}");
            value(&page, &format!("everglade_cp_blocks_total{labels}"))
        })
    };
    let mut written = |name: &str, distance: u64| {
        let before = counts();
        for number in 0..COUNT {
            let data = vec![u8::try_from(number + 1).expect("small"); 4096];
            let offset = number * distance * BLOCK;
            assert_eq!(client.write(offset, &data), Ok(()));
        }
        // It is committed with what was written before.
        ask(&dir, &["snapshot", "create", name]);
        let after = counts();
        [0, 1, 2, 3].map(|kind| after[kind] - before[kind])
    };
    let near = written("vol0@near", 1);
    let far = written("vol0@far", REGION);
    assert_eq!((near[0], far[0]), (COUNT as f64, COUNT as f64));
    assert!(near[1] >= 1.0 && near[2] >= 1.0, "{near:?}");
    let more = far[1] - near[1];
    assert!(
        more >= (COUNT - 2) as f64,
        "a block for each: {near:?} {far:?}"
    );
    assert_eq!(far[3], 0.0, "nothing has moved");

    // The device has counted the writes, too, with their lengths and durations.
    let page = http::tcp(&server.metrics, "GET", "/metrics", "").body;
    let sum = |family: &str| -> f64 {
        let samples = page.lines().filter(|line| line.starts_with(family));
        let writes = samples.filter(|line| line.contains("op=\"write\""));
        writes
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    };
    let operations = sum("everglade_device_run_blocks_count");
    assert!(operations > 0.0, "{page}");
    let blocks = sum("everglade_device_run_blocks_sum");
    assert!(
        blocks >= 2.0 * COUNT as f64 && blocks >= operations,
        "{blocks}"
    );
    assert_eq!(sum("everglade_device_duration_seconds_count"), operations);
    assert!(sum("everglade_device_duration_seconds_sum") > 0.0);
    server.stop();
}

#[test]
fn the_dashboard_and_the_alerts_name_only_metrics_that_exist() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let known = families(&http::tcp(&server.metrics, "GET", "/metrics", "").body);
    let dist = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/monitoring/");
    for (file, least) in [
        ("everglade-dashboard.json", 12),
        ("everglade-alerts.yml", 8),
    ] {
        let text = fs::read_to_string(format!("{dist}{file}")).expect(file);
        let named = names(&text);
        assert!(named.len() >= least, "{file}: {named:?}");
        let unknown: Vec<_> = named.difference(&known).collect();
        assert!(
            unknown.is_empty(),
            "{file} names what does not exist: {unknown:?}"
        );
    }
    let dashboard = fs::read_to_string(format!("{dist}everglade-dashboard.json")).expect("read");
    let _: serde_json::Value = serde_json::from_str(&dashboard).expect("JSON");
    server.stop();
}

#[test]
fn health_and_readiness_are_told_apart_from_everything_else() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let get = |path: &str| http::tcp(&server.metrics, "GET", path, "");
    assert_eq!(get("/healthz").status, 200);
    let ready = get("/readyz");
    assert_eq!(
        (ready.status, ready.body.as_str()),
        (200, "ready: 1 of 1 aggregates serve\n")
    );
    // It is read-only, and administration is not here.
    for path in ["/v1/status", "/", "/v1/volumes"] {
        assert_eq!(get(path).status, 404, "{path}");
    }
    assert_eq!(
        http::tcp(&server.metrics, "POST", "/metrics", "").status,
        405
    );
    server.stop();
}

#[test]
fn a_second_daemon_does_without_the_usual_port_and_an_asked_for_one_is_needed() {
    let (first, second) = (TestDir::new(), TestDir::new());
    let taken = serve(&first);
    let refused = second.serve_in_vain(&["--metrics-tcp", &taken.metrics]);
    assert_eq!(code(&refused), 1);
    let said = crate::running::stderr(&refused);
    assert!(said.contains("--metrics-tcp"), "{said}");
    let off = second.serve(&["--metrics-tcp", "off"]);
    assert_eq!(off.metrics, "off");
    off.stop();
    // Whether 9810 is free here or not, a start succeeds.
    let mut command = everglade(&second.data_dir());
    command.env_remove("EVERGLADE_METRICS_TCP");
    let shown = command.args(["config", "show"]).output().expect("runs");
    assert!(stdout(&shown).contains("tcp = \"127.0.0.1:9810\""));
    taken.stop();
}
