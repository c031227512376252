//! Commands that need no storage.

use super::Full;
use crate::scsi::unit::within;
use crate::scsi::{Command, Sense, alua, capacity, inquiry, log, mode, opcodes, reserve};

impl Full {
    /// Answers a command, if it needs neither storage nor data.
    pub(super) fn answer(&mut self, command: &Command) -> Option<Result<Vec<u8>, Sense>> {
        let unit = &self.unit;
        let (answer, room) = match *command {
            Command::TestUnitReady | Command::StartStop | Command::PreventAllow { .. } => {
                (Ok(Vec::new()), 0)
            }
            Command::Inquiry { page, room } => (inquiry::answer(Some(unit), page), room),
            Command::ReadCapacity10 => (Ok(capacity::short(unit)), 8),
            Command::ReadCapacity16 { room } => (Ok(capacity::long(unit)), room),
            Command::ReportLuns { select, room } => (capacity::luns(select), room),
            Command::RequestSense {
                has_descriptors,
                room,
            } => {
                let sense = self.attention.take().unwrap_or(Sense::NONE);
                let bytes = match has_descriptors {
                    true => sense.descriptors(),
                    false => sense.fixed().to_vec(),
                };
                (Ok(bytes), room)
            }
            Command::ModeSense(asked) => (mode::sense(unit, &asked), asked.room),
            Command::LogSense {
                page,
                subpage,
                room,
            } => (log::sense(page, subpage), room),
            Command::ReportOpcodes {
                options,
                has_timeouts,
                opcode,
                action,
                room,
            } => (opcodes::codes(options, has_timeouts, opcode, action), room),
            Command::ReportTaskManagement { is_long, room } => {
                (Ok(opcodes::task_management(is_long)), room)
            }
            Command::ReportPortGroups { is_extended, room } => {
                (Ok(alua::port_groups(is_extended)), room)
            }
            Command::ReserveIn { action, room } => {
                (reserve::read(&self.reservations, action), room)
            }
            _ => return None,
        };
        Some(answer.map(|bytes| within(bytes, room)))
    }
}
