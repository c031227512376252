//! Reads while the power is on: the allowed results.

use std::collections::BTreeMap;

use super::{BLOCK, LunId, Model, Moment, OpId, Rule, Violation, blocks_of, small};

/// A read under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadId(u64);

#[derive(Clone, Debug)]
pub(super) struct Read {
    lun: LunId,
    offset: u64,
    length: u64,
    issued: Moment,
    /// True if one of its blocks is damaged: an error is a valid answer.
    may_fail: bool,
}

impl Model {
    /// A read was submitted.
    pub fn begin_read(&mut self, lun: LunId, offset: u64, length: u64) -> ReadId {
        let issued = self.moment();
        self.luns[lun.0].reads_in_flight += 1;
        let read = ReadId(issued.order);
        // Changes under way may be seen or not, so any version they left may be met.
        let may_fail = self.luns[lun.0]
            .blocks
            .range(blocks_of(offset, length))
            .any(|(_, history)| {
                let newest = |v: &super::history::Version| {
                    v.op.is_none_or(|op| self.ops[op.0].acked.is_some())
                };
                let first = history.versions().iter().rposition(newest).unwrap_or(0);
                history.is_marked(first, |_| true)
            });
        self.reads.insert(
            read,
            Read {
                lun,
                offset,
                length,
                issued,
                may_fail,
            },
        );
        read
    }

    /// True if the read may fail because of damage.
    pub(crate) fn read_may_fail(&self, read: ReadId) -> bool {
        self.reads[&read].may_fail
    }

    /// A read ended without data.
    pub fn abandon_read(&mut self, read: ReadId) {
        let read = self.reads.remove(&read).expect("a read ends once");
        self.luns[read.lun.0].reads_in_flight -= 1;
    }

    /// A read returned `bytes`.
    ///
    /// # Errors
    /// The read must fail.
    pub fn end_read(&mut self, read: ReadId, bytes: &[u8]) -> Result<(), Violation> {
        let known = self.reads[&read].clone();
        self.abandon_read(read);
        let (lun, offset, length) = (known.lun, known.offset, known.length);
        let name = self.luns[lun.0].name.clone();
        if bytes.len() as u64 != length {
            let detail = format!("{name}: {} bytes for {length}", bytes.len());
            return Err(Violation::new(Rule::ReadAfterWrite, detail));
        }
        // Per operation: a block where the read saw it, a block where it did not.
        let mut sights: BTreeMap<OpId, (Option<u64>, Option<u64>)> = BTreeMap::new();
        for block in blocks_of(offset, length) {
            let from = offset.max(block * BLOCK);
            let to = (offset + length).min((block + 1) * BLOCK);
            let piece = &bytes[small(from - offset)..small(to - offset)];
            let at = small(from - block * BLOCK);
            let Some(history) = self.luns[lun.0].blocks.get(&block) else {
                if piece.iter().any(|&byte| byte != 0) {
                    let detail = format!("{name} block {block}: never written, not zeroes");
                    return Err(Violation::new(Rule::ReadAfterWrite, detail));
                }
                continue;
            };
            let acked_before = |op: OpId| {
                self.ops[op.0]
                    .acked
                    .is_some_and(|acked| acked < known.issued)
            };
            let versions = history.versions();
            let first = versions
                .iter()
                .rposition(|v| v.op.is_none_or(acked_before))
                .unwrap_or(0);
            let Some((least, greatest)) = history.fitting(first, at, piece, |_| true) else {
                let newest = versions[first]
                    .op
                    .map_or("nothing".to_owned(), |op| self.describe(op).to_string());
                let older = history.fitting(0, at, piece, |_| true);
                let detail = format!(
                    "{name} block {block} bytes {from}..{to}: does not hold {newest}, nor anything \
                     later; {}",
                    match older.and_then(|(_, greatest)| versions[greatest].op) {
                        Some(op) => format!("holds {}", self.describe(op)),
                        None if older.is_some() => "holds what was there at first".to_owned(),
                        None => "was never held".to_owned(),
                    }
                );
                return Err(Violation::new(Rule::ReadAfterWrite, detail));
            };
            for (index, version) in versions.iter().enumerate().skip(first + 1) {
                let Some(op) = version.op else { continue };
                let sight = sights.entry(op).or_default();
                if least >= index {
                    sight.0 = Some(block);
                } else if greatest < index {
                    sight.1 = Some(block);
                }
            }
            if least + 1 == versions.len() {
                let histories = &mut self.luns[lun.0].blocks;
                histories
                    .get_mut(&block)
                    .expect("just read")
                    .resolve(at, piece);
            }
        }
        for (op, sight) in sights {
            if let (Some(seen), Some(unseen), false) = (sight.0, sight.1, self.ops[op.0].loose) {
                let detail = format!(
                    "{}: a read saw {} in block {seen} and not in block {unseen}",
                    self.luns[lun.0].name,
                    self.describe(op)
                );
                return Err(Violation::new(Rule::TornRead, detail));
            }
        }
        Ok(())
    }
}
