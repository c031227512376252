//! What a reactor works for at each moment ([`crate::pool::cpu`]).

use everglade_env::Outside;

use crate::home::run::Phase;
use crate::pool::cpu::Subsystem;
use crate::reactor::loading::{Inflight, Reader};
use crate::reactor::{Core, Work};

impl<O: Outside> Core<O> {
    /// The reactor works for a subsystem from now on. Returns the one before.
    pub fn enter(&mut self, subsystem: Subsystem) -> Subsystem {
        let outside = &self.outside;
        self.meter.enter(subsystem, || outside.now())
    }

    /// The reactor is about to wait for sockets, devices, timers and messages.
    pub fn rest(&mut self) {
        self.enter(Subsystem::Device);
        if self.meter.is_full() {
            let cpu = self.outside.thread_cpu();
            self.meter.fold(cpu, &self.shared.cpu[self.index]);
        }
    }

    /// The reactor works for an operation from now on.
    pub(super) fn enter_for(&mut self, id: usize) {
        let subsystem = match &self.operations[id].work {
            Work::Client(_) | Work::Merge(..) | Work::Ahead(_) | Work::Durable(_) => {
                Subsystem::Client
            }
            Work::Mount(_) | Work::Replay(_) => Subsystem::Background,
            // It says so itself, in each step.
            Work::ConsistencyPoint(_) => return,
        };
        self.enter(subsystem);
    }

    /// The reactor works for the completion of a device operation from now on.
    pub(super) fn enter_for_completion(&mut self, inflight: &Inflight) {
        let subsystem = match inflight {
            Inflight::Read { reader, .. } => match reader {
                Reader::Client | Reader::Nobody => Subsystem::Client,
                Reader::Ourselves => Subsystem::Infrastructure,
            },
            Inflight::Probe { .. } => Subsystem::Client,
            Inflight::Write { .. }
            | Inflight::Wanted { .. }
            | Inflight::Prepare { .. }
            | Inflight::Punch { .. } => Subsystem::Infrastructure,
            Inflight::Log { .. } => Subsystem::Journal,
            Inflight::Column { .. } | Inflight::ColumnRun { .. } => Subsystem::Parity,
            Inflight::Replay { .. } | Inflight::Scrub { .. } | Inflight::ScrubColumn { .. } => {
                Subsystem::Background
            }
            // The whole operation says so, when all parts are there.
            Inflight::Part { .. } => return,
        };
        self.enter(subsystem);
    }
}

/// What a phase of a consistency point belongs to; none: it is about to begin.
pub(super) fn subsystem_of(phase: Option<Phase>, has_parity: bool) -> Subsystem {
    match phase {
        Some(Phase::Drain | Phase::Clean) => Subsystem::Cleaner,
        Some(Phase::Plan | Phase::Repair | Phase::Reclaim) => Subsystem::Background,
        Some(Phase::Write) if has_parity => Subsystem::Parity,
        // The stage, and the phases after it.
        _ => Subsystem::Infrastructure,
    }
}
