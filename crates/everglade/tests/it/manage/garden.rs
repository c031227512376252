//! Gardening with a daemon: a LUN is put in order and areas are emptied while it serves.

use serde_json::Value;

use super::mirrors::{BLOCK, LUN, PATIENCE, files, fill, make, open, serve};
use super::{TestDir, ask, ask_json, assert_clean, refused};
use crate::host_space::payload;
use crate::operate::http;
use crate::operate::metrics::value;
use crate::running::Server;
use crate::waiting::within;
use crate::wire::Client;

const MIB: u64 = 1 << 20;
/// So many are written.
const MIBS: u64 = 16;
const BLOCKS: u64 = MIBS * 256;
const BYTES: u64 = MIBS * MIB;

/// What a MiB holds after every second block of it was overwritten.
fn overwritten(number: u64) -> Vec<u8> {
    let (mut content, over) = (payload(number, 1), payload(number, 2));
    for place in (0..content.len()).step_by(2 * BLOCK) {
        content[place..place + BLOCK].copy_from_slice(&over[place..place + BLOCK]);
    }
    content
}

/// Overwrites every second block of each MiB.
fn overwrite(client: &mut Client) {
    for number in 0..MIBS {
        let content = overwritten(number);
        for place in (0..content.len()).step_by(2 * BLOCK) {
            let offset = number * MIB + place as u64;
            assert_eq!(client.write(offset, &content[place..place + BLOCK]), Ok(()));
        }
    }
    assert_eq!(client.flush(), Ok(()));
}

/// A server with an aggregate whose LUN lies scattered, and a client of the LUN.
fn scattered(dir: &TestDir) -> (Server, Client) {
    let server = serve(dir, &[]);
    make(dir, &files(dir, 2), &[]);
    fill(&server, 0..MIBS, 1);
    let mut client = open(&server);
    overwrite(&mut client);
    (server, client)
}

/// Reads all of it in order.
#[track_caller]
fn assert_reads(client: &mut Client) {
    let length = u32::try_from(MIB).expect("a MiB");
    for number in 0..MIBS {
        let found = client.read(number * MIB, length);
        assert!(found == Ok(overwritten(number)), "MiB {number}");
    }
}

fn garden(dir: &TestDir) -> Value {
    ask_json(dir, &["garden", "show", "m"])
}

fn await_job(dir: &TestDir, job: &str) -> Value {
    within(PATIENCE, "the job has ended", || {
        garden(dir)[job]["state"] == "done"
    });
    garden(dir)[job].clone()
}

#[test]
fn a_lun_is_put_in_order_and_areas_are_emptied_while_clients_see_nothing() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    make(&dir, &files(&dir, 2), &[]);
    let said = ask(&dir, &["garden", "show", "m"]);
    assert!(
        said.starts_with("nothing was moved in aggregate m"),
        "{said}"
    );
    fill(&server, 0..MIBS, 1);
    ask(&dir, &["snapshot", "create", "v@s"]);
    let mut client = open(&server);
    overwrite(&mut client);
    ask(&dir, &["snapshot", "create", "v@t"]);

    let said = ask(&dir, &["garden", "layout", LUN, "--estimate"]);
    assert!(
        said.starts_with(&format!("estimate of the layout of LUN {LUN}: ")),
        "{said}"
    );
    let estimate = await_job(&dir, "layout");
    assert_eq!(estimate["estimate"], true, "{estimate}");
    assert_eq!(estimate["passed_bytes"], BYTES, "{estimate}");
    assert_eq!(estimate["moved_bytes"], 0, "{estimate}");
    let runs = estimate["run_count_before"].as_u64().expect("a number");
    assert!(runs > BLOCKS / 2, "{estimate}");

    ask(&dir, &["garden", "layout", LUN]);
    let done = await_job(&dir, "layout");
    assert_eq!(done["run_count_before"], runs, "{done}");
    let after = done["run_count_after"].as_u64().expect("a number");
    assert!(after <= BLOCKS / 64, "{done}");
    assert_eq!(done["moved_bytes"], BYTES, "{done}");

    let said = ask(&dir, &["garden", "clean", "m", "--least-free", "1"]);
    assert!(said.contains("segment cleaning of aggregate m: "), "{said}");
    let cleaned = await_job(&dir, "cleaning");
    assert_eq!(cleaned["least_free_percent"], 1, "{cleaned}");
    assert_eq!(cleaned["left_block_count"], 0, "{cleaned}");
    assert_eq!(cleaned["percent"], 100, "{cleaned}");
    let said = ask(&dir, &["garden", "stop", "m"]);
    assert!(said.contains("done"), "what is over stays so: {said}");

    let page = http::tcp(&server.metrics, "GET", "/metrics", "").body;
    let moved = value(&page, "everglade_garden_moved_bytes_total{aggregate=\"m\"}");
    assert!(moved >= BYTES as f64, "{moved}");
    let history = ask(&dir, &["history"]);
    for deed in ["garden layout", "garden clean", "garden stop"] {
        assert!(history.contains(deed), "{deed}: {history}");
    }
    assert_reads(&mut client);
    drop(client);
    server.stop();
    assert_clean(&dir, 2);
}

#[test]
fn what_a_client_reads_in_order_is_put_in_order_unless_that_is_switched_off() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    make(&dir, &files(&dir, 2), &[]);
    fill(&server, 0..MIBS, 1);
    ask(&dir, &["snapshot", "create", "v@s"]);
    overwrite(&mut open(&server));
    server.stop();

    // A new process has nothing in memory.
    let server = serve(&dir, &["--garden-write-after-read", "off"]);
    assert_reads(&mut open(&server));
    let said = ask(&dir, &["garden", "show", "m"]);
    assert!(
        said.starts_with("nothing was moved in aggregate m"),
        "{said}"
    );
    server.stop();

    let server = serve(&dir, &[]);
    assert_reads(&mut open(&server));
    within(PATIENCE, "what was read is in order", || {
        let after = &garden(&dir)["after_read"];
        after["waiting_bytes"] == 0 && after["passed_bytes"].as_u64() >= Some(BYTES / 2)
    });
    let after = garden(&dir)["after_read"].clone();
    let runs = |field: &str| after[field].as_u64().expect("a number");
    assert!(
        runs("run_count_after") * 32 < runs("run_count_before"),
        "{after}"
    );
    let said = ask(&dir, &["garden", "show", "m"]);
    assert!(
        said.starts_with("put in order after it was read:"),
        "{said}"
    );
    let page = http::tcp(&server.metrics, "GET", "/metrics", "").body;
    let [moved, waiting] = ["after_read_bytes_total", "waiting_bytes"].map(|name| {
        value(
            &page,
            &format!("everglade_garden_{name}{{aggregate=\"m\"}}"),
        )
    });
    assert!(moved >= (BYTES / 2) as f64, "{moved}");
    assert!(waiting.abs() < 1.0, "{waiting}");
    assert_reads(&mut open(&server));
    server.stop();
    assert_clean(&dir, 2);
}

#[test]
fn what_cannot_be_gardened_is_refused_with_the_reason() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    make(&dir, &files(&dir, 2), &[]);
    refused(
        &dir,
        &["garden", "show", "n"],
        4,
        &["there is no aggregate n"],
    );
    refused(
        &dir,
        &["garden", "clean", "n"],
        4,
        &["there is no aggregate n"],
    );
    refused(
        &dir,
        &["garden", "layout", "v/n"],
        4,
        &["there is no LUN v/n"],
    );
    refused(
        &dir,
        &["garden", "layout", "w/n"],
        4,
        &["there is no volume w"],
    );
    let output = dir.run(&["garden", "clean", "m", "--least-free", "0"]);
    assert_eq!(crate::running::code(&output), 2);
    server.stop();
}

/// A part of the day that is six hours away, and lasts a minute.
fn other_window() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let hour = since.expect("after 1970").as_secs() / 3600 % 24;
    let other = (hour + 6) % 24;
    format!("{other:02}:10-{other:02}:11")
}

#[test]
fn a_pause_lasts_until_gardening_is_told_to_go_on_and_a_window_is_kept() {
    let dir = TestDir::new();
    let (server, client) = scattered(&dir);
    let said = ask(&dir, &["garden", "pause", "m"]);
    assert!(said.contains("everglade garden resume m"), "{said}");
    ask(&dir, &["garden", "layout", LUN]);
    drop(client);
    server.stop();

    let server = serve(&dir, &[]);
    assert_eq!(garden(&dir)["paused"], true, "also after a restart");
    ask(&dir, &["garden", "layout", LUN]);
    assert_reads(&mut open(&server));
    let shown = garden(&dir);
    assert_eq!(shown["layout"]["state"], "running", "{shown}");
    assert_eq!(shown["moved_bytes"], 0, "{shown}");
    let said = ask(&dir, &["garden", "resume", "m"]);
    assert!(!said.contains("paused"), "{said}");
    let done = await_job(&dir, "layout");
    assert!(done["moved_bytes"].as_u64() > Some(0), "{done}");
    server.stop();

    let window = other_window();
    let server = serve(&dir, &["--garden-window", &window]);
    within(PATIENCE, "the clerk has looked", || {
        garden(&dir)["waits_for_window"] == true
    });
    let shown = garden(&dir);
    assert_eq!(shown["window"], window.as_str(), "{shown}");
    let said = ask(&dir, &["garden", "show", "m"]);
    assert!(said.contains("waits for its part of the day"), "{said}");
    let refused = dir.run(&["serve", "--garden-window", "22-06"]);
    assert_eq!(crate::running::code(&refused), 2);
    assert_reads(&mut open(&server));
    server.stop();
    assert_clean(&dir, 2);
}

/// Rectangles in a picture that a verb has drawn.
fn rectangles(picture: &std::path::Path) -> usize {
    let text = std::fs::read_to_string(picture).expect("it was drawn");
    assert!(text.ends_with("</svg>\n"), "{text}");
    text.matches("<rect").count()
}

#[test]
fn a_space_map_and_an_estimate_are_drawn() {
    let dir = TestDir::new();
    let (server, client) = scattered(&dir);

    let file = dir.file("map.svg");
    let name = file.to_str().expect("UTF-8");
    let said = ask(&dir, &["garden", "map", "m", "--svg", name]);
    assert!(said.starts_with("aggregate m: "), "{said}");
    assert!(said.contains("FREE RUNS FROM"), "{said}");
    let map = ask_json(&dir, &["garden", "map", "m"]);
    assert_eq!(
        (&map["state"], &map["percent"]),
        (&"done".into(), &100.into()),
        "{map}"
    );
    let used = map["used_bytes"].as_u64().expect("a number");
    let recorded = ask_json(&dir, &["aggregate", "show", "m"])["used_bytes"].clone();
    let recorded = recorded.as_u64().expect("a number");
    assert!(used.abs_diff(recorded) < 4 * MIB, "{used} and {recorded}");
    assert!(used > BYTES, "{map}");
    let cells = map["devices"][0]["cells"].as_array().expect("an array");
    assert_eq!(
        rectangles(&file),
        1 + cells.len(),
        "a background, and the cells"
    );

    let said = ask(
        &dir,
        &["garden", "layout", LUN, "--estimate", "--svg", name],
    );
    assert!(said.contains("runs along the LUN"), "{said}");
    assert!(rectangles(&file) > 2, "it was drawn anew");
    let nowhere = dir.file("none/map.svg");
    let nowhere = nowhere.to_str().expect("UTF-8");
    let arguments = ["garden", "map", "m", "--svg", nowhere];
    refused(&dir, &arguments, 1, &["cannot write the picture"]);
    refused(
        &dir,
        &["garden", "map", "n"],
        4,
        &["there is no aggregate n"],
    );
    let output = dir.run(&["garden", "layout", LUN, "--svg", name]);
    assert_eq!(
        crate::running::code(&output),
        2,
        "only an estimate is drawn"
    );
    drop(client);
    server.stop();
    assert_clean(&dir, 2);
}
