//! Replacement of a drive of a mirror, asked for as the daemon does: a new drive appears, the old
//! one is taken out if it is there, the label of the new one is written, the change is asked for;
//! if it is refused, the label is erased.
//!
//! Labels are written by calls that block, and the power may fail at each of their writes.

use everglade_engine::admin::{self, Change};
use everglade_engine::{GrowError, Growth};
use everglade_target::Error;

use super::EngineSystem;
use super::growing::BUSY;
use super::replacing::{REFUSED, ReplacementRecord, Replacing};
use super::server::error_of;
use crate::Rng;
use crate::system::{AdminDone, Replacement};
use crate::world::DeviceSpec;

impl EngineSystem {
    /// Replacements that were begun since the start, the oldest first.
    #[must_use]
    pub fn replacements(&self) -> &[ReplacementRecord] {
        &self.replacements
    }

    pub(super) fn begin_replacement(&mut self, reactor: usize, request: &Replacement, token: u64) {
        if !self.replacing.is_empty() {
            return self.refuse(reactor, token, Error::Invalid(BUSY));
        }
        let seat = request.seat;
        let old = self.members()[seat].device;
        let asked = self.world.writes();
        let (largest, like) = self.like(seat);
        let new = self.world.add_device(DeviceSpec {
            size_bytes: largest + request.more_bytes,
            ..like
        });
        if let Some((after, breakage)) = &request.breaks {
            self.world.break_at(asked + after, new, breakage.clone());
        }
        let index = self.replacements.len();
        self.replacements.push(ReplacementRecord {
            asked,
            seat,
            old,
            new,
            is_made: false,
        });
        let storage = self.world.storage();
        let growth = self.growth_to(index);
        let before = self.world.writes();
        let info = self
            .engine
            .examine_growth(&*storage, self.aggregate, &growth);
        assert_eq!(self.world.writes(), before, "an examination writes nothing");
        if let Err(error) = info {
            return self.refuse(reactor, token, refused(&error));
        }
        let member = u32::try_from(seat).expect("few drives");
        let ready = self
            .engine
            .make_ready(&*storage, self.aggregate, member, new);
        if let Err(error) = ready {
            return self.refuse(reactor, token, refused(&error));
        }
        match old {
            Some(device) => {
                let replacing = Replacing { index, next: None };
                self.replacing.insert(token, replacing);
                self.cores[reactor].change(self.aggregate, Change::TakeOut { device }, token);
            }
            None => self.put_in(reactor, index, token),
        }
    }

    /// The size of the largest drive of a seat's mirror, and one of them.
    fn like(&self, seat: usize) -> (u64, DeviceSpec) {
        let members = self.members();
        let group = members[seat].seat.group;
        let drives = members.iter().filter(|it| it.seat.group == group);
        let specs = drives.filter_map(|it| Some(self.world.spec(it.device?)));
        let largest = specs.max_by_key(|spec| spec.size_bytes);
        let like = largest.expect("one of them has everything");
        (like.size_bytes, like)
    }

    fn growth_to(&self, index: usize) -> Growth {
        let ReplacementRecord { seat, new, .. } = self.replacements[index];
        // Another one for each attempt, as in the daemon.
        let attempt = self.world.writes() << 16 | u64::from(new.0);
        let mut uuid = [0; 16];
        Rng::for_part(attempt, "replacing").fill(&mut uuid);
        Growth::Replace {
            member: u32::try_from(seat).expect("few drives"),
            device: new,
            uuid,
        }
    }

    /// Writes the label of the new drive, and asks for the change.
    fn put_in(&mut self, reactor: usize, index: usize, token: u64) {
        let storage = self.world.storage();
        let growth = self.growth_to(index);
        let prepared = self
            .engine
            .prepare_growth(&*storage, self.aggregate, &growth);
        match prepared {
            Ok(next) => {
                let change = Change::Grow { next: next.clone() };
                let next = Some(next);
                self.replacing.insert(token, Replacing { index, next });
                self.cores[reactor].change(self.aggregate, change, token);
            }
            Err(error) => self.refuse(reactor, token, refused(&error)),
        }
    }

    fn refuse(&mut self, reactor: usize, token: u64, error: Error) {
        let result = Err(error);
        self.refused[reactor].push(AdminDone { token, result });
    }

    /// The engine has answered a part of a replacement. Returns the answer to the whole of it, if
    /// that was the last part.
    pub(super) fn go_on_replacing(
        &mut self,
        reactor: usize,
        (token, replacing): (u64, Replacing),
        result: Result<(), admin::Error>,
    ) -> Option<Result<(), Error>> {
        let Replacing { index, next } = replacing;
        match (next, result) {
            (None, Ok(())) => {
                self.put_in(reactor, index, token);
                None
            }
            (Some(_), Ok(())) => {
                let record = &mut self.replacements[index];
                record.is_made = true;
                let (seat, new) = (record.seat, record.new);
                let found = self.members()[seat];
                if found.device != Some(new) {
                    let what = format!("drive {new:?} was put into seat {seat}: {found:?}");
                    return Some(Err(Error::Io(what)));
                }
                // What the data directory remembers.
                self.world.has_joined(new);
                Some(Ok(()))
            }
            (next, Err(error)) => {
                if let Some(next) = next
                    && !matches!(error, admin::Error::Unknown(_))
                {
                    let storage = self.world.storage();
                    self.engine.abandon_growth(&*storage, self.aggregate, next);
                }
                Some(Err(match error {
                    admin::Error::Busy(_) => Error::Invalid(BUSY),
                    error => error_of(error),
                }))
            }
        }
    }
}

fn refused(error: &GrowError) -> Error {
    match error {
        GrowError::Busy => Error::Invalid(BUSY),
        GrowError::LastCopy | GrowError::Disk { .. } => Error::Invalid(REFUSED),
        error => Error::Io(error.to_string()),
    }
}
