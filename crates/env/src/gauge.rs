//! Asks the host once a second how much room it has, on a thread of its own: a host file system
//! that hangs must not hold up a reactor, nor the workers. The same thread returns unused memory to
//! the kernel.

use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender};

use crate::device::Table;
use crate::page::pool::{Watch, give_back_spare};

const INTERVAL: Duration = Duration::from_secs(1);

/// Stops when dropped.
pub(crate) struct Gauge {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gauge {
    pub(crate) fn start(table: Table) -> std::io::Result<Gauge> {
        let (stop, stopped) = crossbeam_channel::bounded(0);
        let work = move || {
            let mut watch = Watch::default();
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                give_back_spare(&mut watch);
                let devices = table.read().clone();
                devices
                    .iter()
                    .flatten()
                    .for_each(|device| device.measure_host());
            }
        };
        let thread = std::thread::Builder::new()
            .name("gauge".to_owned())
            .spawn(work)?;
        Ok(Gauge {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}
