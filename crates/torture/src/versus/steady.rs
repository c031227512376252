//! A mixed load for minutes, looked at second by second: what matters is the worst of them.
//!
//! Disks of machines that many share stand still now and then, whoever asks. So a probe beside the
//! load reads and writes a block of a file of its own fifty times a second, past every cache and
//! every server: a second in which the probe waited as long says nothing about the server.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use super::load::{Kind, Load, Order, Second};
use super::page::about_table;
use super::server::{Server, start_ours};
use crate::Failure;
use crate::bench::Summary;
use crate::rig::Installation;

/// Of both connections, by second.
pub struct Steady {
    /// Random reads, 4 KiB, q8.
    pub reads: Vec<Second>,
    /// Random writes, 4 KiB, q16.
    pub writes: Vec<Second>,
    /// Of the probe: blocks straight from and to the disk.
    pub disk: Vec<Second>,
}

/// A longer wait is worth being counted.
const STALL_NANOS: u64 = 250_000_000;
/// Between two operations of the probe.
const PROBE_EVERY: Duration = Duration::from_millis(20);
const PROBE_BLOCKS: u64 = 1024;

/// Reads and writes blocks of a file by turns, one after the other. Its blocks are written before
/// anybody looks.
fn probe(folder: &Path, time: Duration) -> std::io::Result<Vec<Second>> {
    let path = folder.join("probe.img");
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true);
    let file = file.custom_flags(direct).open(&path)?;
    let mut memory = vec![0; 8192];
    let start = memory.as_ptr().align_offset(4096);
    let page = &mut memory[start..start + 4096];
    for block in 0..PROBE_BLOCKS {
        file.write_all_at(page, block * 4096)?;
    }
    let begun = Instant::now();
    let mut seconds: Vec<Second> = Vec::new();
    for number in 0u64.. {
        let since = begun.elapsed();
        if since >= time {
            break;
        }
        let place = number.wrapping_mul(0x9e37_79b9) % PROBE_BLOCKS * 4096;
        match number % 2 {
            0 => file.read_exact_at(page, place)?,
            _ => file.write_all_at(page, place)?,
        }
        let took = begun.elapsed() - since;
        let index = usize::try_from(since.as_secs()).unwrap_or(usize::MAX);
        seconds.resize_with(seconds.len().max(index + 1), Second::default);
        let second = &mut seconds[index];
        second.operations += 1;
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        second.longest = second.longest.max(nanos);
        std::thread::sleep(PROBE_EVERY);
    }
    std::fs::remove_file(&path)?;
    Ok(seconds)
}

/// The server, its LUN empty.
///
/// # Errors
/// If it does not start.
pub fn start(place: &Installation, bytes: u64, memory: &str) -> Result<Server, Failure> {
    start_ours(place, bytes, memory, None)
}

/// Reads and writes at full speed. The probe's file is in `folder`, on the disk of the server.
///
/// # Errors
/// If the server fails, or the probe cannot have its file.
pub fn run(server: &Server, folder: &Path, bytes: u64, time: Duration) -> Result<Steady, Failure> {
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
    let (writes, disk, reads) = std::thread::scope(|scope| {
        let writes = scope.spawn(|| writer.run(socket, export, time, 1));
        let disk = scope.spawn(|| probe(folder, time));
        let reads = reader.run(socket, export, time, 2);
        (writes.join(), disk.join(), reads)
    });
    let writes = match writes {
        Ok(writes) => writes.map_err(problem)?,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    let disk = match disk {
        Ok(disk) => disk.map_err(|error| Failure::rig("the probe of the disk", &error))?,
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
        disk: whole(disk),
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
        (
            "longest block of the disk itself, ms".to_owned(),
            longest(&steady.disk),
        ),
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
         <!-- Written by `cargo xtask bench steady --write docs/benchmarks/steady.md`. -->\n\n\
         The rig runs a mixed load and looks at every second by itself; the worst counts.\n\n",
    );
    let _ = writeln!(
        text,
        "![by second]({plot})\n\n\
         ## How\n\n\
         One connection reads (queue 8), another one writes (queue 16): 4 KiB at random places\n\
         of the whole LUN, at full speed, for {} s. A probe beside the load reads or writes a\n\
         block of its own file with `O_DIRECT`, fifty times a second: its waits are the disk's\n\
         own.\n",
        steady.reads.len()
    );
    about_table(&mut text, about);
    let _ = writeln!(
        text,
        "\n## Seconds\n\n| | median second | worst second | best second |\n\
         | --- | --- | --- | --- |"
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
    let stalls = |seconds: &[Second]| seconds.iter().filter(|it| it.longest > STALL_NANOS).count();
    let both =
        |disk: &Second, write: &Second| disk.longest > STALL_NANOS && write.longest > STALL_NANOS;
    let pairs = steady.disk.iter().zip(&steady.writes);
    let _ = writeln!(
        text,
        "\n| seconds with a wait of more than {} ms | |\n| --- | --- |\n\
         | of writes | {} |\n| of reads | {} |\n\
         | of the disk itself | {} |\n| of writes and disk together | {} |",
        STALL_NANOS / 1_000_000,
        stalls(&steady.writes),
        stalls(&steady.reads),
        stalls(&steady.disk),
        pairs.filter(|(disk, write)| both(disk, write)).count()
    );
    text
}
