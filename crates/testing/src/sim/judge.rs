//! Looks at everything a freshly started system shows, and asks the model whether that may be.
//!
//! The two are separate because reading is expensive and comparing is cheap: power cuts with the
//! same readable blocks are read once, and compared with the allowed states of each cut.

use std::collections::BTreeMap;

use everglade_env::{BLOCK_SIZE, Page, PageRef};
use everglade_target::{LunHandle, OP_BYTES_MAX, Op, Reply};

use super::Failure;
use crate::model::{Model, Recovery, Violation};
use crate::system::{Geometry, System};
use crate::world::{End, SimWorld, Turn};

const BLOCK: u64 = BLOCK_SIZE as u64;
const RUN_BLOCKS: u64 = OP_BYTES_MAX as u64 / BLOCK;

/// Turns one read may take.
const TURNS_MAX: u64 = 1_000_000;

/// The content of a LUN's block as read.
#[derive(Clone, Debug)]
pub enum Shown {
    /// These bytes.
    Bytes(PageRef),
    /// An error.
    Error(String),
}

/// The visible state of a started system.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Names of exports and their sizes in bytes.
    pub exports: Vec<(String, u64)>,
    /// Names of volumes, if the system tells.
    pub volumes: Option<Vec<String>>,
    /// The consistency point that the system reports.
    pub cp: Option<u64>,
    /// True if the system reports missing operations between others that survived.
    pub has_gaps: bool,
    /// Blocks by export.
    pub blocks: BTreeMap<String, BTreeMap<u64, Shown>>,
    /// The reason why the system failed while it was being read.
    pub failed: Option<String>,
    /// Why it can only be read.
    pub read_only: Option<String>,
    /// The pool, if the system tells.
    pub geometry: Option<Geometry>,
}

/// The errors that are valid answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tolerance {
    /// No error.
    Nothing,
    /// Errors of blocks that the model knows to be damaged.
    Marked,
    /// All errors: any block may be damaged. Wrong data is never a valid answer.
    Anything,
    /// All errors; and the log is damaged, so operations durable by it alone may be lost.
    WithoutLog,
}

impl Tolerance {
    /// True if any block may answer with an error.
    #[must_use]
    pub fn is_wide(self) -> bool {
        matches!(self, Tolerance::Anything | Tolerance::WithoutLog)
    }
}

/// Judges `system`, recovered from a cut at write `at`, and returns the model to go on with.
///
/// # Errors
/// The error if a cut at that write cannot leave the state found.
pub fn judge<S: System>(
    world: &SimWorld,
    system: &mut S,
    model: &Model,
    at: u64,
) -> Result<Model, Failure> {
    let view = look(world, system, model)?;
    compare(&view, model, at, Tolerance::Nothing)
}

/// Looks at every block that `model` knows, and at the first and last of each LUN.
///
/// # Errors
/// Something is never answered, or answered with nonsense. Errors of devices are part of the view.
pub fn look<S: System>(world: &SimWorld, system: &mut S, model: &Model) -> Result<View, Failure> {
    look_at(world, system, &|name| model.blocks_ever(name))
}

/// Looks at blocks that `wanted` names for each LUN, and at the first and last of each.
///
/// # Errors
/// The same errors as [`look`].
pub fn look_at<S: System>(
    world: &SimWorld,
    system: &mut S,
    wanted: &dyn Fn(&str) -> Vec<u64>,
) -> Result<View, Failure> {
    let exports = system.target(0).exports();
    let mut view = View {
        exports: exports
            .into_iter()
            .map(|e| (e.name, e.size_bytes))
            .collect(),
        volumes: system.volumes(),
        cp: system.recovered_cp(),
        has_gaps: system.has_gaps(),
        read_only: system.read_only(),
        geometry: system.geometry(),
        ..View::default()
    };
    for (name, size) in view.exports.clone() {
        let blocks = size / BLOCK;
        let mut wanted = wanted(&name);
        wanted.extend([0, blocks.saturating_sub(1)]);
        wanted.retain(|block| *block < blocks);
        wanted.sort_unstable();
        wanted.dedup();
        let handle = match system.target(0).open(&name) {
            Ok((handle, _)) => handle,
            Err(error) => {
                view.failed = Some(format!("{name} cannot be opened: {error}"));
                return Ok(view);
            }
        };
        let shown =
            look_into(world, system, handle, &wanted).map_err(|failure| failure.within(&name))?;
        view.blocks.insert(name, shown);
        system.target(0).close(handle);
        if let Some(reason) = system.failure() {
            view.failed = Some(reason);
            return Ok(view);
        }
    }
    Ok(view)
}

fn look_into<S: System>(
    world: &SimWorld,
    system: &mut S,
    handle: LunHandle,
    wanted: &[u64],
) -> Result<BTreeMap<u64, Shown>, Failure> {
    let mut shown = BTreeMap::new();
    let mut rest = wanted;
    while let Some(&first) = rest.first() {
        // Neighbours are read together, gaps of some blocks included.
        let count = rest
            .iter()
            .take_while(|&&block| block < first + RUN_BLOCKS)
            .count();
        let (run, later) = rest.split_at(count);
        rest = later;
        let last = run[count - 1];
        match read(world, system, handle, first, last + 1 - first)? {
            Ok(bytes) => {
                for block in run {
                    let from = usize::try_from(block - first).expect("at most 256") * BLOCK_SIZE;
                    shown.insert(*block, bytes_shown(&bytes[from..from + BLOCK_SIZE]));
                }
            }
            // One bad block fails its neighbours; single reads separate them.
            Err(_) => {
                for block in run {
                    let alone = match read(world, system, handle, *block, 1)? {
                        Ok(bytes) => bytes_shown(&bytes),
                        Err(error) => Shown::Error(error),
                    };
                    shown.insert(*block, alone);
                }
            }
        }
    }
    Ok(shown)
}

fn bytes_shown(bytes: &[u8]) -> Shown {
    let mut page = Page::zeroed();
    page.copy_from_slice(bytes);
    Shown::Bytes(page.freeze())
}

/// Reads blocks, and waits for the result.
fn read<S: System>(
    world: &SimWorld,
    system: &mut S,
    handle: LunHandle,
    first: u64,
    count: u64,
) -> Result<Result<Vec<u8>, String>, Failure> {
    let op = Op::Read {
        offset: first * BLOCK,
        length: u32::try_from(count * BLOCK).expect("at most 1 MiB"),
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
        Some(Ok(Reply::Data(span))) => Ok(Ok(span.to_vec())),
        Some(Ok(Reply::Done | Reply::Extents(_))) => {
            Err(Failure::new("a read was answered without data"))
        }
        Some(Err(error)) => Ok(Err(error.to_string())),
        None if end == End::Cut => Err(Failure::new("the power failed while judging")),
        None => Err(Failure::new("a read was never answered")),
    }
}

/// Judges what a system recovered from a cut at write `at` shows, and returns the model to go on
/// with, which knows the blocks that the view has.
///
/// # Errors
/// A cut at that write may not leave this.
pub fn compare(
    view: &View,
    model: &Model,
    at: u64,
    tolerance: Tolerance,
) -> Result<Model, Failure> {
    let mut recovery = model.recover(at).adopting();
    judge_by(&mut recovery, view, tolerance)?;
    Ok(recovery.adopt())
}

/// Only judges. With `has_gaps`, operations may be missing between others that survived, even if
/// the view reports none.
///
/// # Errors
/// The same errors as [`compare`].
pub fn verify(view: &View, model: &Model, at: u64, has_gaps: bool) -> Result<(), Failure> {
    let mut recovery = model.recover(at);
    if has_gaps {
        recovery.allow_gaps();
    }
    judge_by(&mut recovery, view, Tolerance::Nothing)
}

fn judge_by(recovery: &mut Recovery<'_>, view: &View, tolerance: Tolerance) -> Result<(), Failure> {
    if tolerance == Tolerance::WithoutLog {
        recovery.forget_log();
    }
    if view.has_gaps {
        recovery.allow_gaps();
    }
    let judged = |violation: Violation| Failure::new(violation);
    match &view.read_only {
        Some(_) if tolerance.is_wide() => recovery.forget_names(),
        Some(reason) => {
            let what = format!("it starts for reading only, without a reason: {reason}");
            return Err(Failure::new(what));
        }
        None => {}
    }
    recovery
        .exports(&view.exports, view.volumes.as_deref())
        .map_err(judged)?;
    if let (Some(reason), false) = (&view.failed, tolerance.is_wide()) {
        return Err(Failure::new(format!("it failed while looked at: {reason}")));
    }
    for (lun, name, _) in recovery.luns() {
        let Some(blocks) = view.blocks.get(&name) else {
            continue;
        };
        for (&block, shown) in blocks {
            match shown {
                Shown::Bytes(page) => recovery.block(lun, block, page).map_err(judged)?,
                Shown::Error(error) if tolerance == Tolerance::Nothing => {
                    let what = format!("{name} block {block} cannot be read: {error}");
                    return Err(Failure::new(what));
                }
                Shown::Error(_) => {
                    let anywhere = tolerance == Tolerance::Anything;
                    recovery.unreadable(lun, block, anywhere).map_err(judged)?;
                }
            }
        }
    }
    recovery.finish(view.cp).map_err(judged)
}

impl View {
    /// Blocks that answered with an error.
    #[must_use]
    pub fn errors(&self) -> u64 {
        let blocks = self.blocks.values().flat_map(BTreeMap::values);
        let errors = blocks.filter(|shown| matches!(shown, Shown::Error(_)));
        let ends = [&self.failed, &self.read_only];
        let ends = ends.into_iter().filter(|end| end.is_some());
        (errors.count() + ends.count()) as u64
    }
}
