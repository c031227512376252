//! The desk: runs changes, which block, for the one thread that must not block.
//!
//! A change keeps its place at the desk until it has ended, also after its client was told that it
//! takes too long, so the number of changes under way is bounded. No change is given up half-way.
//! The thread that made a change records it in the history with its caller, so changes are recorded
//! even if no client waits any more.
//!
//! Changes of one object run one at a time, so an object cannot change between the comparison with
//! `If-Match` and the change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everglade_api::{Code, EventKind, Job, JobState, Lun, Outcome, Problem, Severity, Size};
use everglade_env::lock::Mutex;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::answer::{Answer, found};
use super::caller::Caller;
use super::keys::Keys;
use super::tokens::Tokens;
use crate::administrator::{Administrator, Deleted};
use crate::datadir::Endpoints;
use crate::fronts::{iscsi, nbd, nvme_tcp};
use crate::records::events::NewEvent;
use crate::records::{Deed, Records};

/// Changes at a time; each may hold a thread.
pub(super) const CHANGES_MAX: usize = 16;
/// Time limit of a client's wait for a change. Only a full pool makes a change take this long.
const CHANGED_WITHIN: Duration = Duration::from_secs(60);
/// Limit of listeners to events at a time. Each listener holds a connection.
const LISTENERS_MAX: usize = 16;

/// The state that all handlers share.
pub(super) struct Desk {
    administrator: Arc<Administrator>,
    records: Arc<Records>,
    endpoints: Endpoints,
    tokens: Arc<Tokens>,
    places: Arc<Semaphore>,
    listeners: Arc<Semaphore>,
    /// Objects that are being changed.
    editing: Mutex<BTreeSet<String>>,
    keys: Keys,
    stopping: watch::Receiver<bool>,
}

impl Desk {
    pub(super) fn new(
        administrator: Arc<Administrator>,
        records: Arc<Records>,
        (endpoints, tokens): (Endpoints, Arc<Tokens>),
        stopping: watch::Receiver<bool>,
    ) -> Desk {
        let keys = Keys::default();
        keys.recall(records.history.kept());
        Desk {
            keys,
            administrator,
            records,
            endpoints,
            tokens,
            places: Arc::new(Semaphore::new(CHANGES_MAX)),
            listeners: Arc::new(Semaphore::new(LISTENERS_MAX)),
            editing: Mutex::default(),
            stopping,
        }
    }

    /// Returns the tokens of callers from elsewhere.
    pub(super) fn tokens(&self) -> Arc<Tokens> {
        Arc::clone(&self.tokens)
    }

    /// Returns the administrator, for reads, which never wait.
    pub(super) fn administrator(&self) -> &Administrator {
        &self.administrator
    }

    /// Keys of requests that were seen.
    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Returns the history, the events and the jobs.
    pub(super) fn records(&self) -> &Records {
        &self.records
    }

    /// Returns the records, for a change that outlives the request.
    pub(super) fn records_shared(&self) -> Arc<Records> {
        Arc::clone(&self.records)
    }

    /// Returns a receiver that becomes true once a stop of the daemon is requested.
    pub(super) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.clone()
    }

    /// Takes one of the places for clients that listen to events.
    pub(super) fn listener_place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.listeners)
            .try_acquire_owned()
            .map_err(|_| {
                let text = format!("{LISTENERS_MAX} listen to events already; try again later");
                Problem::new(Code::Busy, text)
            })
    }

    /// Does something on a thread that may block, without writing it down.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Administrator) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let text = format!("{CHANGES_MAX} changes are under way already; try again");
            return Err(Problem::new(Code::Busy, text));
        };
        let administrator = Arc::clone(&self.administrator);
        let done = spawn_blocking(move || {
            let _place = place;
            ask(&administrator)
        });
        match timeout(CHANGED_WITHIN, done).await {
            Ok(Ok(result)) => result,
            // The panic hook has ended the process; this is for the end of the runtime.
            Ok(Err(_)) => {
                let text = "the daemon is stopping, and nothing was changed";
                Err(Problem::new(Code::Unavailable, text))
            }
            Err(_) => {
                let text = "it takes longer than a minute, and may still happen; look before \
                            repeating it, or repeat it with the same Idempotency-Key";
                Err(Problem::new(Code::StillUnderWay, text))
            }
        }
    }

    /// Does a change on a thread that may block, and writes down that it was made.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        caller: Caller,
        deed: Deed,
        change: impl FnOnce(&Administrator) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let records = Arc::clone(&self.records);
        self.ask(move |administrator| {
            let made = change(administrator);
            match &made {
                // The change was made, although its result cannot be shown.
                Err(problem) if problem.outcome != Some(Outcome::Done) => {
                    caller.note_problem(problem);
                }
                _ => caller.remember(&records, administrator.now(), &deed),
            }
            made
        })
        .await
    }

    /// Does a change of an object that takes no settings, and answers with what it returns.
    pub(super) async fn act<T: Serialize + Send + 'static>(
        &self,
        caller: Caller,
        what: &'static str,
        object: String,
        change: impl FnOnce(&Administrator, &str) -> Result<T, Problem> + Send + 'static,
    ) -> Answer {
        let deed = Deed {
            what,
            object: object.clone(),
            detail: String::new(),
        };
        let changed = self.change(caller, deed, move |administrator| {
            change(administrator, &object)
        });
        found(changed.await?)
    }

    /// Runs a change that knows its description only afterwards.
    pub(super) async fn change_told<T: Send + 'static>(
        &self,
        caller: Caller,
        change: impl FnOnce(&Administrator) -> Result<(T, Deed), Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let records = Arc::clone(&self.records);
        self.ask(move |administrator| {
            let changed = change(administrator);
            let (made, deed) = changed.inspect_err(|problem| caller.note_problem(problem))?;
            caller.remember(&records, administrator.now(), &deed);
            Ok(made)
        })
        .await
    }

    /// Deletes an object on a thread that may block; a job frees its space.
    pub(super) async fn delete(
        &self,
        caller: Caller,
        deed: Deed,
        delete: impl FnOnce(&Administrator) -> Result<Deleted, Problem> + Send + 'static,
    ) -> Result<Job, Problem> {
        let records = Arc::clone(&self.records);
        self.ask(move |administrator| {
            let deleted = delete(administrator);
            let deleted = deleted.inspect_err(|problem| caller.note_problem(problem));
            let Deleted {
                pending,
                detail,
                kept_until,
            } = deleted?;
            let (now, what) = (administrator.now(), deed.what);
            let deed = Deed { detail, ..deed };
            caller.remember(&records, now, &deed);
            let job = match kept_until {
                None => records.jobs.begin(now, what, &deed.object, &pending),
                Some(until) => {
                    let kept = (
                        pending.aggregate.as_str(),
                        format!("it is in the trash until {until}"),
                    );
                    records.jobs.note_kept(now, what, &deed.object, kept)
                }
            };
            records.events.tell(
                now,
                NewEvent {
                    severity: Severity::Info,
                    kind: EventKind::Job,
                    object: deed.object,
                    code: None,
                    text: match (kept_until, job.state) {
                        (Some(until), _) => format!("it is in the trash until {until}"),
                        (None, JobState::Done) => format!("job {} ({what}) is done", job.id),
                        (None, _) => format!("job {} gives back {}", job.id, Size(job.total_bytes)),
                    },
                },
            );
            Ok(job)
        })
        .await
    }

    /// Updates the jobs after an administrator stopped one, so that its end is not a failure.
    pub(super) fn note_ended(&self) {
        let (now, administrator) = (self.administrator.now(), self.administrator());
        let jobs = &self.records.jobs;
        let clones = jobs.advance_clones(now, &administrator.lun_clones());
        let splits = jobs.advance_splits(now, &administrator.splits());
        let repairs = jobs.advance_repairs(now, &administrator.repairs());
        for job in clones.into_iter().chain(splits).chain(repairs) {
            let detail = job.detail.unwrap_or_default();
            self.records.events.tell(
                now,
                NewEvent {
                    severity: Severity::Info,
                    kind: EventKind::Job,
                    object: job.object,
                    code: None,
                    text: format!("job {} ({}) {}: {detail}", job.id, job.kind, job.state),
                },
            );
        }
    }

    /// Ends the jobs that wait for the space of an aggregate that was deleted.
    pub(super) fn end_jobs_of(&self, aggregate: &str) {
        let now = self.administrator.now();
        for job in self.records.jobs.end_of(now, aggregate) {
            self.records.events.tell(
                now,
                NewEvent {
                    severity: Severity::Info,
                    kind: EventKind::Job,
                    object: job.object,
                    code: None,
                    text: format!("job {} ended with aggregate {aggregate}", job.id),
                },
            );
        }
    }

    /// Keeps others from changing an object, until it is dropped.
    pub(super) fn edit(self: &Arc<Self>, object: &str) -> Result<Editing, Problem> {
        let mut editing = self.editing.lock();
        if !editing.insert(object.to_owned()) {
            let text = format!("{object} is being changed by somebody else; try again");
            return Err(Problem::new(Code::Busy, text));
        }
        Ok(Editing {
            desk: Arc::clone(self),
            object: object.to_owned(),
        })
    }

    /// Waits until no change is under way, and takes no more.
    pub(super) async fn settle(&self) {
        let all = u32::try_from(CHANGES_MAX).expect("a small constant");
        // The other door waits for these places too, so they are released.
        drop(self.places.acquire_many(all).await);
    }

    /// Adds to a LUN where clients find it.
    pub(super) fn reachable(&self, lun: Lun) -> Lun {
        Lun {
            nbd_uri: nbd::uri(&self.endpoints, &lun.nbd_export),
            iscsi_target: iscsi::target(&self.endpoints, &lun.object),
            nvme_subsystem: nvme_tcp::subsystem(&self.endpoints, &lun.object, &lun.uuid),
            ..lun
        }
    }
}

/// An object that one change has for itself. Goes with the change to its thread.
pub(super) struct Editing {
    desk: Arc<Desk>,
    object: String,
}

impl Drop for Editing {
    fn drop(&mut self) {
        self.desk.editing.lock().remove(&self.object);
    }
}
