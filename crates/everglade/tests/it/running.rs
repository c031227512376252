//! Starting the built binary, waiting for its ready line, and ending it.
//!
//! Everything lives in a temporary data directory; servers listen on a port the kernel picks and on
//! a socket in that directory. A server that a test forgets is killed when it is dropped.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// A first start lays out an aggregate; on a busy machine of two cores that may take a while.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// `everglade` with the machine's own settings shut out.
pub(crate) fn everglade(data_dir: &Path) -> Command {
    with_data_dir(Command::new(env!("CARGO_BIN_EXE_everglade")), data_dir)
}

/// As [`everglade`], but ended when it takes too long, because a start that should have been
/// refused would go on for ever. `timeout` is part of every Debian; 124 is its exit code.
fn everglade_at_most(seconds: &str, data_dir: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", seconds, env!("CARGO_BIN_EXE_everglade")]);
    with_data_dir(command, data_dir)
}

/// As [`everglade`], started by another program that sets limits or masks and then becomes it.
fn everglade_through(wrapper: &[&str], data_dir: &Path) -> Command {
    let mut command = Command::new(wrapper[0]);
    command
        .args(&wrapper[1..])
        .arg(env!("CARGO_BIN_EXE_everglade"));
    with_data_dir(command, data_dir)
}

fn with_data_dir(mut command: Command, data_dir: &Path) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("EVERGLADE_") {
            command.env_remove(name);
        }
    }
    command
        .env("EVERGLADE_CONFIG", "/dev/null")
        .env("EVERGLADE_METRICS_TCP", ":0")
        // A test that runs at the full hour finds the snapshots that it took, and no others.
        .env("EVERGLADE_SNAPSHOT_POLICY", "none")
        .env("EVERGLADE_DATA_DIR", data_dir);
    command.env_remove("NOTIFY_SOCKET").stdin(Stdio::null());
    command
}

/// Exit code of a finished process, as a shell shows it: 128 + signal when killed.
pub(crate) fn code(output: &Output) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    let status = output.status;
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .expect("an end")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A temporary directory with a place for data in it and room for files beside.
pub(crate) struct TestDir {
    keep: tempfile::TempDir,
}

impl TestDir {
    pub(crate) fn new() -> TestDir {
        TestDir {
            keep: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    /// As [`TestDir::new`], on the file system `folder` is on.
    pub(crate) fn within(folder: &Path) -> TestDir {
        TestDir {
            keep: tempfile::tempdir_in(folder).expect("a temporary directory"),
        }
    }

    /// Not created yet.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.keep.path().join("data")
    }

    /// A file of that name beside the data directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.keep.path().join(name)
    }

    /// Runs a verb to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        everglade(&self.data_dir())
            .args(args)
            .output()
            .expect("the binary runs")
    }

    /// A command of a shell in which `everglade` is the built binary and `$D` the folder of this
    /// directory; ended when it takes too long.
    pub(crate) fn shell(&self, command: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_everglade"));
        let folder = program.parent().and_then(Path::to_str).expect("UTF-8");
        let path = format!("{folder}:{}", std::env::var("PATH").expect("a PATH"));
        let mut shell = with_data_dir(Command::new("timeout"), &self.data_dir());
        shell
            .args(["--kill-after=5", "120", "sh", "-c", command])
            .env("PATH", path)
            .env("D", self.keep.path())
            .current_dir(self.keep.path());
        shell
    }

    /// Starts a server that is expected to refuse, and waits for its end.
    pub(crate) fn serve_in_vain(&self, args: &[&str]) -> Output {
        everglade_at_most("60", &self.data_dir())
            .args(["serve", "--nbd-tcp", ":0"])
            .args(args)
            .output()
            .expect("timeout runs")
    }

    /// Starts a server and waits until it is ready.
    pub(crate) fn serve(&self, args: &[&str]) -> Server {
        self.try_serve(args).unwrap_or_else(|output| {
            panic!("no ready line ({}): {}", output.status, stderr(&output))
        })
    }

    /// Starts a server and waits until it is ready or has refused.
    pub(crate) fn try_serve(&self, args: &[&str]) -> Result<Server, Output> {
        Server::start(everglade(&self.data_dir()), self, args)
    }

    /// As [`TestDir::try_serve`], started by another program that becomes the server.
    pub(crate) fn try_serve_through(
        &self,
        wrapper: &[&str],
        args: &[&str],
    ) -> Result<Server, Output> {
        Server::start(everglade_through(wrapper, &self.data_dir()), self, args)
    }
}

/// Where the server of a ready line listens for a protocol.
#[track_caller]
fn address_in(line: &str, protocol: &str) -> String {
    let of_protocol = |word: &str| Some(word.strip_prefix(protocol)?.strip_prefix('=')?.to_owned());
    let found = line.split(' ').find_map(of_protocol);
    found.unwrap_or_else(|| panic!("no {protocol} in: {line}"))
}

/// A ready server.
pub(crate) struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    log: PathBuf,
    /// `127.0.0.1:PORT`.
    pub(crate) tcp: String,
    /// Path of the socket.
    pub(crate) unix: String,
    /// `127.0.0.1:PORT` of metrics and health, or `off`.
    pub(crate) metrics: String,
    /// The whole ready line.
    pub(crate) ready: String,
}

impl Server {
    fn start(mut command: Command, dir: &TestDir, args: &[&str]) -> Result<Server, Output> {
        let log = dir.file("server.log");
        let append = File::options()
            .append(true)
            .create(true)
            .open(&log)
            .expect("a log");
        let begun = append.metadata().expect("its length").len();
        let mut child = command
            .args(["serve", "--nbd-tcp", ":0"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(append)
            .spawn()
            .expect("the binary starts");
        let stdout = child.stdout.take().expect("a pipe");
        let (line, stdout) = first_line(stdout);
        let Some(line) = line else {
            let status = child.wait().expect("stdout was closed, so this is the end");
            let said = read(&log);
            let begun = usize::try_from(begun).expect("short");
            return Err(Output {
                status,
                stdout: Vec::new(),
                stderr: said.as_bytes()[begun..].to_vec(),
            });
        };
        assert!(line.starts_with("ready nbd="), "not a ready line: {line}");
        Ok(Server {
            child,
            stdout,
            log,
            tcp: address_in(&line, "nbd"),
            unix: address_in(&line, "nbd-unix"),
            metrics: address_in(&line, "metrics"),
            ready: line,
        })
    }

    /// `nbd://127.0.0.1:PORT/EXPORT`.
    pub(crate) fn uri(&self, export: &str) -> String {
        format!("nbd://{}/{export}", self.tcp)
    }

    /// `nbd+unix:///EXPORT?socket=PATH`.
    pub(crate) fn unix_uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.unix)
    }

    /// Where it listens for a protocol, by the protocol's name in the ready line.
    #[track_caller]
    pub(crate) fn address(&self, protocol: &str) -> String {
        address_in(&self.ready, protocol)
    }

    /// What it proposes to a person after the ready line; once.
    pub(crate) fn banner(&mut self) -> String {
        let mut text = String::new();
        while !text.contains("Ctrl-C") {
            let read = self.stdout.read_line(&mut text).expect("stdout is text");
            assert_ne!(read, 0, "the end of: {text}");
        }
        text
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a status").is_none()
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .expect("a pid");
        kill_process(pid, signal).expect("our own child");
    }

    /// SIGTERM, without waiting for the end.
    pub(crate) fn ask_to_stop(&self) {
        self.signal(Signal::TERM);
    }

    /// SIGTERM; asserts that the end is clean, and returns what was left on stdout.
    pub(crate) fn stop(self) -> String {
        self.ask_to_stop();
        self.stop_asked()
    }

    /// The clean end that was asked for before; what was left to read of its stdout.
    pub(crate) fn stop_asked(mut self) -> String {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("stdout");
        let status = self.child.wait().expect("an end");
        assert_eq!(
            status.code(),
            Some(0),
            "{status} after SIGTERM; log:\n{}",
            read(&self.log)
        );
        rest
    }

    /// SIGTERM; the exit code, if it was not killed, and the log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        self.signal(Signal::TERM);
        let status = self.child.wait().expect("an end");
        (status.code(), self.log())
    }

    /// What it has logged so far, earlier servers of the same directory included.
    pub(crate) fn log(&self) -> String {
        read(&self.log)
    }

    /// SIGKILL, as a crash of the process.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("an end");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail harmlessly when the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- log of the server ---\n{}", read(&self.log));
        }
    }
}

fn read(log: &Path) -> String {
    fs::read_to_string(log).unwrap_or_else(|error| error.to_string())
}

/// The first line, or `None` at the end of the stream or after too long. The reader is handed back
/// through the same channel, so a silent server blocks only a thread of its own.
fn first_line(stdout: ChildStdout) -> (Option<String>, BufReader<ChildStdout>) {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut line = String::new();
        let length = reader.read_line(&mut line).expect("stdout is text");
        // Nobody may be waiting any more.
        let _ = sender.send(((length > 0).then(|| line.trim_end().to_owned()), reader));
    });
    let outcome = receiver.recv_timeout(READY_WITHIN);
    outcome.unwrap_or_else(|_| panic!("no ready line within {READY_WITHIN:?}"))
}
