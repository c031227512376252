//! Incidents that become events.
//!
//! Each damaged block is told once. Refused requests of a LUN are told at most once a minute, with
//! their number, because a client that finds no space asks again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use everglade_api::{Code, EventKind, Severity};
use everglade_engine::RefusedInfo;

use crate::administrator::incidents::Incidents;
use crate::records::events::NewEvent;

/// The time between two events about refused requests of a LUN.
const REFUSED_EVERY: Duration = Duration::from_secs(60);

/// What was told about all aggregates, by their UUIDs.
#[derive(Default)]
pub(super) struct Teller(BTreeMap<[u8; 16], Told>);

/// What was told about an aggregate.
#[derive(Default)]
struct Told {
    /// Number of damaged objects.
    damaged: usize,
    /// Number of mended blocks.
    mended: usize,
    /// Number of refused requests, and when they were told, by LUN.
    refused: BTreeMap<String, (u64, Instant)>,
}

impl Teller {
    /// Returns the events for everything that was not told before.
    pub(super) fn news(&mut self, now: Instant, all: &[Incidents]) -> Vec<NewEvent> {
        let known: BTreeSet<_> = all.iter().map(|incidents| incidents.uuid).collect();
        self.0.retain(|uuid, _| known.contains(uuid));
        let mut events = Vec::new();
        for incidents in all {
            let told = self.0.entry(incidents.uuid).or_default();
            told.news(now, incidents, &mut events);
        }
        events
    }
}

impl Told {
    fn news(&mut self, now: Instant, incidents: &Incidents, events: &mut Vec<NewEvent>) {
        for (object, text) in incidents.damaged.iter().skip(self.damaged) {
            let (code, text) = (Code::BlocksUnreadable, text.clone());
            events.push(failure(Severity::Error, code, object, text));
        }
        self.damaged = incidents.damaged.len();
        let object = format!("aggregate {}", incidents.aggregate);
        for line in incidents.mended.iter().skip(self.mended) {
            let text = format!("a block of metadata was damaged and derived from others: {line}");
            let code = Code::MetadataMended;
            events.push(failure(Severity::Warning, code, &object, text));
        }
        self.mended = incidents.mended.len();
        for (lun, refused) in &incidents.refused {
            let before = self.refused.get(lun).copied();
            let (count, is_due) = match before {
                None => (0, true),
                Some((count, when)) => {
                    // The engine may have begun to count anew.
                    let count = if count > refused.count { 0 } else { count };
                    (count, now.duration_since(when) >= REFUSED_EVERY)
                }
            };
            if refused.count > count && is_due {
                let text = words(&incidents.aggregate, *refused, refused.count - count);
                events.push(failure(Severity::Error, Code::NoSpace, lun, text));
                self.refused.insert(lun.clone(), (refused.count, now));
            }
        }
    }
}

fn failure(severity: Severity, code: Code, object: &str, text: String) -> NewEvent {
    NewEvent {
        severity,
        kind: EventKind::Failure,
        object: object.to_owned(),
        code: Some(code.to_string()),
        text,
    }
}

fn words(aggregate: &str, refused: RefusedInfo, count: u64) -> String {
    let offset = refused.offset;
    let requests = match count {
        1 => format!("a request of a client, from byte {offset} on, was"),
        _ => format!("{count} requests of clients, the last from byte {offset} on, were"),
    };
    format!(
        "{requests} refused, because aggregate {aggregate} or the host below it has no space; \
        delete or discard something, or make the aggregate larger"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incidents(damaged: &[&str], refused: &[(&str, u64)]) -> Incidents {
        let damaged = damaged.iter().map(|lun| {
            let text = "bytes 8192 up to 12288 cannot be read".to_owned();
            ((*lun).to_owned(), text)
        });
        let refused = refused.iter().map(|(lun, count)| {
            let (count, offset) = (*count, 4096);
            ((*lun).to_owned(), RefusedInfo { count, offset })
        });
        Incidents {
            aggregate: "a".to_owned(),
            damaged: damaged.collect(),
            refused: refused.collect(),
            ..Incidents::default()
        }
    }

    #[test]
    fn a_damaged_block_is_told_once() {
        let mut teller = Teller::default();
        let now = Instant::now();
        let one = [incidents(&["v/a"], &[])];
        let events = teller.news(now, &one);
        assert_eq!((events.len(), events[0].object.as_str()), (1, "v/a"));
        assert_eq!(events[0].code.as_deref(), Some("EVG-4005"));
        assert!(teller.news(now, &one).is_empty());
        let events = teller.news(now, &[incidents(&["v/a", "v/b"], &[])]);
        assert_eq!((events.len(), events[0].object.as_str()), (1, "v/b"));
        // The aggregate was deleted, and another one has damage.
        assert!(teller.news(now, &[]).is_empty());
        assert_eq!(teller.news(now, &one).len(), 1);
    }

    #[test]
    fn refused_requests_are_told_once_a_minute_with_their_number() {
        let mut teller = Teller::default();
        let begun = Instant::now();
        let events = teller.news(begun, &[incidents(&[], &[("v/a", 1)])]);
        assert!(events[0].text.contains("from byte 4096 on"), "{events:?}");
        let (soon, later) = (begun + REFUSED_EVERY / 2, begun + REFUSED_EVERY);
        let more = [incidents(&[], &[("v/a", 8), ("v/b", 1)])];
        let events = teller.news(soon, &more);
        assert_eq!((events.len(), events[0].object.as_str()), (1, "v/b"));
        let events = teller.news(later, &more);
        assert_eq!((events.len(), events[0].object.as_str()), (1, "v/a"));
        assert!(events[0].text.starts_with("7 requests"), "{events:?}");
        assert!(teller.news(later + REFUSED_EVERY, &more).is_empty());
    }
}
