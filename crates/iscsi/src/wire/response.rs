//! What targets send (RFC 7143 §11).

use super::header::{
    Bhs, FINAL, Header, begin, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64, take,
};

/// Opcodes of targets.
pub mod opcodes {
    /// Are you there, or an answer to that.
    pub const NOP_IN: u8 = 0x20;
    /// Outcome of a SCSI command.
    pub const STATUS: u8 = 0x21;
    /// Outcome of a task management function.
    pub const TASK_MANAGEMENT: u8 = 0x22;
    /// Login.
    pub const LOGIN: u8 = 0x23;
    /// Text.
    pub const TEXT: u8 = 0x24;
    /// Data of a read.
    pub const DATA_IN: u8 = 0x25;
    /// Logout.
    pub const LOGOUT: u8 = 0x26;
    /// A request for the data of a write.
    pub const READY_TO_TRANSFER: u8 = 0x31;
    /// Something happened that nobody asked for.
    pub const ASYNC: u8 = 0x32;
    /// A message was not understood.
    pub const REJECT: u8 = 0x3f;
}

/// Flag of a reply: data was missing.
const UNDERFLOW: u8 = 0x02;
/// Flag of a reply: there was more data than room.
const OVERFLOW: u8 = 0x04;

/// The numbers that most messages of a target carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Number of the status.
    pub stat_sn: u32,
    /// Next command number that is expected.
    pub exp_cmd_sn: u32,
    /// Last command number that is allowed.
    pub max_cmd_sn: u32,
}

/// The difference between the bytes that a command moves and those that the initiator expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residual {
    /// None.
    #[default]
    None,
    /// This many bytes of those expected were not moved.
    Underflow(u32),
    /// This many bytes more would have been moved.
    Overflow(u32),
}

/// A message of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// Answer to a ping, or a ping.
    NopIn {
        /// Logical unit of a ping.
        lun: u64,
        /// Tag of the initiator's ping.
        itt: u32,
        /// Tag of our ping.
        ttt: u32,
    },
    /// Outcome of a SCSI command.
    Status {
        /// Tag of the task.
        itt: u32,
        /// SCSI status.
        status: u8,
        /// Data that was not moved.
        residual: Residual,
        /// Number of messages with data, for reads.
        exp_data_sn: u32,
    },
    /// Outcome of a task management function.
    TaskManagement {
        /// Tag of the request.
        itt: u32,
        /// Code of the outcome.
        response: u8,
    },
    /// Login.
    Login {
        /// The stage changes.
        transits: bool,
        /// Our text goes on in the next response.
        continues: bool,
        /// Stage, 2 bits.
        current: u8,
        /// Next stage, 2 bits.
        next: u8,
        /// Initiator's part of the session's identity.
        isid: [u8; 6],
        /// Ours.
        tsih: u16,
        /// Tag.
        itt: u32,
        /// Class and detail.
        status: (u8, u8),
    },
    /// Text.
    Text {
        /// The answer ends here.
        is_final: bool,
        /// Our text goes on in the next response.
        continues: bool,
        /// Logical unit, to be copied.
        lun: u64,
        /// Tag.
        itt: u32,
        /// Tag of our unfinished answer.
        ttt: u32,
    },
    /// Data of a read.
    DataIn {
        /// The last of a sequence.
        is_final: bool,
        /// With the status of the command, if it is the last: status and residual.
        status: Option<(u8, Residual)>,
        /// Tag of the task.
        itt: u32,
        /// Number within the command.
        data_sn: u32,
        /// Place in the command's data.
        offset: u32,
    },
    /// Logout.
    Logout {
        /// Tag.
        itt: u32,
        /// Code of the outcome.
        response: u8,
    },
    /// A request for data.
    ReadyToTransfer {
        /// Logical unit.
        lun: u64,
        /// Tag of the task.
        itt: u32,
        /// Tag of this request.
        ttt: u32,
        /// Number within the command.
        r2t_sn: u32,
        /// Place in the command's data.
        offset: u32,
        /// Bytes wanted.
        length: u32,
    },
    /// Something happened.
    Async {
        /// Code of the event.
        event: u8,
        /// Its parameters.
        parameters: [u16; 3],
    },
    /// A message was not understood; its header is the data.
    Reject {
        /// Code of the reason.
        reason: u8,
    },
}

impl Residual {
    fn flags(self) -> u8 {
        match self {
            Residual::None => 0,
            Residual::Underflow(_) => UNDERFLOW,
            Residual::Overflow(_) => OVERFLOW,
        }
    }

    fn count(self) -> u32 {
        match self {
            Residual::None => 0,
            Residual::Underflow(count) | Residual::Overflow(count) => count,
        }
    }

    fn of(flags: u8, count: u32) -> Residual {
        match (flags & UNDERFLOW != 0, flags & OVERFLOW != 0) {
            (true, _) => Residual::Underflow(count),
            (_, true) => Residual::Overflow(count),
            _ => Residual::None,
        }
    }
}

impl Response {
    /// Returns whether the message has a status number of its own, after which the next message has
    /// the next number.
    #[must_use]
    pub fn advances(&self) -> bool {
        match self {
            // Our ping shows the next number without using it.
            Response::NopIn { itt, .. } => *itt != super::header::NO_TAG,
            Response::DataIn { status, .. } => status.is_some(),
            Response::ReadyToTransfer { .. } => false,
            _ => true,
        }
    }

    /// Returns the header, without the length of the data.
    #[must_use]
    pub fn encode(&self, numbers: Numbers) -> Bhs {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let tag = super::header::NO_TAG;
        let mut bytes = match self {
            Response::NopIn { lun, itt, ttt } => {
                let mut bytes = begin(opcodes::NOP_IN, false, FINAL, *itt);
                put_u64(&mut bytes, 8, *lun);
                put_u32(&mut bytes, 20, *ttt);
                bytes
            }
            Response::Status {
                itt,
                status,
                residual,
                exp_data_sn,
            } => {
                let mut bytes = begin(opcodes::STATUS, false, FINAL | residual.flags(), *itt);
                bytes[3] = *status;
                put_u32(&mut bytes, 36, *exp_data_sn);
                put_u32(&mut bytes, 44, residual.count());
                bytes
            }
            Response::TaskManagement { itt, response } => {
                let mut bytes = begin(opcodes::TASK_MANAGEMENT, false, FINAL, *itt);
                bytes[2] = *response;
                bytes
            }
            Response::Login {
                transits,
                continues,
                current,
                next,
                isid,
                tsih,
                itt,
                status,
            } => {
                let flags = bit(*transits, FINAL)
                    | bit(*continues, 0x40)
                    | (current & 3) << 2
                    | if *transits { next & 3 } else { 0 };
                let mut bytes = begin(opcodes::LOGIN, false, flags, *itt);
                bytes[8..14].copy_from_slice(isid);
                put_u16(&mut bytes, 14, *tsih);
                (bytes[36], bytes[37]) = *status;
                bytes
            }
            Response::Text {
                is_final,
                continues,
                lun,
                itt,
                ttt,
            } => {
                let flags = bit(*is_final, FINAL) | bit(*continues, 0x40);
                let mut bytes = begin(opcodes::TEXT, false, flags, *itt);
                put_u64(&mut bytes, 8, *lun);
                put_u32(&mut bytes, 20, *ttt);
                bytes
            }
            Response::DataIn {
                is_final,
                status,
                itt,
                data_sn,
                offset,
            } => {
                let flags = bit(*is_final, FINAL)
                    | status.map_or(0, |(_, residual)| 0x01 | residual.flags());
                let mut bytes = begin(opcodes::DATA_IN, false, flags, *itt);
                put_u32(&mut bytes, 20, tag);
                put_u32(&mut bytes, 36, *data_sn);
                put_u32(&mut bytes, 40, *offset);
                if let Some((status, residual)) = status {
                    bytes[3] = *status;
                    put_u32(&mut bytes, 44, residual.count());
                }
                bytes
            }
            Response::Logout { itt, response } => {
                let mut bytes = begin(opcodes::LOGOUT, false, FINAL, *itt);
                bytes[2] = *response;
                bytes
            }
            Response::ReadyToTransfer {
                lun,
                itt,
                ttt,
                r2t_sn,
                offset,
                length,
            } => {
                let mut bytes = begin(opcodes::READY_TO_TRANSFER, false, FINAL, *itt);
                put_u64(&mut bytes, 8, *lun);
                put_u32(&mut bytes, 20, *ttt);
                put_u32(&mut bytes, 36, *r2t_sn);
                put_u32(&mut bytes, 40, *offset);
                put_u32(&mut bytes, 44, *length);
                bytes
            }
            Response::Async { event, parameters } => {
                let mut bytes = begin(opcodes::ASYNC, false, FINAL, tag);
                bytes[36] = *event;
                for (parameter, at) in parameters.iter().zip([38, 40, 42]) {
                    put_u16(&mut bytes, at, *parameter);
                }
                bytes
            }
            Response::Reject { reason } => {
                let mut bytes = begin(opcodes::REJECT, false, FINAL, tag);
                bytes[2] = *reason;
                bytes
            }
        };
        // Data without a status has no status number (RFC 7143 §11.7.2).
        let has_status = !matches!(self, Response::DataIn { status: None, .. });
        put_u32(&mut bytes, 24, if has_status { numbers.stat_sn } else { 0 });
        put_u32(&mut bytes, 28, numbers.exp_cmd_sn);
        put_u32(&mut bytes, 32, numbers.max_cmd_sn);
        bytes
    }

    /// Reads a header: the initiator's side, for tests. `None` if the opcode is not that of a
    /// target.
    #[must_use]
    pub fn parse(bytes: &Bhs) -> Option<(Response, Numbers)> {
        let (flags, itt, ttt) = (bytes[1], get_u32(bytes, 16), get_u32(bytes, 20));
        let is_final = flags & FINAL != 0;
        let continues = flags & 0x40 != 0;
        let lun = get_u64(bytes, 8);
        let numbers = Numbers {
            stat_sn: get_u32(bytes, 24),
            exp_cmd_sn: get_u32(bytes, 28),
            max_cmd_sn: get_u32(bytes, 32),
        };
        let residual = Residual::of(flags, get_u32(bytes, 44));
        let response = match Header::parse(bytes).opcode {
            opcodes::NOP_IN => Response::NopIn { lun, itt, ttt },
            opcodes::STATUS => Response::Status {
                itt,
                status: bytes[3],
                residual,
                exp_data_sn: get_u32(bytes, 36),
            },
            opcodes::TASK_MANAGEMENT => Response::TaskManagement {
                itt,
                response: bytes[2],
            },
            opcodes::LOGIN => Response::Login {
                transits: is_final,
                continues,
                current: flags >> 2 & 3,
                next: flags & 3,
                isid: take(bytes, 8),
                tsih: get_u16(bytes, 14),
                itt,
                status: (bytes[36], bytes[37]),
            },
            opcodes::TEXT => Response::Text {
                is_final,
                continues,
                lun,
                itt,
                ttt,
            },
            opcodes::DATA_IN => Response::DataIn {
                is_final,
                status: (flags & 1 != 0).then_some((bytes[3], residual)),
                itt,
                data_sn: get_u32(bytes, 36),
                offset: get_u32(bytes, 40),
            },
            opcodes::LOGOUT => Response::Logout {
                itt,
                response: bytes[2],
            },
            opcodes::READY_TO_TRANSFER => Response::ReadyToTransfer {
                lun,
                itt,
                ttt,
                r2t_sn: get_u32(bytes, 36),
                offset: get_u32(bytes, 40),
                length: get_u32(bytes, 44),
            },
            opcodes::ASYNC => Response::Async {
                event: bytes[36],
                parameters: [38, 40, 42].map(|at| get_u16(bytes, at)),
            },
            opcodes::REJECT => Response::Reject { reason: bytes[2] },
            _ => return None,
        };
        Some((response, numbers))
    }
}
