//! What changed between two images, compared with the model.
//!
//! An answer that misses a difference costs a backup the data; one that calls the same block different costs it time.
//! Only of a block that was written with what was there, which is zeroes here, either may be said.

use everglade_env::BLOCK_SIZE;
use everglade_target::{Allocation, Op, Reply};

use super::{BLOCK, Image, Life, State};
use crate::sim::Failure;
use crate::sim::asker::{Ended, Lun};
use crate::system::System;
use crate::workload::contents;

/// Extents wanted at a time: few, so that answers end in the middle of things.
const EXTENTS_MAX: u32 = 9;

/// A LUN in an image, by the name that it is opened by.
struct Side<'a> {
    export: String,
    lun: &'a Lun,
}

/// The same LUN in another image or, if that has none, the one that is called the same.
fn counterpart<'a>(image: &'a Image, name: &str, lun: &Lun) -> Option<(&'a String, &'a Lun)> {
    let mut luns = image.iter();
    luns.find(|(_, known)| known.number == lun.number)
        .or_else(|| image.get_key_value(name))
}

fn reads(fill: Option<&u64>) -> Vec<u8> {
    fill.map_or_else(|| vec![0; BLOCK_SIZE], |fill| contents(*fill, BLOCK))
}

impl Life<'_> {
    /// Compares the active image with each snapshot, and each snapshot with its neighbours in time.
    pub(super) fn diff_all(&mut self, state: &State) -> Result<Ended<()>, Failure> {
        let volume = state.volume();
        let export = |lun: &str, snapshot: Option<&str>| match snapshot {
            None => format!("{volume}/{lun}"),
            Some(snapshot) => format!("{volume}/{lun}@{snapshot}"),
        };
        let order: Vec<&str> = state.order.iter().map(String::as_str).collect();
        let mut pairs: Vec<(Option<&str>, &str)> =
            order.iter().map(|before| (None, *before)).collect();
        for pair in order.windows(2) {
            pairs.extend([(Some(pair[1]), pair[0]), (Some(pair[0]), pair[1])]);
        }
        for (now, before) in pairs {
            let image = now.map_or(&state.active, |now| &state.snapshots[now]);
            for (name, lun) in image {
                let known = counterpart(&state.snapshots[before], name, lun);
                let newer = Side {
                    export: export(name, now),
                    lun,
                };
                let older = known.map(|(name, lun)| Side {
                    export: export(name, Some(before)),
                    lun,
                });
                self.expect_image(&newer, before, older.as_ref())?;
                let Some(older) = older else { continue };
                if let Ended::Cut = self.diff(&newer, &older)? {
                    return Ok(Ended::Cut);
                }
            }
        }
        Ok(Ended::With(()))
    }

    /// What a LUN can be compared with is named to backup programs.
    fn expect_image(
        &mut self,
        side: &Side<'_>,
        label: &str,
        before: Option<&Side<'_>>,
    ) -> Result<(), Failure> {
        let images = self.asker.system.target(0).images(&side.export);
        let found = images.into_iter().find(|image| image.label == label);
        let found = found.map(|image| image.export);
        let expected = before.map(|before| before.export.clone());
        if found != expected {
            return Err(Failure::new(format!(
                "Exports: {} in snapshot {label} is {found:?}, not {expected:?}",
                side.export
            )));
        }
        Ok(())
    }

    fn diff(&mut self, now: &Side<'_>, before: &Side<'_>) -> Result<Ended<()>, Failure> {
        let end = now.lun.blocks * BLOCK;
        let mut at = 0;
        while at < end {
            let since = self.asker.system.target(0).open(&before.export);
            let (since, _) = since.map_err(|error| {
                Failure::new(format!("{} cannot be opened: {error}", before.export))
            })?;
            let op = Op::Changes {
                offset: at,
                length: end - at,
                count_max: EXTENTS_MAX,
                since,
            };
            let reply = self.asker.ask(&now.export, op)?;
            self.asker.system.target(0).close(since);
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
                let blocks = at / BLOCK..(at + extent.length) / BLOCK;
                let is_changed = extent.allocation == Allocation::Data;
                for block in blocks {
                    let (new, old) = (now.lun.data.get(&block), before.lun.data.get(&block));
                    let is_right = match is_changed {
                        true => new != old,
                        false => new == old || reads(new) == reads(old),
                    };
                    if !is_right {
                        return Err(Failure::new(format!(
                            "Changes: block {block} of {} is {new:?} and was {old:?} in {}, but is said {}",
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
