//! The journal: the operations that the next start will replay, and damage that no power cut
//! explains (C-02, C-08).
//!
//! A journal that has not been replayed is no damage. So this module follows the records from the
//! superblock's position, as section 8 of the format says, counts them, and stops without a problem
//! where they end. An incomplete record is a warning, because a power cut can leave one. A problem
//! is something that no power cut leaves:
//!
//! - a region that does not exist, or a block of it that the device cannot read;
//! - a record that continues the chain, was sealed, and has an impossible value, such as a payload
//!   beyond its half;
//! - a record that proves that the newest superblock was lost. Its epoch is above that of the
//!   superblock; or a half begins with it, and its generation can begin only after a newer
//!   consistency point than the superblock's is committed, or it has the superblock's generation
//!   and another sequence;
//! - different records in the same place of two copies.
//!
//! A record has the epoch of the superblock that was committed last when it was written. So a
//! journal may have records of two epochs, and the epochs do not decrease along the chain.
//!
//! *Copies*: each current drive of a group has the journal. Operations are acknowledged when all
//! these drives have them, so each copy has everything that was acknowledged. A power cut leaves
//! copies that end at different records. The copy that reaches furthest counts. An incomplete
//! record on another one is no finding, and a block of it that cannot be read is repairable.
//!
//! This code shares nothing with the crate `journal`. It does not check what the operations do:
//! they may name files of a consistency point that was not committed.

mod region;

use std::cmp::Reverse;

use everglade_env::Storage;

use self::region::{Region, Scan};
use crate::findings::Findings;
use crate::labels::Labels;
use crate::problem::{Kind, Object, Problem, ProblemPlace};
use crate::report::Journal;

/// Reads the journal. None if there is none, or its place is impossible.
pub(crate) fn check(
    storage: &dyn Storage,
    labels: &Labels,
    findings: &mut Findings,
) -> Option<Journal> {
    if !has_region(labels, findings) {
        return None;
    }
    let drives = labels.journal_drives().into_iter();
    let scan = |drive| Region::new(storage, labels, drive).scan(labels);
    let scans: Vec<Scan> = drives.map(scan).collect();
    let best = scans.iter().max_by_key(|scan| rank(scan))?;
    for scan in &scans {
        compare(scan, best, findings);
        report(scan, best, findings);
    }
    Some(best.found)
}

/// True if there is a region, inside a member.
fn has_region(labels: &Labels, findings: &mut Findings) -> bool {
    let place = &labels.config.journal;
    if place.blocks == 0 {
        return false;
    }
    let member = place.member as usize;
    let size = labels.config.members.get(member);
    let size = size.map_or(0, |m| m.size_blocks);
    let end = place.first.0.checked_add(place.blocks);
    let exists = place.blocks >= 2 && end.is_some_and(|end| end <= size);
    if !exists {
        let expected =
            format_args!("at least 2 blocks inside a member; member {member} has {size}");
        let found = format_args!("{} blocks from dbn {} on", place.blocks, place.first);
        let (object, place) = (Object::Journal, ProblemPlace::NONE);
        findings.add(Kind::JournalRegion, &object, place, expected, found);
    }
    exists
}

/// The order of copies: the one that reaches furthest counts, and among equals the one with the
/// fewest problems.
fn rank(scan: &Scan) -> (u64, Reverse<usize>, Reverse<u32>) {
    (
        scan.found.next_sequence,
        Reverse(scan.findings.problems.len()),
        Reverse(scan.drive.member),
    )
}

/// Reports the first record that differs from the one in the same place of the best copy.
fn compare(scan: &Scan, best: &Scan, findings: &mut Findings) {
    let pairs = scan.codes.iter().zip(&best.codes).zip(1u64..);
    let mut differing = pairs.filter(|((own, other), _)| own != other);
    if let Some(((own, other), record)) = differing.next() {
        let place = ProblemPlace {
            member: Some(scan.drive.member),
            ..ProblemPlace::NONE
        };
        let member = best.drive.member;
        let expected = format_args!("record {record} of code {other:016x}, as on member {member}");
        let found = format_args!("{own:016x}");
        let (kind, object) = (Kind::JournalCopiesDiffer, Object::Journal);
        findings.add(kind, &object, place, expected, found);
    }
}

/// Reports the findings of one copy.
fn report(scan: &Scan, best: &Scan, findings: &mut Findings) {
    let has = |scan: &Scan, kind| scan.findings.totals.contains_key(&kind);
    let is_best = scan.drive == best.drive;
    let is_longer = best.found.next_sequence > scan.found.next_sequence;
    let is_elsewhere = !is_best && (is_longer || !has(best, Kind::ReadError));
    for problem in scan.findings.problems.iter().chain(&scan.findings.warnings) {
        let problem = problem.clone();
        match problem.kind {
            Kind::JournalTorn if !is_best => {}
            Kind::ReadError if is_elsewhere => {
                let (member, wanted) = (best.drive.member, &problem.expected);
                let right = format!("which member {member} has, so this is repairable");
                let expected = format!("{wanted}, {right}");
                findings.push(Problem {
                    kind: Kind::CopyWrong,
                    expected,
                    ..problem
                });
            }
            _ => findings.push(problem),
        }
    }
}
