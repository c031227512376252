//! `everglade-load`: the load of a database against any server of NBD or NVMe/TCP, at a fixed rate
//! or until the knee of its latency is found.

use std::process::ExitCode;
use std::time::Duration;

use everglade_torture::client::Address;
use everglade_torture::oltp::aging::age;
use everglade_torture::oltp::knee::Point;
use everglade_torture::oltp::run::{Measured, Run};
use everglade_torture::oltp::scatter::scatter;
use everglade_torture::oltp::search::{Row, search};
use everglade_torture::versus::latency::Points;
use everglade_torture::versus::load::{self, Place};
use serde_json::{Value, json};

const HELP: &str = "\
everglade-load: the load of a database, against any server of NBD or NVMe/TCP

Usage:
  everglade-load oltp ADDRESS --overwrite [--rate N[,N…]] [OPTIONS]
  everglade-load knee ADDRESS --overwrite [--from N] [OPTIONS]
  everglade-load fill ADDRESS --overwrite [--bytes SIZE]
  everglade-load age ADDRESS --overwrite [--bytes SIZE] [--seed N] [--json]
  everglade-load scatter ADDRESS --overwrite [--bytes SIZE] [--seed N]

  oltp   eight streams of reads and writes as SPC-1 has them; each request is sent when it is due,
         even if earlier ones have no answer; prints latencies for each rate (default: 1000/s)
  knee   the same at growing rates; prints the rate beyond which latency grows faster than rate
  fill   writes all blocks once
  age    overwrites random blocks until the rate does not change any more
  scatter
         reads all blocks in random order and writes them back as they were: the contents stay, if
         nobody else writes meanwhile, and their places on the media are random afterwards

ADDRESS:
  nbd://HOST:PORT/EXPORT
  nbd+unix:///EXPORT?socket=PATH
  nvme://HOST:PORT/NQN

Options:
  --overwrite        what is on the disk may be overwritten; without this nothing is done
  --bytes SIZE       use so many bytes at the beginning, such as 16GiB; all of the disk by default,
                     at least 256MiB for oltp and knee
  --seconds N        measure for so long at each rate (default: 10)
  --warm-up N        before that, seconds that do not count (default: 2)
  --connections N    (default: 2)
  --from N           the first rate of knee (default: 500)
  --seed N           the same seed gives the same requests (default: 1)
  --json             one JSON object for each line
  --help             this

Latency counts from the time at which a request was due. A rate that the server does not keep up
with is said to be too much. The load is not an SPC-1 result and must not be called one.
";

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Oltp,
    Knee,
    Fill,
    Age,
    Scatter,
}

#[derive(Debug)]
struct Arguments {
    verb: Verb,
    run: Run,
    rates: Vec<f64>,
    from: f64,
    is_json: bool,
}

/// Reads the command line; `None`: help is wanted.
fn arguments(words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let words: Vec<String> = words.collect();
    if words.is_empty() || words.iter().any(|word| word == "--help" || word == "-h") {
        return Ok(None);
    }
    let mut words = words.into_iter();
    let verb = match words.next().as_deref() {
        Some("oltp") => Verb::Oltp,
        Some("knee") => Verb::Knee,
        Some("fill") => Verb::Fill,
        Some("age") => Verb::Age,
        Some("scatter") => Verb::Scatter,
        other => return Err(format!("there is no '{}'", other.unwrap_or_default())),
    };
    let address = words.next().ok_or("which server? give its address")?;
    let (place, export) = address_of(&address)?;
    let mut arguments = Arguments {
        verb,
        run: Run {
            place,
            export,
            bytes: None,
            rate: 0.0,
            warm_up: Duration::from_secs(2),
            time: Duration::from_secs(10),
            connections: 2,
            seed: 1,
        },
        rates: vec![1000.0],
        from: 500.0,
        is_json: false,
    };
    let mut may_overwrite = false;
    while let Some(option) = words.next() {
        match option.as_str() {
            "--overwrite" => may_overwrite = true,
            "--json" => arguments.is_json = true,
            _ => {
                let value = words.next().ok_or(format!("{option} needs a value"))?;
                set(&mut arguments, &option, &value)?;
            }
        }
    }
    if !may_overwrite {
        return Err(format!(
            "this overwrites what is in '{}'; say --overwrite if that may be lost",
            arguments.run.export
        ));
    }
    Ok(Some(arguments))
}

fn set(arguments: &mut Arguments, option: &str, value: &str) -> Result<(), String> {
    let run = &mut arguments.run;
    match option {
        "--bytes" => run.bytes = Some(size(value)?),
        "--seconds" => run.time = Duration::from_secs(number(value)?.max(1)),
        "--warm-up" => run.warm_up = Duration::from_secs(number(value)?),
        "--connections" => {
            let count = u32::try_from(number(value)?).unwrap_or(0);
            if !(1..=256).contains(&count) {
                return Err("--connections is 1 to 256".to_owned());
            }
            run.connections = count;
        }
        "--seed" => run.seed = number(value)?,
        "--rate" => {
            let rates = value.split(',').map(rate).collect::<Result<_, _>>()?;
            arguments.rates = rates;
        }
        "--from" => arguments.from = rate(value)?,
        _ => return Err(format!("did not understand '{option}'")),
    }
    Ok(())
}

fn number(word: &str) -> Result<u64, String> {
    word.parse()
        .map_err(|_| format!("'{word}' is not a whole number"))
}

fn rate(word: &str) -> Result<f64, String> {
    let rate = word.parse::<f64>().ok();
    rate.filter(|rate| (1.0..=1e7).contains(rate))
        .ok_or(format!("'{word}' is not a rate from 1 to 10000000"))
}

/// `16GiB`, `512MiB` or a number of bytes.
fn size(word: &str) -> Result<u64, String> {
    let digits = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit: u64 = match &word[digits.len()..] {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        unit => return Err(format!("'{unit}' is no unit; use KiB, MiB, GiB or TiB")),
    };
    let bytes = number(digits)?.checked_mul(unit);
    bytes.ok_or(format!("'{word}' is too much"))
}

fn address_of(word: &str) -> Result<(Place, String), String> {
    let help = || format!("'{word}' is no address; see --help");
    let (scheme, rest) = word.split_once("://").ok_or_else(help)?;
    if scheme == "nbd+unix" {
        let (export, socket) = rest.split_once("?socket=").ok_or_else(help)?;
        let place = Place::Nbd(Address::Unix(socket.into()));
        return Ok((place, export.trim_start_matches('/').to_owned()));
    }
    let (server, name) = rest.split_once('/').unwrap_or((rest, ""));
    let port = |default: u16| match server.contains(':') {
        true => server.to_owned(),
        false => format!("{server}:{default}"),
    };
    match scheme {
        "nbd" => Ok((Place::Nbd(Address::Tcp(port(10809))), name.to_owned())),
        "nvme" => Ok((Place::Nvme(port(4420)), name.to_owned())),
        _ => Err(help()),
    }
}

fn main() -> ExitCode {
    let arguments = match arguments(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("everglade-load: {problem}; see everglade-load --help");
            return ExitCode::from(2);
        }
    };
    let done = match arguments.verb {
        Verb::Oltp => oltp(&arguments),
        Verb::Knee => look_for_knee(&arguments),
        Verb::Fill => bytes_of(&arguments)
            .and_then(|bytes| load::fill(arguments.run.place.clone(), &arguments.run.export, bytes))
            .map(|()| true),
        Verb::Age => overwrite(&arguments),
        Verb::Scatter => scatter_all(&arguments).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("everglade-load: {}: {error}", arguments.run.export);
            ExitCode::FAILURE
        }
    }
}

fn bytes_of(arguments: &Arguments) -> std::io::Result<u64> {
    match arguments.run.bytes {
        Some(bytes) => Ok(bytes),
        None => arguments.run.place.size_bytes(&arguments.run.export),
    }
}

/// Returns false if a rate was too much.
fn oltp(arguments: &Arguments) -> std::io::Result<bool> {
    let printer = Printer::new(arguments.is_json);
    let mut all_kept_up = true;
    for rate in &arguments.rates {
        let run = Run {
            rate: *rate,
            ..arguments.run.clone()
        };
        let measured = run.run()?;
        all_kept_up &= !measured.is_overloaded;
        printer.row(*rate, &measured);
    }
    Ok(all_kept_up)
}

fn look_for_knee(arguments: &Arguments) -> std::io::Result<bool> {
    let printer = Printer::new(arguments.is_json);
    let tell = |row: &Row| printer.row(row.rate, &row.measured);
    let (_, knee) = search(&arguments.run, arguments.from, tell)?;
    printer.knee(knee);
    Ok(knee.is_some())
}

fn overwrite(arguments: &Arguments) -> std::io::Result<bool> {
    let bytes = bytes_of(arguments)?;
    let run = &arguments.run;
    let mut round = 0;
    let is_level = age(&run.place, &run.export, bytes, run.seed, |rate| {
        round += 1;
        match arguments.is_json {
            true => println!("{}", json!({"round": round, "requests_per_second": rate})),
            false => println!("round {round}: {rate:.0} overwrites/s"),
        }
    })?;
    if !arguments.is_json {
        println!(
            "{}",
            match is_level {
                true => "the last rounds are the same: it is old",
                false => "the rate still changes, after overwriting all of it eight times",
            }
        );
    }
    Ok(is_level)
}

fn scatter_all(arguments: &Arguments) -> std::io::Result<()> {
    let run = &arguments.run;
    let address = match &run.place {
        Place::Nbd(address) => address.clone(),
        Place::Nvme(address) => Address::Nvme(address.clone()),
    };
    let mut told = 0;
    scatter(&address, &run.export, run.bytes, run.seed, |done, all| {
        let tenth = done * 10 / all;
        if tenth > told && !arguments.is_json {
            told = tenth;
            println!("{} %", tenth * 10);
        }
    })
}

fn us(time: Duration) -> String {
    format!("{} us", time.as_micros())
}

/// Rows as a table, or as lines of JSON.
struct Printer {
    is_json: bool,
}

impl Printer {
    fn new(is_json: bool) -> Printer {
        if !is_json {
            println!(
                "{:>10} {:>10} {:>9}  {:>9} {:>9} {:>9} {:>9}  {:>9} {:>9}",
                "RATE", "ANSWERED", "MIB/S", "MEAN", "P50", "P99", "P99.9", "READ P99", "WRITE P99"
            );
        }
        Printer { is_json }
    }

    fn row(&self, rate: f64, measured: &Measured) {
        let points = measured.points();
        let (reads, writes) = (measured.reads.points(), measured.writes.points());
        if self.is_json {
            return println!("{}", as_json(rate, measured));
        }
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let mib = measured.bytes as f64 / measured.seconds.max(1e-9) / f64::from(1 << 20);
        println!(
            "{rate:>10.0} {:>10.0} {mib:>9.1}  {:>9} {:>9} {:>9} {:>9}  {:>9} {:>9}{}",
            measured.rate(),
            us(measured.mean()),
            us(points.p50),
            us(points.p99),
            us(points.p999),
            us(reads.p99),
            us(writes.p99),
            if measured.is_overloaded {
                "  too much"
            } else {
                ""
            }
        );
    }

    fn knee(&self, knee: Option<Point>) {
        match (self.is_json, knee) {
            (true, knee) => {
                let rate = knee.map(|point| point.rate);
                let latency = knee.map(|point| point.latency * 1e6);
                println!("{}", json!({"knee": {"rate": rate, "mean_us": latency}}));
            }
            (false, Some(point)) => println!(
                "\nknee: {:.0} requests/s at {:.0} us",
                point.rate,
                point.latency * 1e6
            ),
            (false, None) => println!("\nno knee was found"),
        }
    }
}

fn as_json(rate: f64, measured: &Measured) -> Value {
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let of = |points: Points| {
        json!({
            "p50_us": us(points.p50),
            "p99_us": us(points.p99),
            "p999_us": us(points.p999),
            "max_us": us(points.max),
        })
    };
    json!({
        "rate": rate,
        "answered_per_second": measured.rate(),
        "operations": measured.operations,
        "bytes": measured.bytes,
        "mean_us": us(measured.mean()),
        "all": of(measured.points()),
        "reads": of(measured.reads.points()),
        "writes": of(measured.writes.points()),
        "is_overloaded": measured.is_overloaded,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Option<Arguments>, String> {
        arguments(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn addresses_have_defaults_of_their_protocols() {
        let tcp = |address: &str| Place::Nbd(Address::Tcp(address.to_owned()));
        for (word, place, name) in [
            ("nbd://a:1/v/l", tcp("a:1"), "v/l"),
            ("nbd://a", tcp("a:10809"), ""),
            ("nvme://a/nqn.x", Place::Nvme("a:4420".to_owned()), "nqn.x"),
            (
                "nbd+unix:///v/l?socket=/run/s",
                Place::Nbd(Address::Unix("/run/s".into())),
                "v/l",
            ),
        ] {
            assert_eq!(address_of(word), Ok((place, name.to_owned())));
        }
        for word in ["a:1", "iscsi://a/b", "nbd+unix:///a"] {
            assert!(address_of(word).is_err(), "{word}");
        }
    }

    #[test]
    fn nothing_is_overwritten_without_a_word() {
        let refused = read(&["oltp", "nbd://a/vol0/lun0"]).unwrap_err();
        assert!(refused.contains("--overwrite"), "{refused}");
        let words = [
            "knee",
            "nbd://a/x",
            "--overwrite",
            "--bytes",
            "2GiB",
            "--from",
            "10",
        ];
        let taken = read(&words).unwrap().expect("no help");
        assert_eq!((taken.verb, taken.from), (Verb::Knee, 10.0));
        assert_eq!(taken.run.bytes, Some(2 << 30));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (words, said) in [
            (&["olpt"][..], "olpt"),
            (&["oltp"], "address"),
            (&["oltp", "nbd://a", "--rate", "0"], "rate"),
            (&["oltp", "nbd://a", "--bytes", "2GB"], "GiB"),
            (&["oltp", "nbd://a", "--connections", "0"], "1 to 256"),
            (&["oltp", "nbd://a", "--rate"], "value"),
        ] {
            let refused = read(words).unwrap_err();
            assert!(refused.contains(said), "{words:?}: {refused}");
        }
        assert!(read(&["oltp", "--help"]).unwrap().is_none());
    }
}
