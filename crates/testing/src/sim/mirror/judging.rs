//! What a cut of a pool of mirrors leaves, judged with any set of its drives.

use std::rc::Rc;

use super::drives::Standing;
use super::epochs::Epochs;
use super::life::{Begun, Found, Lived, Past, Setting};
use crate::engine::{EngineSystem, Opening};
use crate::sim::judge::{View, look_at, verify};
use crate::sim::judged::Judged;
use crate::sim::{Failure, Mirrored, Report};
use crate::system::{Maker, NotMounted};
use crate::world::Images;

/// The judge looks at one in `OLD_ONE_IN` of the blocks that the work of a life does not touch; the
/// offline check reads all of them.
const OLD_ONE_IN: u64 = 509;

/// What a cut left to a set of drives.
pub(super) struct Left {
    pub(super) standing: Standing,
    /// The drives lack something that was acknowledged, and nobody noticed.
    pub(super) is_stale: bool,
}

/// Judges cuts of one life, or of its start.
pub(super) struct Judging<'a> {
    setting: &'a Setting,
    past: Rc<Past>,
    /// All cuts are judged as one at this write: clients saw nothing of a start that was cut.
    at: Option<u64>,
    epochs: &'a Epochs,
    found: &'a Found,
    /// Drives that are there and catch up: alone they may have blocks of two times.
    returned: &'a [usize],
    has_gaps: bool,
    /// The consistency point that a start found before it was cut, in a pool without journal. The
    /// start may have committed others, with numbers that operations of the life before had for
    /// theirs.
    found_cp: Option<u64>,
    known: Judged,
    /// What is known was opened by hand.
    known_by_hand: Judged,
}

impl<'a> Judging<'a> {
    /// Judges cuts of the work after a start.
    pub(super) fn of_work(setting: &'a Setting, lived: &'a Lived) -> Judging<'a> {
        Judging {
            setting,
            past: lived.past.clone(),
            at: None,
            epochs: &lived.epochs,
            found: &lived.found,
            returned: &lived.returned,
            has_gaps: false,
            found_cp: None,
            known: Judged::default(),
            known_by_hand: Judged::default(),
        }
    }

    /// Judges cuts of the start of a life; `epochs` are those of the start.
    pub(super) fn of_start(
        setting: &'a Setting,
        begun: &Begun,
        lived: &'a Lived,
        epochs: &'a Epochs,
    ) -> Judging<'a> {
        Judging {
            past: begun.past.clone(),
            at: Some(begun.at),
            epochs,
            has_gaps: lived.has_gaps,
            found_cp: lived.found_cp,
            ..Judging::of_work(setting, lived)
        }
    }

    /// Judges media that a cut at write `at` left, with the drives that are there. Returns `None`
    /// if none of them can say what it is.
    pub(super) fn judge(
        &self,
        at: u64,
        images: &Images,
        report: &mut Report,
    ) -> Result<Option<Left>, Failure> {
        let Some(standing) = Standing::read(&self.setting.maker, images) else {
            self.expect_refusal(images, false)?;
            self.expect_refusal(images, true)?;
            return Ok(None);
        };
        report.recoveries += 1;
        report.cuts_in_recovery += u64::from(self.at.is_some());
        let away: Vec<usize> = (0..standing.drives())
            .filter(|drive| !standing.is_there(*drive))
            .collect();
        self.judge_standing(at, images, &standing, report)
            .map(|is_stale| Some(Left { standing, is_stale }))
            .map_err(|failure| failure.within(format!("cut at write {at}, without {away:?}")))
    }

    /// Returns true if the drives lack something that was acknowledged.
    fn judge_standing(
        &self,
        at: u64,
        images: &Images,
        standing: &Standing,
        report: &mut Report,
    ) -> Result<bool, Failure> {
        if let Some(drive) = standing.contradictions().first() {
            return Err(Failure::new(format!(
                "Mirror: drive {drive} is behind, and has the superblock that says so"
            )));
        }
        if let Some(seat) = standing.unlabelled() {
            return Err(Failure::new(format!(
                "Mirror: no drive has the label of the one that the record gives seat {seat}"
            )));
        }
        let is_stale = standing.epoch < self.epochs.at(at);
        // A start has acknowledged nothing, so whoever was complete before still is.
        let was_complete = standing.epoch >= self.epochs.first();
        let judged_at = match self.at {
            Some(begun_at) => was_complete.then_some(begun_at),
            None if is_stale => self.epochs.complete_until(standing.epoch),
            None => Some(at),
        };
        let suffices = standing.suffices();
        let is_alone = standing.opens();
        let is_mixed = is_stale && self.returned.iter().any(|drive| standing.is_usable(*drive));
        if is_mixed {
            return Ok(true);
        }
        if suffices {
            self.check(images)?;
        }
        // Drives that broke before they got the superblock that the start found have what the cut
        // of the life before left to them: nothing that was acknowledged then is missing.
        let is_of_before = is_stale && self.at.is_none() && standing.cp < self.found.cp;
        let past = match judged_at {
            Some(_) if is_of_before => (&self.found.past, Some(self.found.at)),
            _ => (&self.past, judged_at),
        };
        let has_behind = (0..standing.drives())
            .any(|drive| standing.is_there(drive) && standing.is_behind(drive));
        let is_old = |drive: &usize| !images.is_joining(*drive) && standing.is_there(*drive);
        let mut strangers = (0..standing.drives()).filter(is_old);
        let has_old = strangers.any(|drive| standing.seat_of(drive).is_none());
        report.mirrors[Mirrored::OldIsThere] += u64::from(has_old && is_alone);
        if is_alone {
            self.start(images, past, standing, false, report)?;
            report.mirrors[Mirrored::Returned] += u64::from(has_behind);
            let is_without = (0..standing.drives()).any(|drive| !standing.is_there(drive));
            report.mirrors[Mirrored::Without] += u64::from(is_without);
            return Ok(is_stale);
        }
        self.expect_refusal(images, false)?;
        report.mirrors[Mirrored::StaleRefused] += u64::from(is_stale && suffices);
        if suffices {
            self.start(images, past, standing, true, report)?;
            report.mirrors[match is_stale {
                true => Mirrored::StaleByHand,
                false => Mirrored::ByHand,
            }] += 1;
        } else {
            self.expect_refusal(images, true)?;
            report.mirrors[Mirrored::NoneRefused] += 1;
        }
        Ok(is_stale)
    }

    /// A start refuses the drives, and writes nothing.
    fn expect_refusal(&self, images: &Images, is_degraded: bool) -> Result<(), Failure> {
        let world = self.setting.restart(images);
        let opening = Opening {
            is_degraded,
            expected: None,
            ..Opening::default()
        };
        let before = world.writes();
        match self.setting.maker.mount_as(&world, &opening) {
            Err(NotMounted::Refused(_)) if world.writes() == before => Ok(()),
            Err(NotMounted::Refused(reason)) => Err(Failure::new(format!(
                "Mirror: a start that was refused wrote something: {reason}"
            ))),
            Err(error) => Err(Failure::new(error).within("mount")),
            Ok(_) => Err(Failure::new(format!(
                "Mirror: drives that do not suffice were opened; by hand: {is_degraded}"
            ))),
        }
    }

    /// Starts from media, and looks at everything. With `None` nothing is compared.
    fn start(
        &self,
        images: &Images,
        (past, judged_at): (&Rc<Past>, Option<u64>),
        standing: &Standing,
        is_degraded: bool,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let model = &past.model;
        let compare = |view: &View| match judged_at {
            Some(at) => verify(view, model, at, self.has_gaps),
            None => Ok(()),
        };
        let moment = judged_at.map_or([0; 3], |at| model.moment_at(at));
        let known = match is_degraded {
            true => &self.known_by_hand,
            false => &self.known,
        };
        // What is known was compared with the life's own past.
        let known = match Rc::ptr_eq(past, &self.past) {
            true => known,
            false => &Judged::default(),
        };
        if let Some(verdict) = known.judge(images, moment, compare) {
            report.recoveries_known += 1;
            return verdict.map(|_geometry| ());
        }
        let world = self.setting.restart(images);
        let traced = |mut failure: Failure| {
            failure.trace = world.take_trace();
            failure
        };
        world.track();
        let opening = Opening {
            is_degraded,
            expected: None,
            ..Opening::default()
        };
        let mounted = self.setting.maker.mount_as(&world, &opening);
        let mut system = mounted.map_err(|error| traced(Failure::new(error).within("mount")))?;
        let since = past.since;
        let wanted = |name: &str| model.blocks_since(name, since, OLD_ONE_IN);
        let mut view = look_at(&world, &mut system, &wanted).map_err(traced)?;
        view.cp = self.found_cp.or(view.cp);
        compare(&view)
            .and_then(|()| expect_members(&system, standing))
            .map_err(traced)?;
        report.add_faults(&world);
        known.remember(world.take_footprint(), view, moment);
        Ok(())
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

/// A start uses the drives that are there and have everything, and no others. All of them are
/// right.
fn expect_members(system: &EngineSystem, standing: &Standing) -> Result<(), Failure> {
    for (seat, member) in system.members().into_iter().enumerate() {
        let drive = standing.drive_of(seat);
        let is_usable = drive.is_some_and(|drive| standing.is_usable(drive));
        // A drive that is back catches up, and is used then.
        let is_back =
            drive.is_some_and(|drive| standing.is_there(drive) && standing.is_behind(drive));
        let device = member.device.map(|device| device.0 as usize);
        if member.is_used != is_usable && !is_back || device.is_some() && device != drive {
            return Err(Failure::new(format!(
                "Mirror: a start uses {member:?} as drive {drive:?}, and it is usable: {is_usable}"
            )));
        }
    }
    match system.copies().read_elsewhere {
        0 => Ok(()),
        count => Err(Failure::new(format!(
            "Mirror: {count} blocks are wrong on a drive that is used"
        ))),
    }
}
