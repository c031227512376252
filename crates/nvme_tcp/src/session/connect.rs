//! The first command of a connection: Connect, which joins it to a queue.
//!
//! The whole message must be in the staging buffer before anything is done about it, because a
//! session that asks where to run keeps it there (docs/decisions/0023-connections-and-homes.md).
//! Nothing is charged, and the next message is not looked at before the
//! answer to this one is sent.

use std::sync::Arc;

use everglade_target::sessions::Allowed;
use everglade_target::sessions::memory::{Class, Reservation};
use everglade_target::{Export, LunHandle, Target};

use super::admin::Admin;
use super::outgoing::{Bytes, Data};
use super::queue::{OpenNamespace, Queue};
use super::receiving::Receiving;
use super::settings::{ADMIN_ENTRIES_MAX, ADMIN_IN_CAPSULE_BYTES_MAX, ENTRIES_MAX};
use super::{Phase, Session, StepEnd};
use crate::controllers::controller::{Controller, Host, QUEUES_MAX};
use crate::controllers::subsystem::Subsystem;
use crate::wire::digest::{DIGEST_BYTES, digest_of};
use crate::wire::opcode::{FABRICS, fabrics};
use crate::wire::pdu::{CommonHeader, Fatal, Layout, fatal_status};
use crate::wire::{Command, Completion, Connect, ConnectData, SglKind, Status};

/// State of the search for the session's reactor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HomeQuestion {
    /// The owner wants to be asked when there is something to ask.
    Unasked,
    /// The session has asked the owner about this export, and waits.
    Asked(Box<str>),
    /// The owner has answered, or does not want to be asked.
    Settled,
}

/// The host asks for a new controller.
const ANY_CONTROLLER: u16 = u16::MAX;
/// Places of parameters in the command.
const QUEUE_AT: u16 = 42;
const ENTRIES_AT: u16 = 44;

/// Why a connection is not joined to a queue.
struct Refusal {
    status: Status,
    /// For a wrong parameter: where it is.
    result: u64,
}

impl Refusal {
    fn of(status: Status) -> Refusal {
        Refusal { status, result: 0 }
    }

    /// A parameter in the command is wrong.
    fn parameter(at: u16) -> Refusal {
        Refusal {
            status: Status::CONNECT_PARAMETERS,
            result: u64::from(at),
        }
    }

    /// A parameter in the data is wrong.
    fn data(at: u16) -> Refusal {
        Refusal {
            status: Status::CONNECT_PARAMETERS,
            result: 1 << 16 | u64::from(at),
        }
    }
}

impl Session {
    /// Looks at a message before the connection is joined to a queue.
    pub(super) fn first_command(&mut self, layout: &Layout, target: &mut dyn Target) -> StepEnd {
        if layout.data_bytes > ADMIN_IN_CAPSULE_BYTES_MAX {
            return StepEnd::Fatal(Fatal::of(fatal_status::LIMIT_EXCEEDED));
        }
        if !self.outgoing.is_empty() {
            return StepEnd::Stalled;
        }
        let bytes = self.staging.bytes();
        let command = bytes[CommonHeader::BYTES..].first_chunk();
        let command = Command::parse(command.expect("the whole header is there"));
        let is_connect = command.opcode == FABRICS && command.fabrics_type() == fabrics::CONNECT;
        let length = layout.data_bytes as usize;
        let refused = match is_connect {
            false => Some(Status::COMMAND_SEQUENCE),
            true if command.sgl.kind != SglKind::InCapsule => Some(Status::SGL_KIND_INVALID),
            true if length != ConnectData::BYTES || command.sgl.length as usize != length => {
                Some(Status::SGL_LENGTH_INVALID)
            }
            true => None,
        };
        if let Some(status) = refused {
            self.staging.consume(layout.data_at);
            let digest = layout.data_digest_bytes();
            let rest = layout.data_bytes + u32::try_from(digest).expect("4 or 0");
            if layout.data_bytes > 0 {
                self.receiving = Receiving::Skip { rest };
            }
            self.answer_connect(&command, &Refusal::of(status));
            return StepEnd::Again;
        }
        let data_end = layout.data_at + length;
        let message_bytes = data_end + layout.data_digest_bytes();
        if bytes.len() < message_bytes {
            return StepEnd::NeedBytes;
        }
        let data = &bytes[layout.data_at..data_end];
        let is_intact = !layout.has_data_digest
            || bytes[data_end..].first_chunk::<DIGEST_BYTES>() == Some(&digest_of(data));
        let data = ConnectData::parse(data.first_chunk().expect("1,024 bytes"));
        let connect = Connect::of(&command);
        if is_intact {
            self.caller.host = Some(data.host.clone());
        }
        let joined = match is_intact {
            false => Err(Refusal::of(Status::TRANSIENT_TRANSPORT)),
            true if connect.queue == 0 => self.begin_controller(&connect, &data, target),
            true => match self.find_controller(&connect, &data) {
                Ok(controller) => match self.question(&controller) {
                    Some(export) => return StepEnd::AskForHome(export),
                    None => self.join_queue(&controller, &connect, target),
                },
                Err(refusal) => Err(refusal),
            },
        };
        self.staging.consume(message_bytes);
        match joined {
            Ok(queue) => self.joined(&command, queue),
            Err(refusal) => self.answer_connect(&command, &refusal),
        }
        StepEnd::Again
    }

    /// The export to ask about, if the owner wants to be asked.
    fn question(&self, controller: &Controller) -> Option<Box<str>> {
        let namespaces = &controller.subsystem().namespaces;
        let first = namespaces
            .first()
            .filter(|_| self.home == HomeQuestion::Unasked)?;
        Some(first.export.as_str().into())
    }

    /// Begins a controller, with its admin queue.
    fn begin_controller(
        &self,
        connect: &Connect,
        data: &ConnectData,
        target: &mut dyn Target,
    ) -> Result<Queue, Refusal> {
        check(connect, data, ADMIN_ENTRIES_MAX)?;
        if data.controller != ANY_CONTROLLER {
            return Err(Refusal::data(ConnectData::CONTROLLER_AT));
        }
        let caller = &self.caller;
        let target = &mut Allowed { target, caller };
        let subsystem = Subsystem::find(&data.subsystem, target);
        let subsystem = subsystem.ok_or(Refusal::data(ConnectData::SUBSYSTEM_AT))?;
        let open = self.open_all(&subsystem, target)?;
        let host = Host {
            nqn: data.host.clone(),
            id: data.host_id,
            address: self.caller.address,
        };
        let registry = &self.settings.registry;
        let Some(controller) = registry.begin(subsystem, host) else {
            open.iter()
                .for_each(|namespace| target.close(namespace.lun));
            return Err(Refusal::of(Status::CONNECT_BUSY));
        };
        let sizes = open.iter().map(|it| (it.id, target.size_bytes(it.lun)));
        let generation = registry.generation(&target.target.exports());
        let admin = Admin::new(
            connect.keep_alive_ms,
            self.metrics.now(),
            sizes.collect(),
            generation,
        );
        let epoch = controller.epoch();
        let mut queue = new_queue(controller, connect, epoch, open);
        queue.admin = Some(Box::new(admin));
        Ok(queue)
    }

    /// Finds the controller of a queue for input and output.
    fn find_controller(
        &self,
        connect: &Connect,
        data: &ConnectData,
    ) -> Result<Arc<Controller>, Refusal> {
        check(connect, data, ENTRIES_MAX)?;
        let controller = self.settings.registry.controller(data.controller);
        let controller = controller.filter(|controller| !controller.is_ended());
        let controller = controller.ok_or(Refusal::data(ConnectData::CONTROLLER_AT))?;
        if controller.subsystem().nqn != data.subsystem {
            return Err(Refusal::data(ConnectData::SUBSYSTEM_AT));
        }
        let host = controller.host();
        if host.nqn != data.host {
            return Err(Refusal::data(ConnectData::HOST_AT));
        }
        // What a host says of itself is no secret.
        if host.address != self.caller.address {
            return Err(Refusal::data(ConnectData::CONTROLLER_AT));
        }
        if host.id != data.host_id {
            return Err(Refusal::data(0));
        }
        if connect.queue > QUEUES_MAX || controller.subsystem().is_discovery() {
            return Err(Refusal::parameter(QUEUE_AT));
        }
        match controller.is_ready() {
            true => Ok(controller),
            false => Err(Refusal::of(Status::COMMAND_SEQUENCE)),
        }
    }

    fn join_queue(
        &self,
        controller: &Arc<Controller>,
        connect: &Connect,
        target: &mut dyn Target,
    ) -> Result<Queue, Refusal> {
        let caller = &self.caller;
        let target = &mut Allowed { target, caller };
        // Whatever happens to the controller from here on, the queue belongs to this time.
        let epoch = controller.epoch();
        if !controller.is_ready() {
            return Err(Refusal::of(Status::COMMAND_SEQUENCE));
        }
        let open = self.open_all(controller.subsystem(), target)?;
        let Some(operations) = controller.join(connect.queue, epoch) else {
            open.iter()
                .for_each(|namespace| target.close(namespace.lun));
            return Err(Refusal::of(Status::CONNECT_BUSY));
        };
        let mut queue = new_queue(Arc::clone(controller), connect, epoch, open);
        queue.operations = operations;
        Ok(queue)
    }

    fn joined(&mut self, command: &Command, mut queue: Queue) {
        queue.count_command();
        queue.controller.hear();
        let completion = Completion {
            result: u64::from(queue.controller.id()),
            // All ones: the head will not be told.
            queue_head: match queue.has_flow_control {
                true => u16::try_from(queue.head).expect("below the entries"),
                false => u16::MAX,
            },
            queue: queue.id,
            command_id: command.id,
            status: Status::SUCCESS,
        };
        self.home = HomeQuestion::Settled;
        self.phase = Phase::Queue(Box::new(queue));
        self.answer_first(&completion);
    }

    fn answer_connect(&mut self, command: &Command, refusal: &Refusal) {
        self.answer_first(&Completion {
            result: refusal.result,
            queue_head: 0,
            queue: 0,
            command_id: command.id,
            status: refusal.status,
        });
    }

    fn answer_first(&mut self, completion: &Completion) {
        let (response, sum) = self.response_of(completion);
        let head = Bytes::of(&[&response, sum.as_ref().map_or(&[][..], |sum| &sum[..])]);
        let held = Reservation::none(Class::Small);
        self.outgoing
            .push_answer(head, Data::None, Bytes::none(), held);
    }
}

/// Checks what Connect of every queue has.
fn check(connect: &Connect, data: &ConnectData, entries_max: u16) -> Result<(), Refusal> {
    if connect.format != 0 {
        return Err(Refusal::of(Status::CONNECT_FORMAT));
    }
    // Told less one; a queue has two entries at least.
    if connect.entries == 0 || connect.entries >= entries_max {
        return Err(Refusal::parameter(ENTRIES_AT));
    }
    match data.host.is_empty() {
        true => Err(Refusal::data(ConnectData::HOST_AT)),
        false => Ok(()),
    }
}

fn new_queue(
    controller: Arc<Controller>,
    connect: &Connect,
    epoch: u32,
    open: Vec<OpenNamespace>,
) -> Queue {
    let entries = u32::from(connect.entries) + 1;
    let mut queue = Queue::new(controller, connect.queue, entries, open);
    queue.has_flow_control = !connect.disables_flow_control;
    queue.epoch = epoch;
    queue
}

impl Session {
    /// Opens all namespaces of a subsystem, or none.
    fn open_all(
        &self,
        subsystem: &Subsystem,
        target: &mut dyn Target,
    ) -> Result<Vec<OpenNamespace>, Refusal> {
        let mut open: Vec<OpenNamespace> = Vec::with_capacity(subsystem.namespaces.len());
        for namespace in &subsystem.namespaces {
            let opened: Option<(LunHandle, Export)> = target.open(&namespace.export).ok();
            let Some((lun, export)) = opened else {
                open.iter()
                    .for_each(|namespace| target.close(namespace.lun));
                return Err(Refusal::data(ConnectData::SUBSYSTEM_AT));
            };
            let reservations = self.settings.reservations.lun(&export.uuid);
            open.push(OpenNamespace {
                id: namespace.id,
                lun,
                export,
                reservations,
                offers_reservations: self.settings.offers_reservations,
            });
        }
        Ok(open)
    }
}
