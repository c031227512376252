//! Damaged and newer config records.

use everglade_format::FORMAT_VERSION;
use everglade_format::config::CONFIG_BYTES;
use everglade_format::label::{CONFIG_OFFSETS, label_offsets};

use super::{Medium, assert_refused_untouched, assert_serves, serve, with_blocks};
use crate::manage::ask_json;
use crate::running::{code, stdout};

const VERSION_AT: usize = 8;
const INCOMPATIBLE_AT: usize = 40;
const CHECK_BYTES: usize = 32;
const LABEL_BYTES: usize = 1 << 20;
/// From the start of a label to the end of its config records.
const RECORDS_BYTES: usize = (128 << 10) + CONFIG_BYTES;

/// Where config records are that were ever written.
fn records(medium: &Medium) -> Vec<u64> {
    let places = label_offsets(medium.size_bytes)
        .into_iter()
        .flat_map(|label| CONFIG_OFFSETS.map(|slot| label + slot));
    places
        .filter(|at| medium.read(*at, CONFIG_BYTES).iter().any(|byte| *byte != 0))
        .collect()
}

/// The record with one byte changed, and the checksum made right again.
fn resealed(mut record: Vec<u8>, at: usize, byte: u8) -> Vec<u8> {
    record[at] = byte;
    sealed(record)
}

/// The record with the checksum it should have.
pub(super) fn sealed(mut record: Vec<u8>) -> Vec<u8> {
    let check_at = CONFIG_BYTES - CHECK_BYTES;
    let check = *blake3::hash(&record[..check_at]).as_bytes();
    record[check_at..].copy_from_slice(&check);
    record
}

#[test]
fn one_copy_of_the_label_is_enough() {
    let dir = with_blocks(&[1]);
    let medium = Medium::of(&dir);
    for label in label_offsets(medium.size_bytes) {
        let before = medium.wipe(label, LABEL_BYTES);
        let checked = dir.run(&["check"]);
        assert_eq!(code(&checked), 1, "the next loss would be the last");
        assert!(
            stdout(&checked).contains("label-damaged"),
            "{}",
            stdout(&checked)
        );
        let server = serve(&dir);
        let events = ask_json(&dir, &["event", "show"]);
        assert!(events.to_string().contains("EVG-4012"), "{events}");
        let log = server.log();
        assert!(
            log.contains("was written anew from the other copy"),
            "{log}"
        );
        assert_eq!(code(&dir.run(&["status"])), 0);
        server.stop();
        assert_eq!(medium.read(label, RECORDS_BYTES), before[..RECORDS_BYTES]);
        assert_eq!(code(&dir.run(&["check"])), 0, "{label}");
    }
    assert_serves(&dir, &[1]);
}

#[test]
fn a_torn_copy_of_the_label_is_written_anew() {
    let dir = with_blocks(&[1]);
    let medium = Medium::of(&dir);
    for record in records(&medium) {
        let before = medium.read(record, CONFIG_BYTES);
        medium.flip(record + 100);
        assert_eq!(code(&dir.run(&["check"])), 1);
        assert_serves(&dir, &[1]);
        assert_eq!(medium.read(record, CONFIG_BYTES), before);
        assert_eq!(code(&dir.run(&["check"])), 0);
    }
}

#[test]
fn a_device_without_a_label_is_refused() {
    let dir = with_blocks(&[1]);
    let medium = Medium::of(&dir);
    let labels = label_offsets(medium.size_bytes);
    let before = labels.map(|label| medium.wipe(label, LABEL_BYTES));
    let parts = [
        "aggregate aggr0 cannot be opened",
        "aggregates/aggr0/dev0 has no Everglade label",
        "expected the label of an Everglade device",
        "Check that the devices are the right ones",
    ];
    assert_refused_untouched(&dir, &parts);
    assert_eq!(code(&dir.run(&["check"])), 2);
    for (label, bytes) in labels.into_iter().zip(before) {
        medium.write(label, &bytes);
    }
    assert_serves(&dir, &[1]);
}

#[test]
fn a_label_with_a_wrong_checksum_everywhere_is_refused() {
    let dir = with_blocks(&[1]);
    let medium = Medium::of(&dir);
    let records = records(&medium);
    records.iter().for_each(|at| medium.flip(*at));
    let parts = ["config record checksum", "expected the label"];
    assert_refused_untouched(&dir, &parts);
    records.iter().for_each(|at| medium.flip(*at));
    assert_serves(&dir, &[1]);
}

#[test]
fn a_newer_format_is_refused_even_if_only_one_record_has_it() {
    let dir = with_blocks(&[1]);
    let medium = Medium::of(&dir);
    let newer = u8::try_from(FORMAT_VERSION + 1).expect("small");
    let records = records(&medium);
    let before: Vec<_> = records
        .iter()
        .map(|at| medium.read(*at, CONFIG_BYTES))
        .collect();
    let parts = [
        "format version 2",
        "expected",
        "format version 1",
        "newer everglade",
    ];
    // The last record to be rewritten by an upgrade that was cut short decides as much as all.
    for (at, record) in records.iter().zip(&before).rev() {
        medium.write(*at, &resealed(record.clone(), VERSION_AT, newer));
        assert_refused_untouched(&dir, &parts);
    }
    for (at, record) in records.iter().zip(&before) {
        medium.write(*at, record);
    }
    assert_serves(&dir, &[1]);

    // The same number in a record that is torn says nothing.
    let mut torn = before[0].clone();
    torn[VERSION_AT] = newer;
    medium.write(records[0], &torn);
    assert_serves(&dir, &[1]);
}

#[test]
fn a_feature_nobody_here_knows_is_refused() {
    let dir = with_blocks(&[1]);
    let medium = Medium::of(&dir);
    for at in records(&medium) {
        let record = medium.read(at, CONFIG_BYTES);
        medium.write(at, &resealed(record, INCOMPATIBLE_AT, 16));
    }
    assert_refused_untouched(
        &dir,
        &["incompatible feature flags 0x10", "newer everglade"],
    );
}
