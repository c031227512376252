//! Looks at everything a freshly started system holds and asks the model whether that may be.

use everglade_env::BLOCK_SIZE;
use everglade_target::{LunHandle, OP_BYTES_MAX, Op, Reply};

use super::Failure;
use crate::model::{LunId, Model, Recovery, Violation};
use crate::system::System;
use crate::world::{End, SimWorld, Turn};

const BLOCK: u64 = BLOCK_SIZE as u64;
const RUN_BLOCKS: u64 = OP_BYTES_MAX as u64 / BLOCK;

/// Turns one read may take.
const TURNS_MAX: u64 = 1_000_000;

/// Judges `system`, recovered from a cut at write `at`, and returns the model to go on with.
///
/// # Errors
/// What it holds is nothing a cut at that write may leave.
pub fn judge<S: System>(
    world: &SimWorld,
    system: &mut S,
    model: &Model,
    at: u64,
) -> Result<Model, Failure> {
    let mut recovery = model.recover(at).adopting();
    let exports = system.target(0).exports();
    let exports: Vec<_> = exports
        .into_iter()
        .map(|e| (e.name, e.size_bytes))
        .collect();
    let volumes = system.volumes();
    recovery
        .exports(&exports, volumes.as_deref())
        .map_err(failure)?;
    for (lun, name, size) in recovery.luns() {
        judge_lun(world, system, &mut recovery, lun, &name, size)?;
    }
    recovery.finish(system.recovered_cp()).map_err(failure)?;
    Ok(recovery.adopt())
}

fn failure(violation: Violation) -> Failure {
    Failure::new(violation)
}

fn judge_lun<S: System>(
    world: &SimWorld,
    system: &mut S,
    recovery: &mut Recovery,
    lun: LunId,
    name: &str,
    size: u64,
) -> Result<(), Failure> {
    let (handle, _) = system
        .target(0)
        .open(name)
        .map_err(|error| Failure::new(format!("{name} cannot be opened: {error}")))?;
    let blocks = size / BLOCK;
    // What was written, and the first and last block in any case.
    let mut wanted = recovery.blocks_known(lun);
    wanted.extend([0, blocks - 1]);
    wanted.sort_unstable();
    wanted.dedup();
    let mut rest = wanted.as_slice();
    while let Some(&first) = rest.first() {
        // Neighbours are read together, gaps of some blocks included.
        let count = rest
            .iter()
            .take_while(|&&block| block < first + RUN_BLOCKS)
            .count();
        let last = rest[count - 1];
        let bytes = read(
            world,
            system,
            handle,
            first * BLOCK,
            (last + 1 - first) * BLOCK,
        )
        .map_err(|failure| failure.within(format!("{name} blocks {first}..={last}")))?;
        for (block, bytes) in (first..=last).zip(bytes.chunks(BLOCK_SIZE)) {
            recovery.block(lun, block, bytes).map_err(failure)?;
        }
        rest = &rest[count..];
    }
    system.target(0).close(handle);
    Ok(())
}

/// One read, waited for.
fn read<S: System>(
    world: &SimWorld,
    system: &mut S,
    handle: LunHandle,
    offset: u64,
    length: u64,
) -> Result<Vec<u8>, Failure> {
    let op = Op::Read {
        offset,
        length: u32::try_from(length).expect("at most 1 MiB"),
    };
    system.target(0).submit(handle, op, 0);
    world.wake(0);
    let mut done = Vec::new();
    let end = world.run(TURNS_MAX, &mut |reactor| {
        let said = system.turn(reactor);
        if reactor == 0 {
            system.target(0).poll(&mut done);
        }
        if done.is_empty() { said } else { Turn::Stop }
    });
    match done.pop().map(|completion| completion.result) {
        Some(Ok(Reply::Data(span))) => Ok(span.to_vec()),
        Some(Ok(Reply::Done | Reply::Extents(_))) => {
            Err(Failure::new("a read was answered without data"))
        }
        Some(Err(error)) => Err(Failure::new(format!("cannot be read: {error}"))),
        None if end == End::Cut => Err(Failure::new("the power failed while judging")),
        None => Err(Failure::new("a read was never answered")),
    }
}
