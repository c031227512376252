//! A virtual machine under QEMU without hardware help, talked to line by line over its serial port.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Boot, all work and the end take half a minute on an idle machine of two cores.
const PATIENCE: Duration = Duration::from_secs(300);
/// What the guest says to us begins with this; the rest of the console is the kernel's.
const MARK: &str = "@@ ";

/// A running guest, killed when dropped.
pub(super) struct Machine {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    /// Everything on the console so far.
    console: String,
    begun: Instant,
}

impl Machine {
    /// Starts a guest with one network, 10.0.2.0/24, in which 10.0.2.2 is this machine.
    pub(super) fn start(kernel: &Path, initramfs: &Path) -> Machine {
        Machine::start_with(kernel, initramfs, &[])
    }

    /// Starts a guest that also has `networks`, such as 10.0.3.0/24.
    pub(super) fn start_with(kernel: &Path, initramfs: &Path, networks: &[&str]) -> Machine {
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args(["-accel", "tcg", "-cpu", "max", "-m", "768", "-smp", "1"])
            .args(["-display", "none", "-serial", "stdio", "-monitor", "none"])
            .args(["-no-reboot", "-nodefaults"])
            .args(["-netdev", "user,id=net", "-device"])
            .arg("virtio-net-pci,netdev=net,romfile=")
            .arg("-kernel")
            .arg(kernel)
            .arg("-initrd")
            .arg(initramfs)
            .args([
                "-append",
                "console=ttyS0 quiet panic=-1 random.trust_cpu=on",
            ]);
        for (number, network) in networks.iter().enumerate() {
            let netdev = format!("user,id=net{number},net={network}");
            let device = format!("virtio-net-pci,netdev=net{number},romfile=");
            command.args(["-netdev", &netdev, "-device", &device]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("qemu starts");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = child.stdout.take().expect("a pipe");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n') {
                let Ok(line) = line else { return };
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Machine {
            child,
            stdin,
            lines,
            console: String::new(),
            begun: Instant::now(),
        }
    }

    /// The next thing the guest says to us; `None` when it has ended.
    pub(super) fn next(&mut self) -> Option<String> {
        loop {
            let rest = PATIENCE.saturating_sub(self.begun.elapsed());
            match self.lines.recv_timeout(rest) {
                Ok(line) => {
                    self.console.push_str(&line);
                    self.console.push('\n');
                    if let Some((_, said)) = line.split_once(MARK) {
                        return Some(said.to_owned());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("the guest took longer than {PATIENCE:?}:\n{}", self.console)
                }
            }
        }
    }

    /// Answers the guest, which waits for that.
    pub(super) fn answer(&mut self, text: &str) {
        let line = format!("{text}\n");
        self.stdin.write_all(line.as_bytes()).expect("it listens");
        self.stdin.flush().expect("it listens");
    }

    /// What it printed, for whoever has to find out.
    pub(super) fn console(&self) -> &str {
        &self.console
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Both fail harmlessly when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- console of the guest ---\n{}", self.console);
        }
    }
}
