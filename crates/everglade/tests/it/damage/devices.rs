//! Devices that are not there, or belong elsewhere.

use std::fs;
use std::path::PathBuf;

use super::{Medium, assert_refused_untouched, assert_serves, with_blocks};
use crate::running::TestDir;

fn device(dir: &TestDir) -> PathBuf {
    dir.data_dir().join("aggregates/aggr0/dev0")
}

#[test]
fn a_missing_device_is_refused_until_it_is_back() {
    let dir = with_blocks(&[1, 2]);
    let away = dir.file("away");
    fs::rename(device(&dir), &away).expect("rename");
    let parts = [
        "aggregates/aggr0/dev0 does not exist",
        "expected device 0 of aggregate aggr0",
        "attach it again",
    ];
    assert_refused_untouched(&dir, &parts);
    assert!(!device(&dir).exists(), "none is made in its place");

    // An empty folder, as a mount point whose file system is not mounted.
    fs::create_dir(device(&dir)).expect("create");
    assert_refused_untouched(&dir, &["DEVICE", "found", "expected", "attach it again"]);
    fs::remove_dir(device(&dir)).expect("remove");

    fs::rename(&away, device(&dir)).expect("rename");
    assert_serves(&dir, &[1, 2]);
}

#[test]
fn a_foreign_device_is_refused_and_neither_aggregate_suffers() {
    let (ours, theirs) = (with_blocks(&[1]), with_blocks(&[2]));
    let swap = || {
        let aside = ours.file("aside");
        fs::rename(device(&ours), &aside).expect("rename");
        fs::rename(device(&theirs), device(&ours)).expect("rename");
        fs::rename(&aside, device(&theirs)).expect("rename");
    };
    swap();
    for dir in [&ours, &theirs] {
        let parts = [
            "the devices hold aggregate aggr0 (",
            "expected the aggregate with UUID",
            "Put the right devices in place",
        ];
        assert_refused_untouched(dir, &parts);
    }
    swap();
    assert_serves(&ours, &[1]);
    assert_serves(&theirs, &[2]);
}

#[test]
fn a_device_without_its_first_segment_is_refused() {
    let dir = with_blocks(&[1]);
    let segment = device(&dir).join("00000000.seg");
    let away = dir.file("away");
    // The copy of the label at the end is whole, so the aggregate is known. Its journal is gone.
    fs::rename(&segment, &away).expect("rename");
    let parts = ["aggregate aggr0", "00000000.seg is missing", "truncate -s"];
    assert_refused_untouched(&dir, &parts);
    fs::rename(&away, &segment).expect("rename");
    assert_serves(&dir, &[1]);
}

#[test]
fn a_device_that_became_smaller_is_refused() {
    let dir = with_blocks(&[1]);
    let card = device(&dir).join("DEVICE");
    let whole = fs::read_to_string(&card).expect("read");
    let size = Medium::of(&dir).size_bytes;
    let smaller = whole.replace(&size.to_string(), &(size - (1 << 20)).to_string());
    fs::write(&card, smaller).expect("write");
    let parts = [
        "aggregates/aggr0/dev0: expected a device of at least 2147483648 bytes",
        "found one of 2146435072 bytes",
        "expected device 0 of aggregate aggr0",
    ];
    assert_refused_untouched(&dir, &parts);
    fs::write(&card, "not a card").expect("write");
    assert_refused_untouched(&dir, &["DEVICE", "expected a file that begins with"]);
    fs::write(&card, whole).expect("write");
    assert_serves(&dir, &[1]);
}
