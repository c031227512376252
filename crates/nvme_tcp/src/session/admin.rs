//! The admin queue: properties, features, events, and the time that the host may be silent.
//!
//! | property | what |
//! | --- | --- |
//! | capabilities | entries, the NVM command set, 4-KiB pages, ready within 10 s |
//! | configuration | enabled, shutdown |
//! | status | ready, failed, state of the shutdown |
//!
//! A shutdown flushes all namespaces before its state is "complete".

use everglade_env::Nanos;
use everglade_target::sessions::memory::{Class, Reservation};
use everglade_target::{LunHandle, Op, Target};

use super::outgoing::Data;
use super::plan::{Plan, has_no_data, structure_from_host, to_host_at_least};
use super::requests::{Payload, Request, Work};
use super::settings::{ENTRIES_MAX, TRANSFER_BYTES_MAX};
use super::{Phase, Session};
use crate::controllers::events::{Event, Events};
use crate::controllers::features::{Change, Features, Known};
use crate::metrics::Operation;
use crate::wire::fabrics::property;
use crate::wire::feature::{self, HOST_BEHAVIOUR_BYTES};
use crate::wire::opcode::{FABRICS, admin, fabrics};
use crate::wire::{Command, Status, identify};

/// Time after which a host of the discovery service that did not ask for a timer is gone (base
/// "Discovery controllers": two minutes).
const DISCOVERY_SILENCE: Nanos = 120_000_000_000;
const MILLISECOND: Nanos = 1_000_000;
/// The timer is looked at about once a second.
const SLACK: Nanos = 1_000_000_000;

/// Bits of the configuration.
const ENABLE: u32 = 1 << 0;
const PAGE_SIZE: u32 = 0xf << 7;
const COMMAND_SET: u32 = 7 << 4;
const ARBITRATION: u32 = 7 << 11;
const SHUTDOWN: u32 = 3 << 14;
/// Bits of the status.
const READY: u32 = 1 << 0;
const FAILED: u32 = 1 << 1;
const SHUTDOWN_STATE: u32 = 3 << 2;
const SHUTDOWN_OCCURS: u32 = 1 << 2;
const SHUTDOWN_COMPLETE: u32 = 2 << 2;

/// What the admin queue's session knows of its controller.
pub(super) struct Admin {
    configuration: u32,
    status: u32,
    features: Features,
    pub(super) events: Events,
    host_behaviour: Vec<u8>,
    /// Notices about reservations that the host does not want. None are sent.
    notice_mask: u32,
    keep_alive_ms: u32,
    /// Time at which the host was heard last, to the second.
    heard_at: Nanos,
    /// Size of each namespace, as the host was told last; `None` if it is gone.
    sizes: Vec<(u32, Option<u64>)>,
    /// Namespaces that have changed since the host read the log page.
    pub(super) changed: Vec<u32>,
    /// Generation of the list of exports that the host was told last.
    generation: u64,
    /// Flushes of the shutdown that are under way.
    flushing: usize,
}

impl Admin {
    pub(super) fn new(
        keep_alive_ms: u32,
        now: Nanos,
        sizes: Vec<(u32, Option<u64>)>,
        generation: u64,
    ) -> Admin {
        Admin {
            configuration: 0,
            status: 0,
            features: Features::default(),
            events: Events::default(),
            host_behaviour: vec![0; HOST_BEHAVIOUR_BYTES as usize],
            notice_mask: 0,
            keep_alive_ms,
            heard_at: now,
            sizes,
            changed: Vec::new(),
            generation,
            flushing: 0,
        }
    }

    pub(super) fn has_event_request(&self, id: u16) -> bool {
        self.events.has(id)
    }

    /// Returns how long the host may be silent.
    fn silence_max(&self, is_discovery: bool) -> Option<Nanos> {
        match self.keep_alive_ms {
            0 if is_discovery => Some(DISCOVERY_SILENCE),
            0 => None,
            ms => Some(Nanos::from(ms) * MILLISECOND + SLACK),
        }
    }

    fn known(&self, writes_through: bool, is_discovery: bool) -> Known {
        Known {
            writes_through,
            events: self.events.wanted(),
            keep_alive_ms: self.keep_alive_ms,
            is_discovery,
        }
    }
}

/// The outcome of an admin command: its result and its data.
pub(super) type Done = Result<(u64, Option<Vec<u8>>), Status>;

impl Session {
    /// Ends the controller of a silent host, and notes what has changed.
    pub(super) fn look_after_controller(&mut self, now: Nanos, target: &mut dyn Target) {
        let Phase::Queue(queue) = &mut self.phase else {
            return;
        };
        let luns: Vec<_> = queue.namespaces().map(|it| (it.id, it.lun)).collect();
        let Some(admin) = &mut queue.admin else {
            return;
        };
        let is_discovery = queue.controller.subsystem().is_discovery();
        if queue.controller.was_heard() {
            admin.heard_at = now;
        }
        let silence = now.saturating_sub(admin.heard_at);
        if admin
            .silence_max(is_discovery)
            .is_some_and(|max| silence > max)
        {
            queue.controller.end();
            return self.forget_peer();
        }
        if is_discovery {
            let generation = self.settings.registry.generation(&target.exports());
            if generation != admin.generation {
                admin.generation = generation;
                admin.events.happened(Event::Discovery);
            }
        }
        for (id, told) in &mut admin.sizes {
            let lun = luns
                .iter()
                .find(|(open, _)| open == id)
                .map(|(_, lun)| *lun);
            let size = lun.and_then(|lun| target.size_bytes(lun));
            if size != *told {
                *told = size;
                if !admin.changed.contains(id) {
                    admin.changed.push(*id);
                }
                admin.events.happened(Event::Namespace);
            }
        }
        self.tell_events();
    }

    /// Answers requests for events, as far as there are both.
    pub(super) fn tell_events(&mut self) {
        loop {
            let Phase::Queue(queue) = &mut self.phase else {
                return;
            };
            let next = queue.admin.as_mut().and_then(|admin| admin.events.next());
            let Some((id, result)) = next else {
                return;
            };
            let held = Reservation::none(Class::Small);
            self.respond(id, Status::SUCCESS, result, held);
        }
    }

    /// Keeps a request for events. Returns the reason if it is not kept.
    pub(super) fn keep_event_request(&mut self, id: u16) -> Result<(), Status> {
        let Phase::Queue(queue) = &mut self.phase else {
            unreachable!("called for a queue")
        };
        let is_ready = queue.controller.is_ready();
        match &mut queue.admin {
            Some(admin) if is_ready => match admin.events.keep(id) {
                true => Ok(()),
                false => Err(Status::EVENT_LIMIT),
            },
            _ => Err(Status::COMMAND_SEQUENCE),
        }
    }

    /// Checks an admin command, or a fabrics command of any queue.
    pub(super) fn judge_admin(&self, command: &Command, data_bytes: u32) -> Result<Plan, Status> {
        let Phase::Queue(queue) = &self.phase else {
            unreachable!("called for a queue")
        };
        let is_fabrics = command.opcode == FABRICS;
        if command.flags & 3 != 0 {
            return Err(Status::INVALID_FIELD);
        }
        if !is_fabrics && !queue.controller.is_ready() {
            return Err(Status::COMMAND_SEQUENCE);
        }
        let feature = command.words[0].to_le_bytes()[0];
        let (mut to_host_bytes, mut from_host_bytes) = (0, 0);
        match command.opcode {
            FABRICS => match (command.fabrics_type(), queue.is_admin()) {
                (fabrics::PROPERTY_GET | fabrics::PROPERTY_SET, true) => {}
                (fabrics::DISCONNECT, false) => {}
                (fabrics::CONNECT, _) => return Err(Status::COMMAND_SEQUENCE),
                _ => return Err(Status::INVALID_FIELD),
            },
            admin::IDENTIFY => to_host_bytes = identify::BYTES as u64,
            admin::GET_LOG_PAGE => {
                let [_, _, low_a, low_b] = command.words[0].to_le_bytes();
                let [high_a, high_b, ..] = command.words[1].to_le_bytes();
                let words = u32::from_le_bytes([low_a, low_b, high_a, high_b]);
                to_host_bytes = (u64::from(words) + 1) * 4;
            }
            admin::GET_FEATURES if feature == feature::id::HOST_BEHAVIOUR => {
                to_host_bytes = u64::from(HOST_BEHAVIOUR_BYTES);
            }
            admin::GET_FEATURES if feature == feature::id::HOST_ID => to_host_bytes = 16,
            admin::SET_FEATURES if feature == feature::id::HOST_BEHAVIOUR => {
                from_host_bytes = HOST_BEHAVIOUR_BYTES;
            }
            admin::GET_FEATURES | admin::SET_FEATURES | admin::ABORT | admin::KEEP_ALIVE => {}
            _ => return Err(Status::INVALID_OPCODE),
        }
        if to_host_bytes > u64::from(TRANSFER_BYTES_MAX) {
            return Err(Status::INVALID_FIELD);
        }
        if to_host_bytes > 0 {
            to_host_at_least(command, to_host_bytes)?;
        }
        match from_host_bytes {
            0 => has_no_data(data_bytes)?,
            needed => from_host_bytes = structure_from_host(command, needed, data_bytes)?,
        }
        Ok(Plan {
            operation: Operation::Admin,
            lun: NO_LUN,
            offset: 0,
            length: 0,
            durable: false,
            from_host: from_host_bytes,
            charge: to_host_bytes,
            work: Work::Admin(Box::new(*command)),
        })
    }

    /// Carries out an admin command whose data is there.
    pub(super) fn run_admin(&mut self, row: usize, target: &mut dyn Target) {
        let request = self.requests.row(row);
        let data = request.payload.take_bytes();
        let Work::Admin(command) = &request.work else {
            unreachable!("called for an admin command")
        };
        let command = **command;
        if turns_cache_off(&command) && self.flush_first(row, target) {
            return;
        }
        let feature = command.words[0].to_le_bytes()[0];
        if (command.opcode, feature) == (admin::SET_FEATURES, feature::id::PERSISTENCE)
            && self.settings.offers_reservations
        {
            return self.set_persistence(row, &command);
        }
        let done = match command.opcode {
            FABRICS => self.fabrics(&command, target),
            admin::IDENTIFY => self.identify(&command, target),
            admin::GET_LOG_PAGE => self.log_page(&command, target),
            admin::GET_FEATURES => self.get_feature(&command),
            admin::SET_FEATURES => self.set_feature(&command, &data),
            admin::ABORT => self.abort(&command),
            // The host was heard when the command came.
            admin::KEEP_ALIVE => Ok((0, None)),
            _ => unreachable!("it was judged"),
        };
        let request = self.requests.row(row);
        let data = match done {
            Ok((result, data)) => {
                request.result = result;
                data.map_or(Data::None, |bytes| Data::Bytes(bytes.into_boxed_slice()))
            }
            Err(status) => {
                request.status = status;
                Data::None
            }
        };
        self.finish(row, data);
        self.tell_events();
        let is_disconnect =
            command.opcode == FABRICS && command.fabrics_type() == fabrics::DISCONNECT;
        if is_disconnect {
            self.drain();
        }
    }

    /// Makes everything durable that was answered while the write cache was on. Returns whether
    /// there is something to wait for; the command is answered at the end of it.
    fn flush_first(&mut self, row: usize, target: &mut dyn Target) -> bool {
        let Phase::Queue(queue) = &self.phase else {
            unreachable!("called for a queue")
        };
        if queue.controller.writes_through() || queue.controller.subsystem().is_discovery() {
            return false;
        }
        // Writes that come from here on are durable when they are answered.
        queue.controller.set_writes_through(true);
        let luns: Vec<LunHandle> = queue.namespaces().map(|it| it.lun).collect();
        for lun in &luns {
            self.submit(row, *lun, Op::Flush, target);
        }
        !luns.is_empty()
    }

    /// Returns the admin part of the queue.
    fn admin(&mut self) -> &mut Admin {
        let Phase::Queue(queue) = &mut self.phase else {
            unreachable!("called for a queue")
        };
        queue.admin.as_mut().expect("called for the admin queue")
    }

    fn fabrics(&mut self, command: &Command, target: &mut dyn Target) -> Done {
        match command.fabrics_type() {
            fabrics::PROPERTY_GET => self.get_property(command),
            fabrics::PROPERTY_SET => self.set_property(command, target),
            _ => Ok((0, None)),
        }
    }

    // ---- properties ----

    fn get_property(&mut self, command: &Command) -> Done {
        // A host that disables the controller waits until nothing of the past is under way.
        let is_busy = matches!(&self.phase, Phase::Queue(queue) if queue.controller.is_busy());
        let admin = self.admin();
        let is_stopping = is_busy && admin.configuration & ENABLE == 0;
        let still = if is_stopping { READY } else { 0 };
        let is_long = command.words[0] & 7 == 1;
        let (value, has_long) = match command.words[1] {
            property::CAPABILITIES => (capabilities(), true),
            property::VERSION => (u64::from(identify::VERSION), false),
            property::CONFIGURATION => (u64::from(admin.configuration), false),
            property::STATUS => (u64::from(admin.status | still), false),
            _ => return Err(Status::INVALID_FIELD),
        };
        match is_long == has_long && command.words[0] & 7 <= 1 {
            true => Ok((value, None)),
            false => Err(Status::INVALID_FIELD),
        }
    }

    fn set_property(&mut self, command: &Command, target: &mut dyn Target) -> Done {
        let is_configuration = command.words[1] == property::CONFIGURATION;
        if !is_configuration || command.words[0] & 7 != 0 {
            return Err(Status::INVALID_FIELD);
        }
        let configuration = command.words[2];
        let admin = self.admin();
        let before = admin.configuration;
        admin.configuration = configuration;
        let is_enabled = configuration & ENABLE != 0;
        match (before & ENABLE != 0, is_enabled) {
            (false, true) => {
                let is_ready = is_supported(configuration);
                admin.status = if is_ready { READY } else { FAILED };
                self.set_ready(is_ready);
            }
            (true, false) => {
                admin.status = 0;
                admin.events.clear();
                admin.features = Features::default();
                admin.host_behaviour.fill(0);
                admin.changed.clear();
                self.set_ready(false);
            }
            _ => {}
        }
        if configuration & SHUTDOWN != 0 && before & SHUTDOWN == 0 {
            self.shut_down(target);
        }
        Ok((0, None))
    }

    fn set_ready(&mut self, is_ready: bool) {
        if let Phase::Queue(queue) = &mut self.phase {
            queue.controller.set_ready(is_ready);
            queue.controller.set_writes_through(false);
        }
    }

    /// Flushes all namespaces before the shutdown is complete.
    fn shut_down(&mut self, target: &mut dyn Target) {
        let Phase::Queue(queue) = &self.phase else {
            unreachable!("called for a queue")
        };
        let luns: Vec<LunHandle> = queue.namespaces().map(|it| it.lun).collect();
        let now = self.metrics.now();
        for lun in &luns {
            let row = self.requests.insert(Request {
                command_id: 0,
                operation: Operation::Flush,
                lun: *lun,
                offset: 0,
                length: 0,
                durable: true,
                held: Reservation::none(Class::Small),
                later: 0,
                since: now,
                in_flight: 0,
                status: Status::SUCCESS,
                result: 0,
                payload: Payload::None,
                work: Work::Shutdown,
            });
            self.submit(row, *lun, Op::Flush, target);
        }
        let admin = self.admin();
        admin.flushing += luns.len();
        let state = match admin.flushing {
            0 => SHUTDOWN_COMPLETE,
            _ => SHUTDOWN_OCCURS,
        };
        admin.status = admin.status & !SHUTDOWN_STATE | state;
    }

    /// A flush of the shutdown has ended. A failed one ends the shutdown as well: the host cannot
    /// do more about it, and its own flushes have told it.
    pub(super) fn shutdown_flushed(&mut self, row: usize) {
        let request = self.requests.remove(row);
        self.ledger.give(request.held);
        let admin = self.admin();
        admin.flushing -= 1;
        if admin.flushing == 0 && admin.status & SHUTDOWN_STATE == SHUTDOWN_OCCURS {
            admin.status = admin.status & !SHUTDOWN_STATE | SHUTDOWN_COMPLETE;
        }
    }

    // ---- features ----

    fn get_feature(&mut self, command: &Command) -> Done {
        const CURRENT: u32 = 0;
        let [id, selection, ..] = command.words[0].to_le_bytes();
        if u32::from(selection & 7) != CURRENT {
            return Err(Status::INVALID_FIELD);
        }
        let Phase::Queue(queue) = &self.phase else {
            unreachable!("called for a queue")
        };
        let admin = queue.admin.as_ref().expect("called for the admin queue");
        let controller = &queue.controller;
        match id {
            feature::id::HOST_BEHAVIOUR => Ok((0, Some(admin.host_behaviour.clone()))),
            feature::id::HOST_ID => Ok((0, Some(controller.host().id.to_vec()))),
            feature::id::PERSISTENCE if self.settings.offers_reservations => {
                let mut namespaces = queue.namespaces();
                let found = namespaces.find(|it| it.id == command.namespace);
                let namespace = found.ok_or(Status::INVALID_NAMESPACE)?;
                Ok((u64::from(namespace.reservations.persists()), None))
            }
            feature::id::NOTICE_MASK if self.settings.offers_reservations => {
                Ok((u64::from(admin.notice_mask), None))
            }
            _ => {
                let is_discovery = controller.subsystem().is_discovery();
                let known = admin.known(controller.writes_through(), is_discovery);
                Ok((u64::from(admin.features.get(id, &known)?), None))
            }
        }
    }

    fn set_feature(&mut self, command: &Command, data: &[u8]) -> Done {
        let Phase::Queue(queue) = &mut self.phase else {
            unreachable!("called for a queue")
        };
        let admin = queue.admin.as_mut().expect("called for the admin queue");
        let controller = &queue.controller;
        if command.words[0].to_le_bytes()[0] == feature::id::HOST_BEHAVIOUR {
            let length = admin.host_behaviour.len();
            admin.host_behaviour.copy_from_slice(&data[..length]);
            return Ok((0, None));
        }
        let is_mask = command.words[0].to_le_bytes()[0] == feature::id::NOTICE_MASK;
        if is_mask && self.settings.offers_reservations {
            admin.notice_mask = command.words[1];
            return Ok((0, None));
        }
        let is_discovery = controller.subsystem().is_discovery();
        let known = admin.known(controller.writes_through(), is_discovery);
        let change = admin
            .features
            .set(command.words[0], command.words[1], &known)?;
        match change {
            Change::Result(result) => return Ok((u64::from(result), None)),
            Change::WriteCache { is_on } => controller.set_writes_through(!is_on),
            Change::Events(wanted) => admin.events.want(wanted),
            Change::KeepAlive(ms) => {
                admin.keep_alive_ms = ms;
                admin.heard_at = self.metrics.now();
            }
        }
        Ok((0, None))
    }

    /// Aborts a request for events. Other commands end by themselves, and soon.
    fn abort(&mut self, command: &Command) -> Done {
        const NOT_ABORTED: u64 = 1;
        let [queue_a, queue_b, id_a, id_b] = command.words[0].to_le_bytes();
        let queue = u16::from_le_bytes([queue_a, queue_b]);
        let id = u16::from_le_bytes([id_a, id_b]);
        if queue != 0 || !self.admin().events.abort(id) {
            return Ok((NOT_ABORTED, None));
        }
        let held = Reservation::none(Class::Small);
        self.respond(id, Status::ABORT_REQUESTED, 0, held);
        Ok((0, None))
    }
}

/// Returns whether a command turns the write cache off.
fn turns_cache_off(command: &Command) -> bool {
    command.opcode == admin::SET_FEATURES
        && command.words[0] == u32::from(feature::id::WRITE_CACHE)
        && command.words[1] & 1 == 0
}

/// Returns whether the controller can be what the host wants.
fn is_supported(configuration: u32) -> bool {
    configuration & (PAGE_SIZE | COMMAND_SET | ARBITRATION) == 0
}

/// Returns the capabilities.
fn capabilities() -> u64 {
    /// Half seconds that the controller may need to become ready.
    const TIMEOUT: u64 = 20;
    let entries = u64::from(ENTRIES_MAX) - 1;
    let contiguous = 1 << 16;
    let nvm_command_set = 1 << 37;
    entries | contiguous | TIMEOUT << 24 | nvm_command_set
}

/// The LUN of commands that have none.
const NO_LUN: LunHandle = LunHandle(u64::MAX);
