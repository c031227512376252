//! Commit: all blocks on stable media, then the superblock, then the clients' view (B-12, C-08,
//! O-01, O-02).
//!
//! 1. The superblock is submitted only after every write of the consistency point completed and a
//!    flush of every device submitted after that completed too.
//! 2. Clients see the new roots, and waiting operations are answered, only after the superblock is
//!    on stable media of every member.

use std::sync::atomic::Ordering;

use everglade_affinity::Permit;
use everglade_env::{Op, Page};
use everglade_format::label::{SUPERBLOCK_OFFSETS, label_offsets, superblock_slot};
use everglade_format::volume::Split;
use everglade_format::{FileId, Superblock};
use everglade_freespace::Areas;

use crate::background::pass::Pass;
use crate::background::shrink::Shrink;
use crate::background::{lun_clone, scan, split};
use crate::home::aggregate::Home;
use crate::home::ledger::Target;
use crate::home::run::Run;
use crate::home::volume::VolumeHome;
use crate::mend::Mender;
use crate::pool::info::Progress;
use crate::read::load::Stop;
use crate::read::root::Root;

/// Submits the remaining writes and waits for all writes.
pub(crate) fn write(home: &mut Home) -> Result<(), Stop> {
    let run = home.run.as_mut().expect("under way");
    run.writer.finish(&home.aggregate.media)?;
    for (_, device) in home.aggregate.media.layout().members() {
        run.writer.submit(Op::Flush { device });
    }
    Ok(())
}

/// Waits for the flushes, then submits the superblock. True when it is submitted.
pub(crate) fn flush(home: &mut Home) -> Result<bool, Stop> {
    let seconds = home.wall_seconds;
    let run = home.run.as_mut().expect("under way");
    run.writer.finish(&home.aggregate.media)?;
    let fs = &home.fs;
    let layout = home.aggregate.media.layout();
    let superblock = Superblock {
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
    let page = Page::copy_of(&superblock.encode(&home.aggregate.key)).freeze();
    let slot = SUPERBLOCK_OFFSETS[superblock_slot(run.number)];
    for (member, device) in layout.members() {
        let size = member.size_blocks * everglade_env::BLOCK_SIZE as u64;
        let offsets = label_offsets(size).map(|label| label + slot);
        run.writer.submit_superblock(device, offsets, &page);
    }
    Ok(true)
}

/// Waits until the superblock is on stable media everywhere.
pub(crate) fn superblock(home: &mut Home) -> Result<bool, Stop> {
    let run = home.run.as_mut().expect("under way");
    run.writer.finish(&home.aggregate.media)?;
    home.tell_usage();
    let pending = home.pending_blocks();
    home.under_way().pending = pending;
    Ok(true)
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
    /// because their area is left out.
    pub(crate) fn backed_blocks(&self) -> u64 {
        let areas = self.fs.areas.iter();
        let ready: u64 = areas.clone().map(Areas::ready_count).sum();
        let left_out: u64 = areas.map(Areas::left_out_blocks).sum();
        let backed = (self.fs.areas_used + ready) * self.fs.area_blocks;
        backed.saturating_sub(left_out)
    }
}
