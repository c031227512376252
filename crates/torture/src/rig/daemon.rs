//! The built binary as a real process: started, asked, killed, and what it leaves checked.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::programs::Owned;
use crate::client::Address;
use crate::{Failure, Tally};

/// Replaying a full journal on a busy machine takes long; more than this is a hang.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// A data directory and the binary that serves it.
pub struct Installation {
    everglade: PathBuf,
    folder: PathBuf,
    environment: Vec<(String, String)>,
}

/// A server that ended instead of getting ready.
#[derive(Debug)]
pub struct Refusal(pub String);

impl Installation {
    /// Everything will be below `folder`.
    #[must_use]
    pub fn new(everglade: &Path, folder: &Path) -> Installation {
        Installation {
            everglade: everglade.to_owned(),
            folder: folder.to_owned(),
            environment: Vec::new(),
        }
    }

    /// From now on, every process sees this variable.
    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Where the data directory is.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.everglade);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("EVERGLADE_") {
                command.env_remove(name);
            }
        }
        command
            .env("EVERGLADE_CONFIG", "/dev/null")
            .env("EVERGLADE_SNAPSHOT_POLICY", "none")
            .env("EVERGLADE_DATA_DIR", self.data_dir())
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null());
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        command
    }

    /// Runs a verb to its end.
    ///
    /// # Errors
    /// If the binary cannot be started.
    pub fn run<S: AsRef<OsStr>>(&self, words: &[S]) -> Result<Output, Failure> {
        let output = self.command().args(words).output();
        output.map_err(|error| Failure::at("run", &self.everglade, &error))
    }

    /// Runs a verb that must succeed.
    ///
    /// # Errors
    /// If it does not.
    pub fn must<S: AsRef<OsStr>>(&self, words: &[S]) -> Result<(), Failure> {
        let output = self.run(words)?;
        if output.status.success() {
            return Ok(());
        }
        let words: Vec<_> = words
            .iter()
            .map(|word| word.as_ref().to_string_lossy())
            .collect();
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Failure::Rig(format!(
            "everglade {}: {said}",
            words.join(" ")
        )))
    }

    /// `everglade check` of what a dead server left.
    ///
    /// # Errors
    /// [`Failure::Broken`] if it finds anything, or cannot read it.
    pub fn check(&self, tally: &mut Tally) -> Result<(), Failure> {
        let begun = Instant::now();
        let output = self.run(&["check"])?;
        tally.checks += 1;
        tally.check_time += begun.elapsed();
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        Err(Failure::Broken(format!(
            "everglade check, {}:\n{}",
            output.status,
            String::from_utf8_lossy(&said)
        )))
    }

    /// Starts a server and waits until it is ready.
    ///
    /// # Errors
    /// [`Failure::Broken`] if it refuses or hangs.
    pub fn serve(&self, words: &[&str]) -> Result<Daemon, Failure> {
        self.try_serve(words)?
            .map_err(|Refusal(said)| Failure::Broken(format!("the server did not start: {said}")))
    }

    /// Starts a server and waits until it is ready or has refused.
    ///
    /// # Errors
    /// [`Failure::Rig`] if nothing could be started at all.
    pub fn try_serve(&self, words: &[&str]) -> Result<Result<Daemon, Refusal>, Failure> {
        let log = self.folder.join("server.log");
        let append = File::options().append(true).create(true).open(&log);
        let append = append.map_err(|error| Failure::at("open", &log, &error))?;
        let begun = append.metadata().map_or(0, |metadata| metadata.len());
        let mut command = self.command();
        command
            .args(["serve", "--nbd-tcp", ":0"])
            .args(words)
            .stdout(Stdio::piped())
            .stderr(append);
        let since = Instant::now();
        let mut process = Owned::spawn(&mut command, "the server")?;
        let Some(stdout) = process.0.stdout.take() else {
            return Err(Failure::Rig("the server has no stdout".to_owned()));
        };
        let Some(line) = first_line(stdout) else {
            process.kill();
            let begun = usize::try_from(begun).unwrap_or(0);
            let said = fs::read_to_string(&log).unwrap_or_default();
            let said = said.get(begun..).unwrap_or(&said).to_owned();
            return Ok(Err(Refusal(said)));
        };
        let field = |name: &str| {
            let found = line.split(' ').find_map(|word| word.strip_prefix(name));
            found
                .map(str::to_owned)
                .ok_or_else(|| Failure::Rig(format!("no {name} in: {line}")))
        };
        Ok(Ok(Daemon {
            tcp: Address::Tcp(field("nbd=")?),
            unix: Address::Unix(field("nbd-unix=")?.into()),
            nvme: field("nvme=").ok(),
            iscsi: field("iscsi=").ok(),
            metrics: field("metrics=").ok(),
            ready_after: since.elapsed(),
            process,
            log,
        }))
    }
}

/// A ready server; killed when dropped.
pub struct Daemon {
    process: Owned,
    log: PathBuf,
    /// Its TCP port.
    pub tcp: Address,
    /// Its socket.
    pub unix: Address,
    /// Its address for NVMe/TCP, if that is on.
    pub nvme: Option<String>,
    /// Its address for iSCSI, if that is on.
    pub iscsi: Option<String>,
    /// The address of its metrics, if it serves them over TCP.
    pub metrics: Option<String>,
    /// From its start to its ready line.
    pub ready_after: Duration,
}

impl Daemon {
    /// Where clients can connect, over every protocol that is on.
    #[must_use]
    pub fn addresses(&self) -> Vec<Address> {
        let is_on = |at: &Option<String>| at.clone().filter(|at| at != "off");
        let mut addresses = vec![self.unix.clone(), self.tcp.clone()];
        addresses.extend(is_on(&self.nvme).map(Address::Nvme));
        addresses.extend(is_on(&self.iscsi).map(Address::Iscsi));
        addresses
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// SIGKILL, as a crash of the process.
    pub fn kill(mut self) {
        self.process.kill();
    }

    /// What it has logged so far, earlier servers of the same directory included.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// True if it is gone without having been killed.
    pub fn has_ended(&mut self) -> bool {
        self.process.has_ended()
    }
}

/// The first line, or `None` at the end of the stream or after too long. The rest is read and
/// dropped, so that the server never gets a broken pipe.
fn first_line(stdout: ChildStdout) -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut line = String::new();
        let is_read = reader.read_line(&mut line).is_ok_and(|length| length > 0);
        // Nobody may be waiting any more.
        let _ = sender.send(is_read.then(|| line.trim_end().to_owned()));
        let _ = reader.read_to_string(&mut String::new());
    });
    receiver.recv_timeout(READY_WITHIN).ok().flatten()
}
