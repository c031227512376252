//! `everglade-versus`: the server against its peers, as a program; `cargo xtask bench nbd`,
//! `… snapshots` and so on build everything and start it. The tables are those of
//! [`everglade_torture::versus`].

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use everglade_torture::Failure;
use everglade_torture::versus::page::{self, Results};
use everglade_torture::versus::{
    RowResult, Stage, account, anatomy, bounded, facts, fill, load, measure, plot, row, server,
    snapshots, steady, store, tail,
};

const USAGE: &str = "everglade-versus nbd|steady|anatomy|snapshots [--rounds N] [--quick] \
    [--only KEY,…] [--resume] [--estimate] [--goals-only] [--lun-size BYTES] [--memory SIZE] \
    [--seconds S] [--scale F] [--folder DIR] [--write FILE]";
/// Fewer pairs say nothing about a ratio on a shared machine.
const ROUNDS: u64 = 9;
/// At each level as the pool fills.
const LEVEL_ROUNDS: u64 = 5;
/// Between turns: what they left behind is written, and the disk comes to rest.
const PAUSE_SECONDS: f64 = 0.7;
/// Four times the cache of a server with 1 GiB, which is half of that.
const LUN_BYTES: u64 = 2 << 30;
/// Where the measured part of the anatomy begins.
const MEASURED: &str =
    "<!-- Below: written by `cargo xtask bench anatomy --write docs/benchmarks/anatomy.md`. -->";
/// Of the run that is looked at second by second.
const STEADY_SECONDS: u64 = 600;

struct Arguments {
    rig: String,
    rounds: u64,
    /// Turns are so much longer than a row says.
    scale: f64,
    only: Option<Vec<String>>,
    /// Rows that the page's JSON has already are kept.
    is_resumed: bool,
    /// Says how long it would take, and ends.
    is_estimate: bool,
    /// Only peers that a goal names.
    is_goals_only: bool,
    lun_bytes: u64,
    memory: String,
    seconds: u64,
    /// On the disk that is measured.
    folder: PathBuf,
    /// The page to write; others go beside it.
    page: Option<PathBuf>,
}

impl Arguments {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let mut arguments = Arguments {
            rig: words.next().ok_or("which rig?")?,
            rounds: ROUNDS,
            scale: 1.0,
            only: None,
            is_resumed: false,
            is_estimate: false,
            is_goals_only: false,
            lun_bytes: LUN_BYTES,
            memory: "1GiB".to_owned(),
            seconds: STEADY_SECONDS,
            folder: std::env::temp_dir(),
            page: None,
        };
        if !["nbd", "steady", "anatomy", "snapshots"].contains(&arguments.rig.as_str()) {
            return Err(format!("no rig '{}'", arguments.rig));
        }
        while let Some(option) = words.next() {
            if option == "--quick" {
                (arguments.rounds, arguments.scale, arguments.seconds) = (3, 0.1, 20);
                continue;
            }
            if option == "--resume" {
                arguments.is_resumed = true;
                continue;
            }
            if option == "--estimate" {
                arguments.is_estimate = true;
                continue;
            }
            if option == "--goals-only" {
                arguments.is_goals_only = true;
                continue;
            }
            let value = words.next().ok_or(format!("{option} needs a value"))?;
            let bad = |_| format!("'{value}' is not a number");
            match option.as_str() {
                "--rounds" => arguments.rounds = value.parse().map_err(bad)?,
                "--lun-size" => arguments.lun_bytes = value.parse().map_err(bad)?,
                "--seconds" => arguments.seconds = value.parse().map_err(bad)?,
                "--scale" => {
                    let scale = value.parse();
                    arguments.scale = scale.map_err(|_| format!("'{value}' is not a number"))?;
                }
                "--only" => arguments.only = Some(value.split(',').map(str::to_owned).collect()),
                "--memory" => arguments.memory = value,
                "--folder" => arguments.folder = value.into(),
                "--write" => arguments.page = Some(value.into()),
                _ => return Err(format!("did not understand '{option}'")),
            }
        }
        let keys = keys(&arguments.rig);
        let only = arguments.only.iter().flatten();
        if let Some(unknown) = only.clone().find(|key| !keys.contains(&key.as_str())) {
            let rig = &arguments.rig;
            return Err(match keys.is_empty() {
                true => format!("{rig} has no rows to choose from"),
                false => format!("{rig} has no row '{unknown}', but {}", keys.join(", ")),
            });
        }
        if arguments.rounds == 0 {
            return Err("no rounds, no medians".to_owned());
        }
        if arguments.is_resumed && arguments.page.is_none() {
            return Err("--resume needs --write: the page whose rows are kept".to_owned());
        }
        if (arguments.is_resumed || arguments.is_estimate) && arguments.rig != "nbd" {
            return Err("--resume and --estimate are for nbd".to_owned());
        }
        Ok(arguments)
    }

    fn wants(&self, key: &str) -> bool {
        let only = self.only.as_ref();
        only.is_none_or(|only| only.iter().any(|wanted| wanted == key))
    }

    /// A quick run is for work on the rig, not for figures.
    fn is_quick(&self) -> bool {
        self.scale < 1.0
    }

    /// Rows that are named are measured again; others only if they are not there.
    fn lacks(&self, results: &Results, key: &str) -> bool {
        self.wants(key) && (self.only.is_some() || !results.has(key))
    }
}

/// What `--only` may name.
fn keys(rig: &str) -> Vec<&'static str> {
    match rig {
        "nbd" => {
            let rows = row::all().into_iter().map(|row| row.key);
            let levels = fill::LEVELS.into_iter().map(|(_, key)| key);
            let others = ["start", "memory", "idle"];
            rows.chain(["tail"]).chain(levels).chain(others).collect()
        }
        "snapshots" => snapshots::KEYS.to_vec(),
        _ => Vec::new(),
    }
}

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("everglade-versus: {problem}; usage: {USAGE}");
            return ExitCode::from(2);
        }
    };
    let outcome = match arguments.rig.as_str() {
        "steady" => run_steady(&arguments),
        "anatomy" => run_anatomy(&arguments),
        "snapshots" => run_snapshots(&arguments),
        _ => run_nbd(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("everglade-versus: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Where the binaries are: beside this one.
fn programs() -> PathBuf {
    let this = std::env::current_exe().unwrap_or_default();
    this.parent().map(Path::to_owned).unwrap_or_default()
}

fn run_nbd(arguments: &Arguments) -> Result<(), Failure> {
    let mut results = begin(arguments)?;
    let rows: Vec<row::Row> = row::all()
        .into_iter()
        .filter(|row| arguments.lacks(&results, row.key))
        .map(|row| {
            if arguments.is_goals_only {
                row.of_goals()
            } else {
                row
            }
        })
        .collect();
    eprintln!("about {:.0} minutes", minutes(arguments, &results, &rows));
    if arguments.is_estimate {
        return Ok(());
    }
    let absent = absent_arms();
    for (arm, why) in &absent {
        eprintln!("not measured: {}: {why}", arm.name());
        let text = format!("{}: {why}", arm.name());
        results.about.push(("not measured", text));
    }
    let is_there = |arm: &server::Arm| absent.iter().all(|(one, _)| one != arm);
    let folder = tempfile::tempdir_in(&arguments.folder)
        .map_err(|error| Failure::rig("make a temporary folder", &error))?;
    let begun = Instant::now();
    let commit = commit();
    let mut stage = Stage::new(
        folder.path(),
        &programs(),
        arguments.lun_bytes,
        memory_bytes(arguments)?,
    );
    for row in rows {
        eprintln!("{:>5.0} s  {}", begun.elapsed().as_secs_f64(), row.title);
        let arms: Vec<_> = row.arms.iter().copied().filter(is_there).collect();
        let run = row::Row {
            arms,
            ..row.clone()
        };
        let seconds = row.seconds * arguments.scale;
        let outcome = measure(&mut stage, &run, arguments.rounds, seconds)?;
        // The page says of the others that they were not measured.
        let commit = commit.clone();
        results.put(RowResult {
            row,
            commit,
            ..outcome
        });
        write_down(arguments, &results)?;
    }
    if arguments.lacks(&results, "tail") {
        let took = begun.elapsed().as_secs_f64();
        eprintln!("{took:>5.0} s  reads while consistency points run");
        let arms: Vec<_> = tail::ARMS.into_iter().filter(is_there).collect();
        let seconds = TAIL_SECONDS * arguments.scale;
        results.tail = Some(tail::run(&mut stage, &arms, arguments.rounds, seconds)?);
        write_down(arguments, &results)?;
    }
    stage.clear();
    drop(stage);
    // What was measured before counts, whatever comes of this.
    let rest = levels(arguments, folder.path(), begun, &mut results)
        .and_then(|()| alone(arguments, folder.path(), begun, &mut results));
    if let Err(failure) = rest {
        eprintln!("everglade-versus: {failure}");
        results.about.push(("not measured", failure.to_string()));
    }
    let took = format!("{:.0} s", begun.elapsed().as_secs_f64());
    results.about.push(("duration of the last run", took));
    write_down(arguments, &results)?;
    print!("{}", page::page(&results, &beside(arguments, "svg")));
    Ok(())
}

const TAIL_SECONDS: f64 = 10.0;

/// Nothing, or what is to be kept.
fn begin(arguments: &Arguments) -> Result<Results, Failure> {
    let mut about = about(arguments);
    let cgroup = bounded::Controller::of_machine();
    let bound = cgroup.map_or_else(|lacks| lacks, |controller| controller.name());
    about.push(("bound of the page cache", bound));
    if !account::sees_kernel_threads() {
        let text = "not visible here, so their CPU is missing from every row".to_owned();
        about.push(("kernel threads", text));
    }
    if !account::sees_device(&arguments.folder) {
        let text = "the device has none, so bytes read and written are missing".to_owned();
        about.push(("counters of the disk", text));
    }
    let is_quick = arguments.is_quick();
    let path = arguments
        .page
        .as_deref()
        .map(|page| page.with_extension("json"));
    match path.filter(|path| arguments.is_resumed && path.exists()) {
        None => Ok(Results {
            about,
            is_quick,
            ..Results::default()
        }),
        Some(path) => {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| Failure::rig(&format!("read {}", path.display()), &error))?;
            store::resume(&text, about).map_err(|problem| {
                Failure::Rig(format!(
                    "cannot add rows to {}: {problem}; use the same parameters, another --write, \
                     or leave out --resume",
                    path.display()
                ))
            })
        }
    }
}

fn absent_arms() -> Vec<(server::Arm, String)> {
    let all = server::Arm::ALL.into_iter();
    all.filter_map(|arm| Some((arm, Stage::lacks(arm)?)))
        .collect()
}

/// How long it will take.
fn minutes(arguments: &Arguments, results: &Results, rows: &[row::Row]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let turns = |arms: usize, rounds: u64, seconds: f64| {
        arms as f64 * rounds as f64 * (seconds * arguments.scale + PAUSE_SECONDS)
    };
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
    // Filling each server once, at a GiB a second; btrfs takes random overwrites at 30 MB/s.
    let mut seconds = gib(arguments.lun_bytes) * 20.0;
    for row in rows {
        seconds += turns(row.arms.len(), arguments.rounds, row.seconds);
        if row.after_age {
            seconds += gib(arguments.lun_bytes) * 120.0;
        }
    }
    if arguments.lacks(results, "tail") {
        seconds += turns(tail::ARMS.len(), arguments.rounds, TAIL_SECONDS);
    }
    for percent in wanted_levels(arguments, results) {
        let rows = row::filled();
        let arms = rows[0].arms.len();
        let rounds = arguments.rounds.min(LEVEL_ROUNDS);
        seconds += turns(arms * (rows.len() + 1), rounds, rows[0].seconds);
        seconds += if percent > 3 { 60.0 } else { 0.0 };
    }
    let small = arguments.is_quick();
    for (key, whole, quick) in [
        ("start", 60.0, 20.0),
        ("memory", 240.0, 40.0),
        ("idle", 15.0, 15.0),
    ] {
        if arguments.lacks(results, key) {
            seconds += if small { quick } else { whole };
        }
    }
    seconds / 60.0
}

fn wanted_levels(arguments: &Arguments, results: &Results) -> Vec<u64> {
    let wanted = fill::LEVELS
        .into_iter()
        .filter(|(_, key)| arguments.lacks(results, key));
    wanted.map(|(percent, _)| percent).collect()
}

/// Rows as the pool fills: one pool for all levels that are wanted.
fn levels(
    arguments: &Arguments,
    folder: &Path,
    begun: Instant,
    results: &mut Results,
) -> Result<(), Failure> {
    let wanted = wanted_levels(arguments, results);
    if wanted.is_empty() {
        return Ok(());
    }
    let folder = folder.join("fill");
    let mut filling = fill::Filling::begin(&folder, &programs(), arguments.is_quick())?;
    let rounds = arguments.rounds.min(LEVEL_ROUNDS);
    for percent in wanted {
        let took = begun.elapsed().as_secs_f64();
        eprintln!("{took:>5.0} s  a pool that is {percent} % full");
        results.put_level(filling.level(percent, rounds, arguments.scale)?);
        write_down(arguments, results)?;
    }
    drop(filling);
    std::fs::remove_dir_all(&folder).map_err(|error| Failure::rig("remove the pool", &error))
}

/// `--memory` in bytes.
fn memory_bytes(arguments: &Arguments) -> Result<u64, Failure> {
    let text = &arguments.memory;
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let found = units.into_iter().find_map(|(unit, shift)| {
        let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        number.checked_shl(shift)
    });
    let found = found.or_else(|| text.parse().ok());
    found.ok_or_else(|| {
        Failure::Rig(format!(
            "--memory is '{text}'; expected bytes or a size such as 512MiB or 1GiB"
        ))
    })
}

fn commit() -> String {
    said("git", &["describe", "--always", "--dirty"])
}

/// After every row, so that a run that is cut short was not in vain.
fn write_down(arguments: &Arguments, results: &Results) -> Result<(), Failure> {
    let Some(path) = &arguments.page else {
        return Ok(());
    };
    let json = serde_json::to_string_pretty(&store::json(results));
    let json = json.map_err(|error| Failure::rig("write JSON", &error))?;
    put(path, &page::page(results, &beside(arguments, "svg")))?;
    put(&path.with_extension("json"), &(json + "\n"))?;
    put(&path.with_extension("svg"), &page::picture(results))
}

/// What is measured of ours alone.
fn alone(
    arguments: &Arguments,
    folder: &Path,
    begun: Instant,
    results: &mut Results,
) -> Result<(), Failure> {
    let is_quick = arguments.is_quick();
    if arguments.lacks(results, "start") {
        results.starts.clear();
        eprintln!("{:>5.0} s  start", begun.elapsed().as_secs_f64());
        let written = if is_quick { 1 << 30 } else { 8 << 30 };
        for size in facts::SIZES {
            let one = facts::start(&programs(), folder, size, written)?;
            results.starts.push(one);
        }
    }
    if arguments.lacks(results, "memory") {
        results.caps.clear();
        for mebibytes in [256u64, 1024, 8192] {
            eprintln!(
                "{:>5.0} s  memory {mebibytes} MiB",
                begun.elapsed().as_secs_f64()
            );
            // More than any cap, so that each is met.
            let bytes = if is_quick { 1 << 30 } else { 10 << 30 };
            let time = Duration::from_secs_f64(8.0 * arguments.scale);
            let one = facts::cap(&programs(), folder, mebibytes << 20, bytes, time)?;
            results.caps.push(one);
        }
    }
    if arguments.lacks(results, "idle") {
        eprintln!("{:>5.0} s  idle", begun.elapsed().as_secs_f64());
        results.idle = Some(facts::idle(&programs(), folder, Duration::from_secs(10))?);
    }
    Ok(())
}

fn run_steady(arguments: &Arguments) -> Result<(), Failure> {
    let folder = tempfile::tempdir_in(&arguments.folder)
        .map_err(|error| Failure::rig("make a temporary folder", &error))?;
    let installation =
        everglade_torture::rig::Installation::new(&programs().join("everglade"), folder.path());
    let server = steady::start(&installation, arguments.lun_bytes, &arguments.memory)?;
    load::fill(&server.socket, &server.export, arguments.lun_bytes)
        .map_err(|error| Failure::rig("fill", &error))?;
    let time = Duration::from_secs(arguments.seconds);
    let outcome = steady::run(&server, folder.path(), arguments.lun_bytes, time)?;
    let text = steady::page(&outcome, &about(arguments), &beside(arguments, "svg"));
    print!("{text}");
    if let Some(path) = &arguments.page {
        put(path, &text)?;
        let svg = plot::lines(
            "random reads q8 beside random writes q16",
            &steady::panels(&outcome),
        );
        put(&path.with_extension("svg"), &svg)?;
    }
    Ok(())
}

fn run_snapshots(arguments: &Arguments) -> Result<(), Failure> {
    let folder = tempfile::tempdir_in(&arguments.folder)
        .map_err(|error| Failure::rig("make a temporary folder", &error))?;
    let plan = snapshots::Plan {
        is_quick: arguments.is_quick(),
        only: arguments.only.clone(),
        memory: arguments.memory.clone(),
    };
    let mut results = snapshots::Results::default();
    results.about = about(arguments);
    let parameters = format!(
        "`--memory {}`; defaults otherwise; Unix sockets; one client process{}",
        plan.memory,
        if plan.is_quick {
            "; **a quick run: smaller and shorter than the text says**"
        } else {
            ""
        }
    );
    for (name, value) in &mut results.about {
        if *name == "parameters" {
            value.clone_from(&parameters);
        }
    }
    let plot = beside(arguments, "svg");
    let mut written = |results: &snapshots::Results| {
        let Some(path) = &arguments.page else {
            return Ok(());
        };
        let json = serde_json::to_string_pretty(&snapshots::page::json(results));
        let json = json.map_err(|error| Failure::rig("write JSON", &error))?;
        put(path, &snapshots::page::page(results, &plot))?;
        put(&path.with_extension("json"), &(json + "\n"))?;
        put(
            &path.with_extension("svg"),
            &snapshots::page::picture(results),
        )
    };
    let ran = snapshots::run(
        &programs(),
        folder.path(),
        &plan,
        &mut results,
        &mut written,
    );
    // What was measured before counts, whatever came of the rest.
    print!("{}", snapshots::page::page(&results, &plot));
    ran
}

/// Replaces the measured part of the page, which begins at [`MEASURED`]; what is above it is
/// written by people.
fn run_anatomy(arguments: &Arguments) -> Result<(), Failure> {
    let folder = tempfile::tempdir_in(&arguments.folder)
        .map_err(|error| Failure::rig("make a temporary folder", &error))?;
    let installation =
        everglade_torture::rig::Installation::new(&programs().join("everglade"), folder.path());
    let server = steady::start(&installation, arguments.lun_bytes, &arguments.memory)?;
    let mut text = format!("{MEASURED}\n\n");
    page::about_table(&mut text, &about(arguments));
    text.push_str(&anatomy::run(&server, arguments.lun_bytes)?);
    print!("{text}");
    if let Some(path) = &arguments.page {
        let known = std::fs::read_to_string(path).unwrap_or_default();
        let above = known.split(MEASURED).next().unwrap_or_default();
        put(path, &format!("{above}{text}"))?;
    }
    Ok(())
}

/// The file beside the page with another ending.
fn beside(arguments: &Arguments, ending: &str) -> String {
    let path = arguments.page.as_deref().unwrap_or(Path::new("nbd.md"));
    let path = path.with_extension(ending);
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn put(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::rig(&format!("write {}", path.display()), &error))
}

/// What a program says.
fn said(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output();
    output.map_or_else(
        |error| error.to_string(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

fn about(arguments: &Arguments) -> Vec<(&'static str, String)> {
    let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let folder = arguments.folder.to_string_lossy();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model
        .unwrap_or_default()
        .trim_start_matches([' ', '\t', ':']);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let memory: u64 = memory
        .and_then(|total| total.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or_default();
    let rounds = match arguments.rig.as_str() {
        "nbd" => format!("{} rounds; turns × {}; ", arguments.rounds, arguments.scale),
        _ => String::new(),
    };
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let disk = [
        "--noheadings",
        "--output",
        "SOURCE,FSTYPE",
        "--target",
        &folder,
    ];
    vec![
        ("commit", commit()),
        (
            "machine",
            format!(
                "{cpus} virtual CPUs ({model}), shared by servers and clients; {} MiB of memory; \
                 Linux {}; load average {} before the first round",
                memory >> 10,
                said("uname", &["--kernel-release"]),
                load.split(' ').next().unwrap_or_default()
            ),
        ),
        (
            "disk",
            format!(
                "{}; {} of its space in use before the first row",
                said("findmnt", &disk),
                said("df", &["--output=pcent", &folder])
                    .replace("Use%", "")
                    .trim()
            ),
        ),
        (
            "parameters",
            format!(
                "{rounds}exports of {} MiB, filled before; `--memory {}`, half of it cache; \
                 defaults otherwise; Unix sockets; one client process with one thread per \
                 connection",
                arguments.lun_bytes >> 20,
                arguments.memory
            ),
        ),
        (
            "peers",
            format!(
                "{} (cache.direct=on, aio=io_uring); {} (cache=none); {} (direct=1, io_uring)",
                first_line(said("qemu-storage-daemon", &["--version"])),
                first_line(said("nbdkit", &["--version"])),
                said("fio", &["--version"])
            ),
        ),
    ]
}
