//! A layout finds blocks, and follows the drives that are lost and come back.

use everglade_format::config::{INCOMPATIBLE_PARITY, INCOMPATIBLE_SEATS, JournalRegion};
use everglade_format::{Dbn, Removal, Seat};

use super::expansion::Expansion;
use super::*;
use crate::media::reserve::reserve_for;

fn extent(base: u64, member: u32, first: u64) -> Extent {
    Extent {
        base,
        length: 512,
        member,
        group: 0,
        column: 0,
        first_dbn: Dbn(first),
    }
}

fn member(uuid: u8) -> Member {
    Member {
        uuid: [uuid; 16],
        size_blocks: 2000,
        data_first: Dbn(300),
        seat: Seat::ALONE,
    }
}

/// A record of epoch 1 without a journal.
pub(crate) fn config(members: Vec<Member>, extents: Vec<Extent>) -> Config {
    Config {
        member_index: 0,
        epoch: 1,
        compatible: 0,
        incompatible: 0,
        uuid: [1; 16],
        secret: [2; 32],
        created_seconds: 0,
        area_blocks: 256,
        reserve_blocks: 0,
        journal: JournalRegion::default(),
        raid_log_blocks: 0,
        name: "aggr0".to_owned(),
        members,
        extents,
    }
}

/// Two devices: pvbns 0 to 511 on the first, 512 to 1,023 on the second.
pub(crate) fn two_devices() -> Layout {
    let config = config(
        vec![member(4), member(5)],
        vec![extent(0, 0, 300), extent(512, 1, 700)],
    );
    Layout::new(config, vec![Some(DeviceId(4)), Some(DeviceId(5))]).expect("a sound table")
}

/// The same with a third device.
pub(crate) fn three_devices() -> Layout {
    let Layout {
        mut config,
        mut devices,
        ..
    } = two_devices();
    config.epoch = 2;
    config.members.push(member(6));
    config.extents.push(extent(1024, 2, 300));
    devices.push(Some(DeviceId(6)));
    Layout::new(config, devices).expect("a sound table")
}

#[test]
fn a_block_is_where_its_extent_begins_plus_its_distance() {
    let layout = two_devices();
    let place = layout.locate(Pvbn(10)).expect("in the first extent");
    assert_eq!(place.device, DeviceId(4));
    assert_eq!(place.offset, 310 * BLOCK_SIZE as u64);
    assert_eq!(place.run, 502);
    let place = layout.locate(Pvbn(1023)).expect("the last one");
    assert_eq!((place.device, place.run), (DeviceId(5), 1));
    assert_eq!(place.offset, (700 + 511) * BLOCK_SIZE as u64);
    assert_eq!(layout.locate(Pvbn(1024)), None);
}

#[test]
fn labels_journal_and_areas_below_the_frontier_were_written() {
    let mut layout = two_devices();
    let block = BLOCK_SIZE as u64;
    layout.config.journal = JournalRegion {
        member: 1,
        first: Dbn(300),
        blocks: 400,
    };
    let written = layout.written_ranges(&[1, 0]);
    let of = |device: u32| written.iter().filter(move |(id, _)| id.0 == device);
    let has = |device: u32, byte: u64| of(device).any(|(_, range)| range.contains(&byte));
    for device in [4, 5] {
        for label in label_offsets(2000 * block) {
            assert!(has(device, label + CONFIG_OFFSETS[config_slot(1)]));
        }
    }
    assert!(has(4, 300 * block) && has(4, 556 * block - 1), "area 0");
    assert!(!has(4, 556 * block) && !has(4, 299 * block));
    assert!(
        has(5, 300 * block) && has(5, 700 * block - 1),
        "the journal"
    );
    assert!(!has(5, 700 * block), "no area of this extent was opened");
}

#[test]
fn areas_are_found_by_their_bytes() {
    let layout = two_devices();
    let block = BLOCK_SIZE as u64;
    let found = |device, first: u64, end: u64| {
        layout.areas_in(DeviceId(device), &(first * block..end * block))
    };
    assert_eq!(found(4, 0, 300), []);
    assert_eq!(found(4, 0, 301), [(0, 0..1)]);
    assert_eq!(found(4, 555, 557), [(0, 0..2)]);
    assert_eq!(found(4, 556, 9000), [(0, 1..2)]);
    assert_eq!(found(4, 812, 9000), []);
    assert_eq!(found(5, 0, 9000), [(1, 0..2)]);
}

#[test]
fn a_layout_follows_one_that_it_only_adds_to() {
    let (two, three) = (two_devices(), three_devices());
    assert!(three.follows(&two));
    assert!(!two.follows(&three), "the former epoch");
    assert!(!two.follows(&two), "the same epoch");
    let changed = |change: fn(&mut Config)| {
        let mut config = three_devices().config;
        change(&mut config);
        Layout::new(config, three_devices().devices).expect("a sound table")
    };
    assert!(!changed(|it| it.epoch = 3).follows(&two));
    assert!(!changed(|it| it.extents[0].first_dbn = Dbn(301)).follows(&two));
    assert!(!changed(|it| it.members[1].uuid = [9; 16]).follows(&two));
    assert!(!changed(|it| it.members[0].size_blocks = 1999).follows(&two));
    assert!(changed(|it| it.members[0].size_blocks = 2001).follows(&two));
}

/// A mirror of two drives, 4 and 5.
pub(crate) fn mirror() -> Layout {
    let mut config = config(vec![member(4), member(5)], vec![extent(0, 0, 300)]);
    config.incompatible = INCOMPATIBLE_SEATS;
    for (member, drive) in config.members.iter_mut().zip(0..) {
        member.seat = Seat::of_mirror(1, drive);
    }
    Layout::new(config, vec![Some(DeviceId(4)), Some(DeviceId(5))]).expect("a sound table")
}

#[test]
fn drives_of_a_mirror_take_turns_in_reading_and_all_are_written() {
    let layout = mirror();
    let device = |pvbn, turn| layout.locate_copy(Pvbn(pvbn), turn).map(|it| it.device.0);
    assert_eq!(
        (device(10, 0), device(10, 1), device(10, 2)),
        (Some(4), Some(5), Some(4))
    );
    assert_eq!(device(256, 0), Some(5), "the next MiB");
    let place = layout.locate(Pvbn(250)).expect("in the extent");
    assert_eq!((place.offset, place.run), (550 * BLOCK_SIZE as u64, 6));
    let column = layout.locate_column(Pvbn(250)).expect("in the extent");
    assert_eq!((column.device, column.run), (DeviceId(4), 262));
    assert_eq!(layout.drives_of(0), [DeviceId(4), DeviceId(5)]);
    assert_eq!(layout.drives_of(1), [DeviceId(4), DeviceId(5)]);
}

#[test]
fn what_a_mirror_wrote_is_on_each_drive_that_has_everything() {
    let mut layout = mirror();
    let block = BLOCK_SIZE as u64;
    layout.config.journal = JournalRegion {
        member: 0,
        first: Dbn(16),
        blocks: 200,
    };
    let devices = |layout: &Layout, byte: u64| {
        let written = layout.written_ranges(&[1]);
        let with = written.iter().filter(|(_, range)| range.contains(&byte));
        with.map(|(device, _)| device.0).collect::<Vec<_>>()
    };
    for (place, on) in [(16, &[4, 5][..]), (300, &[4, 5]), (556, &[])] {
        assert_eq!(devices(&layout, place * block), on, "block {place}");
    }
    let behind = layout.without(DeviceId(4)).expect("there is another one");
    assert_eq!(devices(&behind, 300 * block), [5]);
    let record = |label: u64| devices(&behind, label + CONFIG_OFFSETS[config_slot(1)]);
    for label in label_offsets(2000 * block) {
        assert!(record(label).iter().all(|device| *device == 5), "{label}");
        assert!(!record(label).is_empty(), "{label}");
    }
}

#[test]
fn a_lost_drive_is_not_used_and_the_last_one_cannot_be_spared() {
    let layout = mirror();
    assert!(!layout.has_losses());
    let degraded = layout.without(DeviceId(4)).expect("there is another one");
    assert!(degraded.has_losses() && degraded.is_out(DeviceId(4)));
    assert_eq!(degraded.drives_of(0), [DeviceId(5)]);
    let place = degraded.locate(Pvbn(10)).expect("on the other drive");
    assert_eq!((place.device, place.run), (DeviceId(5), 502));
    assert_eq!(degraded.members().count(), 1);
    assert_eq!(degraded.devices().count(), 2);
    assert!(degraded.without(DeviceId(5)).is_none());
    assert!(
        two_devices().without(DeviceId(4)).is_none(),
        "no redundancy"
    );
    let recorded = degraded.with_uses_recorded(2);
    assert!(!recorded.has_losses());
    assert_eq!(recorded.config.members[0].seat.state, SeatState::Behind);
    assert_eq!(
        (recorded.config.epoch, recorded.config.incompatible),
        (2, 3)
    );
    let missing = Layout::new(layout.config.clone(), vec![None, Some(DeviceId(5))]);
    assert!(missing.expect("it can be spared").has_losses());
    assert!(Layout::new(layout.config, vec![None, None]).is_err());
}

#[test]
fn a_drive_that_catches_up_is_written_and_is_read_when_it_has_everything() {
    let lost = mirror().without(DeviceId(4)).expect("there is another one");
    let recorded = lost.with_uses_recorded(2);
    assert_eq!(recorded.returned(), None, "it has failed");
    let devices = vec![Some(DeviceId(4)), Some(DeviceId(5))];
    let behind = Layout::new(recorded.config, devices).expect("a sound table");
    assert_eq!(behind.returned(), Some((0, DeviceId(4))));
    let catching = behind.with_catching_up(DeviceId(4));
    assert_eq!(catching.returned(), None);
    assert_eq!(catching.drives_of(1), [DeviceId(4), DeviceId(5)]);
    assert_eq!(catching.copies(Pvbn(10)), 1);
    assert_eq!(catching.written().count(), 2);
    assert_eq!(catching.members().count(), 1, "its labels stay as they are");
    assert!(!catching.is_unrecorded());
    assert!(catching.without(DeviceId(5)).is_none());
    let regained = catching.with_regained(DeviceId(4));
    assert!(regained.is_unrecorded() && !regained.has_losses());
    let recorded = regained.with_uses_recorded(3);
    let seats = recorded.config.members.iter().map(|member| member.seat);
    let seats: Vec<(bool, u16)> = seats.map(|it| (it.is_current(), it.returns)).collect();
    assert_eq!(seats, [(true, 1), (true, 0)]);
}

/// Three data columns on drives 4, 5 and 6, and parity on 7 and 8.
pub(crate) fn parity_group() -> Layout {
    let members = (4..9).map(member).collect();
    let extents = (0..3).map(|column| extent(512 * u64::from(column), column, 300));
    let mut config = config(members, extents.collect());
    config.incompatible = INCOMPATIBLE_SEATS | INCOMPATIBLE_PARITY;
    config.raid_log_blocks = 40;
    for (member, column) in config.members.iter_mut().zip(0..) {
        member.seat = Seat::of_parity_group(1, column, 3);
    }
    let devices = (4..9).map(|device| Some(DeviceId(device))).collect();
    Layout::new(config, devices).expect("a sound table")
}

#[test]
fn a_stripe_has_a_block_of_each_column() {
    let layout = parity_group();
    let at = |pvbn| layout.across(Pvbn(pvbn)).expect("in a parity group");
    assert_eq!((at(10).column, at(10).stripe), (0, 310));
    assert_eq!((at(1034).column, at(1034).stripe), (2, 310));
    for pvbn in [1, 511, 512, 1500] {
        assert_eq!(layout.pvbn_of(at(pvbn)), Some(Pvbn(pvbn)));
    }
    assert_eq!(layout.across(Pvbn(1536)), None);
    assert_eq!(two_devices().across(Pvbn(10)), None);
    let beyond = Across {
        stripe: 900,
        ..at(10)
    };
    assert_eq!(layout.pvbn_of(beyond), None);
}

/// The group with 512 blocks more of each column, behind block 2000 of its drives.
fn enlarged(layout: &Layout) -> Expansion {
    let more = (0..3).map(|column| extent(1536 + 512 * u64::from(column), column, 2000));
    let members = layout.config.members.iter().enumerate();
    Expansion {
        former_members: 5,
        former_extents: 3,
        added: Vec::new(),
        enlarged: members
            .map(|(index, member)| (index, member.uuid, 4000))
            .collect(),
        extents: more.collect(),
    }
}

#[test]
fn an_expansion_counts_when_a_record_has_it() {
    let layout = parity_group();
    let grown = layout.with_expansion(&enlarged(&layout)).expect("planned");
    assert!(grown.is_grown() && grown.is_unrecorded() && !grown.has_losses());
    let blocks = layout.geometry.block_count() + 1536;
    assert_eq!(grown.geometry.block_count(), blocks);
    assert_eq!(
        grown.with_expansion(&enlarged(&layout)),
        None,
        "one at a time"
    );
    let lost = grown.without(DeviceId(5)).expect("one can be spared");
    let recorded = lost.with_uses_recorded(2);
    assert!(!recorded.is_grown() && !recorded.is_unrecorded());
    assert!(!recorded.config.members[1].seat.is_current());
    assert_eq!(recorded.config.members[1].size_blocks, 4000);
    let blocks = recorded.config.staying_areas_blocks();
    let reserve = reserve_for(blocks, recorded.config.area_blocks);
    assert_eq!(recorded.config.reserve_blocks, reserve);
}

#[test]
fn parity_comes_after_a_data_column_that_is_added() {
    let layout = parity_group();
    let like = *layout.config.extents.last().expect("the last data column");
    let added = Member {
        uuid: [9; 16],
        seat: Seat::of_parity_group(layout.config.members[0].seat.group, 3, 4),
        ..layout.config.members[0].clone()
    };
    let wider = Expansion {
        enlarged: Vec::new(),
        added: vec![(added, DeviceId(9))],
        extents: vec![Extent {
            base: like.base + like.length,
            column: 3,
            member: 5,
            ..like
        }],
        ..enlarged(&layout)
    };
    let next = layout.with_expansion(&wider).expect("planned");
    let rows = &next.all_rows()[0];
    assert_eq!((rows.code.data(), rows.code.parity()), (4, 2));
    assert_eq!(rows.members, [0, 1, 2, 5, 3, 4]);
    // The parity of stripes that are there is right as it is.
    let data = [1, 2, 3].map(|byte| {
        let mut page = Page::for_read();
        page.fill(byte);
        page.freeze()
    });
    let with_zeroes = [&data[..], &[PageRef::zero()]].concat();
    let before = layout.all_rows()[0].parity_of(&data);
    let after = rows.parity_of(&with_zeroes);
    assert!(
        before
            .iter()
            .zip(&after)
            .all(|(old, new)| old[..] == new[..])
    );
    let recorded = next.with_uses_recorded(2);
    let bytes = recorded.record_of(5).encode();
    let read = Config::decode(&bytes).expect("valid");
    assert_eq!(read, Some(recorded.record_of(5)), "the format allows it");
}

#[test]
fn a_drive_that_is_out_does_not_become_larger() {
    let layout = parity_group();
    let lost = layout.without(DeviceId(5)).expect("one can be spared");
    assert_eq!(lost.with_expansion(&enlarged(&layout)), None);
    let other = Expansion {
        former_extents: 4,
        ..enlarged(&layout)
    };
    assert_eq!(layout.with_expansion(&other), None, "of another layout");
}

#[test]
fn a_group_that_leaves_since_an_expansion_was_planned_is_not_expanded() {
    let layout = parity_group();
    let larger = enlarged(&layout);
    let added = Member {
        uuid: [9; 16],
        seat: Seat {
            column: 5,
            ..layout.config.members[4].seat
        },
        ..layout.config.members[4].clone()
    };
    let stronger = Expansion {
        enlarged: Vec::new(),
        added: vec![(added, DeviceId(9))],
        extents: Vec::new(),
        ..larger.clone()
    };
    let leaving = layout.with_evacuating(&[0, 1, 2, 3, 4], true);
    let mut gone = leaving.clone();
    for member in &mut gone.config.members {
        member.seat.removal = Removal::Removed;
    }
    for expansion in [larger, stronger] {
        assert!(layout.with_expansion(&expansion).is_some());
        assert_eq!(leaving.with_expansion(&expansion), None);
        assert_eq!(gone.with_expansion(&expansion), None);
    }
}

#[test]
fn extents_with_the_same_stripes_are_filled_together() {
    let layout = parity_group();
    assert_eq!(layout.rows_of_extents(), [Some(0); 3]);
    let grown = layout.with_expansion(&enlarged(&layout)).expect("planned");
    let rows = [0, 0, 0, 3, 3, 3].map(Some);
    assert_eq!(grown.rows_of_extents(), rows);
    let group = &grown.all_rows()[0];
    assert!(grown.has_stripe(group, 2000) && !layout.has_stripe(group, 2000));
    assert_eq!(
        two_devices().rows_of_extents(),
        [None; 3][..two_devices().config.extents.len()]
    );
}

#[test]
fn a_parity_group_spares_as_many_drives_as_it_has_parity() {
    let layout = parity_group();
    let one = layout.without(DeviceId(5)).expect("one can be spared");
    assert!(one.has_losses());
    assert_eq!(one.locate(Pvbn(600)).map(|it| it.device), Some(NO_DRIVE));
    assert_eq!(one.locate(Pvbn(10)).map(|it| it.device.0), Some(4));
    let two = one.without(DeviceId(7)).expect("another one, too");
    assert_eq!(two.lost_columns(0), [1, 3].into_iter().collect());
    for last in [4, 6, 8] {
        assert!(two.without(DeviceId(last)).is_none(), "{last}");
    }
    let is_good = |device| device != DeviceId(4);
    assert!(one.suffices_without(DeviceId(6), |_| true));
    assert!(!one.suffices_without(DeviceId(6), is_good));
    let drives = two.row_drives(0);
    assert_eq!(drives, [4, 6, 8].map(DeviceId));
    let config = two.with_uses_recorded(2).config;
    let devices = [None, None, Some(6), None, Some(8)];
    let devices = devices.map(|it| it.map(DeviceId)).to_vec();
    assert!(Layout::new(config, devices).is_err(), "three are gone");
}

#[test]
fn the_journal_of_a_parity_group_is_on_one_data_column_and_all_parity() {
    let mut layout = parity_group();
    layout.config.journal = JournalRegion {
        member: 0,
        first: Dbn(256),
        blocks: 4,
    };
    assert_eq!(layout.journal_drives(), [4, 7, 8].map(DeviceId));
    let lost = layout.without(DeviceId(4)).expect("it can be spared");
    assert_eq!(lost.journal_drives(), [7, 8].map(DeviceId));
    let journal = lost.journal();
    assert_eq!(journal.len(), 2);
    assert_eq!(journal[0], (DeviceId(7), bytes(256, 4)));
    let written = lost.written_ranges(&[1, 0, 0]);
    let on = |device| {
        written
            .iter()
            .any(|(it, range)| it.0 == device && range.contains(&bytes(300, 1).start))
    };
    assert!(on(7) && on(8) && !on(4) && !on(5));
}

pub(crate) fn successor() -> Successor {
    Successor {
        member: 0,
        former: [4; 16],
        device: DeviceId(7),
        uuid: [7; 16],
        size_blocks: 1900,
    }
}

#[test]
fn a_successor_has_the_seat_with_the_next_record_and_catches_up_then() {
    assert!(mirror().with_successor(&successor()).is_none(), "in use");
    let lost = mirror().without(DeviceId(4)).expect("there is another one");
    assert!(lost.with_successor(&successor()).is_none(), "not recorded");
    let lost = lost.with_uses_recorded(2);
    let next = lost.with_successor(&successor()).expect("it is behind");
    assert!(next.is_unrecorded() && next.with_successor(&successor()).is_none());
    assert!(next.is_out(DeviceId(7)), "no operation goes to it");
    assert_eq!(next.config, lost.config);
    let recorded = next.with_uses_recorded(3);
    let member = &recorded.config.members[0];
    assert_eq!((member.uuid, member.size_blocks), ([7; 16], 1900));
    assert_eq!(member.seat, lost.config.members[0].seat);
    assert!(!recorded.is_unrecorded() && recorded.devices().all(|it| it != DeviceId(4)));
    assert_eq!(recorded.returned(), Some((0, DeviceId(7))));
    let catching = recorded.with_catching_up(DeviceId(7));
    assert_eq!(catching.drives_of(1), [DeviceId(7), DeviceId(5)]);
    assert_eq!(catching.locate(Pvbn(10)).map(|it| it.device.0), Some(5));
    assert!(recorded.with_successor(&successor()).is_none(), "it has it");
}

#[test]
fn a_seat_of_another_drive_and_one_that_may_catch_up_get_no_successor() {
    let lost = mirror().without(DeviceId(4)).expect("there is another one");
    let config = lost.with_uses_recorded(2).config;
    let there = vec![Some(DeviceId(4)), Some(DeviceId(5))];
    let there = Layout::new(config.clone(), there).expect("a sound table");
    assert!(there.with_successor(&successor()).is_none(), "it is back");
    let failed = there.with_failed(DeviceId(4));
    assert!(failed.with_successor(&successor()).is_some());
    let away = Layout::new(config, vec![None, Some(DeviceId(5))]).expect("a sound table");
    let with = |it: Successor| away.with_successor(&it).is_some();
    assert!(with(successor()));
    for wrong in [
        Successor {
            former: [9; 16],
            ..successor()
        },
        Successor {
            member: 1,
            former: [5; 16],
            ..successor()
        },
        Successor {
            member: 2,
            ..successor()
        },
        Successor {
            device: DeviceId(5),
            ..successor()
        },
    ] {
        assert!(!with(wrong.clone()), "{wrong:?}");
    }
}
