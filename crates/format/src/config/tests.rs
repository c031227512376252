//! Tests of config records: what is written is read, and what contradicts itself is refused.

use super::*;
use crate::damage::Writer;
use crate::seat::SeatState;

fn sample() -> Config {
    Config {
        member_index: 1,
        epoch: 3,
        compatible: 0,
        incompatible: 0,
        uuid: [1; 16],
        secret: [2; 32],
        created_seconds: 77,
        area_blocks: 256,
        reserve_blocks: 100,
        journal: JournalRegion::default(),
        raid_log_blocks: 0,
        name: "aggr0".into(),
        members: vec![
            Member {
                uuid: [3; 16],
                size_blocks: 5000,
                data_first: Dbn(256),
                seat: Seat::ALONE,
            },
            Member {
                uuid: [4; 16],
                size_blocks: 5000,
                data_first: Dbn(256),
                seat: Seat::ALONE,
            },
        ],
        extents: vec![
            Extent {
                base: 0,
                length: 1024,
                group: 0,
                column: 0,
                member: 0,
                first_dbn: Dbn(256),
            },
            Extent {
                base: 1024,
                length: 1024,
                group: 0,
                column: 1,
                member: 1,
                first_dbn: Dbn(256),
            },
        ],
    }
}

#[test]
fn a_record_survives_the_round_trip() {
    assert_eq!(Config::decode(&sample().encode()), Ok(Some(sample())));
    assert_eq!(
        Config::decode(&vec![0; CONFIG_BYTES]),
        Ok(None),
        "never written"
    );
}

#[test]
fn any_flipped_bit_is_noticed() {
    let good = sample().encode();
    for bit in (0..CONFIG_BYTES * 8).step_by(997) {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Config::decode(&bad).is_err(), "bit {bit}");
    }
}

#[test]
fn a_resealed_record_with_an_extent_beyond_its_member_is_refused() {
    let mut config = sample();
    config.extents[1].length = 1 << 30;
    let damage = Config::decode(&config.encode()).expect_err("too long");
    assert_eq!(damage.what, "extent");
}

/// A record with one byte changed and its checksum made right.
fn resealed(at: usize, value: u8) -> Vec<u8> {
    let mut bytes = sample().encode();
    bytes[at] = value;
    let check = *blake3::hash(&bytes[..CHECK_AT]).as_bytes();
    put(&mut bytes, CHECK_AT, check);
    bytes
}

#[test]
fn another_version_and_unknown_features_are_refused_and_compatible_ones_kept() {
    let ours = u8::try_from(crate::FORMAT_VERSION).expect("small");
    for (at, value, writer, text) in [
        (
            8,
            ours + 1,
            Writer::Newer,
            "format version: expected 1, found 2",
        ),
        (
            8,
            ours - 1,
            Writer::Older,
            "format version: expected 1, found 0",
        ),
        (
            33,
            1,
            Writer::Newer,
            "read-only-compatible feature flags: expected none, as this build knows none, \
            found 0x100",
        ),
        (
            40,
            16,
            Writer::Newer,
            "incompatible feature flags: expected none but 0xf, which this build knows, found \
            0x10",
        ),
    ] {
        let damage = Config::decode(&resealed(at, value)).expect_err("not ours");
        assert_eq!(
            (damage.writer, damage.to_string()),
            (writer, text.to_owned())
        );
    }
    let bytes = resealed(31, 0x80);
    let config = Config::decode(&bytes).expect("ours").expect("there");
    assert_eq!(config.compatible, 1 << 63);
    assert_eq!(config.encode(), bytes);
}

#[test]
fn a_changed_composition_is_a_feature_that_this_build_knows() {
    let changed = Config {
        incompatible: INCOMPATIBLE_CHANGED,
        ..sample()
    };
    assert_eq!(Config::decode(&changed.encode()), Ok(Some(changed)));
}

/// The sample as a mirror of two drives.
fn mirror() -> Config {
    let mut config = sample();
    config.incompatible = INCOMPATIBLE_SEATS;
    config.extents.truncate(1);
    for (member, drive) in config.members.iter_mut().zip(0..) {
        member.seat = Seat::of_mirror(1, drive);
    }
    config
}

#[test]
fn a_mirror_is_a_feature_that_this_build_knows() {
    let mut config = mirror();
    assert_eq!(Config::decode(&config.encode()), Ok(Some(config.clone())));
    assert_eq!(
        (config.copies_of(0), config.copies_of(1)),
        (vec![0, 1], vec![0, 1])
    );
    config.members[0].seat.state = SeatState::Behind;
    assert_eq!(Config::decode(&config.encode()), Ok(Some(config.clone())));
    assert_eq!(sample().copies_of(1), [1]);
}

#[test]
fn seats_that_contradict_each_other_are_refused() {
    type Harm = fn(&mut Config);
    let harms: [(Harm, &str); 7] = [
        (|it| it.members[1].seat.column = 0, "seat of a member"),
        (|it| it.members[1].seat.column = 3, "seat of a member"),
        (
            |it| it.members[1].seat.role = Role::Data,
            "seat of a member",
        ),
        (|it| it.members[0].seat = Seat::ALONE, "group"),
        (
            |it| {
                for member in &mut it.members {
                    member.seat.state = SeatState::Behind;
                }
            },
            "group",
        ),
        (|it| it.extents[0].member = 1, "member"),
        (
            |it| it.members[1].size_blocks = 1280 + 255,
            "size of a copy",
        ),
    ];
    for (harm, what) in harms {
        let mut config = mirror();
        harm(&mut config);
        let damage = Config::decode(&config.encode()).expect_err("contradictory");
        assert_eq!(damage.what, what);
    }
}

/// Three data columns and two with parity.
fn parity_group() -> Config {
    let mut config = sample();
    config.incompatible = INCOMPATIBLE_SEATS | INCOMPATIBLE_PARITY;
    config.raid_log_blocks = 64;
    let (member, extent) = (config.members[0].clone(), config.extents[0]);
    let members = (0..5).map(|column| Member {
        uuid: [column; 16],
        data_first: Dbn(256 + 64),
        seat: Seat::of_parity_group(1, column, 3),
        ..member
    });
    config.members = members.collect();
    let extents = (0..3).map(|column| Extent {
        base: u64::from(column) * 1024,
        column,
        member: column,
        first_dbn: Dbn(256 + 64),
        ..extent
    });
    config.extents = extents.collect();
    config
}

#[test]
fn a_parity_group_is_a_feature_that_this_build_knows() {
    let mut config = parity_group();
    config.journal = JournalRegion {
        member: 1,
        first: Dbn(256),
        blocks: 0,
    };
    for member in &mut config.members[1..3] {
        member.seat.state = SeatState::Behind;
    }
    assert_eq!(Config::decode(&config.encode()), Ok(Some(config.clone())));
    assert_eq!(config.copies_of(1), [1]);
    let group = config.parity_group_of(4).expect("it has parity");
    assert_eq!((group.data, group.parity), (vec![0, 1, 2], vec![3, 4]));
    assert_eq!(config.journal_members(), []);
    config.journal.blocks = 1;
    assert_eq!(config.journal_members(), [1, 3, 4]);
    assert_eq!(config.raid_log_first(2), Dbn(256));
    assert!(mirror().parity_group_of(1).is_none());
}

#[test]
fn parity_groups_that_contradict_themselves_are_refused() {
    type Harm = fn(&mut Config);
    let harms: [(Harm, &str); 8] = [
        (|it| it.members[1].seat.column = 0, "seat of a member"),
        (|it| it.members[1].seat.column = 5, "seat of a member"),
        (|it| it.members[4].seat.column = 2, "seat of a member"),
        (|it| it.members[1].seat.role = Role::Copy, "group"),
        (|it| it.extents[1].first_dbn = Dbn(600), "extents"),
        (
            |it| it.members[3].data_first = Dbn(319),
            "first block of data",
        ),
        (|it| it.raid_log_blocks = 0, "parity"),
        (
            |it| {
                for member in &mut it.members[..3] {
                    member.seat.state = SeatState::Behind;
                }
            },
            "group",
        ),
    ];
    for (index, (harm, what)) in harms.into_iter().enumerate() {
        let mut config = parity_group();
        harm(&mut config);
        let damage = Config::decode(&config.encode()).expect_err("contradictory");
        assert_eq!(damage.what, what, "harm {index}");
    }
}

#[test]
fn without_the_feature_the_bytes_of_a_seat_mean_nothing() {
    let bytes = resealed(MEMBERS_AT + 32, 7);
    assert_eq!(Config::decode(&bytes), Ok(Some(sample())));
}

#[test]
fn names_follow_the_conventions() {
    for good in ["a", "A.b_c-9", &"x".repeat(64)] {
        assert!(name_is_valid(good), "{good}");
    }
    for bad in ["", "-a", ".a", "a/b", "a@b", "ä", "a b", &"x".repeat(65)] {
        assert!(!name_is_valid(bad), "{bad}");
    }
}
