//! The model, with a record of what was asked of it.

use std::ops::{Deref, DerefMut};

use everglade_target::model::Model;
use everglade_target::{Completion, Error, Export, Image, LunHandle, Op, Target, Token};

/// See the module's documentation.
pub(crate) struct Recorder {
    model: Model,
    /// For each change and each flush: its name, and whether it is durable when it completes.
    pub(crate) changes: Vec<(&'static str, bool)>,
    /// Reads that were announced.
    pub(crate) expected: Vec<(u64, u32)>,
    /// What the next operation fails with.
    pub(crate) failure: Option<Error>,
    /// Operations that succeed before that.
    pub(crate) failure_after: usize,
    failed: Vec<Completion>,
    /// Nothing completes.
    pub(crate) is_slow: bool,
}

impl Recorder {
    pub(crate) fn new(model: Model) -> Recorder {
        Recorder {
            model,
            changes: Vec::new(),
            expected: Vec::new(),
            failure: None,
            failure_after: 0,
            failed: Vec::new(),
            is_slow: false,
        }
    }

    /// The record so far, which begins anew.
    pub(crate) fn take_changes(&mut self) -> Vec<(&'static str, bool)> {
        std::mem::take(&mut self.changes)
    }
}

impl Deref for Recorder {
    type Target = Model;

    fn deref(&self) -> &Model {
        &self.model
    }
}

impl DerefMut for Recorder {
    fn deref_mut(&mut self) -> &mut Model {
        &mut self.model
    }
}

impl Target for Recorder {
    fn exports(&self) -> Vec<Export> {
        self.model.exports()
    }

    fn images(&self, name: &str) -> Vec<Image> {
        self.model.images(name)
    }

    fn open(&mut self, name: &str) -> Result<(LunHandle, Export), Error> {
        self.model.open(name)
    }

    fn close(&mut self, lun: LunHandle) {
        self.model.close(lun);
    }

    fn size_bytes(&self, lun: LunHandle) -> Option<u64> {
        self.model.size_bytes(lun)
    }

    fn submit(&mut self, lun: LunHandle, op: Op, token: Token) {
        let change = match &op {
            Op::Write { durable, .. } => Some(("write", *durable)),
            Op::CompareAndWrite { durable, .. } => Some(("compare and write", *durable)),
            Op::Discard { durable, .. } => Some(("discard", *durable)),
            Op::WriteZeroes { durable, .. } => Some(("zeroes", *durable)),
            Op::Flush => Some(("flush", true)),
            _ => None,
        };
        self.changes.extend(change);
        if self.failure_after > 0 {
            self.failure_after -= 1;
        } else if let Some(error) = self.failure.take() {
            let result = Err(error);
            return self.failed.push(Completion { token, result });
        }
        self.model.submit(lun, op, token);
    }

    fn expect_reads(&mut self, _lun: LunHandle, reads: &[(u64, u32)]) {
        self.expected.extend_from_slice(reads);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        if self.is_slow {
            return;
        }
        done.append(&mut self.failed);
        self.model.poll(done);
    }
}
