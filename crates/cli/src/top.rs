//! `everglade top`: current activity as differences of counters, drawn anew at every interval.
//!
//! It has kinds of operations, aggregates, and the busiest clients of each LUN ([`crate::used`]) or
//! the devices.
//!
//! On a terminal each picture replaces the one before; elsewhere pictures follow each other, so
//! that they can be logged.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::thread::sleep;
use std::time::Duration;

use everglade_api::{
    AggregateStatistics, DeviceOperation, DeviceStatistics, Operation, Size, Statistics,
};

use crate::failure::{Failure, exit};
use crate::output::Output;
use crate::rate::{mean, per_second};
use crate::session::Session;
use crate::table::heading;
use crate::used::Used;
use crate::verb::{Top, TopBy};

pub(crate) fn run(top: &Top, session: &Session, output: &Output) -> Result<u8, Failure> {
    let draws_over = io::stdout().is_terminal();
    let mut before = session.get::<Statistics>("/v1/statistics")?;
    let mut used_before = Used::ask(session, top.by)?;
    let mut left = top.count;
    while left != Some(0) {
        sleep(Duration::from_secs(top.interval));
        let now = session.get::<Statistics>("/v1/statistics")?;
        let used = Used::ask(session, top.by)?;
        output.stream(&now.raw, || {
            let ms = elapsed_ms(&before.meant, &now.meant);
            let mut picture = picture(&before.meant, &now.meant);
            picture.push_str(&match top.by {
                TopBy::Device => devices(&before.meant, &now.meant, ms),
                _ => used.since(&used_before, ms),
            });
            // Move the cursor home, clear each line to its end, then clear the lines below.
            if draws_over {
                let drawn = picture.replace('\n', "\x1b[K\n");
                format!("\x1b[H{drawn}\x1b[J")
            } else {
                picture
            }
        })?;
        (before, used_before) = (now, used);
        left = left.map(|left| left - 1);
    }
    Ok(exit::OK)
}

/// Draws the activity between two samples.
fn picture(before: &Statistics, now: &Statistics) -> String {
    let ms = elapsed_ms(before, now);
    let per_second = |before, now| per_second(before, now, ms);
    let hits = now.cache_hits.saturating_sub(before.cache_hits);
    let misses = now.cache_misses.saturating_sub(before.cache_misses);
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "connections {}   pages {}   cache hits {}\n",
        now.connection_count,
        Size(now.memory_bytes),
        (hits * 100)
            .checked_div(hits + misses)
            .map_or_else(|| "-".to_owned(), |percent| format!("{percent} %")),
    );
    if let Some(line) = processors(before, now, ms) {
        let _ = writeln!(text, "{line}\n");
    }
    let mut table = heading(&["OP", "PER SECOND", "THROUGHPUT", "MEAN", "ERRORS/S"]);
    for op in &now.operations {
        let earlier = before.operations.iter().find(|known| known.op == op.op);
        let none = Operation::default();
        let earlier = earlier.unwrap_or(&none);
        let count = op.count.saturating_sub(earlier.count);
        let us = op.duration_us.saturating_sub(earlier.duration_us);
        table.row(vec![
            op.op.clone(),
            per_second(earlier.count, op.count).to_string(),
            format!("{}/s", Size(per_second(earlier.bytes, op.bytes))),
            mean(us, count),
            per_second(earlier.error_count, op.error_count).to_string(),
        ]);
    }
    text.push_str(&table.text(true));
    text.push('\n');
    let mut table = heading(&[
        "AGGREGATE",
        "CP",
        "NEW CPS",
        "USED",
        "FREE",
        "DIRTY",
        "PENDING",
    ]);
    for aggregate in &now.aggregates {
        let mut earlier = before.aggregates.iter();
        let none = AggregateStatistics::default();
        let earlier = earlier
            .find(|known| known.name == aggregate.name)
            .unwrap_or(&none);
        let new = aggregate.committed_cp.saturating_sub(earlier.committed_cp);
        table.row(vec![
            aggregate.name.clone(),
            aggregate.committed_cp.to_string(),
            new.to_string(),
            Size(aggregate.used_bytes).to_string(),
            Size(aggregate.free_bytes).to_string(),
            Size(aggregate.dirty_bytes).to_string(),
            Size(aggregate.pending_free_bytes).to_string(),
        ]);
    }
    text.push_str(&table.text(true));
    text
}

/// The table of what devices did between two samples, those that were busy longest first.
fn devices(before: &Statistics, now: &Statistics, ms: u64) -> String {
    let mut rows: Vec<(u64, Vec<String>)> = Vec::new();
    for device in &now.devices {
        let mut earlier = before.devices.iter();
        let earlier = earlier.find(|known| known.path == device.path);
        let since = |op: &str| {
            let find = |known: &DeviceStatistics| {
                let mut operations = known.operations.iter();
                operations.find(|it| it.op == op).cloned()
            };
            let then = earlier.and_then(find).unwrap_or_default();
            let now = find(device).unwrap_or_default();
            DeviceOperation {
                op: now.op,
                count: now.count.saturating_sub(then.count),
                bytes: now.bytes.saturating_sub(then.bytes),
                duration_us: now.duration_us.saturating_sub(then.duration_us),
            }
        };
        let rate = |count: u64| per_second(0, count, ms).to_string();
        let through = |bytes: u64| format!("{}/s", Size(per_second(0, bytes, ms)));
        let mean = |it: &DeviceOperation| mean(it.duration_us, it.count);
        let [reads, writes, flushes] = ["read", "write", "flush"].map(since);
        let busy = [&reads, &writes, &flushes].map(|it| it.duration_us);
        rows.push((
            busy.iter().sum(),
            vec![
                device.path.clone(),
                device.aggregate.clone(),
                rate(reads.count),
                through(reads.bytes),
                mean(&reads),
                rate(writes.count),
                through(writes.bytes),
                mean(&writes),
                rate(flushes.count),
                mean(&flushes),
                rate(
                    device
                        .error_count
                        .saturating_sub(earlier.map_or(0, |it| it.error_count)),
                ),
            ],
        ));
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.0));
    let mut table = heading(&[
        "DEVICE",
        "AGGREGATE",
        "READS/S",
        "READ",
        "MEAN",
        "WRITES/S",
        "WRITTEN",
        "MEAN",
        "FLUSHES/S",
        "MEAN",
        "ERRORS/S",
    ]);
    rows.into_iter().for_each(|(_, row)| table.row(row));
    format!("\n{}", table.text(true))
}

fn elapsed_ms(before: &Statistics, now: &Statistics) -> u64 {
    now.uptime_ms.saturating_sub(before.uptime_ms).max(1)
}

/// What the subsystems used between two samples, in percent of one processor; nothing from a daemon
/// that does not tell.
fn processors(before: &Statistics, now: &Statistics, ms: u64) -> Option<String> {
    let percent = |us: u64| us / 10 / ms;
    let used = now.cpu.iter().map(|time| {
        let mut earlier = before.cpu.iter();
        let earlier = earlier.find(|known| known.subsystem == time.subsystem);
        let earlier = earlier.map_or(0, |known| known.time_us);
        (&*time.subsystem, time.time_us.saturating_sub(earlier))
    });
    let used: Vec<(&str, u64)> = used.collect();
    let sum: u64 = used.iter().map(|(_, us)| us).sum();
    let shown = used.iter().filter(|(_, us)| percent(*us) > 0);
    let shown: Vec<String> = shown
        .map(|(name, us)| format!("{name} {} %", percent(*us)))
        .collect();
    let colon = if shown.is_empty() { "" } else { ": " };
    (!used.is_empty()).then(|| format!("cpu {} %{colon}{}", percent(sum), shown.join(", ")))
}

#[cfg(test)]
mod tests {
    use everglade_api::CpuTime;

    use super::*;

    #[test]
    fn devices_are_told_by_what_kept_them_busy() {
        let look = |count: u64| {
            let device = |path: &str, us: u64| DeviceStatistics {
                path: path.to_owned(),
                aggregate: "aggr0".to_owned(),
                error_count: 0,
                operations: vec![DeviceOperation {
                    op: "write".to_owned(),
                    count,
                    bytes: count << 16,
                    duration_us: count * us,
                }],
            };
            Statistics {
                devices: vec![device("/dev/quick", 100), device("/dev/slow", 9_000)],
                ..Statistics::default()
            }
        };
        let text = devices(&look(100), &look(300), 2000);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].starts_with("/dev/slow "), "{text}");
        for part in ["100", "6.3 MiB/s", "9000 us", "-"] {
            assert!(lines[2].contains(part), "{part}: {text}");
        }
        assert!(lines[3].contains(" 100 us"), "{text}");
    }

    #[test]
    fn a_picture_is_of_what_happened_between_two_looks() {
        let look = |uptime_ms, count| Statistics {
            uptime_ms,
            cache_hits: count,
            operations: vec![Operation {
                op: "read".to_owned(),
                count,
                bytes: count << 20,
                duration_us: count * 250,
                ..Operation::default()
            }],
            cpu: [("protocol", 1000), ("client", 3000), ("journal", 50)]
                .map(|(subsystem, us)| CpuTime {
                    subsystem: subsystem.to_owned(),
                    time_us: count * us,
                })
                .to_vec(),
            aggregates: vec![AggregateStatistics {
                name: "aggr0".to_owned(),
                committed_cp: count,
                ..AggregateStatistics::default()
            }],
            ..Statistics::default()
        };
        let text = picture(&look(1000, 100), &look(3000, 300));
        for part in ["100", "100.0 MiB/s", "250 us", "100 %", "aggr0"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            text.contains("cpu 40 %: protocol 10 %, client 30 %\n"),
            "{text}"
        );
        // Nothing happened, and no time passed.
        let text = picture(&look(0, 0), &look(0, 0));
        assert!(text.contains("cache hits -"), "{text}");
    }
}
