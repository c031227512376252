//! Extents: apart from each other, from the journal and from the labels of their members.
//!
//! Extents and the journal name a data column. Every copy of the column has the same range, which
//! must be clear of the labels of that member, too, whether the member is current or not.

use everglade_format::Role;
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
    RaidLog,
    Extent,
}

impl By {
    fn is_of_label(self) -> bool {
        matches!(self, By::Label | By::LabelCopy)
    }

    fn text(self) -> &'static str {
        match self {
            By::Label => "label",
            By::LabelCopy => "label's copy",
            By::Journal => "journal",
            By::RaidLog => "RAID log",
            By::Extent => "extent",
        }
    }
}

impl Labels {
    /// Extents were checked to lie inside their members when the record was decoded.
    pub(super) fn check_extents(&self, findings: &mut Findings) {
        // A member that became larger keeps the label copy of the time before between two extents.
        // In a group, it may have become larger by a replacement instead.
        let was_changed =
            self.config.incompatible & INCOMPATIBLE_CHANGED != 0 && !self.config.has_groups();
        let mut taken = self.taken();
        taken.sort_unstable();
        for pair in taken.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            // Extents that collide in the data column collide in every copy of it.
            let is_told = self.is_copy(b.member) && !a.by.is_of_label() && !b.by.is_of_label();
            if is_told {
                continue;
            }
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
        self.check_first_of_copies(findings);
    }

    /// In the data column this was checked when the record was decoded.
    fn check_first_of_copies(&self, findings: &mut Findings) {
        for extent in &self.config.extents {
            for copy in self.config.copies_of(extent.member) {
                let first = self.config.members[copy as usize].data_first;
                if extent.first_dbn < first {
                    let expected = format_args!("extent of member {copy} from dbn {first} on");
                    let found = format_args!("from dbn {} on", extent.first_dbn);
                    let (object, place) = (Object::Aggregate, ProblemPlace::NONE);
                    findings.add(Kind::ExtentsCollide, &object, place, expected, found);
                }
            }
        }
    }

    fn is_copy(&self, member: u32) -> bool {
        let entry = self.config.members.get(member as usize);
        entry.is_some_and(|entry| entry.seat.role == Role::Copy)
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
            for copy in self.config.journal_members() {
                add(copy, journal.first.0, end, By::Journal);
            }
        }
        for member in (0..).take(self.config.members.len()) {
            if self.config.parity_group_of(member).is_some() {
                let first = self.config.raid_log_first(member).0;
                let end = first.saturating_add(self.config.raid_log_blocks);
                add(member, first, end, By::RaidLog);
            }
        }
        for extent in &self.config.extents {
            let end = extent.first_dbn.0 + extent.length;
            for copy in self.config.copies_of(extent.member) {
                add(copy, extent.first_dbn.0, end, By::Extent);
            }
            // Parity has the same range as each data column; the first one stands for all.
            let group = self.config.parity_group_of(extent.member);
            let group = group.filter(|group| group.data[0] == extent.member);
            for member in group.map_or(Vec::new(), |group| group.parity) {
                add(member, extent.first_dbn.0, end, By::Extent);
            }
        }
        taken
    }
}
