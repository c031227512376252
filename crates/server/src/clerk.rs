//! The clerk: a thread that runs the rounds of the snapshot schedule, of scrubs, of spare drives,
//! of devices that were removed, of gardening's part of the day and of the trash, and reports what
//! they did.
//!
//! It looks at the clock every few seconds rather than sleeping until the next due time, because a
//! clock can be put forward or back at any moment.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use everglade_api::{EventKind, Severity};

use crate::Stop;
use crate::administrator::{Administrator, Notice, ScrubRounds, SpareRounds, TrashRounds};
use crate::records::Records;
use crate::records::events::NewEvent;
use crate::schedule::RoundEvent;

/// Interval between checks of the clock.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The running clerk.
pub(crate) struct Clerk {
    thread: JoinHandle<()>,
}

/// Starts making rounds.
///
/// # Errors
/// The system gives no thread.
pub(crate) fn start(
    administrator: Arc<Administrator>,
    records: Arc<Records>,
    stop: &Stop,
) -> io::Result<Clerk> {
    let (ask, asked) = mpsc::channel();
    stop.on_ask(move || _ = ask.send(()));
    let run = move || {
        let (mut scrubs, mut spares) = (ScrubRounds::default(), SpareRounds::default());
        let mut trash = TrashRounds::default();
        while let Err(RecvTimeoutError::Timeout) = {
            round(&administrator, &records);
            administrator.settle_gardens();
            let notices = spares.round(&administrator).into_iter();
            let removed = administrator.settle_removed();
            let scrubbed = scrubs.round(&administrator);
            let emptied = trash.round(&administrator);
            for notice in notices.chain(scrubbed).chain(removed).chain(emptied) {
                report(notice, &administrator, &records);
            }
            asked.recv_timeout(LOOK_EVERY)
        } {}
    };
    let thread = crate::background::spawn("schedule", run)?;
    Ok(Clerk { thread })
}

impl Clerk {
    /// Waits for the end after a stop.
    pub(crate) fn wait(self) {
        if self.thread.join().is_err() {
            tracing::error!("the schedule ended by a panic");
        }
    }
}

fn round(administrator: &Administrator, records: &Records) {
    let now = administrator.now();
    for outcome in administrator.schedule().round(now, administrator) {
        let (severity, object, text) = words(&outcome);
        tracing::info!("{object}: {text}");
        records.events.tell(
            administrator.now(),
            NewEvent {
                severity,
                kind: EventKind::Change,
                object,
                code: None,
                text,
            },
        );
    }
}

fn report(notice: Notice, administrator: &Administrator, records: &Records) {
    let Notice {
        object,
        is_warning,
        text,
    } = notice;
    tracing::info!("{object}: {text}");
    records.events.tell(
        administrator.now(),
        NewEvent {
            severity: match is_warning {
                true => Severity::Warning,
                false => Severity::Info,
            },
            kind: EventKind::Change,
            object,
            code: None,
            text,
        },
    );
}

fn words(outcome: &RoundEvent) -> (Severity, String, String) {
    match outcome {
        RoundEvent::Taken {
            volume,
            name,
            policy,
            missed,
        } => {
            let object = format!("{volume}@{name}");
            let text = format!("taken by policy {policy}");
            match missed {
                0 => (Severity::Info, object, text),
                1 => (
                    Severity::Warning,
                    object,
                    format!("{text}; the run before it was missed"),
                ),
                _ => (
                    Severity::Warning,
                    object,
                    format!("{text}; {missed} runs before it were missed"),
                ),
            }
        }
        RoundEvent::Deleted {
            volume,
            name,
            policy,
        } => (
            Severity::Info,
            format!("{volume}@{name}"),
            format!("deleted by policy {policy}, which has enough newer ones"),
        ),
        RoundEvent::ClockBack { volume, every } => (
            Severity::Warning,
            format!("volume {volume}"),
            format!(
                "the clock was put back; {} snapshots go on from where it is now",
                every.word()
            ),
        ),
    }
}
