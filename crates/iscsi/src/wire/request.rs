//! What initiators send (RFC 7143 §11).

use super::header::{
    self, Bhs, FINAL, Header, begin, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64, take,
};

/// Opcodes of initiators.
pub mod opcodes {
    /// Are you there, or an answer to that.
    pub const NOP_OUT: u8 = 0x00;
    /// A SCSI command.
    pub const COMMAND: u8 = 0x01;
    /// Task management.
    pub const TASK_MANAGEMENT: u8 = 0x02;
    /// Login.
    pub const LOGIN: u8 = 0x03;
    /// Text.
    pub const TEXT: u8 = 0x04;
    /// Data of a write.
    pub const DATA_OUT: u8 = 0x05;
    /// Logout.
    pub const LOGOUT: u8 = 0x06;
    /// A wish for something to be sent again, which is for higher levels of recovery.
    pub const SNACK: u8 = 0x10;
}

/// A message of an initiator. Fields that do not matter at error recovery level 0 are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Ping, or the answer to ours.
    NopOut(NopOut),
    /// SCSI command.
    Command(Command),
    /// Task management function.
    TaskManagement(TaskManagement),
    /// Login.
    Login(Login),
    /// Text.
    Text(Text),
    /// Data of a write.
    DataOut(DataOut),
    /// Logout.
    Logout(Logout),
}

/// Ping, or the answer to ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NopOut {
    /// Logical unit, copied from our ping.
    pub lun: u64,
    /// [`header::NO_TAG`] if no answer is wanted.
    pub itt: u32,
    /// Tag of our ping, if this answers one.
    pub ttt: u32,
    /// Command number.
    pub cmd_sn: u32,
}

/// A SCSI command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// No data follows before it is asked for.
    pub is_final: bool,
    /// Data goes to the initiator.
    pub reads: bool,
    /// Data comes from the initiator.
    pub writes: bool,
    /// Task attribute, 3 bits.
    pub attribute: u8,
    /// Logical unit.
    pub lun: u64,
    /// Tag of the task.
    pub itt: u32,
    /// Bytes that the initiator sends, or has room for.
    pub expected_bytes: u32,
    /// Command number.
    pub cmd_sn: u32,
    /// The command.
    pub cdb: [u8; 16],
}

/// A task management function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskManagement {
    /// Its number, 7 bits.
    pub function: u8,
    /// Logical unit.
    pub lun: u64,
    /// Tag of the request.
    pub itt: u32,
    /// Tag of the task it is about.
    pub referenced: u32,
    /// Command number.
    pub cmd_sn: u32,
    /// Command number of the task it is about.
    pub referenced_cmd_sn: u32,
}

/// A login request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    /// The initiator wants to go to stage `next`.
    pub transits: bool,
    /// The text goes on in the next request.
    pub continues: bool,
    /// Stage it is in, 2 bits.
    pub current: u8,
    /// Stage it wants to go to, 2 bits.
    pub next: u8,
    /// Oldest version it speaks.
    pub version_min: u8,
    /// The initiator's part of the session's identity.
    pub isid: [u8; 6],
    /// The target's part, 0 for a new session.
    pub tsih: u16,
    /// Tag.
    pub itt: u32,
    /// Connection of the session.
    pub cid: u16,
    /// Command number.
    pub cmd_sn: u32,
    /// Next status number that it expects.
    pub exp_stat_sn: u32,
}

/// A text request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// The text ends here.
    pub is_final: bool,
    /// The text goes on in the next request.
    pub continues: bool,
    /// Logical unit, copied from our answer.
    pub lun: u64,
    /// Tag.
    pub itt: u32,
    /// Tag of our unfinished answer, or [`header::NO_TAG`].
    pub ttt: u32,
    /// Command number.
    pub cmd_sn: u32,
}

/// Data of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataOut {
    /// The last of a sequence.
    pub is_final: bool,
    /// Tag of the task.
    pub itt: u32,
    /// Tag of our request for the data; [`header::NO_TAG`] if we did not ask.
    pub ttt: u32,
    /// Number within the sequence.
    pub data_sn: u32,
    /// Place of the data in the command's data.
    pub offset: u32,
}

/// A logout request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logout {
    /// 0 ends the session, 1 the connection, 2 is for recovery.
    pub reason: u8,
    /// Tag.
    pub itt: u32,
    /// Connection it is about.
    pub cid: u16,
    /// Command number.
    pub cmd_sn: u32,
}

impl Request {
    /// Reads a header. `None` if the opcode is not that of an initiator, or is one that only higher
    /// levels of error recovery have.
    #[must_use]
    pub fn parse(bytes: &Bhs) -> Option<Request> {
        let (flags, itt) = (bytes[1], get_u32(bytes, 16));
        let is_final = flags & FINAL != 0;
        let continues = flags & 0x40 != 0;
        let (lun, ttt, cmd_sn) = (get_u64(bytes, 8), get_u32(bytes, 20), get_u32(bytes, 24));
        Some(match Header::parse(bytes).opcode {
            opcodes::NOP_OUT => Request::NopOut(NopOut {
                lun,
                itt,
                ttt,
                cmd_sn,
            }),
            opcodes::COMMAND => Request::Command(Command {
                is_final,
                reads: flags & 0x40 != 0,
                writes: flags & 0x20 != 0,
                attribute: flags & 0x07,
                lun,
                itt,
                expected_bytes: get_u32(bytes, 20),
                cmd_sn,
                cdb: take(bytes, 32),
            }),
            opcodes::TASK_MANAGEMENT => Request::TaskManagement(TaskManagement {
                function: flags & 0x7f,
                lun,
                itt,
                referenced: get_u32(bytes, 20),
                cmd_sn,
                referenced_cmd_sn: get_u32(bytes, 32),
            }),
            opcodes::LOGIN => Request::Login(Login {
                transits: is_final,
                continues,
                current: flags >> 2 & 3,
                next: flags & 3,
                version_min: bytes[3],
                isid: take(bytes, 8),
                tsih: get_u16(bytes, 14),
                itt,
                cid: get_u16(bytes, 20),
                cmd_sn,
                exp_stat_sn: get_u32(bytes, 28),
            }),
            opcodes::TEXT => Request::Text(Text {
                is_final,
                continues,
                lun,
                itt,
                ttt,
                cmd_sn,
            }),
            opcodes::DATA_OUT => Request::DataOut(DataOut {
                is_final,
                itt,
                ttt,
                data_sn: get_u32(bytes, 36),
                offset: get_u32(bytes, 40),
            }),
            opcodes::LOGOUT => Request::Logout(Logout {
                reason: flags & 0x7f,
                itt,
                cid: get_u16(bytes, 20),
                cmd_sn,
            }),
            _ => return None,
        })
    }

    /// Returns the header, without lengths. Data that is sent without immediate delivery carries no
    /// command number, so it has none here.
    #[must_use]
    pub fn encode(&self, is_immediate: bool) -> Bhs {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        match self {
            Request::NopOut(nop) => {
                let mut bytes = begin(opcodes::NOP_OUT, is_immediate, FINAL, nop.itt);
                put_u64(&mut bytes, 8, nop.lun);
                put_u32(&mut bytes, 20, nop.ttt);
                put_u32(&mut bytes, 24, nop.cmd_sn);
                bytes
            }
            Request::Command(command) => {
                let flags = bit(command.is_final, FINAL)
                    | bit(command.reads, 0x40)
                    | bit(command.writes, 0x20)
                    | command.attribute & 7;
                let mut bytes = begin(opcodes::COMMAND, is_immediate, flags, command.itt);
                put_u64(&mut bytes, 8, command.lun);
                put_u32(&mut bytes, 20, command.expected_bytes);
                put_u32(&mut bytes, 24, command.cmd_sn);
                bytes[32..48].copy_from_slice(&command.cdb);
                bytes
            }
            Request::TaskManagement(task) => {
                let flags = FINAL | task.function;
                let mut bytes = begin(opcodes::TASK_MANAGEMENT, is_immediate, flags, task.itt);
                put_u64(&mut bytes, 8, task.lun);
                put_u32(&mut bytes, 20, task.referenced);
                put_u32(&mut bytes, 24, task.cmd_sn);
                put_u32(&mut bytes, 32, task.referenced_cmd_sn);
                bytes
            }
            Request::Login(login) => {
                let flags = bit(login.transits, FINAL)
                    | bit(login.continues, 0x40)
                    | (login.current & 3) << 2
                    | login.next & 3;
                let mut bytes = begin(opcodes::LOGIN, true, flags, login.itt);
                bytes[3] = login.version_min;
                bytes[8..14].copy_from_slice(&login.isid);
                put_u16(&mut bytes, 14, login.tsih);
                put_u16(&mut bytes, 20, login.cid);
                put_u32(&mut bytes, 24, login.cmd_sn);
                put_u32(&mut bytes, 28, login.exp_stat_sn);
                bytes
            }
            Request::Text(text) => {
                let flags = bit(text.is_final, FINAL) | bit(text.continues, 0x40);
                let mut bytes = begin(opcodes::TEXT, is_immediate, flags, text.itt);
                put_u64(&mut bytes, 8, text.lun);
                put_u32(&mut bytes, 20, text.ttt);
                put_u32(&mut bytes, 24, text.cmd_sn);
                bytes
            }
            Request::DataOut(data) => {
                let flags = bit(data.is_final, FINAL);
                let mut bytes = begin(opcodes::DATA_OUT, false, flags, data.itt);
                put_u32(&mut bytes, 20, data.ttt);
                put_u32(&mut bytes, 36, data.data_sn);
                put_u32(&mut bytes, 40, data.offset);
                bytes
            }
            Request::Logout(logout) => {
                let flags = FINAL | logout.reason;
                let mut bytes = begin(opcodes::LOGOUT, is_immediate, flags, logout.itt);
                put_u16(&mut bytes, 20, logout.cid);
                put_u32(&mut bytes, 24, logout.cmd_sn);
                bytes
            }
        }
    }

    /// Returns the message with its data and padding, without digests.
    ///
    /// # Panics
    /// If the data is longer than a segment can be.
    #[must_use]
    pub fn message(&self, is_immediate: bool, data: &[u8]) -> Vec<u8> {
        let mut bhs = self.encode(is_immediate);
        let length = u32::try_from(data.len()).expect("24 bits");
        header::set_data_bytes(&mut bhs, length);
        let mut message = bhs.to_vec();
        message.extend_from_slice(data);
        message.resize(message.len() + header::padding(length) as usize, 0);
        message
    }
}
