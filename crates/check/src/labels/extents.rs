//! Extents: apart from each other, from the journal and from the labels of their members.

use everglade_format::config::INCOMPATIBLE_CHANGED;
use everglade_format::label::LABEL_BLOCKS;

use super::Labels;
use crate::findings::Findings;
use crate::problem::{Kind, Object, ProblemPlace};

/// Blocks of a member that are taken, ordered by member and place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Taken {
    member: u32,
    first: u64,
    end: u64,
    by: By,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    Label,
    LabelCopy,
    Journal,
    Extent,
}

impl By {
    fn text(self) -> &'static str {
        match self {
            By::Label => "label",
            By::LabelCopy => "label's copy",
            By::Journal => "journal",
            By::Extent => "extent",
        }
    }
}

impl Labels {
    /// Extents were checked to lie inside their members when the record was decoded.
    pub(super) fn check_extents(&self, findings: &mut Findings) {
        // A member that became larger keeps the label copy of the time before between two extents.
        let was_changed = self.config.incompatible & INCOMPATIBLE_CHANGED != 0;
        let mut taken = self.taken();
        taken.sort_unstable();
        for pair in taken.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let between = match (a.by, b.by) {
                (By::Extent, By::Extent) if was_changed => LABEL_BLOCKS,
                _ => 0,
            };
            let least = a.end.saturating_add(between);
            if a.member == b.member && least > b.first {
                let (by, member) = (b.by.text(), b.member);
                let expected = format_args!("{by} of member {member} from dbn {least} on");
                let found = match between {
                    0 => format!("from dbn {} on, inside {}", b.first, a.by.text()),
                    _ => format!("from dbn {} on, where a label's copy was", b.first),
                };
                let (object, place) = (Object::Aggregate, ProblemPlace::NONE);
                findings.add(Kind::ExtentsCollide, &object, place, expected, found);
            }
        }
    }

    fn taken(&self) -> Vec<Taken> {
        let mut taken = Vec::new();
        let mut add = |member, first, end, by| {
            taken.push(Taken {
                member,
                first,
                end,
                by,
            });
        };
        for (member, entry) in (0u32..).zip(&self.config.members) {
            let last = entry.size_blocks.saturating_sub(LABEL_BLOCKS);
            add(member, 0, LABEL_BLOCKS, By::Label);
            add(member, last, entry.size_blocks, By::LabelCopy);
        }
        let journal = &self.config.journal;
        if journal.blocks > 0 {
            let end = journal.first.0.saturating_add(journal.blocks);
            add(journal.member, journal.first.0, end, By::Journal);
        }
        for extent in &self.config.extents {
            let end = extent.first_dbn.0 + extent.length;
            add(extent.member, extent.first_dbn.0, end, By::Extent);
        }
        taken
    }
}
