//! What a cut of a growing pool leaves, judged: with all devices, and without those that were
//! joining.

use std::rc::Rc;

use everglade_env::DeviceId;

use super::life::{Lived, Setting, in_range};
use super::media::{epochs_of_records, has_superblock};
use super::past::{Begun, Past};
use crate::sim::judge::{View, look_at, verify};
use crate::sim::judged::Judged;
use crate::sim::{Failure, Growth, Report};
use crate::system::{Geometry, Maker, NotMounted};
use crate::world::Images;

/// The judge looks at one in `OLD_ONE_IN` of the blocks that the work of a life does not touch; the
/// offline check reads all of them. They are so far apart that one read rarely covers two of them.
const OLD_ONE_IN: u64 = 509;

/// What a cut left of a growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// The cut met a growth, and this is whether the pool has it.
    pub(super) growth: Option<bool>,
    /// A member has no superblock.
    pub(super) is_bare: bool,
    /// The cut met devices that were joining, and the pool opens without them.
    pub(super) opens_alone: bool,
}

/// Judges cuts of one life, or of its start.
pub(super) struct Judging<'a> {
    setting: &'a Setting,
    past: Rc<Past>,
    /// All cuts are judged as one at this write: clients saw nothing of a start that was cut.
    at: Option<u64>,
    has_gaps: bool,
    /// The consistency point that a start found before it was cut, in a pool without journal. The
    /// start may have committed others, with numbers that operations of the life before had for
    /// theirs.
    found_cp: Option<u64>,
    known: Judged,
}

impl<'a> Judging<'a> {
    /// Judges cuts of the work after a start.
    pub(super) fn of_work(setting: &'a Setting, past: &Rc<Past>) -> Judging<'a> {
        Judging {
            setting,
            past: past.clone(),
            at: None,
            has_gaps: false,
            found_cp: None,
            known: Judged::default(),
        }
    }

    /// Judges cuts of the start of a life.
    pub(super) fn of_start(setting: &'a Setting, begun: &Begun, lived: &Lived) -> Judging<'a> {
        Judging {
            at: Some(begun.at),
            has_gaps: lived.has_gaps,
            found_cp: lived.found_cp,
            ..Judging::of_work(setting, &begun.past)
        }
    }

    /// Judges media that a cut at write `at` left.
    pub(super) fn judge(
        &self,
        at: u64,
        images: &Images,
        report: &mut Report,
    ) -> Result<Left, Failure> {
        report.cuts += 1;
        report.cuts_in_recovery += u64::from(self.at.is_some());
        report.recoveries += 1;
        report.add_losses(images.losses);
        let left = self.judge_all(self.at.unwrap_or(at), images, report);
        left.map_err(|failure| failure.within(format!("cut at write {at}")))
    }

    fn judge_all(&self, at: u64, images: &Images, report: &mut Report) -> Result<Left, Failure> {
        self.check(images)?;
        let possible = self.past.geometries.possible_at(at);
        let found = self.start(images, at, &possible, report)?;
        let geometry = found.map_err(|reason| Failure::new(reason).within("mount"))?;
        let Some(growth) = self.past.geometries.under_way_at(at) else {
            return Ok(Left {
                growth: None,
                is_bare: false,
                opens_alone: false,
            });
        };
        let is_made = geometry == growth.geometry;
        report.growths[match is_made {
            true => Growth::CutAfter,
            false => Growth::CutBefore,
        }] += 1;
        // A start that found them to be members has noted that.
        let is_joining = |device: &DeviceId| images.is_joining(device.0 as usize);
        let mut opens_alone = false;
        if growth.joining.iter().any(is_joining) {
            // A parity group may do without a data column that it has just got.
            let spared = (is_made && growth.is_wider).then_some(growth.geometry);
            let expected: Vec<Geometry> = spared.into_iter().chain([possible[0]]).collect();
            opens_alone = self
                .judge_without(at, images, is_made, &expected, report)
                .map_err(|failure| failure.within("without the devices that were joining"))?;
            report.growths[Growth::WithoutJoining] += 1;
        }
        // A growth that is just being asked for may have no devices yet.
        let is_bare = |device: &DeviceId| {
            let device = device.0 as usize;
            device < images.devices() && !has_superblock(&self.setting.maker, images, device)
        };
        Ok(Left {
            growth: Some(is_made),
            is_bare: is_made && growth.joining.iter().any(is_bare),
            opens_alone,
        })
    }

    /// Devices that were joining are not there any more. If the superblock of the growth is on one
    /// of the others, the pool must not open, unless it can spare them; else it is as it was
    /// before. Nothing is lost in either case. Returns whether it opens.
    fn judge_without(
        &self,
        at: u64,
        images: &Images,
        is_made: bool,
        expected: &[Geometry],
        report: &mut Report,
    ) -> Result<bool, Failure> {
        let alone = images.without_joining();
        if !is_made {
            self.check(&alone)?;
        }
        match self.start(&alone, at, expected, report)? {
            Ok(_) => Ok(true),
            Err(_) if is_made => Ok(false),
            Err(reason) => Err(Failure::new(reason).within("mount")),
        }
    }

    /// Starts from media, and looks at everything. Returns what the pool is, or why it does not
    /// open.
    fn start(
        &self,
        images: &Images,
        at: u64,
        possible: &[Geometry],
        report: &mut Report,
    ) -> Result<Result<Geometry, String>, Failure> {
        let model = &self.past.model;
        let compare = |view: &View| {
            let geometry = view.geometry.expect("an engine tells");
            if !possible.contains(&geometry) {
                let what = format!("Growth: {geometry:?}, not of {possible:?}");
                return Err(Failure::new(what));
            }
            verify(view, model, at, self.has_gaps)
        };
        let moment = model.moment_at(at);
        if let Some(verdict) = self.known.judge(images, moment, compare) {
            report.recoveries_known += 1;
            return Ok(Ok(verdict?.expect("an engine tells")));
        }
        let world = self.setting.restart(images);
        let traced = |mut failure: Failure| {
            failure.trace = world.take_trace();
            failure
        };
        world.track();
        let mut system = match self.setting.maker.mount(&world) {
            Ok(system) => system,
            Err(NotMounted::Refused(reason)) => return Ok(Err(reason)),
            Err(error) => return Err(traced(Failure::new(error).within("mount"))),
        };
        let since = self.past.since;
        let wanted = |name: &str| model.blocks_since(name, since, OLD_ONE_IN);
        let mut view = look_at(&world, &mut system, &wanted).map_err(traced)?;
        view.cp = self.found_cp.or(view.cp);
        compare(&view)
            .and_then(|()| in_range(&world))
            .map_err(traced)?;
        let recovery = system.recovery().filter(|found| found.operations > 0);
        if let Some(found) = recovery {
            let first = found.next_sequence - found.operations - found.skipped;
            let epochs =
                epochs_of_records(&self.setting.maker, images, &(first..found.next_sequence));
            report.growths[Growth::TwoEpochs] += u64::from(epochs.len() > 1);
        }
        report.add_faults(&world);
        let geometry = view.geometry.expect("an engine tells");
        self.known.remember(world.take_footprint(), view, moment);
        Ok(Ok(geometry))
    }

    fn check(&self, images: &Images) -> Result<(), Failure> {
        if self.known.is_clean(images) {
            return Ok(());
        }
        let offline = self.setting.restart(images);
        offline.track();
        self.setting
            .maker
            .check(&offline)
            .map_err(|error| Failure::new(error).within("check"))?;
        self.known.note_clean(offline.take_footprint());
        Ok(())
    }
}
