//! A mixed load for minutes, looked at second by second: what matters is the worst of them.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use super::load::{Kind, Load, Order, Second};
use super::server::{Server, start_ours};
use crate::Failure;
use crate::bench::Summary;
use crate::rig::Place;

/// Of both connections, by second.
pub struct Steady {
    /// Random reads, 4 KiB, q8.
    pub reads: Vec<Second>,
    /// Random writes, 4 KiB, q16.
    pub writes: Vec<Second>,
}

/// The server, its LUN empty.
///
/// # Errors
/// If it does not start.
pub fn start(place: &Place, bytes: u64, memory: &str) -> Result<Server, Failure> {
    start_ours(place, bytes, memory)
}

/// Reads and writes at full speed.
///
/// # Errors
/// If the server fails.
pub fn run(server: &Server, bytes: u64, time: Duration) -> Result<Steady, Failure> {
    let writer = Load {
        kind: Kind::Write,
        order: Order::Random,
        block: 4096,
        depth: 16,
        jobs: 1,
        bytes,
        pace: None,
    };
    let reader = Load {
        kind: Kind::Read,
        depth: 8,
        ..writer
    };
    let (socket, export): (&Path, &str) = (&server.socket, &server.export);
    let problem = |error: std::io::Error| Failure::rig("mixed load", &error);
    let (writes, reads) = std::thread::scope(|scope| {
        let writes = scope.spawn(|| writer.run(socket, export, time, 1));
        let reads = reader.run(socket, export, time, 2);
        (writes.join(), reads)
    });
    let writes = match writes {
        Ok(writes) => writes.map_err(problem)?,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    // The last second is not a whole one.
    let whole = |mut seconds: Vec<Second>| {
        let count = usize::try_from(time.as_secs()).unwrap_or(usize::MAX);
        seconds.resize(count.min(seconds.len().max(count)), Second::default());
        seconds
    };
    Ok(Steady {
        reads: whole(reads.map_err(problem)?.by_second),
        writes: whole(writes.by_second),
    })
}

/// What to plot.
#[must_use]
pub fn panels(steady: &Steady) -> Vec<(String, Vec<f64>)> {
    vec![
        ("reads per second".to_owned(), rates(&steady.reads)),
        ("writes per second".to_owned(), rates(&steady.writes)),
        ("longest read, ms".to_owned(), longest(&steady.reads)),
        ("longest write, ms".to_owned(), longest(&steady.writes)),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn rates(seconds: &[Second]) -> Vec<f64> {
    seconds
        .iter()
        .map(|second| second.operations as f64)
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn longest(seconds: &[Second]) -> Vec<f64> {
    seconds
        .iter()
        .map(|second| second.longest as f64 / 1e6)
        .collect()
}

/// The page. `plot` is the name of the picture beside it.
#[must_use]
pub fn page(steady: &Steady, about: &[(&'static str, String)], plot: &str) -> String {
    let mut text = String::from(
        "# Ten minutes, second by second\n\n\
         <!-- Written by `cargo xtask bench steady --write docs/benchmarks/steady.md`. -->\n\n",
    );
    for (name, value) in about {
        let _ = writeln!(text, "- {name}: {value}");
    }
    let _ = writeln!(
        text,
        "\n4 KiB at random places of the whole LUN: reads q8 and writes q16, each on a connection of its own, \
         at\nfull speed for {} s.\n\n![by second]({plot})\n\n\
         | | median second | worst second | best second |\n| --- | --- | --- | --- |",
        steady.reads.len()
    );
    for (name, values) in panels(steady) {
        let Summary { min, median, max } = Summary::of(&values);
        let (worst, best) = if name.starts_with("longest") {
            (max, min)
        } else {
            (min, max)
        };
        let _ = writeln!(text, "| {name} | {median:.1} | {worst:.1} | {best:.1} |");
    }
    text
}
