//! Changes between images: whether the system names the right images of a LUN for a comparison, and
//! whether the differences that it reports between two images are right.

use super::{Image, Life, State};
use crate::sim::Failure;
use crate::sim::asker::{Ended, Lun};
use crate::sim::changes::Side;
use crate::system::System;

/// Returns the same LUN in another image or, if the image lacks it, the LUN of the same name.
fn counterpart<'a>(image: &'a Image, name: &str, lun: &Lun) -> Option<(&'a String, &'a Lun)> {
    let mut luns = image.iter();
    luns.find(|(_, known)| known.number == lun.number)
        .or_else(|| image.get_key_value(name))
}

impl Life<'_> {
    /// Compares the active image with each snapshot, and each snapshot with its neighbours in time.
    pub(super) fn diff_all(&mut self, state: &State) -> Result<Ended<()>, Failure> {
        let volume = state.volume();
        let export = |lun: &str, snapshot: Option<&str>| match snapshot {
            None => format!("{volume}/{lun}"),
            Some(snapshot) => format!("{volume}/{lun}@{snapshot}"),
        };
        let order: Vec<&str> = state.order.iter().map(|(_, name)| name.as_str()).collect();
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
                if let Ended::Cut = self.asker.diff(&newer, &older)? {
                    return Ok(Ended::Cut);
                }
            }
        }
        Ok(Ended::With(()))
    }

    /// Checks that comparable images of a LUN are listed for backup programs.
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
}
