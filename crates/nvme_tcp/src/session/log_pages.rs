//! Log pages of a controller, and of the discovery service.

use everglade_target::Target;
use everglade_target::sessions::Allowed;

use super::admin::Done;
use super::{Phase, Session};
use crate::controllers::events::Event;
use crate::controllers::subsystem::Subsystem;
use crate::wire::log_page::{
    self, DISCOVERY_ENTRY_BYTES, DISCOVERY_HEADER_BYTES, DiscoveryEntry, id,
};
use crate::wire::{Command, Status, nqn};

/// Log pages of a controller with namespaces.
const PAGES: [u8; 8] = [
    id::SUPPORTED,
    id::ERRORS,
    id::HEALTH,
    id::FIRMWARE,
    id::CHANGED_NAMESPACES,
    id::EFFECTS,
    id::ACCESS,
    id::NOTICES,
];
/// Log pages of the discovery service.
const DISCOVERY_PAGES: [u8; 2] = [id::SUPPORTED, id::DISCOVERY];
/// The page of asymmetric access is to list groups only.
const GROUPS_ONLY: u8 = 1;

impl Session {
    pub(super) fn log_page(&mut self, command: &Command, target: &mut dyn Target) -> Done {
        let [page, parameter, low_a, low_b] = command.words[0].to_le_bytes();
        let [high_a, high_b, ..] = command.words[1].to_le_bytes();
        let words = u32::from_le_bytes([low_a, low_b, high_a, high_b]);
        // At most a transfer, which was judged.
        let length = (words as usize + 1) * 4;
        let offset = u64::from(command.words[2]) | u64::from(command.words[3]) << 32;
        let keeps_event = parameter & 0x80 != 0;
        let is_discovery = matches!(
            &self.phase,
            Phase::Queue(queue) if queue.controller.subsystem().is_discovery()
        );
        if is_discovery && page == id::DISCOVERY {
            if !offset.is_multiple_of(4) {
                return Err(Status::INVALID_FIELD);
            }
            let part = self.discovery_part(offset, length, target)?;
            if !keeps_event {
                self.page_was_read(page);
            }
            return Ok((0, Some(part)));
        }
        let bytes = self.whole_page(page, parameter & 0x7f)?;
        if !offset.is_multiple_of(4) || offset > bytes.len() as u64 {
            return Err(Status::INVALID_FIELD);
        }
        let offset = usize::try_from(offset).expect("within the page");
        let mut part: Vec<u8> = bytes[offset..].iter().copied().take(length).collect();
        part.resize(length, 0);
        if !keeps_event {
            self.page_was_read(page);
        }
        Ok((0, Some(part)))
    }

    /// Makes a log page from its beginning to its end.
    fn whole_page(&mut self, page: u8, parameter: u8) -> Result<Vec<u8>, Status> {
        let Phase::Queue(queue) = &mut self.phase else {
            unreachable!("called for a queue")
        };
        let is_discovery = queue.controller.subsystem().is_discovery();
        let pages = match is_discovery {
            true => &DISCOVERY_PAGES[..],
            false => &PAGES[..],
        };
        if !pages.contains(&page) {
            return Err(Status::INVALID_LOG_PAGE);
        }
        queue.report_work();
        let admin = queue.admin.as_ref().expect("called for the admin queue");
        Ok(match page {
            id::SUPPORTED => log_page::supported(pages),
            // No command is remembered.
            id::ERRORS => vec![0; 64],
            // Hosts are told nothing about reservations: the page is empty.
            id::NOTICES => vec![0; 64],
            id::HEALTH => log_page::health(&queue.controller.work()),
            id::FIRMWARE => log_page::firmware(self.settings.release),
            id::CHANGED_NAMESPACES => log_page::changed_namespaces(&admin.changed),
            id::EFFECTS => log_page::effects(self.settings.offers_reservations),
            id::ACCESS => {
                let namespaces = queue.namespaces().map(|namespace| namespace.id);
                let listed: Vec<u32> = match parameter & GROUPS_ONLY {
                    0 => namespaces.collect(),
                    _ => Vec::new(),
                };
                log_page::access(&listed)
            }
            _ => unreachable!("it is made in parts"),
        })
    }

    /// Makes a part of the list of the subsystems that the host may see, at the address that it
    /// came to. Only records that are in the part are made.
    fn discovery_part(
        &self,
        offset: u64,
        length: usize,
        target: &mut dyn Target,
    ) -> Result<Vec<u8>, Status> {
        let caller = &self.caller;
        let generation = self.settings.registry.generation(&target.exports());
        let exports = Allowed { target, caller }.exports();
        let named = exports.iter().filter_map(|it| Some(Subsystem::of(it)?.nqn));
        let names: Vec<String> = std::iter::once(nqn::DISCOVERY.to_owned())
            .chain(named)
            .collect();
        let page_bytes = DISCOVERY_HEADER_BYTES + names.len() * DISCOVERY_ENTRY_BYTES;
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        if offset > page_bytes {
            return Err(Status::INVALID_FIELD);
        }
        let record = |number: usize| match number.checked_sub(1) {
            None => log_page::discovery_header(generation, names.len() as u64),
            Some(index) => {
                let is_discovery = index == 0;
                let here = caller.local.filter(|_| is_discovery);
                let entry = DiscoveryEntry {
                    is_discovery,
                    subsystem: &names[index],
                    address: here.unwrap_or_else(|| self.settings.address(caller.local)),
                };
                entry.encode()
            }
        };
        let first = offset / DISCOVERY_ENTRY_BYTES;
        let end = offset
            .saturating_add(length)
            .div_ceil(DISCOVERY_ENTRY_BYTES);
        let records = (first..end.min(names.len() + 1)).flat_map(record);
        let skipped = offset - first * DISCOVERY_ENTRY_BYTES;
        let mut part: Vec<u8> = records.skip(skipped).take(length).collect();
        part.resize(length, 0);
        Ok(part)
    }

    /// Notes that the host has read a page that says more about an event.
    fn page_was_read(&mut self, page: u8) {
        let Phase::Queue(queue) = &mut self.phase else {
            return;
        };
        let Some(admin) = &mut queue.admin else {
            return;
        };
        match page {
            id::CHANGED_NAMESPACES => {
                admin.changed.clear();
                admin.events.was_read(Event::Namespace);
            }
            id::DISCOVERY => admin.events.was_read(Event::Discovery),
            _ => {}
        }
    }
}
