//! A target whose completions the test releases, in any order, and may turn into errors.

use everglade_target::model::Model;
use everglade_target::{Completion, Error, Export, Image, LunHandle, Op, Target, Token};

/// The model, with its completions held back.
pub(crate) struct Held {
    pub(crate) model: Model,
    /// Completions are passed on by themselves.
    pub(crate) flowing: bool,
    /// Finished operations not yet shown, in the order submitted.
    pub(crate) held: Vec<Completion>,
    shown: Vec<Completion>,
    /// Errors for the next operations, instead of carrying them out.
    pub(crate) errors: Vec<Error>,
    /// Every operation submitted, in short form.
    pub(crate) log: Vec<String>,
    /// Reads that were announced, each time.
    pub(crate) expected: Vec<Vec<(u64, u32)>>,
    /// Handles opened and not closed.
    pub(crate) open: usize,
}

impl Held {
    pub(crate) fn new(model: Model) -> Self {
        Held {
            model,
            flowing: true,
            held: Vec::new(),
            shown: Vec::new(),
            errors: Vec::new(),
            log: Vec::new(),
            expected: Vec::new(),
            open: 0,
        }
    }

    pub(crate) fn with_lun(size_bytes: u64) -> Self {
        Self::new(Model::with_lun("vol0/lun0", size_bytes))
    }

    /// Shows the held completion at `index`.
    pub(crate) fn release(&mut self, index: usize) {
        let completion = self.held.remove(index);
        self.shown.push(completion);
    }

    pub(crate) fn release_all(&mut self) {
        self.shown.append(&mut self.held);
    }
}

fn describe(op: &Op) -> String {
    match op {
        Op::Read { offset, length } => format!("read {offset}+{length}"),
        Op::Write { data, durable } => {
            format!("write {}+{}{}", data.offset, data.length, fua(*durable))
        }
        Op::CompareAndWrite { data, durable, .. } => {
            let (offset, length) = (data.offset, data.length);
            format!("compare and write {offset}+{length}{}", fua(*durable))
        }
        Op::Flush => "flush".to_owned(),
        Op::Extents {
            offset,
            length,
            count_max,
        } => format!("extents {offset}+{length} at most {count_max}"),
        Op::Changes { offset, length, .. } => format!("changes {offset}+{length}"),
        Op::Discard {
            offset,
            length,
            durable,
        } => {
            format!("discard {offset}+{length}{}", fua(*durable))
        }
        Op::WriteZeroes {
            offset,
            length,
            allocate,
            durable,
        } => {
            let allocate = if *allocate { " allocate" } else { "" };
            format!("zeroes {offset}+{length}{allocate}{}", fua(*durable))
        }
    }
}

fn fua(durable: bool) -> &'static str {
    if durable { " durable" } else { "" }
}

impl Target for Held {
    fn exports(&self) -> Vec<Export> {
        self.model.exports()
    }

    fn images(&self, name: &str) -> Vec<Image> {
        self.model.images(name)
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
            let error = self.errors.remove(0);
            self.held.push(Completion {
                token,
                result: Err(error),
            });
        }
    }

    fn expect_reads(&mut self, _: LunHandle, reads: &[(u64, u32)]) {
        self.expected.push(reads.to_vec());
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        if self.flowing {
            self.release_all();
        }
        done.append(&mut self.shown);
    }
}
