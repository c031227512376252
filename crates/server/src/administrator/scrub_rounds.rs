//! Scrubs by themselves: one is due an interval after the beginning of the last one, and one that a
//! stop of the daemon has ended goes on where it was.
//!
//! 1. How far a scrub is, is kept in the aggregate's notes: when it begins, pauses and ends, and
//!    once a minute in between. So it moves with the aggregate, and after a crash a minute of it is
//!    done once more.
//! 2. An aggregate that was never scrubbed is noted when it has been here for an hour. Its first
//!    scrub is due an interval later.
//! 3. One that is paused stays so, until somebody lets it go on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use everglade_api::counted;
use everglade_engine::{AggregateInfo, ScrubState, State};

use super::administrator::Administrator;
use super::report::Notice;
use crate::schedule::{Scrubbed, Stage};

/// Time after which an aggregate is noted.
const NEW_FOR: Duration = Duration::from_secs(3600);
/// Interval at which the position is kept.
const KEEP_EVERY: Duration = Duration::from_secs(60);
/// Time after which something is tried again that was refused.
const AGAIN_AFTER: Duration = Duration::from_secs(600);

/// What the rounds remember, by number of the aggregate.
#[derive(Default)]
pub(crate) struct ScrubRounds {
    seen: BTreeMap<u32, Seen>,
}

struct Seen {
    since: Instant,
    /// What was kept last, and when.
    kept: Option<(Scrubbed, Instant)>,
    /// Nothing is tried before.
    not_before: Option<Instant>,
    /// The last refusal, which is logged once.
    refusal: String,
}

impl ScrubRounds {
    /// Looks at all aggregates: keeps how far scrubs are, and begins those that are due.
    pub(crate) fn round(&mut self, administrator: &Administrator) -> Vec<Notice> {
        let infos = administrator.engine.aggregates();
        self.seen
            .retain(|id, _| infos.iter().any(|info| info.id == *id));
        let online = infos.into_iter().filter(|info| info.state == State::Online);
        let mut events = Vec::new();
        for info in online {
            let now = Instant::now();
            let seen = self.seen.entry(info.id).or_insert_with(|| Seen {
                since: now,
                kept: administrator
                    .schedule()
                    .scrubbed(info.id)
                    .map(|kept| (kept, now)),
                not_before: None,
                refusal: String::new(),
            });
            if seen.not_before.is_some_and(|time| now < time) {
                continue;
            }
            if let Err(text) = seen.look(administrator, &info, &mut events) {
                seen.not_before = Some(now + AGAIN_AFTER);
                if seen.refusal != text {
                    tracing::info!("the scrub of aggregate {}: {text}", info.name);
                    seen.refusal = text;
                }
            }
        }
        events
    }
}

impl Seen {
    fn look(
        &mut self,
        administrator: &Administrator,
        info: &AggregateInfo,
        events: &mut Vec<Notice>,
    ) -> Result<(), String> {
        let interval = administrator.scrub_interval;
        let object = format!("aggregate {}", info.name);
        if let Some(current) = Scrubbed::of(info) {
            let before = self.kept.as_ref();
            let is_new_stage = before.is_none_or(|(kept, _)| kept.stage != current.stage);
            let is_time = before.is_none_or(|(_, time)| time.elapsed() >= KEEP_EVERY);
            if is_new_stage || is_time && before.is_some_and(|(kept, _)| *kept != current) {
                self.keep(administrator, current.clone())?;
                if is_new_stage && current.stage == Stage::Done {
                    events.push(ended(&object, &current));
                }
            }
        }
        let is_new = self.since.elapsed() < NEW_FOR.min(Duration::from_secs(interval));
        let kept = self.kept.as_ref().map(|(kept, _)| kept);
        let now = administrator.now().0;
        match kept {
            None if interval == 0 || is_new => {}
            None => self.keep(
                administrator,
                Scrubbed {
                    begun: now,
                    home: Some(info.id),
                    ..Scrubbed::default()
                },
            )?,
            // The daemon was stopped meanwhile.
            Some(kept) if kept.stage == Stage::Running => {
                if info.scrub.state == ScrubState::Never {
                    begin(administrator, info)?;
                    events.push(Notice {
                        object: object.clone(),
                        is_warning: false,
                        text: "the scrub goes on where it was at the last stop".to_owned(),
                    });
                }
            }
            Some(kept) => {
                let next = kept.next(interval).filter(|_| interval > 0);
                if next.is_some_and(|next| next <= now) {
                    begin(administrator, info)?;
                    events.push(Notice {
                        object: object.clone(),
                        is_warning: false,
                        text: "a scrub begins, which is due".to_owned(),
                    });
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, administrator: &Administrator, scrubbed: Scrubbed) -> Result<(), String> {
        administrator.schedule().keep_scrub(scrubbed.clone())?;
        self.kept = Some((scrubbed, Instant::now()));
        Ok(())
    }
}

fn begin(administrator: &Administrator, info: &AggregateInfo) -> Result<(), String> {
    let begun = administrator.start_scrub(&info.name);
    begun.map(drop).map_err(|problem| problem.to_string())
}

fn ended(object: &str, scrubbed: &Scrubbed) -> Notice {
    let (wrong, lost) = (scrubbed.wrong_blocks, scrubbed.lost_blocks);
    let text = match (wrong, lost) {
        (0, 0) => "the scrub has found all blocks right".to_owned(),
        _ => format!(
            "the scrub has found {} wrong on one drive, which were written again, and {} right on \
            no drive",
            counted(wrong, "block"),
            counted(lost, "block")
        ),
    };
    Notice {
        object: object.to_owned(),
        is_warning: wrong + lost > 0,
        text,
    }
}
