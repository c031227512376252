//! `cargo xtask judge rest`: Schemathesis asks a real daemon, rightly and wrongly, whatever its
//! OpenAPI description allows, and compares the answers with it. Part of `test`; bounded in time,
//! and skipped where it cannot be had.
//!
//! It is a program in Python, installed once by pip into a folder of its own below the target
//! directory. The token it gets is an operator's: with an administrator's it would make aggregates,
//! each of which writes a journal.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use crate::generate::Binary;
use crate::step::{begin, end};
use crate::tally::Tally;
use crate::{Usage, place};

/// What is known to understand the description.
const VERSION: &str = "4.32.5";
/// For asking; the end takes some more.
const SECONDS: &str = "40";
const TOKEN: &str = "judge-0123456789abcdef0123456789abcdef";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance,negative_data_rejection";

/// The verb.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Usage> {
    match words {
        [word] if word == "rest" => {}
        [] => return Err(Usage("which suite? there is: rest".to_owned())),
        [word, ..] => return Err(Usage(format!("no suite '{word}'; there is: rest"))),
    }
    let mut tally = Tally::default();
    verify(&mut tally, &Binary::built_by_tests());
    Ok(tally.finish())
}

/// Part of `test`.
pub(crate) fn verify(tally: &mut Tally, binary: &Binary) {
    let name = "REST, judged by Schemathesis";
    let begun = begin(name);
    let Binary::Built(program) = binary else {
        println!("there is no release build; run 'cargo build --release' first");
        return tally.skip("no release build for Schemathesis to ask");
    };
    let suite = match installed() {
        Ok(suite) => suite,
        Err(problem) => {
            println!("Schemathesis {VERSION} cannot be had: {problem}");
            return tally.skip("Schemathesis cannot be had (python3 -m venv, pip install)");
        }
    };
    let outcome = Daemon::start(program).and_then(|daemon| daemon.judge(&suite));
    end(name, begun, outcome.is_ok());
    match outcome {
        Ok(()) => tally.pass(1),
        Err(problem) => tally.fail(format!("{name}: {problem}")),
    }
}

/// The suite's program, installed now if it is not there.
fn installed() -> Result<PathBuf, String> {
    let this = std::env::current_exe().ok();
    let target = this.and_then(|this| Some(this.parent()?.parent()?.to_owned()));
    let target = target.unwrap_or_else(|| place::root().join("target"));
    let folder = target.join(format!("judges/schemathesis-{VERSION}"));
    let program = folder.join("bin/schemathesis");
    if program.is_file() {
        return Ok(program);
    }
    let python = folder.join("bin/python");
    let wanted = format!("schemathesis=={VERSION}");
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ];
    let installed =
        quiet(Command::new("python3").args(["-m", "venv"]).arg(&folder)).and_then(|()| {
            let mut command = Command::new("timeout");
            command.arg("300").arg(python).args(pip);
            quiet(command.args(["--timeout", "20", "--retries", "1", &wanted]))
        });
    match installed {
        Ok(()) => Ok(program),
        Err(problem) => {
            // Half of it would be taken for the whole. If it was never made, that is fine too.
            let _ = fs::remove_dir_all(&folder);
            Err(problem)
        }
    }
}

/// Runs something that must succeed; the last line of what it says is the problem.
fn quiet(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    Err(last.unwrap_or("it said nothing").to_owned())
}

/// A daemon in a folder that goes with it.
struct Daemon {
    child: Child,
    folder: PathBuf,
    address: String,
}

impl Daemon {
    fn start(program: &Path) -> Result<Daemon, String> {
        let name = format!("everglade-judge-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let problem = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(problem)?;
        let tokens = folder.join("tokens");
        let mut options = fs::File::options();
        let file = options.write(true).create(true).truncate(true).mode(0o600);
        let line = format!("judge operator {TOKEN}\n");
        file.open(&tokens)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .map_err(problem)?;
        let mut command = Command::new(program);
        command
            .args(["serve", "--nbd-tcp", "off", "--metrics-tcp", "off"])
            .args(["--aggregate-size", "1GiB", "--lun-size", "16MiB"])
            .args(["--api-tcp", "127.0.0.1:0", "--api-tokens"])
            .arg(&tokens)
            .arg("--data-dir")
            .arg(folder.join("data"))
            .env("EVERGLADE_CONFIG", "/dev/null")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let stdout = child.stdout.take().map(BufReader::new);
        let lines = stdout.into_iter().flat_map(BufRead::lines);
        let ready = lines
            .map_while(Result::ok)
            .find(|line| line.starts_with("ready "));
        let address = ready.and_then(|line| {
            let mut words = line.split(' ');
            words.find_map(|word| Some(word.strip_prefix("api-tcp=")?.to_owned()))
        });
        let mut daemon = Daemon {
            child,
            folder,
            address: String::new(),
        };
        // From here on it ends when this is dropped.
        daemon.address = address.ok_or("the daemon is not ready, or has no REST over TCP")?;
        Ok(daemon)
    }

    fn judge(mut self, suite: &Path) -> Result<(), String> {
        let url = format!("http://{}", self.address);
        let output = Command::new(suite)
            .args(["run", &format!("{url}/v1/openapi.json"), "--url", &url])
            .args(["--header", &format!("Authorization: Bearer {TOKEN}")])
            .args(["--checks", CHECKS, "--max-time", SECONDS])
            .args(["--seed", "4", "--workers", "1", "--no-color"])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<_> = said.lines().collect();
        let shown = if output.status.success() { 12 } else { 120 };
        for line in &lines[lines.len().saturating_sub(shown)..] {
            println!("{line}");
        }
        let ended = self.child.try_wait().ok().flatten();
        match (output.status.success(), ended) {
            (_, Some(status)) => Err(format!("the daemon ended meanwhile: {status}")),
            (false, None) => Err("an answer is not as described, see above".to_owned()),
            (true, None) => Ok(()),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let id = self.child.id().to_string();
        // If it has ended already, there is nothing to stop.
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
