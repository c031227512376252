//! What Identify returns about the controller and its namespaces.

use everglade_target::{COMPARE_BYTES_MAX, Identity, Target};

use super::admin::Done;
use super::plan::{COPY_BLOCKS_MAX, COPY_RANGE_BLOCKS_MAX, COPY_RANGES_MAX};
use super::queue::{OpenNamespace, Queue};
use super::settings::{ENTRIES_MAX, IN_CAPSULE_BYTES_MAX, TRANSFER_BYTES_MAX};
use super::{Phase, Session};
use crate::controllers::events::REQUESTS_MAX;
use crate::wire::identify::{self, ControllerFacts, NamespaceFacts, cns};
use crate::wire::{Command, Status};

/// The NVM command set.
const NVM_COMMAND_SET: u8 = 0;
/// All namespaces.
const EVERY_NAMESPACE: u32 = u32::MAX;
/// Longest serial number that a controller can tell.
const SERIAL_CHARACTERS: usize = 20;

impl Session {
    pub(super) fn identify(&mut self, command: &Command, target: &mut dyn Target) -> Done {
        let Phase::Queue(queue) = &self.phase else {
            unreachable!("called for a queue")
        };
        let kind = command.words[0].to_le_bytes()[0];
        let command_set = command.words[1].to_le_bytes()[3];
        let id = command.namespace;
        let is_nvm = command_set == NVM_COMMAND_SET;
        let is_discovery = queue.controller.subsystem().is_discovery();
        if is_discovery && kind != cns::CONTROLLER {
            return Err(Status::INVALID_FIELD);
        }
        let bytes = match kind {
            cns::CONTROLLER => self.controller_structure(queue),
            cns::NAMESPACE if id == EVERY_NAMESPACE => {
                // What all namespaces have in common: the format.
                let mut bytes = vec![0; identify::BYTES];
                bytes[130] = u8::try_from(identify::BLOCK_SHIFT).expect("9");
                bytes
            }
            cns::NAMESPACE => about(queue, id, target, identify::namespace)?,
            cns::DESCRIPTORS => about(queue, id, target, identify::descriptors)?,
            cns::NAMESPACE_OF_ANY_SET => about(queue, id, target, identify::namespace_of_any_set)?,
            // The NVM command set adds nothing for namespaces without protection information.
            cns::NAMESPACE_OF_SET if is_nvm => {
                about(queue, id, target, |_| vec![0; identify::BYTES])?
            }
            cns::CONTROLLER_OF_SET if is_nvm => identify::controller_of_nvm_set(),
            cns::NAMESPACES => namespaces_after(queue, id, target)?,
            cns::NAMESPACES_OF_SET if is_nvm => namespaces_after(queue, id, target)?,
            cns::CONTROLLERS | cns::CONTROLLERS_OF_NAMESPACE => {
                if kind == cns::CONTROLLERS_OF_NAMESPACE && queue.namespace(id).is_none() {
                    return Err(Status::INVALID_NAMESPACE);
                }
                let [_, _, first_a, first_b] = command.words[0].to_le_bytes();
                let first = u16::from_le_bytes([first_a, first_b]);
                let nqn = &queue.controller.subsystem().nqn;
                let all = self.settings.registry.controllers_of(nqn);
                identify::controllers(all.into_iter().filter(|id| *id >= first))
            }
            cns::COMMAND_SETS => identify::command_sets(),
            _ => return Err(Status::INVALID_FIELD),
        };
        Ok((0, Some(bytes)))
    }

    fn controller_structure(&self, queue: &Queue) -> Vec<u8> {
        let subsystem = queue.controller.subsystem();
        let first = queue.namespaces().next();
        let serial = first.map_or_else(
            || "everglade".to_owned(),
            |it| Identity::of(&it.export.uuid).serial(),
        );
        let serial: String = serial.chars().take(SERIAL_CHARACTERS).collect();
        identify::controller(&ControllerFacts {
            id: queue.controller.id(),
            serial: &serial,
            release: self.settings.release,
            subsystem: &subsystem.nqn,
            is_discovery: subsystem.is_discovery(),
            namespaces_max: subsystem.namespaces_max(),
            event_requests_max: u8::try_from(REQUESTS_MAX).expect("few"),
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            in_capsule_bytes_max: IN_CAPSULE_BYTES_MAX,
            entries_max: ENTRIES_MAX,
            atomic_bytes: TRANSFER_BYTES_MAX,
            compare_and_write_bytes: COMPARE_BYTES_MAX,
            has_reservations: self.settings.offers_reservations,
        })
    }
}

/// Makes a structure about a namespace; zeroes if it is gone.
fn about(
    queue: &Queue,
    id: u32,
    target: &dyn Target,
    make: impl Fn(&NamespaceFacts) -> Vec<u8>,
) -> Result<Vec<u8>, Status> {
    let namespace = queue.namespace(id).ok_or(Status::INVALID_NAMESPACE)?;
    let facts = facts(namespace, target);
    Ok(facts.map_or_else(|| vec![0; identify::BYTES], |facts| make(&facts)))
}

/// Returns the facts about a namespace; `None` if it is gone.
fn facts(namespace: &OpenNamespace, target: &dyn Target) -> Option<NamespaceFacts> {
    let identity = Identity::of(&namespace.export.uuid);
    Some(NamespaceFacts {
        size_bytes: target.size_bytes(namespace.lun)?,
        read_only: namespace.export.read_only,
        nguid: identity.nguid(),
        eui64: identity.eui64(),
        uuid: namespace.export.uuid,
        atomic_bytes: TRANSFER_BYTES_MAX,
        compare_and_write_bytes: COMPARE_BYTES_MAX,
        copy_range_blocks_max: COPY_RANGE_BLOCKS_MAX,
        copy_blocks_max: COPY_BLOCKS_MAX,
        copy_ranges_max: COPY_RANGES_MAX,
        has_reservations: namespace.offers_reservations,
        can_persist: namespace.reservations.can_persist(),
    })
}

/// Makes the list of namespaces with numbers above `id` that are there.
fn namespaces_after(queue: &Queue, id: u32, target: &dyn Target) -> Result<Vec<u8>, Status> {
    // The two highest numbers are reserved.
    if id >= u32::MAX - 1 {
        return Err(Status::INVALID_NAMESPACE);
    }
    let after = queue.namespaces().filter(|namespace| namespace.id > id);
    let there = after.filter(|namespace| target.size_bytes(namespace.lun).is_some());
    Ok(identify::namespaces(there.map(|namespace| namespace.id)))
}
