//! Labels of mirrors that contradict each other at random: the verifier ends with a report or a
//! reason.

use everglade_check::describe;
use everglade_env::DeviceId;
use everglade_format::config::INCOMPATIBLE_SEATS;
use everglade_format::{Config, Dbn, Role, Seat, SeatState, Superblock};

use super::{MEMBERS, behind, check_with, flag_of, mirror};
use crate::garbage::scatter;
use crate::image::{CP, Image};

/// Draws numbers.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        scatter(&mut self.0) as u64 % end
    }

    fn small(&mut self, end: u32) -> u32 {
        u32::try_from(self.below(u64::from(end))).unwrap()
    }

    fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[scatter(&mut self.0) % items.len()]
    }

    fn seat(&mut self) -> Seat {
        Seat {
            group: self.of(&[0, 1, 2, 3]),
            column: self.of(&[0, 1, 2, 3]),
            role: self.of(&[Role::Data, Role::Copy]),
            state: self.of(&[SeatState::Current, SeatState::Behind]),
            returns: self.of(&[0, 0, 0, 1, u16::MAX]),
            removal: Default::default(),
        }
    }

    fn record(&mut self, image: &Image) -> Config {
        let mut config = image.config.clone();
        config.epoch = 1 + self.below(4);
        for member in &mut config.members {
            match self.below(16) {
                0 => member.seat = self.seat(),
                1 | 2 => member.seat.state = SeatState::Behind,
                3 => member.size_blocks = self.of(&[512, 968, 969, 1_000, 1_100, 5_000]),
                4 => member.data_first = Dbn(self.of(&[0, 255, 300, 2_000])),
                5 => member.uuid = [9; 16],
                _ => {}
            }
        }
        if self.below(16) == 0 {
            config.members.truncate(1 + self.small(MEMBERS) as usize);
        }
        if self.below(8) == 0 {
            config.journal.member = self.small(MEMBERS + 1);
        }
        config.incompatible = flag_of(config.epoch);
        if config.has_groups() {
            config.incompatible |= INCOMPATIBLE_SEATS;
        }
        config
    }
}

#[test]
fn labels_that_contradict_each_other_never_stop_the_verifier() {
    let (mut read, mut refused) = (0, 0);
    for seed in 0..600 {
        let mut draw = Draw(seed);
        let image = match draw.below(3) {
            0 => mirror(),
            _ => behind(&[draw.small(MEMBERS)]),
        };
        for _ in 0..1 + draw.below(6) {
            let member = draw.small(MEMBERS);
            let label = draw.of(&image.labels(member));
            if draw.below(3) > 0 {
                let record = draw.record(&image);
                image.put_record(member, label, &record);
            } else {
                let mut superblock: Superblock = super::newest_superblock(&image);
                superblock.cp.0 = CP.0 - 2 + draw.below(4);
                superblock.epoch = 1 + draw.below(4);
                image.put_superblocks_at(member, &[label], &superblock);
            }
        }
        let given = draw.below(1 << MEMBERS);
        let given = given | draw.below(1 << MEMBERS) | draw.below(1 << MEMBERS);
        let devices: Vec<u32> = (0..MEMBERS).filter(|it| given >> it & 1 == 1).collect();
        match check_with(&image, devices.iter().copied()) {
            Ok(report) => {
                read += 1;
                assert_eq!(report.to_json()["clean"], report.is_clean());
                let ids: Vec<DeviceId> = devices.into_iter().map(DeviceId).collect();
                let described = describe::labels(&image.memory, &ids);
                assert!(described.is_ok(), "seed {seed}");
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    // A superblock without a record is no reason to refuse if a record overrules it.
    assert!(read > 100 && refused > 50, "{read} read, {refused} refused");
}
