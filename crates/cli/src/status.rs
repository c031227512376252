//! `everglade status`: the state, conditions and their remedies.

use std::fmt::Write as _;

use everglade_api::{AggregateSummary, Health, Size, Status, counted};

use crate::failure::{Failure, exit};
use crate::output::Output;
use crate::session::Session;

pub(crate) fn run(session: &Session, output: &Output) -> Result<u8, Failure> {
    let told = session.get::<Status>("/v1/status")?;
    output.data(&told.raw, || describe(&told.meant))?;
    Ok(match told.meant.health {
        Health::Unhealthy => exit::UNHEALTHY,
        Health::Healthy | Health::Warning => exit::OK,
    })
}

fn describe(status: &Status) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "   health: {}", status.health);
    let _ = writeln!(
        text,
        "  serving: {} of {}, {}, {}, {}, up {}",
        status.online_count,
        counted(status.aggregate_count, "aggregate"),
        counted(status.volume_count, "volume"),
        counted(status.lun_count, "LUN"),
        counted(status.connection_count, "connection"),
        duration(status.uptime_seconds),
    );
    for aggregate in &status.aggregates {
        let _ = writeln!(text, "aggregate: {}", summary(aggregate));
    }
    for condition in &status.conditions {
        let _ = write!(
            text,
            "\n   object: {}\n    state: {}\n     what: {}\n   action: {}\n     code: {}\n      \
            see: {}\n",
            condition.object,
            condition.health,
            condition.what,
            condition.action,
            condition.code,
            condition.page
        );
    }
    text
}

/// Returns one line about an aggregate.
fn summary(aggregate: &AggregateSummary) -> String {
    let mut text = format!("{} {}", aggregate.name, aggregate.state);
    if aggregate.size_bytes > 0 {
        let (free, size) = (Size(aggregate.free_bytes), Size(aggregate.size_bytes));
        let _ = write!(text, ", {free} of {size} free");
    }
    if let Some(journal) = &aggregate.journal {
        let _ = write!(text, ", journal {} % filled", journal.fill_percent);
    }
    if let Some(recovery) = &aggregate.recovery {
        let _ = write!(
            text,
            ", at the start its journal gave back {} ({}) in {} ms",
            counted(recovery.operation_count, "operation"),
            Size(recovery.bytes),
            recovery.duration_ms
        );
    }
    text
}

/// Returns the two largest units that matter.
pub(crate) fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everglade_api::{AggregateState, Condition, Journal, Recovery};

    #[test]
    fn every_condition_says_what_to_do() {
        let status = Status {
            health: Health::Warning,
            conditions: vec![Condition {
                code: "EVG-4002".to_owned(),
                health: Health::Warning,
                object: "aggregate a".to_owned(),
                what: "4.0 KiB are left".to_owned(),
                action: "delete something".to_owned(),
                page: "docs/reference/codes/EVG-4002.md".to_owned(),
            }],
            aggregates: vec![AggregateSummary {
                name: "a".to_owned(),
                state: AggregateState::Online,
                size_bytes: 1 << 30,
                free_bytes: 4096,
                journal: Some(Journal {
                    fill_percent: 7,
                    ..Journal::default()
                }),
                recovery: Some(Recovery {
                    operation_count: 12,
                    bytes: 1 << 20,
                    duration_ms: 34,
                    ..Recovery::default()
                }),
            }],
            online_count: 1,
            aggregate_count: 1,
            volume_count: 2,
            lun_count: 3,
            connection_count: 0,
            uptime_seconds: 61,
            trash_keep_seconds: 0,
        };
        let text = describe(&status);
        for part in [
            "health: warning",
            "1 of 1 aggregate, 2 volumes, 3 LUNs, 0 connections",
            "up 1m 1s",
            "object: aggregate a",
            "action: delete something",
            "code: EVG-4002",
            "see: docs/reference/codes/EVG-4002.md",
            "aggregate: a online, 4.0 KiB of 1.0 GiB free, journal 7 % filled, at the start its \
            journal gave back 12 operations (1.0 MiB) in 34 ms",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn durations_are_short() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (3599, "59m 59s"),
            (3600, "1h 0m"),
            (90_000, "1d 1h"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }
}
