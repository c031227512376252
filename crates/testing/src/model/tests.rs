//! The model convicts what breaks a promise, and only that.

use super::*;

const ALL: u64 = u64::MAX;

fn page(byte: u8) -> everglade_env::PageRef {
    let mut page = everglade_env::Page::zeroed();
    page.fill(byte);
    page.freeze()
}

struct Bench {
    model: Model,
    lun: LunId,
}

impl Bench {
    fn new() -> Bench {
        let mut model = Model::default();
        let volume = model.add_volume("v", 0);
        let lun = model.add_lun(volume, "v/l", 64 * BLOCK);
        Bench { model, lun }
    }

    fn begin(&mut self, block: u64, count: u64, byte: u8) -> OpId {
        let bytes = vec![byte; usize::try_from(count * BLOCK).expect("small")];
        self.model
            .begin_write(self.lun, block * BLOCK, &bytes, false)
    }

    fn write(&mut self, block: u64, count: u64, byte: u8) -> OpId {
        let op = self.begin(block, count, byte);
        self.model.end(op, OpEnd::DONE);
        op
    }

    fn flush(&mut self) {
        let op = self.model.begin_flush(0);
        self.model.end(op, OpEnd::DONE);
    }

    /// Reads blocks from 0 on and is answered one byte value per block.
    fn answer(&mut self, read: ReadId, blocks: &[u8]) -> Result<(), Rule> {
        let bytes: Vec<u8> = blocks
            .iter()
            .flat_map(|&byte| vec![byte; BLOCK_SIZE])
            .collect();
        self.model
            .end_read(read, &bytes)
            .map_err(|violation| violation.rule)
    }

    fn read(&mut self, blocks: &[u8]) -> Result<(), Rule> {
        let read = self.begin_read(blocks.len());
        self.answer(read, blocks)
    }

    fn begin_read(&mut self, count: usize) -> ReadId {
        self.model.begin_read(self.lun, 0, count as u64 * BLOCK)
    }

    /// A crash that leaves these byte values in the first blocks.
    fn crash(&self, at: u64, blocks: &[u8]) -> Result<(), Rule> {
        self.crash_at(at, None, blocks)
    }

    fn crash_at(&self, at: u64, cp: Option<u64>, blocks: &[u8]) -> Result<(), Rule> {
        self.judge(self.model.recover(at), cp, blocks)
    }

    /// A crash after which operations may be missing between others.
    fn crash_with_gaps(&self, blocks: &[u8]) -> Result<(), Rule> {
        let mut recovery = self.model.recover(ALL);
        recovery.allow_gaps();
        self.judge(recovery, None, blocks)
    }

    fn judge(&self, mut recovery: Recovery, cp: Option<u64>, blocks: &[u8]) -> Result<(), Rule> {
        let judge = |recovery: &mut Recovery| {
            recovery.exports(&[("v/l".to_owned(), 64 * BLOCK)], Some(&["v".to_owned()]))?;
            for (block, &byte) in blocks.iter().enumerate() {
                recovery.block(self.lun, block as u64, &page(byte))?;
            }
            recovery.finish(cp)
        };
        judge(&mut recovery).map_err(|violation| violation.rule)
    }
}

#[test]
fn read_returns_the_last_acknowledged_write() {
    let mut bench = Bench::new();
    assert_eq!(bench.read(&[0, 0]), Ok(()));
    bench.write(0, 1, 1);
    assert_eq!(bench.read(&[1, 0]), Ok(()));
    assert_eq!(bench.read(&[0, 0]), Err(Rule::ReadAfterWrite));
    bench.write(0, 2, 2);
    assert_eq!(bench.read(&[1, 2]), Err(Rule::ReadAfterWrite));
    assert_eq!(bench.read(&[2, 2]), Ok(()));
}

#[test]
fn read_during_a_write_sees_all_of_it_or_nothing() {
    let mut bench = Bench::new();
    bench.begin(0, 2, 1);
    assert_eq!(bench.read(&[0, 0]), Ok(()));
    assert_eq!(bench.read(&[1, 1]), Ok(()));
    assert_eq!(bench.read(&[1, 0]), Err(Rule::TornRead));
}

#[test]
fn read_begun_before_an_acknowledgement_may_return_what_was_there() {
    let mut bench = Bench::new();
    bench.write(0, 2, 1);
    let write = bench.begin(0, 1, 2);
    let (a, b) = (bench.begin_read(2), bench.begin_read(2));
    bench.model.end(write, OpEnd::DONE);
    assert_eq!(bench.answer(a, &[1, 1]), Ok(()));
    assert_eq!(bench.answer(b, &[2, 1]), Ok(()));
    assert_eq!(bench.read(&[1, 1]), Err(Rule::ReadAfterWrite));
}

#[test]
fn parts_of_blocks_merge_to_the_byte() {
    let mut bench = Bench::new();
    bench.write(0, 1, 1);
    let op = bench
        .model
        .begin_write(bench.lun, BLOCK - 1, &[9, 9], false);
    bench.model.end(op, OpEnd::DONE);
    let read = bench.model.begin_read(bench.lun, BLOCK - 2, 4);
    assert_eq!(bench.model.end_read(read, &[1, 9, 9, 0]), Ok(()));
    let zeroes = bench.model.begin_zeroes(bench.lun, BLOCK - 1, 1, false);
    bench.model.end(zeroes, OpEnd::DONE);
    let discard = bench
        .model
        .begin_discard(bench.lun, BLOCK - 1, BLOCK, false, false);
    bench.model.end(discard, OpEnd::DONE);
    let read = bench.model.begin_read(bench.lun, BLOCK - 2, 4);
    assert_eq!(bench.model.end_read(read, &[1, 0, 9, 0]), Ok(()));
}

#[test]
fn discard_that_may_do_nothing_leaves_either_until_it_is_read() {
    let mut bench = Bench::new();
    bench.write(0, 2, 1);
    let discard = bench
        .model
        .begin_discard(bench.lun, 0, 2 * BLOCK, false, true);
    bench.model.end(discard, OpEnd::DONE);
    assert_eq!(bench.read(&[0]), Ok(()));
    assert_eq!(
        bench.read(&[1]),
        Err(Rule::ReadAfterWrite),
        "it was zero a moment ago"
    );
    assert_eq!(bench.read(&[0, 1]), Ok(()));
}

#[test]
fn refused_write_changes_nothing_and_failed_write_may() {
    let mut bench = Bench::new();
    bench.write(0, 1, 1);
    let refused = bench.begin(0, 1, 2);
    bench.model.end(refused, OpEnd::Refused);
    assert_eq!(bench.read(&[2]), Err(Rule::ReadAfterWrite));
    let failed = bench.begin(0, 1, 3);
    bench.model.end(failed, OpEnd::Failed);
    let bench = bench;
    for (byte, verdict) in [(1, Ok(())), (3, Ok(())), (2, Err(Rule::ReadAfterWrite))] {
        let mut again = Bench {
            model: bench.model.clone(),
            lun: bench.lun,
        };
        assert_eq!(again.read(&[byte]), verdict);
    }
}

#[test]
fn crash_may_take_what_was_not_flushed_and_only_that() {
    let mut bench = Bench::new();
    bench.write(0, 1, 1);
    bench.flush();
    bench.write(0, 1, 2);
    bench.write(0, 1, 3);
    for (byte, verdict) in [
        (1, Ok(())),
        (2, Ok(())),
        (3, Ok(())),
        (4, Err(Rule::Foreign)),
    ] {
        assert_eq!(bench.crash(ALL, &[byte]), verdict, "byte {byte}");
    }
    assert_eq!(bench.crash(ALL, &[0]), Err(Rule::Durable));
}

#[test]
fn write_under_way_when_the_flush_began_is_not_durable_by_it() {
    let mut bench = Bench::new();
    let write = bench.begin(0, 1, 1);
    let flush = bench.model.begin_flush(0);
    bench.model.end(write, OpEnd::DONE);
    bench.model.end(flush, OpEnd::DONE);
    assert_eq!(bench.crash(ALL, &[0]), Ok(()));
}

#[test]
fn flush_of_one_aggregate_says_nothing_of_another() {
    let mut bench = Bench::new();
    bench.write(0, 1, 1);
    let flush = bench.model.begin_flush(1);
    bench.model.end(flush, OpEnd::DONE);
    assert_eq!(bench.crash(ALL, &[0]), Ok(()));
}

#[test]
fn durable_write_is_durable_at_its_acknowledgement() {
    let mut bench = Bench::new();
    let op = bench
        .model
        .begin_write(bench.lun, 0, &[1; BLOCK_SIZE], true);
    assert_eq!(bench.crash(ALL, &[0]), Ok(()));
    bench.model.end(op, OpEnd::DONE);
    assert_eq!(bench.crash(ALL, &[0]), Err(Rule::Durable));
    assert_eq!(bench.crash(ALL, &[1]), Ok(()));
}

#[test]
fn operation_survives_whole_or_not_at_all() {
    let mut bench = Bench::new();
    bench.write(0, 3, 1);
    assert_eq!(bench.crash(ALL, &[1, 1, 1]), Ok(()));
    assert_eq!(bench.crash(ALL, &[0, 0, 0]), Ok(()));
    assert_eq!(bench.crash(ALL, &[1, 0, 1]), Err(Rule::Whole));
}

/// A LUN that was grown is short again after the crash: writes to its grown part are missing, but a
/// later write over its beginning survived.
#[test]
fn where_operations_may_be_missing_one_that_was_overwritten_may_be_too() {
    let mut bench = Bench::new();
    bench.write(0, 3, 1);
    bench.write(0, 1, 2);
    assert_eq!(bench.crash(ALL, &[2, 0, 0]), Err(Rule::Whole));
    assert_eq!(bench.crash_with_gaps(&[2, 0, 0]), Ok(()));
    assert_eq!(bench.crash_with_gaps(&[2, 1, 0]), Err(Rule::Whole));
}

/// The same, and the later write is over a part of a block: its other bytes are those of before the
/// missing write.
#[test]
fn where_operations_may_be_missing_a_part_may_be_over_older_bytes() {
    let mut bench = Bench::new();
    bench.write(0, 1, 1);
    bench.flush();
    bench.write(0, 3, 2);
    let op = bench.model.begin_write(bench.lun, 0, &[3; 512], false);
    bench.model.end(op, OpEnd::DONE);
    let mut mixed = everglade_env::Page::copy_of(&page(1));
    mixed[..512].fill(3);
    let mixed = mixed.freeze();
    let crash = |has_gaps: bool, block: u64| {
        let mut recovery = bench.model.recover(ALL);
        if has_gaps {
            recovery.allow_gaps();
        }
        recovery
            .block(bench.lun, block, &mixed)
            .map_err(|it| it.rule)
    };
    assert_eq!(crash(true, 0), Ok(()));
    assert_eq!(
        crash(true, 1),
        Err(Rule::Foreign),
        "nothing was written over a part"
    );
    assert_eq!(crash(false, 0), Err(Rule::Foreign));
}

#[test]
fn survival_is_a_prefix_of_what_was_acknowledged_in_order() {
    let mut bench = Bench::new();
    bench.write(0, 1, 1);
    bench.write(1, 1, 2);
    assert_eq!(bench.crash(ALL, &[1, 0]), Ok(()));
    assert_eq!(bench.crash(ALL, &[0, 2]), Err(Rule::Prefix));
    // Either of two concurrent operations may survive alone.
    let mut bench = Bench::new();
    let (a, b) = (bench.begin(0, 1, 1), bench.begin(1, 1, 2));
    bench.model.end(a, OpEnd::DONE);
    bench.model.end(b, OpEnd::DONE);
    assert_eq!(bench.crash(ALL, &[1, 0]), Ok(()));
    assert_eq!(bench.crash(ALL, &[0, 2]), Ok(()));
}

#[test]
fn tagged_operations_survive_exactly_up_to_the_recovered_cp() {
    let mut bench = Bench::new();
    for (block, cp) in [(0, 5), (1, 6)] {
        let op = bench.begin(block, 1, 1);
        bench.model.end(op, OpEnd::Done { cp: Some(cp) });
    }
    assert_eq!(bench.crash_at(ALL, Some(5), &[1, 0]), Ok(()));
    assert_eq!(
        bench.crash_at(ALL, Some(5), &[1, 1]),
        Err(Rule::ConsistencyPoint)
    );
    assert_eq!(
        bench.crash_at(ALL, Some(6), &[1, 0]),
        Err(Rule::ConsistencyPoint)
    );
    assert_eq!(bench.crash_at(ALL, Some(4), &[0, 0]), Ok(()));
}

#[test]
fn one_history_answers_for_every_cut() {
    let mut bench = Bench::new();
    bench.model.set_writes(10);
    bench.write(0, 1, 1);
    bench.model.set_writes(20);
    bench.flush();
    bench.model.set_writes(30);
    bench.write(0, 1, 2);
    assert_eq!(
        bench.crash(10, &[1]),
        Err(Rule::Foreign),
        "it had not begun"
    );
    assert_eq!(bench.crash(11, &[1]), Ok(()));
    assert_eq!(bench.crash(20, &[0]), Ok(()), "the flush had not ended");
    assert_eq!(bench.crash(21, &[0]), Err(Rule::Durable));
    assert_eq!(bench.crash(21, &[2]), Err(Rule::Foreign));
    assert_eq!(bench.crash(31, &[2]), Ok(()));
}

#[test]
fn adopted_model_holds_what_was_found() {
    let mut bench = Bench::new();
    bench.write(0, 1, 1);
    bench.write(0, 1, 2);
    let mut recovery = bench.model.recover(ALL).adopting();
    recovery
        .exports(&[("v/l".to_owned(), 64 * BLOCK)], None)
        .expect("as made");
    assert_eq!(recovery.luns().len(), 1);
    assert_eq!(bench.model.blocks_ever("v/l"), vec![0]);
    recovery
        .block(bench.lun, 0, &page(1))
        .expect("a crash may leave this");
    recovery.finish(None).expect("a crash may leave this");
    let model = recovery.adopt();
    let lun = model.lun("v/l").expect("it was found");
    let mut bench = Bench { model, lun };
    assert_eq!(bench.read(&[1, 0]), Ok(()));
    assert_eq!(bench.crash(ALL, &[2, 0]), Err(Rule::Foreign));
}

#[test]
fn luns_come_and_go_for_good_when_acknowledged() {
    let mut model = Model::default();
    let volume = model.add_volume("v", 0);
    let judge = |model: &Model, exports: &[(&str, u64)]| {
        let exports: Vec<_> = exports.iter().map(|(n, s)| ((*n).to_owned(), *s)).collect();
        let mut recovery = model.recover(ALL);
        let verdict = recovery
            .exports(&exports, None)
            .and_then(|()| recovery.finish(None));
        verdict.map_err(|violation| violation.rule)
    };
    let (create, lun) = model.begin_create_lun(volume, "v/a", BLOCK);
    assert_eq!(judge(&model, &[]), Ok(()));
    assert_eq!(judge(&model, &[("v/a", BLOCK)]), Ok(()));
    model.end(create, OpEnd::DONE);
    assert_eq!(judge(&model, &[]), Err(Rule::Exports));
    assert_eq!(
        judge(&model, &[("v/a", BLOCK), ("v/b", BLOCK)]),
        Err(Rule::Exports)
    );
    let grow = model.begin_grow(lun, 2 * BLOCK);
    assert_eq!(judge(&model, &[("v/a", BLOCK)]), Ok(()));
    model.end(grow, OpEnd::DONE);
    assert_eq!(judge(&model, &[("v/a", BLOCK)]), Err(Rule::Exports));
    assert_eq!(judge(&model, &[("v/a", 2 * BLOCK)]), Ok(()));
    let delete = model.begin_delete_volume(volume);
    assert_eq!(judge(&model, &[("v/a", 2 * BLOCK)]), Ok(()));
    assert_eq!(judge(&model, &[]), Ok(()));
    model.end(delete, OpEnd::DONE);
    assert_eq!(judge(&model, &[("v/a", 2 * BLOCK)]), Err(Rule::Exports));
    assert_eq!(model.lun("v/a"), None);
}
