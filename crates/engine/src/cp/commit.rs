//! Commit: all blocks on stable media, then the superblock, then the clients' view (B-12, C-08,
//! O-01, O-02).
//!
//! 1. The superblock is submitted only after every write of the consistency point completed and a
//!    flush of every device submitted after that completed too.
//! 2. A drive that was lost since the last commit, or is lost meanwhile, is recorded before
//!    anything is answered: a config record of the next epoch, which says that the drive is behind,
//!    is on stable media of all usable members before the superblock that names this epoch is
//!    submitted (decision 0041). A drive that has caught up is recorded in the same way.
//! 3. Clients see the new roots, and waiting operations are answered, only after the superblock is
//!    on stable media of every usable member.

use std::sync::atomic::Ordering;

use everglade_affinity::Permit;
use everglade_env::{BLOCK_SIZE, Op, Page, PageRef};
use everglade_format::label::{
    CONFIG_OFFSETS, SUPERBLOCK_OFFSETS, config_slot, label_offsets, superblock_slot,
};
use everglade_format::volume::Split;
use everglade_format::{FileId, Seat, Superblock};
use everglade_freespace::Areas;

use crate::background::pass::Pass;
use crate::background::shrink::Shrink;
use crate::background::{lun_clone, scan, split};
use crate::home::aggregate::Home;
use crate::home::ledger::Target;
use crate::home::run::{Phase, Run};
use crate::home::volume::VolumeHome;
use crate::media::{Layout, Media};
use crate::mend::Mender;
use crate::pool::info::Progress;
use crate::read::load::Stop;
use crate::read::root::Root;

/// Submits the remaining writes and waits for all writes.
pub(crate) fn write(home: &mut Home) -> Result<(), Stop> {
    let run = home.run.as_mut().expect("under way");
    run.writer.finish(&home.aggregate.media)?;
    for device in home.aggregate.media.layout().written() {
        run.writer.submit(Op::Flush { device });
    }
    Ok(())
}

/// Waits for the flushes. Then submits the superblock, or first the config records that record
/// losses. Returns the next phase, if that was possible.
pub(crate) fn flush(home: &mut Home) -> Result<Option<Phase>, Stop> {
    let run = home.run.as_mut().expect("under way");
    let media = &home.aggregate.media;
    run.writer.finish(media)?;
    // Everything that the drive lacked is on it, and flushed.
    if let Some(device) = home.catching_up.has_caught_up(run.number) {
        media.regain(device);
        home.catching_up.end();
        media.copies.set_catching_up(None);
    }
    let Some(recorded) = media.unrecorded() else {
        submit_superblock(home);
        return Ok(Some(Phase::Superblock));
    };
    if !submit_records(run, media, &recorded) {
        return Ok(None);
    }
    run.recorded = Some(recorded);
    Ok(Some(Phase::Record))
}

/// Says that members are missed before the first block is written without them: one of them may
/// have the superblock of a commit that was cut, whose blocks are about to be overwritten. The
/// record has no effect yet, but a superblock of the missed member does not count beside it.
/// Returns false if that must wait.
///
/// Before it, all usable members get the newest superblock: one that has just caught up may lack
/// it, and what proves that is the record of the epoch before, which this record replaces.
pub(crate) fn announce(home: &mut Home) -> Result<bool, Stop> {
    let run = home.run.as_mut().expect("under way");
    let media = &home.aggregate.media;
    home.healing.submit(&mut run.writer);
    run.writer.finish(media)?;
    if !run.second.is_empty() {
        submit_second(run, media);
        return Ok(false);
    }
    if !run.announced.is_empty() || !media.is_waiting() {
        return Ok(true);
    }
    if let Some(recorded) = media.unrecorded() {
        submit_records(run, media, &recorded);
    }
    Ok(false)
}

/// Says which drives were lost while the consistency point writes, before what it wrote without
/// them is all there is. Like [`announce`], the record has no effect yet. Returns false if that
/// must wait.
pub(crate) fn announce_losses(home: &mut Home) -> Result<bool, Stop> {
    let run = home.run.as_mut().expect("under way");
    let media = &home.aggregate.media;
    loop {
        run.writer.finish(media)?;
        if !run.second.is_empty() {
            submit_second(run, media);
            continue;
        }
        let unrecorded = media.unrecorded();
        let is_news = |recorded: &Layout| run.announced != seats_of(recorded);
        let Some(recorded) = unrecorded.filter(is_news) else {
            return Ok(true);
        };
        if !submit_records(run, media, &recorded) {
            return Ok(false);
        }
    }
}

fn seats_of(layout: &Layout) -> Vec<Seat> {
    let members = layout.config.members.iter();
    members.map(|member| member.seat).collect()
}

/// Submits a config record to all usable members, and to drives that get their seats with it; into
/// the front label of each first: a member that has caught up, or a new one, may have no other
/// record than the one in that slot, and is known by it. False if somebody else writes labels.
fn submit_records(run: &mut Run, media: &Media, recorded: &Layout) -> bool {
    // Whoever mends labels would take these records for those of a change that was cut.
    run.turn = run.turn.take().or_else(|| media.begin_change());
    if run.turn.is_none() {
        return false;
    }
    let present = media.layout();
    let newcomers = present.newcomers();
    let newcomers = newcomers.map(|(index, it)| (index, &recorded.config.members[index], it));
    for (index, member, device) in recorded.members().chain(newcomers) {
        let record = recorded.record_of(index).encode();
        let pages = record.chunks_exact(BLOCK_SIZE);
        let pages = pages.map(|page| Page::copy_of(page.try_into().expect("a block")).freeze());
        let pages: Vec<PageRef> = pages.collect();
        let slot = CONFIG_OFFSETS[config_slot(recorded.config.epoch)];
        let labels = label_offsets(member.size_blocks * BLOCK_SIZE as u64);
        let [front, end] = labels.map(|label| label + slot);
        run.writer.submit_copies(device, front, pages.clone());
        run.second.push((device, end, pages));
    }
    run.announced = seats_of(recorded);
    true
}

/// Submits the copies that waited for the others. A drive whose first write failed is not written
/// again: that copy may be torn, and the other one is all that says which drive it is.
fn submit_second(run: &mut Run, media: &Media) {
    let layout = media.layout();
    for (device, offset, pages) in run.second.drain(..) {
        let has_failed = media.copies.faults_of(device).write_errors > 0;
        if !(has_failed && layout.is_out(device)) {
            run.writer.submit_copies(device, offset, pages);
        }
    }
}

/// Waits for the records, which take effect then. If another drive was lost meanwhile, they do not,
/// and are written again. Returns the next phase, if that was all.
pub(crate) fn record(home: &mut Home) -> Result<Option<Phase>, Stop> {
    let run = home.run.as_mut().expect("under way");
    run.writer.finish(&home.aggregate.media)?;
    if !run.second.is_empty() {
        submit_second(run, &home.aggregate.media);
        return Ok(None);
    }
    let recorded = run.recorded.take().expect("written in the phase before");
    home.aggregate.media.set_recorded(&recorded);
    // There may be something to record again.
    Ok(Some(Phase::Flush))
}

/// Submits the superblock.
fn submit_superblock(home: &mut Home) {
    let seconds = home.wall_seconds;
    let run = home.run.as_mut().expect("under way");
    let fs = &home.fs;
    let layout = home.aggregate.media.layout();
    let new = || Superblock {
        cp: run.number,
        uuid: home.aggregate.uuid,
        epoch: layout.config.epoch,
        written_seconds: seconds,
        clean: run.last,
        name: home.aggregate.changed_name(),
        blocks_used: fs.used,
        areas_used: fs.areas_used,
        frontiers: fs
            .areas
            .iter()
            .map(|areas| {
                u32::try_from(areas.frontier()).expect("an extent has fewer than 2^32 areas")
            })
            .collect(),
        next_file: fs.next_file,
        inode_file: fs.inode_file.inode.clone(),
        journal_generation: run.position.generation,
        journal_sequence: run.position.sequence,
    };
    // Written again, it is the same but for the epoch: areas may have been prepared meanwhile.
    let superblock = Superblock {
        epoch: layout.config.epoch,
        ..run.superblock.clone().unwrap_or_else(new)
    };
    let is_again = run.superblock.replace(superblock.clone()).is_some();
    let page = Page::copy_of(&superblock.encode(&home.aggregate.key)).freeze();
    let slot = SUPERBLOCK_OFFSETS[superblock_slot(run.number)];
    for (_, member, device) in layout.members() {
        let size = member.size_blocks * BLOCK_SIZE as u64;
        let [front, end] = label_offsets(size).map(|label| label + slot);
        run.writer.submit_copy(device, front, page.clone());
        // A cut must leave one of the copies that are there already.
        match is_again {
            true => run.second.push((device, end, vec![page.clone()])),
            false => run.writer.submit_copy(device, end, page.clone()),
        }
    }
}

/// Waits until the superblock is on stable media of all usable members. Returns the next phase, if
/// that was all: a drive that was lost meanwhile is recorded first, and the superblock is written
/// again with the next epoch. Nothing of the consistency point is answered before.
pub(crate) fn superblock(home: &mut Home) -> Result<Option<Phase>, Stop> {
    let run = home.run.as_mut().expect("under way");
    run.writer.finish(&home.aggregate.media)?;
    if !run.second.is_empty() {
        submit_second(run, &home.aggregate.media);
        return Ok(None);
    }
    home.aggregate.media.committed();
    if home.aggregate.media.is_waiting() {
        return Ok(Some(Phase::Flush));
    }
    home.tell_usage();
    let pending = home.pending_blocks();
    home.under_way().pending = pending;
    Ok(Some(Phase::Publish))
}

/// Makes the consistency point what clients see. Inside the Aggregate affinity; pointer swaps only.
/// The finished run is returned so that its memory can be freed outside.
pub(crate) fn publish(home: &mut Home, permit: &Permit) -> Run {
    let mut run = home.run.take().expect("under way");
    assert!(
        run.writer.is_idle(),
        "published before everything was written"
    );
    run.publication.publish();
    for (volume, index, overlay) in &run.frozen {
        // A volume deleted in the freeze has left the tree with its stripes.
        if home.volumes.contains_key(&volume.id) {
            let mut state = volume.stripes[*index].get(permit);
            let dropped = state.frozen.take().expect("frozen until published");
            assert!(
                std::sync::Arc::ptr_eq(&dropped, overlay),
                "another overlay was frozen"
            );
            volume.frozen_stripes.store(0, Ordering::Release);
        }
    }
    home.fs.finish_cp();
    home.mender = Mender::new(
        &home.aggregate,
        home.fs.inode_file.inode.clone(),
        run.number,
    );
    if let Some(repair) = &home.repair {
        repair.tell_progress(home.wall_seconds);
    }
    home.repair.take_if(|repair| repair.is_done());
    home.tell_moved();
    let backed = home.backed_blocks();
    home.aggregate
        .space
        .commit(run.number, home.fs.used, backed, run.pending);
    home.aggregate.set_committed(run.number);
    home.aggregate.add_former(&run.removed);
    if let (true, Some(log)) = (run.frees_log, &home.aggregate.log) {
        let epoch = home.aggregate.media.layout().config.epoch;
        home.leaving.add_entries(log.commit(run.position, epoch));
    }
    run
}

impl Home {
    /// Returns the blocks that deletions have yet to free.
    pub(crate) fn pending_blocks(&self) -> u64 {
        let volumes = self.volumes.iter();
        let volumes = volumes.map(|(id, volume)| self.pending_in(*id, volume));
        let containers = Shrink.progress(self, Target::Aggregate);
        volumes.sum::<u64>() + containers.map_or(0, Progress::left)
    }

    /// Returns the blocks that deletions in one volume have yet to free.
    fn pending_in(&self, id: FileId, volume: &VolumeHome) -> u64 {
        let files = Shrink.progress(self, Target::Volume(id));
        files.map_or(0, Progress::left) + volume.fs.snapshots.pending_blocks()
    }

    /// Tells people how much each volume holds.
    pub(crate) fn tell_usage(&self) {
        for (id, volume) in &self.volumes {
            let shared = &volume.shared;
            shared.used_blocks.store(volume.fs.used, Ordering::Relaxed);
            let roots = &volume.fs.snapshots.roots;
            let sides = roots
                .files
                .into_iter()
                .flat_map(|(map, table)| [map, table]);
            let files = sides.chain(roots.release).chain([*id]);
            let blocks = files.map(|file| self.fs.files.get(&file).map_or(0, |it| it.inode.blocks));
            shared
                .allocated_blocks
                .store(blocks.sum(), Ordering::Relaxed);
            let pending = self.pending_in(*id, volume);
            shared.pending_blocks.store(pending, Ordering::Relaxed);
            shared.set_scan(scan::describe(self, *id));
            shared.set_lun_clone(lun_clone::describe(self, *id));
            shared.set_split(split::describe(self, *id));
            shared.set_base(roots.base);
        }
    }

    /// Publishes the new places of blocks of split volumes ([`crate::read::redirects`]).
    pub(crate) fn tell_moved(&self) {
        let is_split = |volume: &VolumeHome| volume.fs.snapshots.roots.split == Split::Done;
        let containers = self.volumes.iter().map(|(id, volume)| {
            let root = Root::of(&self.fs.files[id].inode);
            (is_split(volume), *id, root)
        });
        let redirects = &self.aggregate.redirects;
        redirects.set(containers);
        if !redirects.is_any() {
            return;
        }
        for (id, volume) in &self.volumes {
            let parent = |id: &FileId| {
                let base = self.volumes.get(id)?.fs.snapshots.roots.base?.0;
                (base < *id).then_some(base)
            };
            let mut line = std::iter::successors(Some(*id), parent);
            let is_moved = line.any(|id| self.volumes.get(&id).is_some_and(is_split));
            volume.shared.set_moved(is_moved);
        }
    }

    /// Blocks of areas for which the host has given space, without those that cannot be used
    /// because their area is left out or shut.
    pub(crate) fn backed_blocks(&self) -> u64 {
        let areas = self.fs.areas.iter();
        let ready: u64 = areas.clone().map(Areas::ready_count).sum();
        let left_out: u64 = areas.map(Areas::left_out_blocks).sum();
        let backed = (self.fs.areas_used + ready) * self.fs.area_blocks;
        backed
            .saturating_sub(left_out)
            .min(self.aggregate.space.total())
    }
}
