//! One round of the schedule: it takes the snapshots that are due, and deletes those beyond the
//! policy's number.

use std::collections::{BTreeMap, BTreeSet};

use everglade_api::{Moment, Policy};

use super::book::{Book, Entry, Run, Taken, Taking};
use super::calendar::{Calendar, Every};
use super::library::Asked;
use super::{Failure, Inner, Schedule, seconds};

/// Seconds. A run that starts less than this after its due time is on time, and its snapshot is
/// named after the due time. The snapshot of a later run is named after the moment when it starts.
const ON_TIME: i64 = 120;
/// Seconds until a refused snapshot is tried again.
const AGAIN_AFTER: i64 = 60;

/// An existing snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotEntry {
    /// Its number in the volume.
    pub(crate) id: u64,
    /// Its name.
    pub(crate) name: String,
    /// The reason why it cannot be deleted now.
    pub(crate) obstacle: Option<String>,
}

impl SnapshotEntry {
    pub(super) fn is(&self, known: &Taken) -> bool {
        self.id == known.id && self.name == known.name
    }
}

/// The volumes, as the schedule needs them. A pair is a volume and a snapshot; each pair succeeds
/// or fails alone.
pub(crate) trait Volumes {
    /// The snapshots of a volume, in order of creation; `None` if the volume cannot be asked now.
    fn snapshots(&self, volume: &str) -> Option<Vec<SnapshotEntry>>;

    /// Takes snapshots; returns their numbers, or one line each.
    fn take(&self, wanted: &[(String, String)]) -> Vec<Result<u64, String>>;

    /// Deletes snapshots.
    fn delete(&self, doomed: &[(String, String)]) -> Vec<Result<(), String>>;
}

/// One result of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RoundEvent {
    /// A snapshot was taken.
    Taken {
        /// Name of the volume.
        volume: String,
        /// Its name.
        name: String,
        /// Name of the policy.
        policy: String,
        /// Runs before it that did not happen.
        missed: i64,
    },
    /// A snapshot was deleted, because there are enough newer ones.
    Deleted {
        /// Name of the volume.
        volume: String,
        /// Its name.
        name: String,
        /// Name of the policy.
        policy: String,
    },
    /// The clock was put back by more than a period.
    ClockBack {
        /// Name of the volume.
        volume: String,
        /// The period of the schedule.
        every: Every,
    },
}

/// A snapshot to be taken.
struct Due {
    volume: String,
    policy: String,
    every: Every,
    taking: Taking,
    missed: i64,
}

impl Schedule {
    /// Runs one round at this time of the host's clock.
    pub(crate) fn round(&self, now: Moment, volumes: &dyn Volumes) -> Vec<RoundEvent> {
        let _turn = self.turn.lock();
        let now = seconds(now);
        let mut outcomes = Vec::new();
        self.follow_names(volumes);
        self.drop_missing();
        self.adopt(volumes);
        let due = self.write_down_due(now, volumes, &mut outcomes);
        let wanted: Vec<_> = due
            .iter()
            .map(|due| (due.volume.clone(), due.taking.name.clone()))
            .collect();
        if !wanted.is_empty() {
            let results = volumes.take(&wanted);
            self.write_down_taken(now, due.into_iter().zip(results), &mut outcomes);
        }
        self.thin_out(volumes, &mut outcomes);
        outcomes
    }

    /// Completes renames of volumes that the daemon made but did not record before it ended.
    fn follow_names(&self, volumes: &dyn Volumes) {
        let mut inner = self.lock();
        let mut book = inner.book.clone();
        let planned = book.volumes.iter();
        let planned: Vec<_> = planned
            .filter_map(|(volume, entry)| Some((volume.clone(), entry.becomes.clone()?)))
            .collect();
        for (volume, to) in planned {
            let is_there = |name: &str| volumes.snapshots(name).is_some();
            match (is_there(&volume), is_there(&to)) {
                (true, _) => {
                    let entry = book.volumes.get_mut(&volume).expect("from the book");
                    entry.becomes = None;
                }
                (false, true) => book.rename(&volume, &to),
                // The volume's aggregate is not online.
                (false, false) => {}
            }
        }
        inner.settle(book);
    }

    /// Drops entries of volumes that do not exist, because the daemon ended during a creation or a
    /// deletion.
    fn drop_missing(&self) {
        let mut inner = self.lock();
        let mut book = inner.book.clone();
        let (library, making) = (&inner.library, &inner.making);
        book.volumes.retain(|volume, entry| {
            let is_there = entry.home.and_then(|home| library.has(home, volume));
            is_there != Some(false) || making.contains(volume) || entry.becomes.is_some()
        });
        inner.settle(book);
    }

    /// Records snapshots that the daemon took but did not record before it ended.
    fn adopt(&self, volumes: &dyn Volumes) {
        let mut inner = self.lock();
        let mut book = inner.book.clone();
        for (volume, entry) in &mut book.volumes {
            for run in entry.runs.values_mut() {
                let Some(taking) = &run.taking else {
                    continue;
                };
                let Some(present) = volumes.snapshots(volume) else {
                    continue;
                };
                let mut present = present.iter();
                let found = present.find(|seen| seen.name == taking.name && seen.id > taking.after);
                if let Some(found) = found {
                    run.seen = run.seen.max(taking.due);
                    run.taken.push(Taken {
                        id: found.id,
                        name: found.name.clone(),
                    });
                }
                run.taking = None;
            }
        }
        inner.settle(book);
    }

    /// Finds the snapshots that are due, and records their names before any is taken.
    fn write_down_due(
        &self,
        now: i64,
        volumes: &dyn Volumes,
        outcomes: &mut Vec<RoundEvent>,
    ) -> Vec<Due> {
        let mut inner = self.lock();
        let mut book = inner.book.clone();
        let policies = policies(&book);
        let mut all = Vec::new();
        for (volume, entry) in &mut book.volumes {
            let Some((policy, calendar)) = policies.get(&entry.policy) else {
                continue;
            };
            let Some(present) = volumes.snapshots(volume) else {
                continue;
            };
            for (every, run) in &mut entry.runs {
                let last = calendar.last(*every, now);
                if last < run.seen - every.seconds() {
                    run.seen = last;
                    outcomes.push(RoundEvent::ClockBack {
                        volume: volume.clone(),
                        every: *every,
                    });
                }
                let failure = inner.failures.get(&(volume.clone(), *every));
                // A clock that was put back must not make it wait for longer.
                let waits = failure
                    .is_some_and(|failure| (1..=AGAIN_AFTER).contains(&(failure.again - now)));
                if last <= run.seen || waits {
                    continue;
                }
                let moment = if now - last < ON_TIME { last } else { now };
                let label = format!("{}.{}", every.word(), calendar.label(moment));
                let taking = Taking {
                    name: unused(label, &present),
                    after: present.iter().map(|seen| seen.id).max().unwrap_or(0),
                    due: last,
                };
                run.taking = Some(taking.clone());
                all.push(Due {
                    volume: volume.clone(),
                    policy: policy.name.clone(),
                    every: *every,
                    taking,
                    missed: missed(run, last, *every),
                });
            }
        }
        match inner.change_to(book) {
            Ok(()) => all,
            Err(text) => {
                for due in all {
                    inner.fail(now, (due.volume, due.every), text.clone());
                }
                Vec::new()
            }
        }
    }

    fn write_down_taken(
        &self,
        now: i64,
        taken: impl Iterator<Item = (Due, Result<u64, String>)>,
        outcomes: &mut Vec<RoundEvent>,
    ) {
        let mut inner = self.lock();
        let mut book = inner.book.clone();
        for (due, result) in taken {
            let key = (due.volume.clone(), due.every);
            // The volume may have got another policy meanwhile; then the snapshot belongs to no
            // policy.
            let run = find(&mut book, &due);
            match result {
                Ok(id) => {
                    if let Some(run) = run {
                        run.seen = due.taking.due;
                        run.taking = None;
                        run.taken.push(Taken {
                            id,
                            name: due.taking.name.clone(),
                        });
                    }
                    inner.failures.remove(&key);
                    outcomes.push(RoundEvent::Taken {
                        volume: due.volume,
                        name: due.taking.name,
                        policy: due.policy,
                        missed: due.missed,
                    });
                }
                Err(text) => {
                    if let Some(run) = run {
                        run.taking = None;
                        inner.fail(now, key, text);
                    }
                }
            }
        }
        inner.settle(book);
    }

    /// Deletes the snapshots that policies do not keep, except those that are held or open.
    fn thin_out(&self, volumes: &dyn Volumes, outcomes: &mut Vec<RoundEvent>) {
        let mut overdue: BTreeMap<String, BTreeSet<(String, String)>> = BTreeMap::new();
        let mut doomed = Vec::new();
        let mut inner = self.lock();
        let mut book = inner.book.clone();
        let policies = policies(&book);
        for (volume, entry) in &mut book.volumes {
            let Some((policy, _)) = policies.get(&entry.policy) else {
                continue;
            };
            let Some(present) = volumes.snapshots(volume) else {
                // The volume's state is unknown now, so the earlier state stays.
                if let Some(before) = inner.overdue.get(volume) {
                    overdue.insert(volume.clone(), before.clone());
                }
                continue;
            };
            for (every, run) in &mut entry.runs {
                run.taken
                    .retain(|known| present.iter().any(|seen| seen.is(known)));
                let excess = run.taken.len().saturating_sub(every.keep(policy));
                for known in &run.taken[..excess] {
                    let obstacle = present.iter().find(|seen| seen.is(known));
                    match obstacle.and_then(|seen| seen.obstacle.clone()) {
                        Some(why) => {
                            let kept = overdue.entry(volume.clone()).or_default();
                            kept.insert((known.name.clone(), why));
                        }
                        None => {
                            doomed.push(((volume.clone(), known.name.clone()), policy.name.clone()))
                        }
                    }
                }
            }
        }
        inner.settle(book);
        drop(inner);
        if !doomed.is_empty() {
            let names: Vec<_> = doomed.iter().map(|(name, _)| name.clone()).collect();
            let results = volumes.delete(&names);
            for (((volume, name), policy), result) in doomed.into_iter().zip(results) {
                match result {
                    // The next round finds that it is gone.
                    Ok(()) => outcomes.push(RoundEvent::Deleted {
                        volume,
                        name,
                        policy,
                    }),
                    Err(why) => _ = overdue.entry(volume).or_default().insert((name, why)),
                }
            }
        }
        let mut inner = self.lock();
        let volumes = &inner.book.volumes;
        overdue.retain(|volume, _| volumes.contains_key(volume));
        inner.overdue = overdue;
    }
}

impl Inner {
    fn fail(&mut self, now: i64, key: (String, Every), text: String) {
        let again = now + AGAIN_AFTER;
        self.failures.insert(key, Failure { text, again });
    }

    /// Replaces the book, or leaves it as it is if it cannot be written.
    fn change_to(&mut self, book: Book) -> Result<(), String> {
        if book != self.book {
            let written = self.library.write(&book, Asked::ByNobody);
            written.map_err(|unwritten| unwritten.text)?;
            self.book = book;
        }
        self.refusal = None;
        Ok(())
    }

    /// Takes over a book whose changes would be found again after a crash.
    fn settle(&mut self, book: Book) {
        if let Err(text) = self.change_to(book)
            && self.refusal.as_ref() != Some(&text)
        {
            tracing::error!("the policies cannot be written: {text}");
            self.refusal = Some(text);
        }
    }
}

fn policies(book: &Book) -> BTreeMap<String, (Policy, Calendar)> {
    let policies = book.policies().into_iter();
    policies
        .map(|policy| {
            let calendar = Calendar::of(&policy);
            (policy.name.clone(), (policy, calendar))
        })
        .collect()
}

/// Returns the run that a snapshot was taken for, if it is still wanted.
fn find<'a>(book: &'a mut Book, due: &Due) -> Option<&'a mut Run> {
    let is_same = |entry: &&mut Entry| entry.policy == due.policy;
    let entry = book.volumes.get_mut(&due.volume).filter(is_same)?;
    let run = entry.runs.get_mut(&due.every)?;
    (run.taking.as_ref() == Some(&due.taking)).then_some(run)
}

/// The name, or the name with a number behind it.
fn unused(name: String, present: &[SnapshotEntry]) -> String {
    let is_taken = |name: &str| present.iter().any(|seen| seen.name == name);
    if !is_taken(&name) {
        return name;
    }
    let mut others = (2..).map(|number: u32| format!("{name}-{number}"));
    others
        .find(|name| !is_taken(name))
        .expect("there are more numbers than snapshots")
}

/// Counts the due times between the last one handled and this one.
fn missed(run: &Run, due: i64, every: Every) -> i64 {
    let periods = (due - run.seen + every.seconds() / 2) / every.seconds();
    (periods - 1).max(0)
}
