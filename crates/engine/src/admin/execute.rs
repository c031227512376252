//! Administrative changes: volumes and LUNs are created, deleted, resized and renamed. Changes are
//! executed in the freeze, and are durable at the commit. Renaming is in `rename`, snapshots are in
//! `snapshot::change`.

use everglade_affinity::Permit;
use everglade_format::CpNumber;

use crate::admin::lun::{create_lun, delete_lun, grow_lun, shrink_lun};
use crate::admin::volume::{create_volume, delete_volume, set_sync};
use crate::admin::{clone, devices, garden, notes, removal, rename, snapshot, trash};
use crate::background::{lun_clone, split};
use crate::change::{Change, Context, Error};
use crate::home::aggregate::Home;
use crate::snapshot::lun;

/// Executes a change. Allocates memory but loads nothing.
pub(crate) fn execute(
    home: &mut Home,
    permit: &Permit,
    context: &mut Context<'_>,
    cp: CpNumber,
    change: &Change,
) -> Result<(), Error> {
    match change {
        Change::CreateVolume { name, sync } => create_volume(home, context, cp, name, *sync),
        Change::DeleteVolume { name } => delete_volume(home, permit, context, name),
        Change::RenameVolume { name, to } => rename::volume(home, context, name, to),
        Change::SetSync { volume, sync } => set_sync(home, volume, *sync),
        Change::RenameAggregate { to } => rename::aggregate(home, to),
        Change::Grow { next } => devices::change(home, next),
        Change::TakeOut { device } => devices::take_out(home, *device),
        Change::SetNotes { text } => notes::set(home, cp, context.seconds, text),
        Change::RenameLun { volume, name, to } => rename::lun(home, volume, name, to),
        Change::CreateLun {
            volume,
            name,
            size_bytes,
        } => create_lun(home, context, cp, volume, name, *size_bytes),
        Change::DeleteLun { volume, name } => delete_lun(home, volume, name),
        Change::TrashLun { volume, name } => trash::put_lun(home, context.seconds, volume, name),
        Change::UndeleteLun { volume, lun, name } => trash::undelete_lun(home, volume, *lun, name),
        Change::PurgeLun { volume, lun } => trash::purge_lun(home, volume, *lun),
        Change::TrashVolume { name } => trash::put_volume(home, context, name),
        Change::UndeleteVolume { volume, name } => {
            trash::undelete_volume(home, context, *volume, name)
        }
        Change::PurgeVolume { volume } => trash::purge_volume(home, permit, context, *volume),
        Change::ShrinkLun {
            volume,
            name,
            size_bytes,
        } => shrink_lun(home, volume, name, *size_bytes),
        Change::GrowLun {
            volume,
            name,
            size_bytes,
        } => grow_lun(home, volume, name, *size_bytes),
        Change::CreateSnapshot { volume, name } => {
            snapshot::create(home, cp, context.seconds, volume, name)
        }
        Change::RenameSnapshot { volume, name, to } => snapshot::rename(home, volume, name, to),
        Change::DeleteSnapshot { volume, name } => snapshot::delete(home, volume, name),
        Change::TrashSnapshot { volume, name } => {
            trash::put_snapshot(home, context.seconds, volume, name)
        }
        Change::UndeleteSnapshot {
            volume,
            snapshot,
            name,
        } => trash::undelete_snapshot(home, volume, *snapshot, name),
        Change::PurgeSnapshot { volume, snapshot } => {
            trash::purge_snapshot(home, volume, *snapshot)
        }
        Change::HoldSnapshot { volume, name, tag } => {
            snapshot::add_hold(home, context.seconds, volume, name, tag)
        }
        Change::SetScanPace { volume, percent } => snapshot::set_pace(home, volume, *percent),
        Change::ReleaseSnapshot { volume, name, tag } => {
            snapshot::release_hold(home, volume, name, tag)
        }
        Change::CloneVolume {
            name,
            parent,
            snapshot: base,
        } => clone::create(home, context, cp, name, (parent, base)),
        Change::CloneLun {
            volume,
            lun,
            name,
            from,
        } => {
            let stamp = (cp, context.seconds);
            lun_clone::begin(home, stamp, (volume, lun), name, from.as_deref())
        }
        Change::CancelLunClone { volume, name } => lun_clone::cancel(home, volume, name),
        Change::StartRepair => {
            home.start_repair();
            Ok(())
        }
        Change::StartScrub { earlier } => {
            home.start_scrub(*earlier);
            Ok(())
        }
        Change::PauseScrub => {
            home.pause_scrub();
            Ok(())
        }
        Change::StartCleaning { least_free_percent } => {
            garden::start_cleaning(home, *least_free_percent)
        }
        Change::StartLayout {
            volume,
            lun,
            is_estimate,
        } => garden::start_layout(home, context.seconds, (volume, lun), *is_estimate),
        Change::StartRebalance => garden::start_rebalance(home, context.seconds),
        Change::MapSpace => {
            home.start_space_map();
            Ok(())
        }
        Change::StopGardening => {
            home.stop_gardening();
            Ok(())
        }
        Change::StartRemoval { member } => removal::start(home, context.seconds, *member),
        Change::StopRemoval => removal::stop(home),
        Change::StopRepair => {
            home.stop_repair();
            Ok(())
        }
        Change::StartSplit { volume } => split::start(home, volume),
        Change::StopSplit { volume } => split::stop(home, volume),
        Change::RestoreLun {
            volume,
            snapshot: target,
            lun: name,
            safety,
        } => lun::begin(home, context.seconds, (volume, target), name, safety),
        Change::RestoreVolume {
            volume,
            snapshot: target,
            safety,
        } => snapshot::restore(home, context.seconds, volume, target, safety),
        Change::RollBackVolume {
            volume,
            snapshot: target,
            discards,
        } => snapshot::roll_back(home, context.seconds, volume, target, discards),
    }
}
