//! State that the handles of a world and its reactors share: devices, threads, bells.

use std::sync::{Arc, OnceLock};

use crate::DeviceId;
use crate::clock::Clock;
use crate::device::{Access, Budget, Device, OpenError, Table};
use crate::gauge::Gauge;
use crate::io_mode::IoReport;
use crate::lock::{Mutex, MutexGuard};
use crate::ring::Ring;
use crate::threads::Threads;
use crate::waker::Waker;
use crate::workers::Workers;

/// Threads for I/O without io_uring, and so the number of simultaneous transfers.
const CREW: usize = 32;

/// The state that handles and reactors share.
pub(crate) struct Shared {
    pub(crate) devices: Table,
    pub(crate) budget: Arc<Budget>,
    /// The budget with the time limit of blocking callers.
    pub(crate) blocking_budget: Budget,
    pub(crate) workers: Workers,
    /// Made when first needed.
    pub(crate) crew: OnceLock<Arc<Workers>>,
    /// Dropped before the table it measures.
    pub(crate) _gauge: Gauge,
    pub(crate) bells: Vec<Bell>,
    pub(crate) io: IoReport,
    pub(crate) clock: Clock,
    /// How devices are opened.
    pub(crate) access: Access,
}

/// A reactor's place.
pub(crate) struct Bell {
    pub(crate) waker: Arc<Waker>,
    /// True while the reactor is handed out.
    pub(crate) taken: Mutex<bool>,
}

impl Shared {
    pub(crate) fn admit(&self, device: Device) -> Result<DeviceId, OpenError> {
        if !self.budget.pin(device.pinned_files()) {
            return Err(device.refused_for_files());
        }
        let mut table = self.devices.write();
        let id = u32::try_from(table.len()).expect("devices are few");
        table.push(Some(Arc::new(device)));
        Ok(DeviceId(id))
    }

    pub(crate) fn devices(&self) -> Vec<Option<Arc<Device>>> {
        self.devices.read().clone()
    }

    pub(crate) fn device(&self, id: DeviceId) -> Option<Arc<Device>> {
        self.devices.read().get(id.0 as usize)?.clone()
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn wake(&self, reactor: usize) {
        self.bells[reactor].waker.wake();
    }

    pub(crate) fn give_back(&self, reactor: usize) {
        *lock(&self.bells[reactor].taken) = false;
    }

    /// Makes a ring for a reactor, if I/O is done by rings.
    pub(crate) fn ring(&self) -> std::io::Result<Option<Ring>> {
        match self.io {
            IoReport::Uring(setup) => Ring::with(setup).map(Some),
            IoReport::Threads { .. } => Ok(None),
        }
    }

    pub(crate) fn threads(&self, waker: Arc<Waker>) -> std::io::Result<Threads> {
        let crew = match self.crew.get() {
            Some(crew) => crew,
            None => {
                let crew = Arc::new(Workers::spawn("io", CREW)?);
                self.crew.get_or_init(|| crew)
            }
        };
        Ok(Threads::new(Arc::clone(crew), waker))
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
