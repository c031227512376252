//! All operations so far: when they were sent and answered, and what follows from that.

use crate::stamp::Found;

/// What an operation leaves in its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The stamp of its version.
    Write,
    /// Zeroes: a trim of whole blocks, or a write of zeroes.
    Zeroes,
}

pub(super) struct Record {
    pub(super) kind: Kind,
    pub(super) first: u64,
    pub(super) count: u64,
    fua: bool,
    sent: u64,
    answered: Option<u64>,
}

pub(super) struct Records {
    /// By version; the first one is what was never written.
    records: Vec<Record>,
    clock: u64,
    /// Everything answered before this tick is durable.
    floor: u64,
    forced: bool,
}

impl Records {
    pub(super) fn new(forced: bool) -> Records {
        let unwritten = Record {
            kind: Kind::Zeroes,
            first: 0,
            count: 0,
            fua: true,
            sent: 0,
            answered: Some(0),
        };
        Records {
            records: vec![unwritten],
            clock: 0,
            floor: 1,
            forced,
        }
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(super) fn begin(&mut self, kind: Kind, first: u64, count: u64, fua: bool) -> u64 {
        let version = self.records.len() as u64;
        let sent = self.tick();
        self.records.push(Record {
            kind,
            first,
            count,
            fua: fua || self.forced,
            sent,
            answered: None,
        });
        version
    }

    pub(super) fn end(&mut self, version: u64) {
        let now = self.tick();
        let at = usize::try_from(version).expect("a version is an index");
        let record = &mut self.records[at];
        assert!(record.answered.is_none(), "one reply per request");
        record.answered = Some(now);
    }

    pub(super) fn flushed(&mut self, begun: u64) {
        self.floor = self.floor.max(begun);
    }

    /// After a restart everything that can still be found is old and durable.
    pub(super) fn settle(&mut self) {
        let now = self.tick();
        for record in &mut self.records {
            record.answered.get_or_insert(now);
        }
        self.floor = self.tick();
    }

    fn get(&self, version: u64) -> &Record {
        &self.records[usize::try_from(version).expect("a version is an index")]
    }

    /// The record of a write that a crash may not tear.
    pub(super) fn write(&self, version: u64) -> Option<&Record> {
        let record = self.get(version);
        record.is_atomic().then_some(record)
    }

    pub(super) fn is_before(&self, version: u64, other: u64) -> bool {
        let answered = self.get(version).answered;
        version != other && answered.is_some_and(|answered| answered < self.get(other).sent)
    }

    fn is_durable(&self, version: u64) -> bool {
        let record = self.get(version);
        record
            .answered
            .is_some_and(|answered| record.fua || answered < self.floor)
    }

    /// `other` replaced `version` for ever (rule 2).
    pub(super) fn is_replaced(&self, version: u64, other: u64) -> bool {
        self.is_before(version, other) && self.is_durable(other)
    }

    /// A read sent at `begun` must not see `version`, because `other` was there already (rule 3).
    pub(super) fn is_hidden(&self, version: u64, other: u64, begun: u64) -> bool {
        let answered = self.get(other).answered;
        self.is_before(version, other) && answered.is_some_and(|answered| answered < begun)
    }

    /// Neither a crash nor a read, the oldest under way included, can bring `version` back.
    pub(super) fn is_past(&self, version: u64, other: u64, oldest_read: Option<u64>) -> bool {
        let hidden = oldest_read.is_none_or(|read| self.is_hidden(version, other, read));
        hidden && self.is_replaced(version, other)
    }

    pub(super) fn matches(&self, version: u64, found: Found) -> bool {
        match (self.get(version).kind, found) {
            (Kind::Zeroes, Found::Zeroes) => true,
            (Kind::Write, Found::Version(found)) => found == version,
            _ => false,
        }
    }

    pub(super) fn describe(&self, version: u64) -> String {
        let Some(record) = usize::try_from(version)
            .ok()
            .and_then(|at| self.records.get(at))
        else {
            return format!("{version}, which was never sent");
        };
        let state = match record.answered {
            None => "unanswered",
            Some(_) if self.is_durable(version) => "durable",
            Some(_) => "answered",
        };
        let Record {
            kind, first, count, ..
        } = record;
        format!("{version} ({kind:?} of {first}+{count}, {state})")
    }
}
