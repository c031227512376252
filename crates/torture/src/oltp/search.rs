//! Looks for the knee of a server: first the rate is doubled until latency says that the knee is
//! behind, then the rates between are measured.

use std::io;

use super::knee::{Point, knee};
use super::run::{Measured, Run};

/// Rates that are measured up to the highest one.
const PARTS: u32 = 8;
/// A rate that is nearer to a measured one than this part of it is not measured again.
const NEAR: f64 = 0.06;
/// The search ends at this rate.
const RATE_MAX: f64 = 10_000_000.0;

/// What was measured at one rate.
#[derive(Debug)]
pub struct Row {
    /// Requests per second that were asked for.
    pub rate: f64,
    /// What came of them.
    pub measured: Measured,
}

impl Row {
    fn point(&self) -> Point {
        Point {
            rate: self.rate,
            latency: self.measured.mean().as_secs_f64(),
        }
    }
}

/// Measures the latency at growing rates, beginning at `from` requests per second, until the knee
/// is found. `tell` sees each row when it is measured. Returns all rows by rate, and the knee.
///
/// # Errors
/// Those of [`Run::run`].
pub fn search(
    run: &Run,
    from: f64,
    mut tell: impl FnMut(&Row),
) -> io::Result<(Vec<Row>, Option<Point>)> {
    let mut rows: Vec<Row> = Vec::new();
    let mut measure = |rate: f64, rows: &mut Vec<Row>| {
        let measured = Run {
            rate,
            ..run.clone()
        }
        .run()?;
        let row = Row { rate, measured };
        tell(&row);
        let is_overloaded = row.measured.is_overloaded;
        rows.push(row);
        rows.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        Ok::<bool, io::Error>(is_overloaded)
    };
    let mut rate = from.max(1.0);
    loop {
        let is_overloaded = measure(rate, &mut rows)?;
        if is_overloaded || knee_of(&rows).is_some() || rate >= RATE_MAX {
            break;
        }
        rate *= 2.0;
    }
    for index in 1..PARTS {
        let next = rate * f64::from(index) / f64::from(PARTS);
        let is_known = |row: &Row| (row.rate / next - 1.0).abs() < NEAR;
        // What is beyond a knee says nothing more about it.
        let is_beyond = knee_of(&rows[..rows.len() - 1]).is_some_and(|found| next > found.rate);
        if next >= from && !is_beyond && !rows.iter().any(is_known) {
            measure(next, &mut rows)?;
        }
    }
    let found = knee_of(&rows);
    Ok((rows, found))
}

fn knee_of(rows: &[Row]) -> Option<Point> {
    let points: Vec<Point> = rows.iter().map(Row::point).collect();
    knee(&points)
}
