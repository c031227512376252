//! The rows of the table: a load, who runs it, and what is to be reached (issue "It is fast, small
//! and steady").

use super::load::{Kind, Load, Order};
use super::server::Arm;

/// A row.
#[derive(Clone, Debug)]
pub struct Row {
    /// Short, for `--only` and the JSON.
    pub key: &'static str,
    /// For people.
    pub title: &'static str,
    /// What ours runs. `bytes` 0 means all of the export.
    pub load: Load,
    /// Who runs it; ours first.
    pub arms: Vec<Arm>,
    /// Seconds of each turn, before `--quick` and `--scale`.
    pub seconds: f64,
    /// What is to be reached: against whom, and the least ratio of rates.
    pub goals: &'static [(Arm, f64)],
    /// Our CPU time by the peer's at most.
    pub cpu_goal: Option<(Arm, f64)>,
    /// Our CPU time for a request at most, microseconds.
    pub cpu_us_goal: Option<f64>,
    /// Before each turn a snapshot is made of what it will overwrite; it is deleted after the turn.
    pub after_snapshot: bool,
    /// Before the first turn, each server overwrites its export at random places.
    pub after_age: bool,
}

/// Rare waits of seconds would be missed in less.
const TURN_SECONDS: f64 = 10.0;

impl Row {
    /// Without the peers that no goal names: for exports too large for every server to have one.
    #[must_use]
    pub fn of_goals(mut self) -> Row {
        let judged = self.goals.iter().map(|(arm, _)| *arm);
        let judged: Vec<Arm> = judged.chain(self.cpu_goal.map(|(arm, _)| arm)).collect();
        let ours = self.arms[0];
        self.arms.retain(|arm| *arm == ours || judged.contains(arm));
        self
    }
}

const KIB: u32 = 1 << 10;
/// Fits every cache.
pub(super) const CACHED_BYTES: u64 = 256 << 20;

const fn load(kind: Kind, order: Order, block: u32, depth: u32) -> Load {
    Load::of(kind, order, block, depth, 0)
}

fn row(
    key: &'static str,
    title: &'static str,
    load: Load,
    arms: &'static [Arm],
    goals: &'static [(Arm, f64)],
) -> Row {
    Row {
        key,
        title,
        load,
        arms: arms.to_vec(),
        seconds: TURN_SECONDS,
        goals,
        cpu_goal: None,
        cpu_us_goal: None,
        after_snapshot: false,
        after_age: false,
    }
}

/// Ours and all other NBD servers.
const SERVERS: &[Arm] = &[
    Arm::Everglade,
    Arm::QemuRaw,
    Arm::QemuCached,
    Arm::QemuQcow2,
    Arm::Nbdkit,
    Arm::Disk,
];
/// Ours and the fastest peer, without and with the host's cache.
const QEMU: &[Arm] = &[Arm::Everglade, Arm::QemuRaw, Arm::QemuCached, Arm::Disk];
/// Ours and file systems on loop devices.
const FILE_SYSTEMS: &[Arm] = &[
    Arm::Everglade,
    Arm::QemuBtrfs,
    Arm::QemuBtrfsFull,
    Arm::QemuBtrfsPlain,
    Arm::QemuXfs,
    Arm::Disk,
];

/// All rows, in the order in which they run: reads before writes, so that they find what was
/// written in order.
#[must_use]
pub fn all() -> Vec<Row> {
    use Arm::{
        Disk, Everglade, EvergladeAlways, Null, NullMemory, QemuBtrfs, QemuBtrfsFull,
        QemuBtrfsPlain, QemuCached, QemuRaw, QemuXfs,
    };
    use Kind::{DurableWrite, Read, Write, WriteFlush, WriteThenFlush};
    use Order::{Random, Sequential};
    let block = 4 * KIB;
    vec![
        row(
            "seq-read",
            "sequential read 128 KiB q8, uncached",
            load(Read, Sequential, 128 * KIB, 8),
            SERVERS,
            &[(QemuRaw, 1.0)],
        ),
        row(
            "read-q32",
            "random read q32, data 4 × cache",
            load(Read, Random, block, 32),
            SERVERS,
            &[(QemuRaw, 1.25)],
        ),
        Row {
            load: Load {
                bytes: CACHED_BYTES,
                ..load(Read, Random, block, 32)
            },
            cpu_us_goal: Some(6.0),
            ..row(
                "cached-q32",
                "random read q32, cached",
                load(Read, Random, block, 32),
                &[Everglade, QemuRaw, QemuCached, Null, NullMemory, Disk],
                &[(QemuRaw, 3.0), (Null, 0.75)],
            )
        },
        row(
            "read-q1",
            "random read q1",
            load(Read, Random, block, 1),
            QEMU,
            &[(QemuRaw, 1.0)],
        ),
        row(
            "write-q1",
            "random write q1",
            load(Write, Random, block, 1),
            QEMU,
            &[(QemuRaw, 1.0)],
        ),
        Row {
            cpu_goal: Some((QemuRaw, 0.75)),
            ..row(
                "overwrite-q32",
                "random overwrite q32, flush at the end",
                load(Write, Random, block, 32),
                SERVERS,
                &[(QemuRaw, 2.0)],
            )
        },
        row(
            "always-q32",
            "random overwrite q32, each durable (sync=always; FUA)",
            load(DurableWrite, Random, block, 32),
            &[EvergladeAlways, QemuRaw, QemuCached, Disk],
            &[(QemuRaw, 1.0)],
        ),
        row(
            "flush-8",
            "random write q32, flush after every 8",
            load(WriteFlush(8), Random, block, 32),
            QEMU,
            &[(QemuRaw, 1.0)],
        ),
        row(
            "flush-each",
            "8 jobs × q4, flush after each write",
            Load {
                jobs: 8,
                ..load(WriteThenFlush, Random, block, 4)
            },
            QEMU,
            &[(QemuRaw, 1.0)],
        ),
        row(
            "seq-write",
            "sequential write 128 KiB q8, flush at the end",
            load(Write, Sequential, 128 * KIB, 8),
            SERVERS,
            &[(QemuRaw, 1.3)],
        ),
        row(
            "btrfs",
            "random overwrite q32, against file systems on loop devices",
            load(Write, Random, block, 32),
            FILE_SYSTEMS,
            &[(QemuBtrfs, 5.0)],
        ),
        Row {
            after_snapshot: true,
            ..row(
                "snapshot",
                "random overwrite q32 right after a snapshot (XFS: a reflinked copy)",
                load(Write, Random, block, 32),
                FILE_SYSTEMS,
                &[],
            )
        },
        Row {
            after_age: true,
            ..row(
                "aged-read",
                "sequential read 128 KiB q8 after the random overwrites",
                load(Read, Sequential, 128 * KIB, 8),
                &[
                    Everglade,
                    QemuRaw,
                    QemuBtrfs,
                    QemuBtrfsFull,
                    QemuBtrfsPlain,
                    QemuXfs,
                    Disk,
                ],
                &[],
            )
        },
    ]
}

/// Rows for which it matters how full the pool is; each runs at every level of
/// [`fill`](super::fill).
#[must_use]
pub fn filled() -> Vec<Row> {
    let arms = [Arm::Everglade, Arm::QemuRaw, Arm::Disk];
    let mut rows = all();
    rows.retain(|row| ["seq-write", "overwrite-q32"].contains(&row.key));
    for row in &mut rows {
        row.arms = arms.to_vec();
        // The goals are those of the rows above.
        (row.goals, row.cpu_goal) = (&[], None);
    }
    rows
}
