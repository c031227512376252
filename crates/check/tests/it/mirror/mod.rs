//! Aggregates of mirrors: the image with a copy for each of its members, and what the verifier says
//! of drives that are wrong, behind or absent.
//!
//! | group | members, by column | has |
//! | --- | --- | --- |
//! | 1 | 0, 2 | the first extent |
//! | 2 | 1, 4, 3 | the second extent, the journal |

mod contents;
mod journal;
mod labels;
mod members;
mod scattered;

use std::collections::BTreeMap;

use everglade_check::{Kind, Report, Unreadable, check, describe};
use everglade_env::{DeviceId, Storage};
use everglade_format::config::{CONFIG_BYTES, INCOMPATIBLE_CHANGED, INCOMPATIBLE_SEATS};
use everglade_format::label::{CONFIG_OFFSETS, config_slot};
use everglade_format::{Config, CpNumber, Layer, Member, Seat, SeatState, Superblock};
use serde_json::json;

use crate::image::{self, CP, Changes, Image, build};
use crate::journal::REGION;
use crate::sound::report;

const MEMBERS: u32 = 5;
/// Group and column of each member.
const PLACES: [(u16, u8); 5] = [(1, 0), (2, 0), (1, 1), (2, 2), (2, 1)];
const GROUPS: [&[u32]; 2] = [&[0, 2], &[1, 4, 3]];

/// An image of an epoch, with large block numbers if `far`.
fn of_epoch(epoch: u64, far: bool, change: &dyn Fn(&mut Config)) -> Image {
    build(Changes {
        config: Some(&|config| {
            let like = config.members[0].clone();
            config.members.extend((3..6).map(|n| Member {
                uuid: [n; 16],
                ..like.clone()
            }));
            for (member, (group, drive)) in config.members.iter_mut().zip(PLACES) {
                member.seat = Seat::of_mirror(group, drive);
            }
            config.journal = REGION;
            config.epoch = epoch;
            config.incompatible = INCOMPATIBLE_SEATS | flag_of(epoch);
            change(config);
        }),
        superblock: Some(&|superblock| {
            superblock.epoch = epoch;
            (superblock.journal_generation, superblock.journal_sequence) = (6, 100);
        }),
        far,
        ..Changes::default()
    })
}

fn flag_of(epoch: u64) -> u64 {
    u64::from(epoch > 1) * INCOMPATIBLE_CHANGED
}

/// All drives are there and current.
fn mirror() -> Image {
    of_epoch(1, false, &|_| {})
}

/// The record of epoch 1, in which all members are current.
fn record_before(image: &Image) -> Config {
    let mut before = image.config.clone();
    (before.epoch, before.incompatible) = (1, INCOMPATIBLE_SEATS);
    for member in &mut before.members {
        member.seat.state = SeatState::Current;
    }
    before
}

/// Epoch 2, in which some members are behind. Their devices have labels of epoch 1, and no block
/// is right on them.
fn behind(members: &[u32]) -> Image {
    let image = of_epoch(2, false, &|config| {
        for member in members {
            config.members[*member as usize].seat.state = SeatState::Behind;
        }
    });
    let before = record_before(&image);
    for member in 0..MEMBERS {
        image.put_records(member, &before);
    }
    let superblock = Superblock {
        cp: CpNumber(CP.0 - 1),
        epoch: 1,
        ..image.superblock()
    };
    for member in members {
        erase_records(&image, *member, 2);
        image.erase_superblocks(*member, CP);
        image.put_superblocks(*member, &superblock);
        let [_, end] = image.labels(*member);
        fill(&image, *member, 1 << 20, end);
    }
    image
}

/// The superblock that all current members have.
fn newest_superblock(image: &Image) -> Superblock {
    let all = (0..MEMBERS).map(|member| image.superblock_on(member));
    all.flatten().next().unwrap()
}

/// Erases the records of an epoch from both labels of a member.
fn erase_records(image: &Image, member: u32, epoch: u64) {
    let nothing = vec![0; CONFIG_BYTES];
    for label in image.labels(member) {
        let at = label + CONFIG_OFFSETS[config_slot(epoch)];
        image.memory.write(DeviceId(member), at, &nothing).unwrap();
    }
}

/// Fills a part of a device with bytes that mean nothing.
fn fill(image: &Image, member: u32, from: u64, to: u64) {
    let range = usize::try_from(from).unwrap()..usize::try_from(to).unwrap();
    image.memory.lock()[member as usize][range].fill(0x77);
}

/// Fills both labels of a member.
fn fill_labels(image: &Image, member: u32) {
    for label in image.labels(member) {
        fill(image, member, label, label + (1 << 20));
    }
}

/// Every block of the aggregate in use, and the drives that have it.
fn blocks(image: &Image) -> Vec<(u64, &'static [u32])> {
    let numbers = image.numbers.iter();
    let blocks = numbers.filter(|((layer, ..), _)| *layer == Layer::Aggregate);
    let blocks: Vec<_> = blocks
        .map(|(_, pvbn)| (*pvbn, drives(image, *pvbn)))
        .collect();
    assert!(
        GROUPS
            .iter()
            .all(|group| blocks.iter().any(|(_, drives)| drives == group))
    );
    blocks
}

fn drives(image: &Image, pvbn: u64) -> &'static [u32] {
    let (member, _) = image.locate(pvbn);
    GROUPS
        .into_iter()
        .find(|drives| drives[0] == member)
        .unwrap()
}

/// Verifies with some devices only.
fn check_with(image: &Image, devices: impl IntoIterator<Item = u32>) -> Result<Report, Unreadable> {
    let devices: Vec<DeviceId> = devices.into_iter().map(DeviceId).collect();
    check(&image.memory, &devices, &mut |_| {})
}

fn totals(report: &Report) -> Vec<(Kind, u64)> {
    report
        .totals
        .iter()
        .map(|(kind, total)| (*kind, *total))
        .collect()
}

/// Compares the numbers of findings of each kind; all must be warnings exactly if the image is
/// clean.
#[track_caller]
fn expect(image: &Image, expected: &[(Kind, u64)]) -> Report {
    let report = report(image);
    assert_eq!(totals(&report), expected, "{report}");
    let is_clean = expected.iter().all(|(kind, _)| kind.is_warning());
    assert_eq!(report.is_clean(), is_clean, "{report}");
    report
}

#[track_caller]
fn expect_part(report: &Report, part: &str) {
    let text = report.to_string();
    assert!(text.contains(part), "{part:?} is not in {text}");
}

#[test]
fn a_mirror_is_clean_and_its_members_are_reported() {
    let report = expect(&mirror(), &[]);
    let plain = crate::sound::report(&image::sound());
    assert_eq!(report.counts.devices, 5);
    let (mirrored, alone) = (report.counts, plain.counts);
    assert_eq!(mirrored.blocks, alone.blocks, "copies are no room");
    assert_eq!(mirrored.blocks_verified, alone.blocks_verified);
    let member = json!({
        "member": 4,
        "uuid": "05".repeat(16),
        "device": 4,
        "size_blocks": 1100,
        "group": 2,
        "column": 1,
        "role": "copy",
        "state": "current",
        "read": true,
    });
    assert_eq!(report.to_json()["members"][4], member);
    expect_part(
        &report,
        "member 4 (device 4): group 2, column 1, copy, current\n",
    );
    assert_eq!(plain.to_json()["members"][1]["group"], 0);
    assert!(!plain.to_string().contains("group"), "{plain}");
}

#[test]
fn members_that_are_not_read_are_reported() {
    let image = behind(&[0]);
    let report = check_with(&image, [0, 1, 2, 3]).expect("readable");
    expect_part(
        &report,
        "member 0 (device 0): group 1, column 0, data, behind, not verified",
    );
    expect_part(
        &report,
        "member 4 (no device): group 2, column 1, copy, current, not verified",
    );
    let json = report.to_json();
    let members = &json["members"];
    let seen = |member: usize| (&members[member]["state"], &members[member]["read"]);
    assert_eq!(seen(0), (&json!("behind"), &json!(false)));
    assert_eq!(seen(4), (&json!("current"), &json!(false)));
    assert!(members[4]["device"].is_null(), "{members}");
    let devices = [0, 1, 2, 3].map(DeviceId);
    let text = describe::labels(&image.memory, &devices).expect("readable");
    let facts = |member: usize| {
        let facts = text.parts[member].facts.iter().cloned();
        facts.collect::<BTreeMap<_, _>>()
    };
    assert_eq!(facts(0)["state"], "behind");
    assert_eq!(facts(0)["read"], "no, as it missed writes");
    assert_eq!(
        (facts(2)["role"].as_str(), facts(2)["column"].as_str()),
        ("copy", "1")
    );
    assert_eq!(facts(2)["read"], "yes");
    assert_eq!(text.parts[4].title, "member 4 has no device");
    assert_eq!(facts(4)["read"], "no, as its device was not given");
}
