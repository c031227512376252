//! Comparisons of a LUN with an image of it, which the engine makes for administrators in parts.
//!
//! An administrator's thread asks a reactor for one part after the other; each is one operation of
//! the engine, which opens both images and closes them again. So nothing is held between parts, and
//! memory is in proportion to the ranges in one answer, whatever the LUN's size. Two snapshots
//! never change: so the parts of their comparison fit together exactly. The active image changes
//! meanwhile, so each part of a comparison with it is right for a moment of its own.

use std::collections::HashMap;
use std::sync::mpsc::Sender;

use everglade_target::sessions::Owner;
use everglade_target::{
    Allocation, Completion, Error, Extent, LunHandle, Op, Reply, Target, Token,
};

use super::control::{Answer, Compared, Comparison};
use crate::fronts::FRONTS_MAX;

/// Extents in one part.
const PART_EXTENTS: u32 = 4096;
/// Fronts have the others.
const OWNER: Owner = Owner::new(FRONTS_MAX);

/// Comparisons in progress on one reactor.
#[derive(Default)]
pub(crate) struct Comparisons {
    asked: HashMap<Token, Asked>,
    next: u64,
}

struct Asked {
    lun: LunHandle,
    since: LunHandle,
    size_bytes: u64,
    reply: Sender<Answer>,
}

impl Comparisons {
    /// Returns whether the completion is of an operation that was begun here.
    pub(crate) fn is_ours(completion: &Completion) -> bool {
        Owner::of(completion.token) == OWNER
    }

    pub(crate) fn begin(
        &mut self,
        asked: &Comparison,
        reply: Sender<Answer>,
        target: &mut impl Target,
    ) {
        if let Err(error) = self.try_begin(asked, &reply, target) {
            // The caller may have gone.
            drop(reply.send(Answer::Compared(Err(error))));
        }
    }

    fn try_begin(
        &mut self,
        asked: &Comparison,
        reply: &Sender<Answer>,
        target: &mut impl Target,
    ) -> Result<(), Error> {
        let (lun, export) = target.open(&asked.lun)?;
        // An image is not among the others that it can be compared with, and nothing of it differs
        // from itself.
        let is_same = asked.lun.split_once('@').map(|(_, image)| image) == Some(&*asked.since);
        if is_same {
            target.close(lun);
            drop(reply.send(Answer::Compared(Ok(Compared {
                size_bytes: export.size_bytes,
                extents: same(asked, export.size_bytes),
            }))));
            return Ok(());
        }
        let mut images = target.images(&asked.lun).into_iter();
        let since = images
            .find(|image| image.label == asked.since)
            .ok_or(Error::NotFound(asked.since.clone()))
            .and_then(|image| target.open(&image.export));
        let since = match since {
            Ok((since, _)) => since,
            Err(error) => {
                target.close(lun);
                return Err(error);
            }
        };
        let size_bytes = export.size_bytes;
        let length = asked.length.min(size_bytes.saturating_sub(asked.offset));
        if length == 0 {
            target.close(lun);
            target.close(since);
            let extents = Vec::new();
            drop(reply.send(Answer::Compared(Ok(Compared {
                size_bytes,
                extents,
            }))));
            return Ok(());
        }
        self.next += 1;
        let token = OWNER.token_base() + self.next;
        let under_way = Asked {
            lun,
            since,
            size_bytes,
            reply: reply.clone(),
        };
        self.asked.insert(token, under_way);
        let op = Op::Changes {
            offset: asked.offset,
            length,
            count_max: PART_EXTENTS,
            since,
        };
        target.submit(lun, op, token);
        Ok(())
    }

    pub(crate) fn complete(&mut self, completion: Completion, target: &mut impl Target) {
        let asked = self.asked.remove(&completion.token);
        let asked = asked.expect("an operation that was begun here");
        target.close(asked.lun);
        target.close(asked.since);
        let size_bytes = asked.size_bytes;
        let compared = completion.result.map(|reply| match reply {
            Reply::Extents(extents) => Compared {
                size_bytes,
                extents,
            },
            other => panic!("a comparison returns extents, not {other:?}"),
        });
        // The caller may have gone.
        drop(asked.reply.send(Answer::Compared(compared)));
    }
}

/// Returns one extent without differences, up to the end of the requested range or of the image.
fn same(asked: &Comparison, size_bytes: u64) -> Vec<Extent> {
    let rest = size_bytes.saturating_sub(asked.offset);
    let length = asked.length.min(rest);
    let extent = Extent {
        length,
        allocation: Allocation::Hole,
    };
    (length > 0).then_some(extent).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reactor_closes_what_it_compared() {
        let mut model = everglade_target::model::Model::with_lun("v/l", 1 << 20);
        model.keep_image("v/l", "s");
        let mut comparisons = Comparisons::default();
        let ask = |lun: &str, since: &str, offset| Comparison {
            lun: lun.to_owned(),
            since: since.to_owned(),
            offset,
            length: u64::MAX,
        };
        let (reply, answer) = std::sync::mpsc::channel();
        for (asked, expected) in [
            (ask("v/l", "s", 0), Ok(1)),
            (ask("v/l", "s", 1 << 20), Ok(0)),
            (ask("v/l@s", "s", 0), Ok(1)),
            (ask("v/l@s", "s", 1 << 20), Ok(0)),
            (ask("v/l", "t", 0), Err(Error::NotFound("t".to_owned()))),
            (ask("v/m", "s", 0), Err(Error::NotFound("v/m".to_owned()))),
        ] {
            comparisons.begin(&asked, reply.clone(), &mut model);
            let mut done = Vec::new();
            model.poll(&mut done);
            for completion in done {
                assert!(Comparisons::is_ours(&completion));
                comparisons.complete(completion, &mut model);
            }
            let found = answer.try_recv().expect("an answer").compared();
            assert_eq!(found.map(|found| found.extents.len()), expected);
        }
        assert_eq!(model.open_handles(), 0);
    }
}
