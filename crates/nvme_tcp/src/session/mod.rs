//! One connection as a state machine: one queue of a controller.
//!
//! ```text
//! Initialize request -> Connect -> commands, data, answers
//!                          |            |       a message that makes no sense, end of stream,
//!                          +------------+-----> controller or LUN gone, server stopping
//!                                     draining -- no operation in flight,
//!                                                 nothing left to send ----> closed
//! ```
//!
//! The owner moves bytes: it fills the memory of `receive_buffers` and reports with `received`; it
//! sends the bytes of `transmit_buffers` and reports with `transmitted`; it passes on completions
//! with `completed`. Each of these calls does everything that has become possible.
//!
//! Invariants:
//!
//! 1. Bytes are interpreted in the order received. Data that arrives after its message's header is
//!    received in place.
//! 2. Memory is bounded by what the sessions of a table have together
//!    (`everglade_target::sessions::memory`). A command is charged when it is admitted, and data
//!    from the host when it arrives. The host is asked for data at once and without memory: if
//!    there is none when the data comes, the session stops reading, as it does for a command.
//! 3. A session may wait for memory while the host still has to send data of an earlier write. It
//!    holds memory for that data, and gives it back only after it has gone on. Two such sessions
//!    could wait for each other, so each waits ten seconds at most (`Session::look_around`).
//! 4. A command is one operation, so it is atomic; exceptions are Compare, Verify, Copy and Dataset
//!    Management, which promise nothing about a moment.
//! 5. A command is answered once, and its id is free when the answer is queued.
//! 6. No command is carried out for a controller that has ended. LUNs are closed after the last
//!    operation in flight has completed.
//!
//! | file | what |
//! | --- | --- |
//! | `receiving` | messages of the host |
//! | `connect` | the first command |
//! | `judge`, `plan` | whether a command is carried out, and what it needs |
//! | `running` | commands of input and output, from their data to their end |
//! | `fused` | Compare and Write as one |
//! | `reservations` | who may use a namespace |
//! | `admin` | what the admin queue's session is besides |
//! | `identify`, `log_pages` | what hosts ask a controller |
//! | `answers` | completions and data for the host |
//! | `serving` | the session as its table sees it |

mod admin;
mod answers;
mod command_ids;
mod connect;
mod fused;
mod identify;
mod judge;
mod log_pages;
mod outgoing;
mod plan;
mod queue;
mod receiving;
mod requests;
mod reservations;
mod running;
mod serving;
pub mod settings;

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use everglade_env::Nanos;
use everglade_target::reservations::Ticket;
use everglade_target::sessions::memory::Reservation;
use everglade_target::sessions::seats::OWN_BITS;
use everglade_target::sessions::{Caller, Common, Ledger, Staging, State};
use everglade_target::{Error, Reply, Target, Token};

use crate::SessionMetrics;
use crate::wire::Digests;
use crate::wire::pdu::{Fatal, PduKind, encode_termination};
use connect::HomeQuestion;
use outgoing::Outgoing;
use queue::Queue;
use receiving::Receiving;
use requests::Requests;
pub use settings::Settings;

/// Least remainder of data that is received by a call of its own. For fewer bytes, copying twice
/// costs less than a call.
const LONG_DATA_BYTES: usize = 16 << 10;
/// Time after which a session that waits for memory ends, if its host owes it data.
const PATIENCE: Nanos = 10_000_000_000;

/// A connection.
pub struct Session {
    settings: Settings,
    staging: Staging,
    outgoing: Outgoing,
    ledger: Ledger,
    phase: Phase,
    state: State,
    receiving: Receiving,
    requests: Requests,
    /// Commands at the front of the staging buffer that were announced to the target.
    foreseen: usize,
    digests: Digests,
    /// The host wants our data at multiples of so many bytes.
    alignment: usize,
    /// A bound was met at this time; staged bytes wait.
    stalled_since: Option<Nanos>,
    bytes_sent: u64,
    /// Added to the tokens of this session's operations.
    token_base: Token,
    metrics: Arc<SessionMetrics>,
    caller: Caller,
    home: HomeQuestion,
    /// Rows of commands that changed reservations, and are answered when that is kept.
    keeping: Vec<(usize, Ticket)>,
}

enum Phase {
    /// The first message has not come.
    Initialize,
    /// The first command has not come, or waits for the answer to the session's question.
    Connect,
    /// A queue of a controller.
    Queue(Box<Queue>),
}

/// The result of one step of receiving.
enum StepEnd {
    /// Something was done; there may be more in the staging buffer.
    Again,
    /// The next message is incomplete.
    NeedBytes,
    /// A bound was met.
    Stalled,
    /// The owner is to say where this export will be opened; then the same step again.
    AskForHome(Box<str>),
    /// The message at the front of the staging buffer makes no sense.
    Fatal(Fatal),
    /// The session ends.
    End,
}

impl Session {
    fn within(token_base: Token, caller: Caller, common: &Common<Self>) -> Self {
        assert!(
            token_base.trailing_zeros() >= OWN_BITS,
            "the session's own part of its tokens is free"
        );
        let settings = common.settings.clone().checked();
        let home = match settings.asks_for_home {
            true => HomeQuestion::Unasked,
            false => HomeQuestion::Settled,
        };
        Session {
            ledger: Ledger::new(Arc::clone(&common.memory), settings.payload_in_flight_max),
            settings,
            staging: Staging::default(),
            outgoing: Outgoing::default(),
            phase: Phase::Initialize,
            state: State::Open,
            receiving: Receiving::Header,
            requests: Requests::default(),
            foreseen: 0,
            digests: Digests::default(),
            alignment: 4,
            stalled_since: None,
            bytes_sent: 0,
            token_base,
            metrics: Arc::clone(&common.metrics),
            caller,
            home,
            keeping: Vec::new(),
        }
    }

    fn name_receive_buffers<'a>(&'a mut self, buffers: &mut [IoSliceMut<'a>]) -> usize {
        let mut count = 0;
        let mut staged = usize::MAX;
        if let Receiving::Data { row, rest, .. } = self.receiving {
            let mut unfilled = 0;
            for piece in self.requests.row(row).payload.unfilled(rest) {
                if count == buffers.len() {
                    return count;
                }
                unfilled += piece.len();
                buffers[count] = IoSliceMut::new(piece);
                count += 1;
            }
            // More data of this kind probably follows. Only its header is received here: further
            // bytes would be copied once more on their way into pages.
            if unfilled >= LONG_DATA_BYTES {
                staged = PduKind::Command.header_bytes();
            }
        }
        if count < buffers.len() {
            let allowed = self.ledger.memory().staging_bytes();
            self.staging.resize(self.settings.staging_bytes(allowed));
            let free = self.staging.free();
            let room = free.len().min(staged);
            buffers[count] = IoSliceMut::new(&mut free[..room]);
            count += 1;
        }
        count
    }

    fn take_received(&mut self, bytes: usize, target: &mut dyn Target) {
        assert!(self.may_read(), "received while not reading");
        let mut direct = 0;
        if let Receiving::Data { row, rest, .. } = &mut self.receiving {
            let here = u32::try_from(bytes).unwrap_or(u32::MAX).min(*rest);
            *rest -= here;
            self.requests.row(*row).payload.fill(here);
            direct = here as usize;
        }
        self.staging.filled(bytes - direct);
        self.advance(target);
    }

    fn may_read(&self) -> bool {
        let is_asking = matches!(self.home, HomeQuestion::Asked(_));
        self.state == State::Open && self.stalled_since.is_none() && !is_asking
    }

    /// Interprets staged bytes until some are missing, a bound is met or the session ends.
    fn advance(&mut self, target: &mut dyn Target) {
        let mut was_stalled = self.stalled_since.take();
        self.ledger.begin();
        while self.state == State::Open {
            match self.step(target) {
                StepEnd::Again => was_stalled = None,
                StepEnd::NeedBytes => break,
                StepEnd::Stalled => {
                    self.stalled_since = was_stalled.or(Some(self.metrics.now()));
                    break;
                }
                StepEnd::AskForHome(export) => {
                    self.home = HomeQuestion::Asked(export);
                    break;
                }
                StepEnd::Fatal(fatal) => self.terminate(fatal),
                StepEnd::End => self.drain(),
            }
        }
        self.settle(target);
    }

    /// Tells the host why the connection ends, and ends it.
    fn terminate(&mut self, fatal: Fatal) {
        let about = self.staging.bytes();
        let kind = PduKind::ControllerTerminates;
        let message = encode_termination(kind, fatal, about);
        self.drain();
        self.outgoing.push_message(&message);
    }

    /// Stops receiving. Commands whose data is incomplete are forgotten.
    fn drain(&mut self) {
        if self.state != State::Open {
            return;
        }
        self.state = State::Draining;
        self.stalled_since = None;
        self.receiving = Receiving::Header;
        self.staging = Staging::default();
        self.ledger.begin();
        for row in self.requests.resting() {
            // The first half of an operation in flight is answered with the second.
            if self.is_half_in_flight(row) {
                continue;
            }
            let held = self.requests.remove(row).held;
            self.ledger.give(held);
        }
        // Nobody waits for these any more; the changes stand or fall without them.
        self.keeping.clear();
        // A host without an admin queue has no controller.
        if let Phase::Queue(queue) = &self.phase
            && queue.is_admin()
        {
            queue.controller.end();
        }
    }

    /// Ends the session because its stream is broken.
    fn forget_peer(&mut self) {
        self.drain();
        if self.state == State::Draining {
            self.state = State::Abandoned;
            let released = self.outgoing.clear();
            self.ledger.give_all(released);
        }
    }

    /// Closes a draining session that has nothing left to wait for.
    fn settle(&mut self, target: &mut dyn Target) {
        let is_draining = matches!(self.state, State::Draining | State::Abandoned);
        if !is_draining || !self.requests.is_empty() || !self.outgoing.is_empty() {
            return;
        }
        self.state = State::Closed;
        if let Phase::Queue(queue) = &mut self.phase {
            queue.namespaces().for_each(|it| target.close(it.lun));
            queue.report_work();
            if queue.is_admin() {
                self.settings.registry.forget(queue.controller.id());
            } else {
                let operations = &queue.operations;
                queue.controller.leave(queue.id, queue.epoch, operations);
            }
        }
    }

    /// Tries again what failed for lack of memory or room.
    fn go_on(&mut self, target: &mut dyn Target) {
        if self.stalled_since.is_some() {
            self.advance(target);
        }
    }

    /// Returns whether the session will be ended if it cannot go on: see invariant 3.
    fn blocks_itself(&self) -> bool {
        self.stalled_since.is_some() && (self.requests.incomplete > 0 || self.requests.asked > 0)
    }

    fn complete(&mut self, token: Token, result: Result<Reply, Error>, target: &mut dyn Target) {
        let low = token.checked_sub(self.token_base);
        let row = self.requests.ended(low.expect("a token of this session"));
        self.publish_operations();
        // The LUN was deleted, or its aggregate failed: acknowledged and unflushed data may be
        // lost, and a host must not notice this on a controller that stays
        // (docs/design/design.md §5).
        let lun = self.requests.row(row).lun;
        let is_gone = matches!(result, Err(Error::Gone))
            || result.is_err() && target.size_bytes(lun).is_none();
        self.operation_ended(row, result, target);
        if is_gone {
            self.end_controller();
        }
        self.go_on(target);
        self.settle(target);
    }

    /// Returns whether the controller carries out no more commands of this queue.
    fn is_over(&self) -> bool {
        matches!(&self.phase, Phase::Queue(queue) if queue.is_over())
    }

    /// Tells the controller how many operations are under way.
    #[inline]
    fn publish_operations(&self) {
        if let Phase::Queue(queue) = &self.phase {
            let count = self.requests.operations();
            queue.operations.store(count, Ordering::Release);
        }
    }

    /// Ends the controller, with all of its queues.
    fn end_controller(&mut self) {
        if let Phase::Queue(queue) = &self.phase {
            queue.controller.end();
        }
        self.drain();
    }

    fn note_sent(&mut self, bytes: usize, target: &mut dyn Target) {
        self.bytes_sent += bytes as u64;
        let released = self.outgoing.transmitted(bytes);
        self.ledger.give_all(released);
        self.go_on(target);
        self.settle(target);
    }

    fn name_transmit_buffers<'a>(&'a self, buffers: &mut [IoSlice<'a>]) -> usize {
        match self.wants_to_send() {
            true => self.outgoing.gather(buffers),
            false => 0,
        }
    }

    fn wants_to_send(&self) -> bool {
        matches!(self.state, State::Open | State::Draining) && !self.outgoing.is_empty()
    }

    /// Looks at timers and at the state of the controller. Returns whether anything changed.
    fn look_around(&mut self, now: Nanos, target: &mut dyn Target) -> bool {
        let before = self.state;
        self.look_at_keeping();
        let is_stuck = |since: Nanos| now.saturating_sub(since) > PATIENCE;
        if self.blocks_itself() && self.stalled_since.is_some_and(is_stuck) {
            self.ledger.memory().note_stalled();
            self.forget_peer();
        }
        if self.state == State::Open
            && let Phase::Queue(queue) = &mut self.phase
        {
            queue.report_work();
            if queue.is_over() {
                self.drain();
            } else if queue.is_admin() {
                self.look_after_controller(now, target);
            }
        }
        self.settle(target);
        self.state != before || self.wants_to_send()
    }

    /// The memory that the session waits for, if it waits for memory.
    fn memory_wanted(&self) -> Option<Reservation> {
        let is_alive = matches!(self.state, State::Open | State::Draining);
        self.ledger.wants().filter(|_| is_alive)
    }

    /// Releases the receive buffer while nothing arrives from the peer.
    fn release_staging(&mut self) {
        self.staging.resize(0);
    }

    /// Returns whether the peer is expected to send the rest of data for which memory is held.
    fn holds_incomplete_data(&self) -> bool {
        let has_half = matches!(&self.phase, Phase::Queue(queue) if queue.fused.first().is_some());
        self.requests.incomplete > 0 || self.requests.asked > 0 || has_half
    }
}
