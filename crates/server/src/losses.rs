//! Losses of mirrors: the watch compares the drives and the counters of one second with those of
//! the second before. It reports each drive that failed, has caught up, has replaced another one or
//! had blocks wrong, and blocks that were read from another drive.
//!
//! `status` has the condition of an aggregate that lost drives. It stays the same condition when
//! another drive fails, so each failure is an event and a line of the log by itself.

use std::collections::BTreeMap;

use everglade_api::{
    Aggregate, Code, Copies, Device, DeviceState, DriveFaults, EventKind, Moment, Severity,
};

use crate::records::events::NewEvent;

/// Seconds between two events about the faults of one drive.
const FAULTS_EVERY: u64 = 3600;
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
    /// The paths of the drives, by group and column.
    seats: BTreeMap<(u64, u64), String>,
    /// When faults of a drive were told, and which, by its path.
    faults: BTreeMap<String, (Moment, DriveFaults)>,
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
                if let Some(text) = seen.replacement(device) {
                    events.push(NewEvent {
                        severity: Severity::Info,
                        ..told(aggregate, (EventKind::Daemon, None), text)
                    });
                    // It may have caught up within a second.
                    seen.behind.push(device.path.clone());
                }
                if let Some(text) = seen.faults(now, device) {
                    events.push(told(aggregate, (EventKind::Daemon, None), text));
                }
                let was_behind = seen.behind.contains(&device.path);
                seen.behind.retain(|path| *path != device.path);
                match device.state {
                    Some(DeviceState::Behind) => seen.behind.push(device.path.clone()),
                    Some(DeviceState::Online) if was_behind => {
                        let lacking = device.faults.map_or(0, |it| it.not_copied_block_count);
                        let (severity, rest) = match lacking {
                            0 => (Severity::Info, String::new()),
                            lacking => {
                                let lacking = blocks(lacking);
                                let rest = format!(
                                    "; it lacks {lacking} that no other drive has right: keep the \
                                    drive that it replaced, if there is one"
                                );
                                (Severity::Warning, rest)
                            }
                        };
                        let path = &device.path;
                        let text = format!("drive {path} has caught up and is in use{rest}");
                        let event = told(aggregate, (EventKind::Daemon, None), text);
                        events.push(NewEvent { severity, ..event });
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
    /// Returns the text about a drive that has the place of another one since the last call.
    fn replacement(&mut self, device: &Device) -> Option<String> {
        let seat = device.group.zip(device.column)?;
        let former = self.seats.insert(seat, device.path.clone())?;
        (former != device.path).then(|| {
            format!(
                "drive {} replaces {former} in group {}",
                device.path, seat.0
            )
        })
    }

    /// Returns the text about blocks that a drive had wrong or could not read: of the first ones at
    /// once, and of more of them now and then.
    fn faults(&mut self, now: Moment, device: &Device) -> Option<String> {
        let found = device.faults?;
        let before = self.faults.get(&device.path).copied();
        let of = |it: &DriveFaults| (it.wrong_block_count, it.read_error_count);
        let known = before.map_or((0, 0), |(_, faults)| of(&faults));
        let is_due = before
            .is_none_or(|(told, _)| now.0 >= told.0.saturating_add(FAULTS_EVERY) || now.0 < told.0);
        if of(&found) == known || !is_due {
            return None;
        }
        self.faults.insert(device.path.clone(), (now, found));
        Some(format!(
            "drive {} had {} wrong and could not read {}, since the daemon started or the drive \
            came; {} written again",
            device.path,
            blocks(found.wrong_block_count),
            blocks(found.read_error_count),
            blocks(found.mended_block_count)
        ))
    }

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
    let what = match device.faults {
        Some(faults) if faults.hung_count > 0 => "hangs",
        _ => "failed",
    };
    format!(
        "drive {} {what} and is not used any more; group {} has {} of {} drives left",
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
            column: Some(u64::from(path == "/g")),
            state: Some(state),
            catching_up: None,
            faults: None,
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
    fn a_drive_that_replaced_another_one_is_told_also_if_it_is_current_already() {
        let (online, behind) = (DeviceState::Online, DeviceState::Behind);
        let now = Moment(1000);
        for state in [online, behind] {
            let mut losses = Losses::default();
            assert!(
                losses
                    .check(now, &mirror([online, online], (0, 0)))
                    .is_empty()
            );
            let mut after = mirror([online, state], (0, 0));
            after[0].devices[1].path = "/h".to_owned();
            let mut texts: Vec<String> = Vec::new();
            texts.extend(losses.check(now, &after).into_iter().map(|it| it.text));
            after[0].devices[1].state = Some(online);
            texts.extend(losses.check(now, &after).into_iter().map(|it| it.text));
            assert_eq!(
                texts,
                [
                    "drive /h replaces /g in group 1",
                    "drive /h has caught up and is in use"
                ]
            );
        }
    }

    #[test]
    fn faults_of_a_drive_are_told_at_once_and_then_rarely() {
        let online = DeviceState::Online;
        let mut losses = Losses::default();
        let mut at = |seconds: u64, wrong: u64| {
            let mut seen = mirror([online, online], (0, 0));
            seen[0].devices[0].faults = Some(DriveFaults::default());
            seen[0].devices[1].faults = Some(DriveFaults {
                wrong_block_count: wrong,
                mended_block_count: 1,
                ..DriveFaults::default()
            });
            let events = losses.check(Moment(seconds), &seen);
            events.into_iter().map(|it| it.text).collect::<Vec<_>>()
        };
        assert_eq!(at(1000, 0), [""; 0]);
        assert_eq!(
            at(1001, 1),
            [
                "drive /g had 1 block wrong and could not read 0 blocks, since the daemon started \
                or the drive came; 1 block written again"
            ]
        );
        assert_eq!(at(1002, 9), [""; 0], "not every second");
        assert_eq!(at(1001 + FAULTS_EVERY, 9).len(), 1);
        assert_eq!(at(1002 + 2 * FAULTS_EVERY, 9), [""; 0], "nothing is new");
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
