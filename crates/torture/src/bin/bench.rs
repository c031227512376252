//! `everglade-bench`: what durability costs, as a program; `cargo xtask bench` builds everything
//! and starts it.
//!
//! `flush [--rounds N] [--folder DIR] [--write FILE] [--only SECTION]`: the tables of
//! [`everglade_torture::bench`], on stdout and, if wanted, as a page.
//!
//! `protocols [--rounds N] [--folder DIR] [--write FILE]`: one server over NBD and over NVMe/TCP.
//!
//! `raid [--rounds N] [--folder DIR] [--write FILE]`: double parity beside no redundancy and btrfs.
//!
//! `oltp [--rounds N] [--folder DIR] [--write FILE]`: the knee of the load of a database.
//!
//! `paper s001|s002 [--rounds N] [--folder DIR] [--write FILE]`: measured claims of a paper.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use everglade_torture::Failure;
use everglade_torture::bench::{Summary, flush, longest, recovery};
use everglade_torture::oltp::knee::Point;
use everglade_torture::rig::Installation;
use everglade_torture::versus::{garden, inprocess, knee, paper, protocols, raid};

const USAGE: &str = "everglade-bench flush [--rounds N] [--folder DIR] [--write FILE] \
    [--only flushes|longest|recovery]\n\
    everglade-bench protocols|raid|oltp|paper s001|paper s002 [--rounds N] [--folder DIR] \
    [--write FILE]";
/// Fewer pairs say nothing about a ratio on a shared machine.
const ROUNDS: u64 = 9;
/// Of each half of a pair.
const ROUND: Duration = Duration::from_millis(1500);
/// Of each rate of the load of a database.
const OLTP: Duration = Duration::from_secs(3);
const LONGEST: Duration = Duration::from_secs(30);
/// Of each load on a garden.
const GARDEN: Duration = Duration::from_secs(8);

/// Adds a line. Writing to memory does not fail.
macro_rules! line {
    ($text:expr, $($word:tt)*) => {
        let _ = writeln!($text, $($word)*);
    };
}

/// What is measured.
#[derive(Clone, Copy)]
enum Rig {
    /// What durability costs.
    Flush,
    /// Protocols against each other.
    Protocols,
    /// What parity costs.
    Raid,
    /// The load of a database.
    Oltp,
    /// Claims of the paper S002.
    Garden,
    /// Claims of the paper S001.
    Paper,
}

struct Arguments {
    rig: Rig,
    rounds: u64,
    /// On the disk that is measured.
    folder: PathBuf,
    /// The page to write.
    page: Option<PathBuf>,
    /// One section alone.
    only: Option<String>,
}

impl Arguments {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let rig = match words.next().as_deref() {
            Some("flush") => Rig::Flush,
            Some("protocols") => Rig::Protocols,
            Some("raid") => Rig::Raid,
            Some("oltp") => Rig::Oltp,
            Some("paper") => match words.next().as_deref() {
                Some("s001") => Rig::Paper,
                Some("s002") => Rig::Garden,
                _ => return Err("which paper? there are s001 and s002".to_owned()),
            },
            _ => return Err("which rig?".to_owned()),
        };
        let mut arguments = Arguments {
            rig,
            rounds: ROUNDS,
            folder: std::env::temp_dir(),
            page: None,
            only: None,
        };
        while let Some(option) = words.next() {
            let value = words.next().ok_or(format!("{option} needs a value"))?;
            match option.as_str() {
                "--rounds" => {
                    let rounds = value.parse();
                    arguments.rounds = rounds.map_err(|_| format!("'{value}' is not a number"))?;
                }
                "--folder" => arguments.folder = value.into(),
                "--only" => arguments.only = Some(value),
                "--write" => arguments.page = Some(value.into()),
                _ => return Err(format!("did not understand '{option}'")),
            }
        }
        if arguments.rounds == 0 {
            return Err("no rounds, no medians".to_owned());
        }
        Ok(arguments)
    }
}

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("everglade-bench: {problem}; usage: {USAGE}");
            return ExitCode::from(2);
        }
    };
    let written = match arguments.rig {
        Rig::Flush => page(&arguments),
        Rig::Protocols => protocols_page(&arguments),
        Rig::Raid => raid_page(&arguments),
        Rig::Oltp => oltp_page(&arguments),
        Rig::Paper => paper_page(&arguments),
        Rig::Garden => garden_page(&arguments),
    };
    match written {
        Ok(text) => {
            print!("{text}");
            if let Some(path) = &arguments.page
                && let Err(error) = std::fs::write(path, text)
            {
                eprintln!("everglade-bench: write {}: {error}", path.display());
                return ExitCode::FAILURE;
            }
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("everglade-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn page(arguments: &Arguments) -> Result<String, Failure> {
    let mut text = String::from(
        "# What durability costs\n\n\
         <!-- Written by `cargo xtask bench flush --write docs/benchmarks/flush.md`. -->\n\n\
         How long a client waits when it asks for durability, and how long a start takes after a\n\
         crash. [Shortfalls](shortfalls.md) says what limits the figures.\n\n",
    );
    machine(&mut text, arguments);
    let wanted = |name| arguments.only.as_deref().is_none_or(|only| only == name);
    if wanted("flushes") {
        apart(arguments, |installation, folder| {
            flushes(&mut text, arguments, installation, folder)
        })?;
    }
    if wanted("longest") {
        apart(arguments, |installation, _| {
            longest_request(&mut text, installation)
        })?;
    }
    if wanted("recovery") {
        apart(arguments, |installation, _| {
            recovered(&mut text, installation)
        })?;
    }
    Ok(text)
}

fn protocols_page(arguments: &Arguments) -> Result<String, Failure> {
    let mut text = String::from(
        "# Protocols\n\n\
         <!-- Written by `cargo xtask bench protocols`. -->\n\n\
         One server and one cached LUN over the loopback, by NBD on TCP and by NVMe/TCP,\n\
         by turns. Medians of the rounds; the ratio has its 95 % interval.\n\n",
    );
    machine(&mut text, arguments);
    line!(
        text,
        "\n| load | NBD, per second | NVMe/TCP, per second | ratio | wanted | CPU of the server, \
         NBD | NVMe/TCP |\n| --- | --- | --- | --- | --- | --- | --- |"
    );
    apart(arguments, |installation, _| {
        for row in protocols::run(installation, arguments.rounds, ROUND)? {
            let [nbd, nvme] = row.rates;
            let [nbd_us, nvme_us] = row.cpu_us;
            let goal = row.goal.map_or(String::new(), |goal| format!("≥ {goal}"));
            line!(
                text,
                "| {} | {nbd:.0} | {nvme:.0} | {} | {goal} | {nbd_us:.1} µs | {nvme_us:.1} µs |",
                row.title,
                row.ratio
            );
        }
        Ok(())
    })?;
    Ok(text)
}

fn raid_page(arguments: &Arguments) -> Result<String, Failure> {
    let mut text = String::from(
        "# What parity costs\n\n\
         <!-- Written by `cargo xtask bench raid --write docs/benchmarks/raid.md`. -->\n\n\
         An aggregate of one group with double parity, 4 + 2 directories, beside one without\n\
         redundancy on 6 directories. All of them are on one disk, so parity takes from the disk\n\
         what data would have. Medians of the rounds; a ratio has its 95 % interval.\n\
         [Shortfalls](shortfalls.md) says what limits the figures.\n\n",
    );
    machine(&mut text, arguments);
    line!(
        text,
        "\n| job | beside | double parity | the other | ratio | wanted | |\n\
         | --- | --- | --- | --- | --- | --- | --- |"
    );
    apart(arguments, |installation, folder| {
        for row in raid::run(installation, folder, arguments.rounds, ROUND)? {
            let [ours, theirs] = row.figures;
            line!(
                text,
                "| {} | {} | {ours:.0} {unit} | {theirs:.0} {unit} | {} | {} | {} |",
                row.job,
                row.against,
                row.ratio,
                row.goal,
                row.note,
                unit = row.unit
            );
        }
        Ok(())
    })?;
    Ok(text)
}

fn oltp_page(arguments: &Arguments) -> Result<String, Failure> {
    let mut text = String::from(
        "# The load of a database\n\n\
         <!-- Written by `cargo xtask bench oltp --write docs/benchmarks/oltp.md`. -->\n\n\
         Eight streams as SPC-1 has them (`everglade-load`). Each request is sent when it is due,\n\
         even if earlier ones have no answer. The knee is the rate beyond which mean latency\n\
         grows faster than rate, by the half-latency rule. The load uses 2 GiB, the server 1 GiB\n\
         of memory; clients run on the same processors. This is no SPC-1 result.\n\n",
    );
    machine(&mut text, arguments);
    let folder = tempfile::tempdir_in(&arguments.folder)
        .map_err(|error| Failure::rig("make a temporary folder", &error))?;
    let this = std::env::current_exe().unwrap_or_default();
    let everglade = this.with_file_name("everglade");
    let found = knee::run(folder.path(), &everglade, arguments.rounds, OLTP)?;
    line!(
        text,
        "\n| server | knee, requests/s: median, least, most | mean latency there | rounds with one \
         |\n| --- | --- | --- | --- |"
    );
    for one in &found {
        let of = |part: fn(&Point) -> f64| one.knees.iter().map(part).collect::<Vec<f64>>();
        if one.knees.is_empty() {
            line!(
                text,
                "| {} | none | | 0 of {} |",
                one.name,
                arguments.rounds
            );
            continue;
        }
        let rates = Summary::of(&of(|point| point.rate));
        let latency = Summary::of(&of(|point| point.latency)).median * 1e6;
        line!(
            text,
            "| {} | {:.0} [{:.0}–{:.0}] | {latency:.0} µs | {} of {} |",
            one.name,
            rates.median,
            rates.min,
            rates.max,
            one.knees.len(),
            arguments.rounds
        );
    }
    text.push_str("\n## Latency by rate, last round\n\nIn microseconds.\n\n");
    line!(
        text,
        "| server | requests/s | mean | 50 % | 99 % | 99.9 % | 99 % of reads | 99 % of writes |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |"
    );
    for one in &found {
        for row in &one.rows {
            let (all, measured) = (row.measured.points(), &row.measured);
            let parts = [measured.mean(), all.p50, all.p99, all.p999];
            let kinds = [measured.reads.points().p99, measured.writes.points().p99];
            let cells = parts
                .iter()
                .chain(&kinds)
                .map(|time| time.as_micros().to_string());
            let cells = cells.collect::<Vec<_>>().join(" | ");
            let more = if measured.is_overloaded {
                ", too much"
            } else {
                ""
            };
            line!(text, "| {} | {:.0}{more} | {cells} |", one.name, row.rate);
        }
    }
    Ok(text)
}

fn paper_page(arguments: &Arguments) -> Result<String, Failure> {
    let mut text = String::from(
        "# Claims of S001\n\n\
         <!-- Written by `cargo xtask bench paper s001 --write docs/benchmarks/paper-s001.md`. -->\
         \n\n\
         Each row compares two arms by turns: a mechanism and its absence, or two loads. The\n\
         figures are medians of the rounds. D-10 and the rows after it are measured with the\n\
         load inside of the engine's process, the others with a server (`everglade serve\n\
         --ablation`) and a client. Published figures are of 20 processors and another system,\n\
         so only the direction is compared. No constant is fitted to them.\n\n",
    );
    machine(&mut text, arguments);
    text.push('\n');
    let this = std::env::current_exe().unwrap_or_default();
    let program = this.with_file_name("inprocess");
    apart(arguments, |installation, folder| {
        let mut claims = paper::s001(installation, arguments.rounds)?;
        claims.extend(inprocess::claims(&program, folder, arguments.rounds)?);
        text.push_str(&paper::table(&claims));
        Ok(())
    })?;
    Ok(text)
}

fn garden_page(arguments: &Arguments) -> Result<String, Failure> {
    let mut text = String::from(
        "# Claims of S002\n\n\
         <!-- Written by `cargo xtask bench paper s002 --write docs/benchmarks/paper-s002.md`. -->\
         \n\n\
         Each row is one server with gardening and without it, by turns; medians of the rounds.\n\
         Published figures are of 20 processors, 21 drives and another system, so only the\n\
         direction is compared. No constant is fitted to them.\n\n",
    );
    machine(&mut text, arguments);
    text.push('\n');
    apart(arguments, |installation, folder| {
        let claims = garden::s002(installation, folder, arguments.rounds, GARDEN)?;
        text.push_str(&paper::table(&claims));
        Ok(())
    })?;
    Ok(text)
}

/// In a folder of its own, which goes with it.
fn apart(
    arguments: &Arguments,
    run: impl FnOnce(&Installation, &Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let folder = tempfile::tempdir_in(&arguments.folder)
        .map_err(|error| Failure::rig("make a temporary folder", &error))?;
    let this = std::env::current_exe().unwrap_or_default();
    let installation = Installation::new(&this.with_file_name("everglade"), folder.path());
    run(&installation, folder.path())
}

fn machine(text: &mut String, arguments: &Arguments) {
    let said = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).output();
        output.map_or_else(
            |error| error.to_string(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        )
    };
    let folder = arguments.folder.to_string_lossy();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let disk = said(
        "findmnt",
        &[
            "--noheadings",
            "--output",
            "SOURCE,FSTYPE",
            "--target",
            &folder,
        ],
    );
    let commit = said("git", &["describe", "--always", "--dirty"]);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let qemu = said("qemu-storage-daemon", &["--version"]);
    let qemu = qemu.lines().next().unwrap_or_default();
    line!(
        text,
        "| | |\n| --- | --- |\n| commit | {commit} |\n\
         | machine | {cpus} virtual CPUs, shared with others; Linux {}; load average {} before \
         the first round |\n\
         | disk | {disk} |\n| peer | {qemu} |",
        said("uname", &["--kernel-release"]),
        load.split(' ').next().unwrap_or_default()
    );
}

fn flushes(
    text: &mut String,
    arguments: &Arguments,
    installation: &Installation,
    folder: &Path,
) -> Result<(), Failure> {
    line!(text, "\n## Small writes with flushes\n");
    if let Some(reason) = flush::impossible() {
        line!(text, "Not measured: {reason}.");
        return Ok(());
    }
    let options = flush::Options {
        rounds: arguments.rounds,
        time: ROUND,
    };
    let table = flush::run(installation, folder, options)?;
    line!(
        text,
        "One client writes 4 KiB at random places of 256 MiB, over a Unix socket. The peer is\n\
         `qemu-storage-daemon` with a raw file, `cache.direct=on`, `aio={}`. The two servers have\n\
         {} pairs of turns of {:.1} s; which one begins changes from pair to pair. The table\n\
         shows writes per second: the median and the range.\n",
        table.aio,
        options.rounds,
        options.time.as_secs_f64()
    );
    line!(
        text,
        "| pattern | everglade | qemu-storage-daemon | ratio |\n| --- | --- | --- | --- |"
    );
    for row in table.lines {
        line!(
            text,
            "| {} | {} | {} | {:.2} |",
            row.pattern.name(),
            row.ours,
            row.theirs,
            row.ratio
        );
    }
    Ok(())
}

fn longest_request(text: &mut String, installation: &Installation) -> Result<(), Failure> {
    let lines = longest::run(installation, LONGEST)?;
    line!(
        text,
        "\n## The longest request while consistency points run\n\n\
         A client keeps sixteen requests of 4 to 64 KiB in flight for {} s. A consistency point\n\
         begins every second. The goal is 250 ms.\n\n\
         | request | count | median | 99.9 % | longest |\n| --- | --- | --- | --- | --- |",
        LONGEST.as_secs()
    );
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    for row in lines {
        line!(
            text,
            "| {:?} | {} | {} | {} | {} |",
            row.command,
            row.count,
            ms(row.median),
            ms(row.p999),
            ms(row.longest)
        );
    }
    Ok(())
}

fn recovered(text: &mut String, installation: &Installation) -> Result<(), Failure> {
    let outcome = recovery::run(installation)?;
    line!(
        text,
        "\n## Recovery\n\n\
         4 KiB writes fill {} MiB of a half of the journal. Then the server is killed\n\
         (SIGKILL), and started again.\n\n\
         | next start | |\n| --- | --- |\n\
         | ready after | {:.2} s |\n| of that, replay | {:.2} s |\n\
         | replayed | {} MiB, {} operations |\n| goal | 10 s for 256 MiB |",
        outcome.used_bytes >> 20,
        outcome.ready_after.as_secs_f64(),
        outcome.recovered_in.as_secs_f64(),
        outcome.bytes >> 20,
        outcome.operations
    );
    Ok(())
}
