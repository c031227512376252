//! The media of an aggregate, as its reactors share them: the present layout, and how much of the
//! devices a consistency point may use.
//!
//! A drive that fails is *lost* from then on, if another drive has its blocks (decision 0041). The
//! config record says that it is current until a consistency point commits another record.
//! Meanwhile the aggregate *waits* for that commit: nothing that the lost drive lacks is
//! acknowledged.
//!
//! ```text
//! lose ─▶ waiting ─▶ record of the next epoch on all usable members ─▶ superblock ─▶ committed
//! ```
//!
//! A seat that is behind may get another drive, its *successor* ([`crate::mount::replacement`]).
//! The record that is written next names it, and it catches up when that is committed.
//!
//! A drive that is behind and there *catches up* ([`crate::cp::catch_up`]), and is *regained* in a
//! consistency point that records it in the same way. It is no spare for another drive before that
//! is committed: the record of the other drive says that the regained one is behind, so the other
//! drive would be opened alone, without what was acknowledged after it was lost.
//!
//! A record gets the first epoch for the slot of the next one that is above all epochs of the
//! labels that were found. A drive that is away may have the superblock of a change that was cut,
//! which names such an epoch. It is overruled by records of later epochs only
//! ([`crate::mount::labels`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everglade_env::lock::{Mutex, RwLock};
use everglade_env::{DeviceId, Nanos};
use everglade_format::Pvbn;

use crate::media::copies::Copies;
use crate::media::layout::expansion::Expansion;
use crate::media::layout::{Across, Layout, Place, Successor};
use crate::media::next::Turn;
use crate::media::pace::Pace;
use crate::media::share::DeviceShare;

/// The drives that an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those of a member's column.
    Column(u32),
    /// The same; of a parity group those of all columns.
    Rows(u32),
    /// Those that have the journal.
    Journal,
}

/// See the module's documentation.
pub(crate) struct Media {
    layout: RwLock<Arc<Layout>>,
    /// True if the aggregate has groups of drives; it never changes.
    has_groups: bool,
    /// True if it has parity groups; it never changes.
    has_parity: bool,
    /// Grows by one when stripes begin to be written, and when they are written. So it is odd
    /// meanwhile, and what is reconstructed then may be wrong.
    stripes_version: AtomicU64,
    /// The epoch that the last committed superblock names.
    epoch: AtomicU64,
    /// The highest epoch of a record in the labels that were found.
    highest: u64,
    /// True while a lost drive is not recorded as being behind, or `is_renewed` holds.
    is_waiting: AtomicBool,
    /// True until a commit names a record of an epoch above `highest`: a drive that is away may
    /// have a superblock of a change that was cut.
    is_renewed: AtomicBool,
    /// The drive that the consistency point under way records as having caught up.
    regained: Mutex<Option<DeviceId>>,
    /// True while somebody prepares a change of the devices.
    is_changing: Arc<AtomicBool>,
    /// True while somebody prepares a drive for a seat, or a consistency point gives it the seat.
    /// This excludes no other writer of labels: the labels of the new drive are nobody else's.
    is_seating: Arc<AtomicBool>,
    pub(crate) share: DeviceShare,
    pub(crate) pace: Pace,
    pub(crate) copies: Copies,
    pub(crate) stripes: StripeCounts,
}

/// Stripes of parity groups that consistency points have written since the aggregate was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StripesInfo {
    /// Stripes that were written without reading.
    pub full: u64,
    /// Stripes of which a part was read.
    pub partial: u64,
    /// Blocks that were read for parity.
    pub read_blocks: u64,
    /// Free blocks that were filled with zeroes.
    pub filled_blocks: u64,
}

/// The same, as it is counted.
#[derive(Default)]
pub(crate) struct StripeCounts {
    /// Those of which nothing stayed.
    pub(crate) full: AtomicU64,
    /// The others.
    pub(crate) partial: AtomicU64,
    /// Blocks that stayed, and were read for parity.
    pub(crate) read: AtomicU64,
    /// Free blocks that were filled with zeroes.
    pub(crate) filled: AtomicU64,
}

impl StripeCounts {
    pub(crate) fn info(&self) -> StripesInfo {
        StripesInfo {
            full: self.full.load(Ordering::Relaxed),
            partial: self.partial.load(Ordering::Relaxed),
            read_blocks: self.read.load(Ordering::Relaxed),
            filled_blocks: self.filled.load(Ordering::Relaxed),
        }
    }
}

impl Media {
    pub(crate) fn new(layout: Layout) -> Media {
        Media {
            share: DeviceShare::new(layout.devices().count()),
            pace: Pace::default(),
            has_groups: layout.config.has_groups(),
            has_parity: layout.config.has_parity(),
            stripes_version: AtomicU64::new(0),
            epoch: AtomicU64::new(layout.config.epoch),
            highest: layout.config.epoch,
            is_renewed: AtomicBool::new(false),
            regained: Mutex::new(None),
            is_waiting: AtomicBool::new(layout.has_losses()),
            layout: RwLock::new(Arc::new(layout)),
            is_changing: Arc::default(),
            is_seating: Arc::default(),
            copies: Copies::default(),
            stripes: StripeCounts::default(),
        }
    }

    /// The same of an aggregate whose labels have a record of the epoch `highest`, which is the
    /// layout's own or belongs to a change that was cut.
    pub(crate) fn after_change(self, highest: u64) -> Media {
        let layout = self.layout();
        let is_cut = highest > layout.config.epoch;
        let is_renewed = self.has_groups && is_cut && layout.is_any_absent();
        Media {
            highest: highest.max(layout.config.epoch),
            is_waiting: AtomicBool::new(layout.has_losses() || is_renewed),
            is_renewed: AtomicBool::new(is_renewed),
            ..self
        }
    }

    /// True if the aggregate has groups of drives.
    pub(crate) fn has_groups(&self) -> bool {
        self.has_groups
    }

    /// True if the aggregate has parity groups.
    pub(crate) fn has_parity(&self) -> bool {
        self.has_parity
    }

    /// True if a block is in a parity group.
    pub(crate) fn is_in_rows(&self, pvbn: Pvbn) -> bool {
        self.across(pvbn).is_some()
    }

    /// Returns the place of a block in its parity group; `None` if it is in none.
    pub(crate) fn across(&self, pvbn: Pvbn) -> Option<Across> {
        match self.has_parity {
            true => self.layout.read().across(pvbn),
            false => None,
        }
    }

    /// A number that is odd while stripes are written, and changes when that begins and ends.
    pub(crate) fn stripes_version(&self) -> u64 {
        self.stripes_version.load(Ordering::Acquire)
    }

    /// Stripes are written from now on, or are not any more.
    pub(crate) fn set_writing_stripes(&self, is_writing: bool) {
        let version = self.stripes_version();
        if version.is_multiple_of(2) == is_writing {
            self.stripes_version.store(version + 1, Ordering::Release);
        }
    }

    /// Returns the present layout.
    pub(crate) fn layout(&self) -> Arc<Layout> {
        self.layout.read().clone()
    }

    /// Returns the epoch that the last committed superblock names.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Begins a change of the devices; `None` while another one is under way.
    pub(crate) fn begin_change(&self) -> Option<Turn> {
        Turn::take(&self.is_changing)
    }

    /// Begins to give seats to new drives, or more blocks to an aggregate of groups; `None` while
    /// somebody else does. Losses are recorded meanwhile.
    pub(crate) fn begin_seating(&self) -> Option<Turn> {
        Turn::take(&self.is_seating)
    }

    /// Gives a seat to another drive, with the next record. False if the seat is not what the drive
    /// was prepared for, or the record would be of another epoch than the one in its label. In the
    /// freeze only.
    pub(crate) fn put_in(&self, successor: &Successor, epoch: u64) -> bool {
        let mut layout = self.layout.write();
        let next = layout.with_successor(successor);
        let Some(next) = next.filter(|_| self.next_epoch() == epoch) else {
            return false;
        };
        *layout = Arc::new(next);
        true
    }

    /// Adds an expansion, which the next record has. `None` if the devices are not those that it
    /// was planned for. In the freeze only.
    pub(crate) fn expand(&self, expansion: &Expansion) -> Option<Arc<Layout>> {
        let mut layout = self.layout.write();
        let next = Arc::new(layout.with_expansion(expansion)?);
        self.share.set_devices(next.devices().count());
        *layout = next.clone();
        // A stripe may have more columns now than somebody reads: it is read again.
        self.stripes_version.fetch_add(2, Ordering::AcqRel);
        Some(next)
    }

    /// Uses a layout with a removal, which the next record has. In the freeze only.
    pub(crate) fn set_removal(&self, next: Layout) {
        let mut layout = self.layout.write();
        assert!(next.has_new_removal(), "nothing is to be recorded");
        self.share.set_devices(next.devices().count());
        *layout = Arc::new(next);
        // A stripe may have no place any more: whoever reads one reads it again.
        self.stripes_version.fetch_add(2, Ordering::AcqRel);
    }

    /// Takes a drive out, as if it had failed: it is neither read nor written any more. False if no
    /// other drive has its blocks.
    pub(crate) fn take_out(&self, device: DeviceId) -> bool {
        if !self.lose(device) {
            return false;
        }
        let mut layout = self.layout.write();
        if layout.has_device(device) {
            *layout = Arc::new(layout.with_failed(device));
        }
        true
    }

    /// Replaces the layout by the next one. In the freeze only.
    pub(crate) fn set_layout(&self, next: Arc<Layout>) {
        let mut layout = self.layout.write();
        assert!(next.follows(&layout), "a layout only grows");
        self.share.set_devices(next.devices().count());
        *layout = next;
    }

    /// Stops using a drive that failed. False if no other drive has its blocks and is known by all
    /// drives to have them.
    pub(crate) fn lose(&self, device: DeviceId) -> bool {
        if !self.has_groups {
            return false;
        }
        let mut layout = self.layout.write();
        if layout.is_out(device) {
            return true;
        }
        let is_last = self.regained.lock().is_some_and(|regained| {
            device != regained && !layout.suffices_without(device, |other| other != regained)
        });
        let Some(next) = layout.without(device).filter(|_| !is_last) else {
            return false;
        };
        if next.has_losses() {
            self.is_waiting.store(true, Ordering::Release);
        }
        *layout = Arc::new(next);
        true
    }

    /// True while a lost drive is not recorded: what it lacks must not be acknowledged.
    pub(crate) fn is_waiting(&self) -> bool {
        self.has_groups && self.is_waiting.load(Ordering::Acquire)
    }

    /// Returns the layout with losses and regained drives recorded in a config record of the next
    /// epoch; `None` if the present config record has them.
    pub(crate) fn unrecorded(&self) -> Option<Layout> {
        let layout = self.layout();
        let is_renewed = self.is_renewed.load(Ordering::Acquire);
        let is_missing = is_renewed && layout.config.epoch == self.epoch();
        let may_differ = self.has_groups || layout.has_new_removal();
        let is_unrecorded = may_differ && (layout.is_unrecorded() || is_missing);
        is_unrecorded.then(|| layout.with_uses_recorded(self.next_epoch()))
    }

    /// The epoch of the next record. Its slot is that of the epoch after the committed one, whose
    /// record stays.
    pub(crate) fn next_epoch(&self) -> u64 {
        let next = self.epoch() + 1;
        match self.highest.checked_sub(next) {
            None => next,
            Some(beyond) => next + beyond / 2 * 2 + 2,
        }
    }

    /// Records a client's read that a device completed at `now` after the duration `took`.
    pub(crate) fn note_read(&self, took: Nanos, now: Nanos) {
        self.pace.hear(now);
        match (self.share.is_writing(), self.pace.is_busy()) {
            (false, false) => self.share.note_alone(took),
            (_, is_busy) => {
                let is_slow = self.share.note_read(took, now);
                if is_busy {
                    self.pace.note_read(is_slow, now);
                }
            }
        }
    }

    /// True if a drive catches up, or is there to do so.
    pub(crate) fn is_any_behind(&self) -> bool {
        if !self.has_groups {
            return false;
        }
        let layout = self.layout.read();
        let mut devices = layout.devices();
        layout.returned().is_some() || devices.any(|device| layout.is_catching_up(device))
    }

    /// A drive that is behind and out, though it is there: its member and device.
    pub(crate) fn returned(&self) -> Option<(u32, DeviceId)> {
        match self.has_groups {
            true => self.layout.read().returned(),
            false => None,
        }
    }

    /// Begins to write a drive that is behind. No write of a consistency point may be under way.
    pub(crate) fn begin_catching_up(&self, device: DeviceId) {
        let mut layout = self.layout.write();
        *layout = Arc::new(layout.with_catching_up(device));
    }

    /// True if a drive is written and not read.
    pub(crate) fn is_catching_up(&self, device: DeviceId) -> bool {
        self.has_groups && self.layout.read().is_catching_up(device)
    }

    /// Begins to read a drive that has caught up.
    pub(crate) fn regain(&self, device: DeviceId) {
        let mut layout = self.layout.write();
        if layout.is_catching_up(device) {
            *layout = Arc::new(layout.with_regained(device));
            *self.regained.lock() = Some(device);
        }
    }

    /// Uses a layout whose record is on all usable members. False if another drive was lost
    /// meanwhile.
    pub(crate) fn set_recorded(&self, recorded: &Layout) -> bool {
        let mut layout = self.layout.write();
        if layout.with_uses_recorded(recorded.config.epoch) != *recorded {
            return false;
        }
        *layout = Arc::new(recorded.clone());
        true
    }

    /// The superblock that names the epoch of the present layout is on all usable members.
    pub(crate) fn committed(&self) {
        let layout = self.layout.write();
        self.epoch.store(layout.config.epoch, Ordering::Release);
        self.is_renewed.store(false, Ordering::Release);
        *self.regained.lock() = None;
        self.is_waiting
            .store(layout.has_losses(), Ordering::Release);
    }

    /// Returns the drives to which an operation goes; `None` if there are no groups, so that it
    /// goes to the device that it names.
    pub(crate) fn drives_of(&self, scope: Scope) -> Option<Vec<DeviceId>> {
        if !self.has_groups {
            return None;
        }
        let layout = self.layout.read();
        Some(match scope {
            Scope::Column(member) => layout.drives_of(member).to_vec(),
            Scope::Rows(member) => layout.row_drives(member),
            Scope::Journal => layout.journal_drives(),
        })
    }

    /// Returns the drives in full use of a member's column, or of its parity group; `None` if there
    /// are no groups.
    pub(crate) fn full_of(&self, member: u32) -> Option<Vec<DeviceId>> {
        match self.has_groups {
            true => Some(self.layout.read().full_row_drives(member)),
            false => None,
        }
    }

    /// Returns a drive in full use of a member's column.
    pub(crate) fn first_of(&self, member: u32) -> DeviceId {
        self.layout.read().first_of(member)
    }

    /// Number of usable drives that have a block.
    pub(crate) fn copies_of(&self, pvbn: Pvbn) -> u32 {
        let copies = match self.has_groups {
            true => self.layout.read().copies(pvbn),
            false => 1,
        };
        u32::try_from(copies).expect("few drives")
    }

    /// Returns the place of a block on another drive for each of successive `turn`s.
    pub(crate) fn locate_copy(&self, pvbn: Pvbn, turn: u32) -> Option<Place> {
        self.layout.read().locate_copy(pvbn, turn)
    }

    /// Returns the place of a block; `None` if no extent has the block.
    pub(crate) fn locate(&self, pvbn: Pvbn) -> Option<Place> {
        self.layout.read().locate(pvbn)
    }
}

#[cfg(test)]
mod tests {
    use everglade_env::DeviceId;

    use super::*;
    use crate::media::layout::tests::{mirror, successor, three_devices, two_devices};

    #[test]
    fn blocks_of_an_added_device_have_a_place_from_then_on() {
        let media = Media::new(two_devices());
        let known = media.locate(Pvbn(700));
        assert_eq!(media.locate(Pvbn(1024)), None);
        media.set_layout(Arc::new(three_devices()));
        assert_eq!(media.locate(Pvbn(700)), known);
        let place = media.locate(Pvbn(1024)).expect("of the third device");
        assert_eq!((place.device, place.run), (DeviceId(6), 512));
    }

    #[test]
    #[should_panic(expected = "a layout only grows")]
    fn a_layout_of_another_epoch_is_refused() {
        Media::new(three_devices()).set_layout(Arc::new(two_devices()));
    }

    #[test]
    fn the_aggregate_waits_from_a_loss_until_it_is_recorded() {
        let media = Media::new(mirror());
        assert!(!media.is_waiting() && media.unrecorded().is_none());
        assert_eq!(
            media.drives_of(Scope::Column(0)).map(|drives| drives.len()),
            Some(2)
        );
        assert!(media.lose(DeviceId(5)));
        assert!(media.lose(DeviceId(5)), "it is lost already");
        assert!(!media.lose(DeviceId(4)), "it is the last one");
        assert!(media.is_waiting());
        assert_eq!(media.drives_of(Scope::Column(0)), Some(vec![DeviceId(4)]));
        assert_eq!(media.drives_of(Scope::Column(1)), Some(vec![DeviceId(4)]));
        assert_eq!(Media::new(two_devices()).drives_of(Scope::Column(1)), None);
        let recorded = media.unrecorded().expect("a loss");
        assert_eq!(recorded.config.epoch, 2);
        assert!(media.set_recorded(&recorded));
        assert!(media.is_waiting(), "the superblock is not committed");
        assert_eq!(media.epoch(), 1);
        media.committed();
        assert_eq!(media.epoch(), 2);
        assert!(!media.is_waiting() && media.unrecorded().is_none());
        assert!(
            !Media::new(two_devices()).lose(DeviceId(4)),
            "no redundancy"
        );
    }

    /// A mirror that opened with drive 4 behind, in epoch 2.
    fn behind() -> Layout {
        let lost = mirror().without(DeviceId(4)).expect("there is another one");
        let devices = vec![Some(DeviceId(4)), Some(DeviceId(5))];
        Layout::new(lost.with_uses_recorded(2).config, devices).expect("a sound table")
    }

    #[test]
    fn a_drive_that_caught_up_is_no_spare_before_that_is_committed() {
        let media = Media::new(behind());
        media.begin_catching_up(DeviceId(4));
        media.regain(DeviceId(4));
        assert!(!media.lose(DeviceId(5)), "its record says that 4 is behind");
        let recorded = media.unrecorded().expect("a drive that was regained");
        assert!(media.set_recorded(&recorded));
        assert!(!media.lose(DeviceId(5)), "no superblock names the record");
        media.committed();
        assert!(media.lose(DeviceId(5)));
        let media = Media::new(behind());
        media.begin_catching_up(DeviceId(4));
        media.regain(DeviceId(4));
        assert!(media.lose(DeviceId(4)), "the other one has everything");
    }

    #[test]
    fn epochs_of_changes_that_were_cut_are_left_out() {
        let epoch = |highest: u64| {
            let media = Media::new(mirror()).after_change(highest);
            assert!(media.unrecorded().is_none(), "all drives are there");
            assert!(media.lose(DeviceId(5)));
            media.unrecorded().map(|it| it.config.epoch)
        };
        let epochs: Vec<Option<u64>> = (0..6).map(epoch).collect();
        assert_eq!(epochs, [2, 2, 4, 4, 6, 6].map(Some), "in the slot of 2");
    }

    #[test]
    fn a_cut_change_is_outdone_if_a_drive_that_is_away_may_have_it() {
        let alone = || Layout::new(behind().config, vec![None, Some(DeviceId(5))]);
        let alone = || alone().expect("a sound table");
        assert!(!Media::new(alone()).after_change(2).is_waiting());
        assert!(
            !Media::new(behind()).after_change(3).is_waiting(),
            "it is there"
        );
        let media = Media::new(alone()).after_change(3);
        assert!(media.is_waiting());
        let recorded = media.unrecorded().expect("an epoch that was seen");
        assert_eq!(recorded.config.epoch, 5);
        assert_eq!(recorded.config.members, behind().config.members);
        assert!(media.set_recorded(&recorded));
        assert!(media.unrecorded().is_none() && media.is_waiting());
        media.committed();
        assert!(!media.is_waiting() && media.unrecorded().is_none());
    }

    /// Records what is to be recorded, and commits it.
    fn commit(media: &Media) {
        let recorded = media.unrecorded().expect("there is something");
        assert!(media.set_recorded(&recorded));
        media.committed();
    }

    #[test]
    fn a_drive_is_taken_out_before_another_one_gets_its_seat() {
        let media = Media::new(mirror());
        assert!(!media.put_in(&successor(), 2), "the seat is in use");
        assert!(media.take_out(DeviceId(4)));
        assert!(media.is_waiting(), "it lacks what is written from now on");
        assert!(!media.put_in(&successor(), 2), "that is not recorded");
        commit(&media);
        assert!(
            !media.put_in(&successor(), 2),
            "the epoch of another record"
        );
        assert!(media.put_in(&successor(), 3));
        assert!(!media.put_in(&successor(), 3), "one at a time");
        assert!(!media.is_waiting() && !media.is_any_behind());
        commit(&media);
        assert_eq!(media.returned(), Some((0, DeviceId(7))));
        assert!(media.lose(DeviceId(4)), "an operation that was under way");
        assert!(!media.is_waiting());
        assert_eq!(media.drives_of(Scope::Column(0)), Some(vec![DeviceId(5)]));
    }

    #[test]
    fn a_drive_that_is_behind_is_taken_out_for_good_and_the_last_one_is_not() {
        for is_catching_up in [false, true] {
            let media = Media::new(behind());
            if is_catching_up {
                media.begin_catching_up(DeviceId(4));
            }
            assert!(!media.put_in(&successor(), 3), "it may catch up");
            assert!(!media.take_out(DeviceId(5)), "no other has its blocks");
            assert!(media.take_out(DeviceId(4)));
            assert_eq!(media.returned(), None);
            assert!(media.put_in(&successor(), 3));
        }
        assert!(!Media::new(two_devices()).take_out(DeviceId(4)));
    }

    #[test]
    fn a_loss_meanwhile_is_in_the_record_of_the_successor() {
        let three = {
            let mut config = mirror().config;
            let mut third = config.members[1].clone();
            (third.uuid, third.seat.column) = ([6; 16], 2);
            config.members.push(third);
            let devices = [4, 5, 6].map(|id| Some(DeviceId(id)));
            Layout::new(config, devices.to_vec()).expect("a sound table")
        };
        let media = Media::new(three);
        assert!(media.take_out(DeviceId(4)));
        commit(&media);
        assert!(media.put_in(&successor(), 3));
        let recorded = media.unrecorded().expect("a successor");
        assert!(media.lose(DeviceId(5)));
        assert!(
            !media.set_recorded(&recorded),
            "it does not say that 5 is behind"
        );
        commit(&media);
        let layout = media.layout();
        assert_eq!(layout.config.members[0].uuid, [7; 16]);
        assert!(!layout.config.members[1].seat.is_current());
        assert_eq!(layout.drives_of(0), [DeviceId(6)]);
    }
}
