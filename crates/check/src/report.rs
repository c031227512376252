//! Report: what the verifier read, and all problems that it found.

use std::collections::BTreeMap;
use std::fmt;

use everglade_env::DeviceId;
use everglade_format::config::{Uuid, hex};
use everglade_format::{Role, Seat};
use serde_json::{Value, json};

use crate::findings::Findings;
use crate::labels::Labels;
use crate::problem::{Kind, Problem, ProblemPlace};

/// The present work of the verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Walking the aggregate's trees.
    Trees,
    /// Reading contents in the order of the devices.
    Contents,
    /// Walking the volumes.
    Volumes,
}

/// Progress of the verification. `total` is from the superblock and may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The present step.
    pub phase: Phase,
    /// Blocks done in this phase.
    pub done: u64,
    /// Blocks in use in the aggregate.
    pub total: u64,
}

/// Amounts in the checked aggregate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Members.
    pub devices: u64,
    /// Blocks that may be allocated.
    pub blocks: u64,
    /// Set bits of the aggregate's active map.
    pub blocks_used: u64,
    /// Leaves whose contents were compared with their tags.
    pub blocks_verified: u64,
    /// Files of the aggregate and of all volumes.
    pub files: u64,
    /// Volumes.
    pub volumes: u64,
    /// LUNs.
    pub luns: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Snapshots whose deletion is under way.
    pub snapshots_deleting: u64,
    /// Volumes with a scan for their snapshots under way.
    pub scans: u64,
    /// Files and volumes whose deletion is under way.
    pub hidden_files: u64,
    /// Blocks in use in all volumes.
    pub volume_blocks_used: u64,
    /// Blocks of LUNs that hold data.
    pub lun_blocks: u64,
    /// Blocks of LUNs that do not.
    pub lun_holes: u64,
    /// Blocks that overflow files own.
    pub overflow_blocks: u64,
    /// Pointers whose cached pvbn is not where the block is (harmless).
    pub stale_hints: u64,
}

/// A member of the checked aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name for ever.
    pub uuid: Uuid,
    /// Its device, if that was given.
    pub device: Option<DeviceId>,
    /// Its size in blocks, as the config record has it.
    pub size_blocks: u64,
    /// Its part in a group of drives.
    pub seat: Seat,
    /// The member was read and compared: its device was given, and it is current.
    pub is_read: bool,
}

/// The role of a column, for people and programs.
pub(crate) fn role_text(seat: Seat) -> &'static str {
    match seat.role {
        Role::Data => "data",
        Role::Copy => "copy",
        Role::Parity => "parity",
    }
}

/// The state of a member, for people and programs.
pub(crate) fn state_text(seat: Seat) -> &'static str {
    match seat.is_current() {
        true => "current",
        false => "behind",
    }
}

/// The operations in the journal beyond the checked consistency point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// Blocks of the region.
    pub blocks: u64,
    /// Records that the next start will replay.
    pub records: u64,
    /// Operations in them.
    pub operations: u64,
    /// Blocks they take.
    pub record_blocks: u64,
    /// The generation of the last of them, or the one that comes first.
    pub generation: u64,
    /// The sequence that the next operation will have.
    pub next_sequence: u64,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The aggregate's name.
    pub name: String,
    /// The aggregate's name for ever.
    pub uuid: Uuid,
    /// The consistency point that was checked.
    pub cp: u64,
    /// The epoch of the config record that goes with it.
    pub epoch: u64,
    /// The daemon stopped in good order after it.
    pub stopped_cleanly: bool,
    /// Counts of the objects read.
    pub counts: Counts,
    /// The members, in the order of the member table.
    pub members: Vec<Member>,
    /// The journal; none if the aggregate has none, or its place is impossible.
    pub journal: Option<Journal>,
    /// The problems; of each kind at most the first hundred.
    pub problems: Vec<Problem>,
    /// The warnings: traces that an interrupted write may leave. They are bounded likewise.
    pub warnings: Vec<Problem>,
    /// Number of problems of each kind, kept or not.
    pub totals: BTreeMap<Kind, u64>,
}

impl Report {
    pub(crate) fn new(
        labels: &Labels,
        counts: Counts,
        journal: Option<Journal>,
        findings: Findings,
    ) -> Self {
        Report {
            name: labels.name().to_owned(),
            uuid: labels.config.uuid,
            cp: labels.superblock.cp.0,
            epoch: labels.config.epoch,
            stopped_cleanly: labels.superblock.clean,
            counts,
            members: members(labels),
            journal,
            problems: findings.problems,
            warnings: findings.warnings,
            totals: findings.totals,
        }
    }

    /// True if nothing is wrong; warnings do not count.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// Problems found, those that were not kept included.
    #[must_use]
    pub fn problem_count(&self) -> u64 {
        let problem = |(kind, _): &(&Kind, &u64)| !kind.is_warning();
        self.totals.iter().filter(problem).map(|(_, n)| n).sum()
    }

    /// The report for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let counts = &self.counts;
        json!({
            "schema_version": 1,
            "aggregate": self.name,
            "uuid": hex(&self.uuid),
            "cp": self.cp,
            "epoch": self.epoch,
            "stopped_cleanly": self.stopped_cleanly,
            "clean": self.is_clean(),
            "counts": {
                "devices": counts.devices,
                "blocks": counts.blocks,
                "blocks_used": counts.blocks_used,
                "blocks_verified": counts.blocks_verified,
                "files": counts.files,
                "volumes": counts.volumes,
                "luns": counts.luns,
                "snapshots": counts.snapshots,
                "snapshots_deleting": counts.snapshots_deleting,
                "scans": counts.scans,
                "hidden_files": counts.hidden_files,
                "volume_blocks_used": counts.volume_blocks_used,
                "lun_blocks": counts.lun_blocks,
                "lun_holes": counts.lun_holes,
                "overflow_blocks": counts.overflow_blocks,
                "stale_hints": counts.stale_hints,
            },
            "members": (0u32..).zip(&self.members).map(member_json).collect::<Vec<_>>(),
            "journal": self.journal.map(|journal| json!({
                "blocks": journal.blocks,
                "records": journal.records,
                "operations": journal.operations,
                "record_blocks": journal.record_blocks,
                "generation": journal.generation,
                "next_sequence": journal.next_sequence,
            })),
            "totals": self.totals.iter().map(|(kind, total)| (kind.name(), total))
                .collect::<BTreeMap<_, _>>(),
            "problems": self.problems.iter().map(problem_json).collect::<Vec<_>>(),
            "warnings": self.warnings.iter().map(problem_json).collect::<Vec<_>>(),
        })
    }
}

fn members(labels: &Labels) -> Vec<Member> {
    let all = labels.config.members.iter().zip(&labels.members);
    let member = all.map(|(entry, placed)| Member {
        uuid: entry.uuid,
        device: placed.device,
        size_blocks: entry.size_blocks,
        seat: entry.seat,
        is_read: placed.trouble.is_none(),
    });
    member.collect()
}

fn member_json((index, member): (u32, &Member)) -> Value {
    let Member {
        uuid,
        device,
        size_blocks,
        seat,
        is_read,
    } = member;
    json!({
        "member": index,
        "uuid": hex(uuid),
        "device": device.map(|device| device.0),
        "size_blocks": size_blocks,
        "group": seat.group,
        "column": seat.column,
        "role": role_text(*seat),
        "state": state_text(*seat),
        "read": is_read,
    })
}

fn problem_json(problem: &Problem) -> Value {
    let ProblemPlace {
        offset,
        level,
        index,
        vvbn,
        pvbn,
        member,
        dbn,
    } = problem.place;
    json!({
        "kind": problem.kind.name(),
        "object": problem.object.to_string(),
        "offset": offset,
        "level": level,
        "index": index,
        "vvbn": vvbn.map(|vvbn| vvbn.0),
        "pvbn": pvbn.map(|pvbn| pvbn.0),
        "member": member,
        "dbn": dbn.map(|dbn| dbn.0),
        "expected": problem.expected,
        "found": problem.found,
    })
}

/// Returns a number with its noun.
fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.device {
            Some(device) => write!(f, "(device {})", device.0)?,
            None => write!(f, "(no device)")?,
        }
        let Seat { group, column, .. } = self.seat;
        let (role, state) = (role_text(self.seat), state_text(self.seat));
        write!(f, ": group {group}, column {column}, {role}, {state}")?;
        match self.is_read {
            true => Ok(()),
            false => write!(f, ", not verified"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in self.problems.iter().chain(&self.warnings) {
            writeln!(f, "{problem}")?;
        }
        let kept = (self.problems.len() + self.warnings.len()) as u64;
        let all: u64 = self.totals.values().sum();
        if all > kept {
            writeln!(f, "and {} more of the same kinds", all - kept)?;
        }
        if let Some(journal) = self.journal.filter(|journal| journal.records > 0) {
            writeln!(
                f,
                "journal: {} in {} since that consistency point; the next start replays that",
                counted(journal.operations, "operation"),
                counted(journal.records, "record")
            )?;
        }
        for (index, member) in self.members.iter().enumerate() {
            if member.seat.group != 0 {
                writeln!(f, "member {index} {member}")?;
            }
        }
        let counts = &self.counts;
        write!(
            f,
            "aggregate {} at consistency point {}: {}, {}, {}, {} of {} blocks in use; ",
            self.name,
            self.cp,
            counted(counts.volumes, "volume"),
            counted(counts.luns, "LUN"),
            counted(counts.snapshots, "snapshot"),
            counts.blocks_used,
            counts.blocks
        )?;
        match self.problem_count() {
            0 => write!(f, "clean"),
            1 => write!(f, "1 problem"),
            n => write!(f, "{n} problems"),
        }
    }
}
