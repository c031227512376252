//! Changed blocks between two images of a LUN, compared with the model.
//!
//! A missed difference makes a backup lose data; an equal block reported as different costs only
//! time. For a block written with its former content both answers are correct, also if the system
//! itself writes it when a LUN is put in order ([`EngineSystem::moves_unshare`]).
//!
//! [`EngineSystem::moves_unshare`]: crate::engine::EngineSystem::moves_unshare

use everglade_env::BLOCK_SIZE;
use everglade_target::{Allocation, Op, Reply};

use super::Failure;
use super::asker::{Asker, Ended, Lun};
use crate::system::System;

const BLOCK: u64 = BLOCK_SIZE as u64;
/// Extents wanted at a time: few, so that answers end in the middle of things.
const EXTENTS_MAX: u32 = 9;

/// A LUN in an image, by the name that it is opened by.
pub(super) struct Side<'a> {
    pub(super) export: String,
    pub(super) lun: &'a Lun,
}

impl Asker<'_> {
    /// Requests the changed blocks between two images, and compares them with the images' content.
    pub(super) fn diff(&mut self, now: &Side<'_>, before: &Side<'_>) -> Result<Ended<()>, Failure> {
        let end = now.lun.blocks * BLOCK;
        let mut at = 0;
        while at < end {
            let since = self.system.target(0).open(&before.export);
            let (since, _) = since.map_err(|error| {
                Failure::new(format!("{} cannot be opened: {error}", before.export))
            })?;
            let op = Op::Changes {
                offset: at,
                length: end - at,
                count_max: EXTENTS_MAX,
                since,
            };
            let reply = self.ask(&now.export, op)?;
            self.system.target(0).close(since);
            let reply = match reply {
                Ended::Cut => return Ok(Ended::Cut),
                Ended::With(reply) => reply,
            };
            let Ok(Reply::Extents(extents)) = reply else {
                return Err(Failure::new(format!(
                    "a valid request failed: {} since {}: {reply:?}",
                    now.export, before.export
                )));
            };
            let from = at;
            for extent in extents {
                if extent.length == 0 || !extent.length.is_multiple_of(BLOCK) {
                    return Err(Failure::new(format!(
                        "Changes: {} since {}: {extent:?} is no blocks",
                        now.export, before.export
                    )));
                }
                let blocks = at / BLOCK..(at + extent.length) / BLOCK;
                let is_changed = extent.allocation == Allocation::Data;
                for block in blocks {
                    let (new, old) = (now.lun.data.get(&block), before.lun.data.get(&block));
                    let is_right = match is_changed {
                        true => new != old || self.system.moves_unshare(),
                        false => new == old || now.lun.read(block) == before.lun.read(block),
                    };
                    if !is_right {
                        return Err(Failure::new(format!(
                            "Changes: block {block} of {} is {new:?} and was {old:?} in {}, but is \
                            said {}",
                            now.export,
                            before.export,
                            if is_changed { "to differ" } else { "not to" }
                        )));
                    }
                }
                at += extent.length;
            }
            if at == from || at > end {
                return Err(Failure::new(format!(
                    "Changes: {} since {}: asked from {from} to {end}, answered to {at}",
                    now.export, before.export
                )));
            }
        }
        Ok(Ended::With(()))
    }
}
