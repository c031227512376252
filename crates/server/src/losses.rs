//! Losses of mirrors: the watch compares the drives and the counters of one second with those of
//! the second before. It reports each drive that failed or has caught up, and blocks that were read
//! from another drive.
//!
//! `status` has the condition of an aggregate that lost drives. It stays the same condition when
//! another drive fails, so each failure is an event and a line of the log by itself.

use std::collections::BTreeMap;

use everglade_api::{Aggregate, Code, Copies, Device, DeviceState, EventKind, Moment, Severity};

use crate::records::events::NewEvent;

/// Seconds between two events about blocks of one aggregate: a drive with many bad blocks must not
/// push all other events out.
const COPIES_EVERY: u64 = 10;

/// What was seen of one aggregate.
#[derive(Default)]
struct Seen {
    /// Paths of the drives that have failed.
    failed: Vec<String>,
    /// Paths of the drives that are behind.
    behind: Vec<String>,
    /// The counters that were reported last.
    copies: Copies,
    /// The time of that report.
    told: Option<Moment>,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Losses {
    /// By UUID of the aggregate, which a rename does not change.
    seen: BTreeMap<String, Seen>,
}

impl Losses {
    /// Returns the events since the last call, and writes those to the log that are not written
    /// there when they are told.
    pub(crate) fn check(&mut self, now: Moment, aggregates: &[Aggregate]) -> Vec<NewEvent> {
        let mut events = Vec::new();
        for aggregate in aggregates.iter().filter(|it| it.group_size.is_some()) {
            let seen = self.seen.entry(aggregate.uuid.clone()).or_default();
            let failed = || aggregate.devices.iter().filter(|it| is_failed(it));
            seen.failed
                .retain(|path| failed().any(|device| device.path == *path));
            for device in failed() {
                if !seen.failed.contains(&device.path) {
                    seen.failed.push(device.path.clone());
                    let code = Some(Code::AggregateDegraded.to_string());
                    let event = (EventKind::Alert, code);
                    events.push(told(aggregate, event, failure(aggregate, device)));
                }
            }
            for device in &aggregate.devices {
                let was_behind = seen.behind.contains(&device.path);
                seen.behind.retain(|path| *path != device.path);
                match device.state {
                    Some(DeviceState::Behind) => seen.behind.push(device.path.clone()),
                    Some(DeviceState::Online) if was_behind => {
                        let text = format!("drive {} has caught up and is in use", device.path);
                        let event = told(aggregate, (EventKind::Daemon, None), text);
                        events.push(NewEvent {
                            severity: Severity::Info,
                            ..event
                        });
                    }
                    _ => {}
                }
            }
            if let Some(text) = seen.blocks(now, aggregate.copies.unwrap_or_default()) {
                events.push(told(aggregate, (EventKind::Daemon, None), text));
            }
        }
        // Alerts become lines of the log when they are told.
        for event in events.iter().filter(|it| it.kind == EventKind::Daemon) {
            let NewEvent { object, text, .. } = event;
            match event.severity {
                Severity::Info => tracing::info!("{object}: {text}"),
                Severity::Warning | Severity::Error => tracing::warn!("{object}: {text}"),
            }
        }
        self.seen
            .retain(|uuid, _| aggregates.iter().any(|known| known.uuid == *uuid));
        events
    }
}

impl Seen {
    /// Returns the text about blocks that were read from another drive or written again since the
    /// last report, if one is due.
    fn blocks(&mut self, now: Moment, copies: Copies) -> Option<String> {
        let is_due = self
            .told
            .is_none_or(|told| now.0 >= told.0.saturating_add(COPIES_EVERY) || now.0 < told.0);
        if copies == self.copies || !is_due {
            return None;
        }
        let before = std::mem::replace(&mut self.copies, copies);
        self.told = Some(now);
        let since = |now: u64, before: u64| now.saturating_sub(before);
        let read = since(
            copies.read_elsewhere_block_count,
            before.read_elsewhere_block_count,
        );
        let rewritten = since(copies.rewritten_block_count, before.rewritten_block_count);
        Some(format!(
            "wrong or unreadable on one drive, and read from another: {}; written again: {}",
            blocks(read),
            blocks(rewritten)
        ))
    }
}

fn blocks(count: u64) -> String {
    match count {
        1 => "1 block".to_owned(),
        count => format!("{count} blocks"),
    }
}

fn is_failed(device: &Device) -> bool {
    device.state == Some(DeviceState::Failed)
}

/// Describes the failure of a drive.
fn failure(aggregate: &Aggregate, device: &Device) -> String {
    let group = || {
        let devices = aggregate.devices.iter();
        devices.filter(|other| other.group == device.group)
    };
    let online = group().filter(|other| other.state == Some(DeviceState::Online));
    format!(
        "drive {} failed and is not used any more; group {} has {} of {} drives left",
        device.path,
        device.group.unwrap_or_default(),
        online.count(),
        group().count()
    )
}

fn told(
    aggregate: &Aggregate,
    (kind, code): (EventKind, Option<String>),
    text: String,
) -> NewEvent {
    NewEvent {
        severity: Severity::Warning,
        kind,
        object: format!("aggregate {}", aggregate.name),
        code,
        text,
    }
}

#[cfg(test)]
mod tests {
    use everglade_api::DeviceKind;

    use super::*;

    fn mirror(states: [DeviceState; 2], copies: (u64, u64)) -> Vec<Aggregate> {
        let device = |(path, state): (&str, DeviceState)| Device {
            path: path.to_owned(),
            kind: DeviceKind::File,
            size_bytes: 4096,
            group: Some(1),
            column: Some(0),
            state: Some(state),
            catching_up: None,
        };
        let devices = ["/f", "/g"].into_iter().zip(states);
        let counted = Copies {
            read_elsewhere_block_count: copies.0,
            rewritten_block_count: copies.1,
        };
        vec![Aggregate {
            group_size: Some(2),
            copies: Some(counted),
            devices: devices.map(device).collect(),
            ..crate::administrator::example()
        }]
    }

    #[test]
    fn each_drive_that_fails_is_told_once() {
        let (online, failed) = (DeviceState::Online, DeviceState::Failed);
        let mut losses = Losses::default();
        let now = Moment(1000);
        // What was missing at the start is a condition, and not news.
        let events = losses.check(now, &mirror([online, DeviceState::Missing], (0, 0)));
        assert!(events.is_empty(), "{events:?}");
        let mut losses = Losses::default();
        let events = losses.check(now, &mirror([online, online], (0, 0)));
        assert!(events.is_empty(), "{events:?}");
        let events = losses.check(now, &mirror([online, failed], (0, 0)));
        let [event] = events.as_slice() else {
            panic!("{events:?}");
        };
        assert_eq!(event.code.as_deref(), Some("EVG-4017"));
        assert_eq!(
            event.text,
            "drive /g failed and is not used any more; group 1 has 1 of 2 drives left"
        );
        let events = losses.check(now, &mirror([online, failed], (0, 0)));
        assert!(events.is_empty(), "it is told once: {events:?}");
    }

    #[test]
    fn a_drive_that_caught_up_is_told() {
        let online = DeviceState::Online;
        let mut losses = Losses::default();
        let now = Moment(1000);
        let events = losses.check(now, &mirror([online, DeviceState::Behind], (0, 0)));
        assert!(events.is_empty(), "{events:?}");
        let events = losses.check(now, &mirror([online, online], (0, 0)));
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0].text, "drive /g has caught up and is in use");
        assert_eq!(events[0].severity, Severity::Info);
        let events = losses.check(now, &mirror([online, online], (0, 0)));
        assert!(events.is_empty(), "{events:?}");
    }

    #[test]
    fn blocks_that_were_read_elsewhere_are_told_not_too_often() {
        let online = [DeviceState::Online; 2];
        let mut losses = Losses::default();
        let mut texts = |now, copies| {
            let events = losses
                .check(Moment(now), &mirror(online, copies))
                .into_iter();
            events.map(|event| event.text).collect::<Vec<_>>()
        };
        assert!(texts(1000, (0, 0)).is_empty());
        let text = "wrong or unreadable on one drive, and read from another: 1 block; written \
            again: 0 blocks";
        assert_eq!(texts(1001, (1, 0)), [text]);
        assert!(texts(1002, (2, 1)).is_empty());
        let text = "wrong or unreadable on one drive, and read from another: 2 blocks; written \
            again: 3 blocks";
        assert_eq!(texts(1001 + COPIES_EVERY, (3, 3)), [text]);
        assert!(texts(2000, (3, 3)).is_empty());
    }
}
