//! The command that joins a connection to a queue, its data, and properties of controllers (NVMe
//! base 2.0 "Connect Command", "Property Set", "Property Get").

use super::fields::{array_at, put, put_text, u16_at};
use super::sqe::Command;

/// Parameters of Connect in the command itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// Format of the parameters, 0.
    pub format: u16,
    /// The queue; 0 is the admin queue.
    pub queue: u16,
    /// Entries of the queue, less one.
    pub entries: u16,
    /// The host does not want flow control of the submission queue.
    pub disables_flow_control: bool,
    /// Time after which a silent host is gone, in milliseconds; 0 for never.
    pub keep_alive_ms: u32,
}

impl Connect {
    /// Reads the parameters of a command.
    #[must_use]
    pub fn of(command: &Command) -> Connect {
        let [first, second, third, ..] = command.words;
        let [format, queue] = halves(first);
        let [entries, attributes] = halves(second);
        Connect {
            format,
            queue,
            entries,
            disables_flow_control: attributes & 1 << 2 != 0,
            keep_alive_ms: third,
        }
    }

    /// Returns the words of a command with these parameters.
    #[must_use]
    pub fn words(&self) -> [u32; 6] {
        let attributes = u32::from(self.disables_flow_control) << 2;
        [
            u32::from(self.format) | u32::from(self.queue) << 16,
            u32::from(self.entries) | attributes << 16,
            self.keep_alive_ms,
            0,
            0,
            0,
        ]
    }
}

fn halves(word: u32) -> [u16; 2] {
    let [a, b, c, d] = word.to_le_bytes();
    [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])]
}

/// The data of Connect.
///
/// | place | field |
/// | --- | --- |
/// | 0 | host identifier, 16 bytes |
/// | 16 | controller, 2 bytes; 0xffff for any |
/// | 256 | name of the subsystem, 256 bytes |
/// | 512 | name of the host, 256 bytes |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectData {
    /// Host identifier.
    pub host_id: [u8; 16],
    /// The controller.
    pub controller: u16,
    /// Name of the subsystem; empty if it is none.
    pub subsystem: String,
    /// Name of the host; empty if it is none.
    pub host: String,
}

impl ConnectData {
    /// Size on the wire.
    pub const BYTES: usize = 1024;
    /// Place of the controller, for refusals.
    pub const CONTROLLER_AT: u16 = 16;
    /// Place of the subsystem's name, for refusals.
    pub const SUBSYSTEM_AT: u16 = 256;
    /// Place of the host's name, for refusals.
    pub const HOST_AT: u16 = 512;

    /// Parses the data. Names that are not names are empty.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> ConnectData {
        ConnectData {
            host_id: array_at(bytes, 0),
            controller: u16_at(bytes, 16),
            subsystem: name_in(&bytes[256..512]),
            host: name_in(&bytes[512..768]),
        }
    }

    /// Encodes the data.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::BYTES];
        put(&mut bytes, 0, &self.host_id);
        put(&mut bytes, 16, &self.controller.to_le_bytes());
        put_text(&mut bytes, 256, 256, &self.subsystem, 0);
        put_text(&mut bytes, 512, 256, &self.host, 0);
        bytes
    }
}

/// Returns the name in a field: text up to a zero byte, of at most 223 bytes.
fn name_in(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0);
    let name = &field[..end.unwrap_or(0)];
    match std::str::from_utf8(name) {
        Ok(name) if name.len() <= super::nqn::NQN_BYTES_MAX => name.to_owned(),
        _ => String::new(),
    }
}

/// Places of properties.
pub mod property {
    /// Capabilities, 8 bytes.
    pub const CAPABILITIES: u32 = 0x00;
    /// Version.
    pub const VERSION: u32 = 0x08;
    /// Configuration.
    pub const CONFIGURATION: u32 = 0x14;
    /// Status.
    pub const STATUS: u32 = 0x1c;
    /// Reset of the subsystem, which we do not support.
    pub const SUBSYSTEM_RESET: u32 = 0x20;
}
