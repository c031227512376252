//! The results as JSON: for programs, and for a run that goes on where another one ended
//! (`--resume`).
//!
//! Everything that the page shows is in it, so a page can be made from rows of several runs. What
//! is read back was written by this file; text that is not understood is an error.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::account::{Cost, Traffic};
use super::facts::{Cap, Start};
use super::fill::Level;
use super::latency::Points;
use super::page::{Results, about_json, all_verdicts, goals_json};
use super::row::{self, Row};
use super::server::Arm;
use super::tail::{Tail, TailTurn};
use super::turns::{Record, RowResult};

/// All of it.
#[must_use]
pub fn json(results: &Results) -> Value {
    let outcomes = |outcomes: &[RowResult]| outcomes.iter().map(outcome_json).collect::<Vec<_>>();
    let starts = results.starts.iter().map(|start| {
        json!({ "size": start.size, "written_bytes": start.written,
            "ready_seconds": start.ready.as_secs_f64(),
            "first_read_seconds": start.first_read.as_secs_f64(),
            "peak_bytes": start.peak_bytes })
    });
    let caps = results.caps.iter().map(|cap| {
        json!({ "memory_bytes": cap.memory_bytes, "lun_bytes": cap.lun_bytes,
            "peak_bytes": cap.peak_bytes, "requests_per_second": cap.rate })
    });
    let levels = results.levels.iter().map(|level| {
        json!({ "percent": level.percent, "reached_percent": level.reached,
            "pool_bytes": level.pool_bytes, "rows": outcomes(&level.outcomes),
            "reads_beside_writes": tail_json(&level.tail) })
    });
    json!({ "about": about_json(&results.about), "quick": results.is_quick,
        "goals": goals_json(&all_verdicts(results)), "rows": outcomes(&results.outcomes),
        "reads_beside_writes": results.tail.as_ref().map(tail_json),
        "levels": levels.collect::<Vec<_>>(), "starts": starts.collect::<Vec<_>>(),
        "caps": caps.collect::<Vec<_>>(), "idle_cores": results.idle })
}

fn outcome_json(outcome: &RowResult) -> Value {
    let records = outcome.records.iter();
    let servers: Map<String, Value> = records
        .map(|(arm, record)| (arm.name().to_owned(), record_json(record)))
        .collect();
    let arms = outcome.row.arms.iter().map(|arm| arm.name());
    json!({ "key": outcome.row.key, "planned": arms.collect::<Vec<_>>(),
        "title": outcome.row.title, "commit": outcome.commit,
        "turn_seconds": outcome.seconds, "block_bytes": outcome.row.load.block,
        "depth": outcome.row.load.depth, "jobs": outcome.row.load.jobs,
        "latency_until_durable": outcome.row.load.is_durable(), "servers": servers })
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn points_json(points: Points) -> Value {
    json!({ "p50": us(points.p50), "p99": us(points.p99), "p99.9": us(points.p999),
        "max": us(points.max) })
}

fn record_json(record: &Record) -> Value {
    let cost = &record.cost;
    json!({
        "requests_per_second": record.rates,
        "cpu_us_per_request_by_round": record.cpu_us,
        "cpu_us_per_request": record.cpu_us_for_one(),
        "server_cpu_seconds": cost.server.as_secs_f64(),
        "kernel_threads_cpu_seconds": cost.kernel.as_secs_f64(),
        "others_cpu_seconds": cost.others.as_secs_f64(),
        "counted_seconds": cost.wall.as_secs_f64(),
        "wall_seconds": record.wall.as_secs_f64(),
        "requests": record.operations,
        "device_read_bytes": cost.device.map(|device| device.read),
        "device_written_bytes": cost.device.map(|device| device.written),
        "host_bytes": record.host_bytes,
        "turns_not_at_rest": record.restless,
        "latency_us": record.points.map(points_json),
    })
}

fn tail_json(tail: &Tail) -> Value {
    let turn = |turn: &TailTurn| {
        json!({ "latency_us": points_json(turn.points), "reads_per_second": turn.reads,
            "writes_per_second": turn.writes })
    };
    let servers: Map<String, Value> = tail
        .turns
        .iter()
        .map(|(arm, turns)| (arm.name().to_owned(), turns.iter().map(turn).collect()))
        .collect();
    json!({ "turn_seconds": tail.seconds, "servers": servers })
}

/// Reads results back. `about` is that of the run that goes on.
///
/// # Errors
/// Says what was not understood, or which parameter differs.
pub fn resume(text: &str, about: Vec<(&'static str, String)>) -> Result<Results, String> {
    let told: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut results = Results {
        about,
        is_quick: told["quick"].as_bool().ok_or("no 'quick'")?,
        ..Results::default()
    };
    for (name, value) in &mut results.about {
        let before = told["about"][*name].as_str().unwrap_or_default();
        match *name {
            "parameters" if before != value => {
                return Err(format!(
                    "it was measured with other parameters: {before}; now they are: {value}"
                ));
            }
            "commit" if !before.split(", ").any(|one| one == value) => {
                *value = format!("{before}, {value}");
            }
            "commit" => before.clone_into(value),
            _ => {}
        }
    }
    results.outcomes = outcomes(&told["rows"], &row::all())?;
    let tail = &told["reads_beside_writes"];
    results.tail = (!tail.is_null()).then(|| tail_of(tail)).transpose()?;
    for level in list(&told["levels"]) {
        results.levels.push(Level {
            percent: count(&level["percent"])?,
            reached: number(&level["reached_percent"])?,
            pool_bytes: count(&level["pool_bytes"])?,
            outcomes: outcomes(&level["rows"], &row::filled())?,
            tail: tail_of(&level["reads_beside_writes"])?,
        });
    }
    for start in list(&told["starts"]) {
        let size = start["size"].as_str().unwrap_or_default();
        let known = super::facts::SIZES.into_iter().find(|one| *one == size);
        results.starts.push(Start {
            size: known.ok_or_else(|| format!("no start of size '{size}'"))?,
            written: count(&start["written_bytes"])?,
            ready: seconds(&start["ready_seconds"])?,
            first_read: seconds(&start["first_read_seconds"])?,
            peak_bytes: count(&start["peak_bytes"])?,
        });
    }
    for cap in list(&told["caps"]) {
        results.caps.push(Cap {
            memory_bytes: count(&cap["memory_bytes"])?,
            lun_bytes: count(&cap["lun_bytes"])?,
            peak_bytes: count(&cap["peak_bytes"])?,
            rate: number(&cap["requests_per_second"])?,
        });
    }
    results.idle = told["idle_cores"].as_f64();
    Ok(results)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> Result<f64, String> {
    value
        .as_f64()
        .ok_or_else(|| format!("'{value}' is not a number"))
}

fn count(value: &Value) -> Result<u64, String> {
    value
        .as_u64()
        .ok_or_else(|| format!("'{value}' is not a whole number"))
}

fn seconds(value: &Value) -> Result<Duration, String> {
    Duration::try_from_secs_f64(number(value)?).map_err(|error| error.to_string())
}

fn micros(value: &Value) -> Result<Duration, String> {
    Duration::try_from_secs_f64(number(value)? / 1e6).map_err(|error| error.to_string())
}

fn points(value: &Value) -> Result<Points, String> {
    Ok(Points {
        p50: micros(&value["p50"])?,
        p99: micros(&value["p99"])?,
        p999: micros(&value["p99.9"])?,
        max: micros(&value["max"])?,
    })
}

fn by_arm<T>(
    servers: &Value,
    read: impl Fn(&Value) -> Result<T, String>,
) -> Result<BTreeMap<Arm, T>, String> {
    let servers = servers.as_object().ok_or("no 'servers'")?;
    servers
        .iter()
        .map(|(name, value)| {
            let arm = Arm::named(name).ok_or_else(|| format!("no server '{name}'"))?;
            Ok((arm, read(value)?))
        })
        .collect()
}

fn outcomes(rows: &Value, known: &[Row]) -> Result<Vec<RowResult>, String> {
    let mut found = Vec::new();
    for told in list(rows) {
        let key = told["key"].as_str().unwrap_or_default();
        let row = known.iter().find(|row| row.key == key);
        let mut row = row.ok_or_else(|| format!("no row '{key}'"))?.clone();
        // A run of the goals' peers only had fewer.
        let planned = list(&told["planned"]);
        row.arms
            .retain(|arm| planned.iter().any(|name| name == arm.name()));
        if row.arms.is_empty() {
            return Err(format!("row '{key}' has no servers"));
        }
        let records = by_arm(&told["servers"], record)?;
        if !records.contains_key(&row.arms[0]) {
            return Err(format!("row '{key}' lacks {}", row.arms[0].name()));
        }
        found.push(RowResult {
            row,
            seconds: number(&told["turn_seconds"])?,
            records,
            commit: told["commit"].as_str().unwrap_or_default().to_owned(),
        });
    }
    Ok(found)
}

fn record(told: &Value) -> Result<Record, String> {
    let numbers = |value: &Value| {
        list(value)
            .iter()
            .map(number)
            .collect::<Result<Vec<_>, _>>()
    };
    let rates = numbers(&told["requests_per_second"])?;
    if rates.is_empty() {
        return Err("a row has no rounds".to_owned());
    }
    let device = match (
        told["device_read_bytes"].as_u64(),
        told["device_written_bytes"].as_u64(),
    ) {
        (Some(read), Some(written)) => Some(Traffic { read, written }),
        _ => None,
    };
    let latency = &told["latency_us"];
    Ok(Record {
        rates,
        cpu_us: numbers(&told["cpu_us_per_request_by_round"])?,
        operations: count(&told["requests"])?,
        wall: seconds(&told["wall_seconds"])?,
        cost: Cost {
            server: seconds(&told["server_cpu_seconds"])?,
            kernel: seconds(&told["kernel_threads_cpu_seconds"])?,
            others: seconds(&told["others_cpu_seconds"])?,
            wall: seconds(&told["counted_seconds"])?,
            device,
        },
        points: (!latency.is_null()).then(|| points(latency)).transpose()?,
        host_bytes: told["host_bytes"].as_u64(),
        restless: count(&told["turns_not_at_rest"])?,
        ..Record::default()
    })
}

fn tail_of(told: &Value) -> Result<Tail, String> {
    let turn = |told: &Value| {
        Ok(TailTurn {
            points: points(&told["latency_us"])?,
            reads: number(&told["reads_per_second"])?,
            writes: number(&told["writes_per_second"])?,
        })
    };
    Ok(Tail {
        seconds: number(&told["turn_seconds"])?,
        turns: by_arm(&told["servers"], |turns| {
            list(turns)
                .iter()
                .map(turn)
                .collect::<Result<Vec<_>, String>>()
        })?,
    })
}

#[cfg(test)]
mod tests;
