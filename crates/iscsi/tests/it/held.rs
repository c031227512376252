//! A target whose completions the test releases, in any order, and may turn into errors.

use everglade_target::model::Model;
use everglade_target::{Completion, Error, Export, LunHandle, Op, Target, Token};

/// The model, with its completions held back.
pub(crate) struct Held {
    pub(crate) model: Model,
    /// Completions are passed on by themselves.
    pub(crate) flowing: bool,
    held: Vec<Completion>,
    shown: Vec<Completion>,
    /// Errors for the next operations, instead of carrying them out.
    pub(crate) errors: Vec<Error>,
    /// Every operation submitted, in short form.
    pub(crate) log: Vec<String>,
    /// Handles opened and not closed.
    pub(crate) open: usize,
}

impl Held {
    pub(crate) fn with_lun(size_bytes: u64) -> Self {
        Held {
            model: Model::with_lun("vol0/lun0", size_bytes),
            flowing: true,
            held: Vec::new(),
            shown: Vec::new(),
            errors: Vec::new(),
            log: Vec::new(),
            open: 0,
        }
    }

    pub(crate) fn release_all(&mut self) {
        self.shown.append(&mut self.held);
    }
}

fn describe(op: &Op) -> String {
    let fua = |durable: bool| if durable { " durable" } else { "" };
    match op {
        Op::Read { offset, length } => format!("read {offset}+{length}"),
        Op::Write { data, durable } => {
            format!("write {}+{}{}", data.offset, data.length, fua(*durable))
        }
        Op::CompareAndWrite { data, durable, .. } => {
            format!("compare {}+{}{}", data.offset, data.length, fua(*durable))
        }
        Op::Flush => "flush".to_owned(),
        Op::WriteZeroes { offset, length, .. } => format!("zeroes {offset}+{length}"),
        Op::Extents { offset, .. } => format!("extents {offset}"),
        other => format!("{other:?}"),
    }
}

impl Target for Held {
    fn exports(&self) -> Vec<Export> {
        self.model.exports()
    }

    fn open(&mut self, name: &str) -> Result<(LunHandle, Export), Error> {
        let opened = self.model.open(name)?;
        self.open += 1;
        Ok(opened)
    }

    fn close(&mut self, lun: LunHandle) {
        self.model.close(lun);
        self.open -= 1;
    }

    fn size_bytes(&self, lun: LunHandle) -> Option<u64> {
        self.model.size_bytes(lun)
    }

    fn submit(&mut self, lun: LunHandle, op: Op, token: Token) {
        self.log.push(describe(&op));
        if self.errors.is_empty() {
            self.model.submit(lun, op, token);
            self.model.poll(&mut self.held);
        } else {
            let result = Err(self.errors.remove(0));
            self.held.push(Completion { token, result });
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        if self.flowing {
            self.release_all();
        }
        done.append(&mut self.shown);
    }
}
