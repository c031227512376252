//! The table of commands, which decodes them. The same table says which commands there are (REPORT
//! SUPPORTED OPERATION CODES), so what is told and what is done cannot differ.

use super::cdb::{Cdb, Check, Command, ModeSense, Range};
use super::{COMPARE_BLOCKS_MAX, Sense, TRANSFER_BLOCKS_MAX, WRITE_SAME_BLOCKS_MAX};

/// A row of the table.
pub struct Row {
    /// Operation code.
    pub opcode: u8,
    /// Service action, for operation codes that have some.
    pub action: Option<u16>,
    /// Which bits of the command are looked at. Its length is that of the command.
    pub usage: &'static [u8],
    decode: fn(&Cdb) -> Result<Command, Sense>,
}

const fn row(opcode: u8, usage: &'static [u8], decode: fn(&Cdb) -> Result<Command, Sense>) -> Row {
    Row {
        opcode,
        action: None,
        usage,
        decode,
    }
}

const fn action(
    opcode: u8,
    action: u16,
    usage: &'static [u8],
    decode: fn(&Cdb) -> Result<Command, Sense>,
) -> Row {
    Row {
        opcode,
        action: Some(action),
        usage,
        decode,
    }
}

const F: u8 = 0xff;

/// All commands, by operation code and service action.
pub static TABLE: &[Row] = &[
    row(0x00, &[0, 0, 0, 0, 0, 4], |_| Ok(Command::TestUnitReady)),
    row(0x03, &[3, 1, 0, 0, F, 4], |cdb| {
        Ok(Command::RequestSense {
            has_descriptors: cdb[1] & 1 != 0,
            room: be(cdb, 4, 1),
        })
    }),
    row(0x08, &[8, 0x1f, F, F, F, 4], |cdb| {
        Ok(Command::Read(transfer(range_6(cdb), 4)?))
    }),
    row(0x0a, &[0x0a, 0x1f, F, F, F, 4], |cdb| {
        let range = transfer(range_6(cdb), 4)?;
        let durable = false;
        Ok(Command::Write { range, durable })
    }),
    row(0x12, &[0x12, 1, F, F, F, 4], |cdb| {
        let has_page = cdb[1] & 1 != 0;
        if !has_page && cdb[2] != 0 {
            return Err(Sense::in_command(2));
        }
        Ok(Command::Inquiry {
            page: has_page.then_some(cdb[2]),
            room: be(cdb, 3, 2),
        })
    }),
    row(0x15, &[0x15, 0x11, 0, 0, F, 4], |cdb| {
        mode_select(cdb, false, be(cdb, 4, 1))
    }),
    row(0x1a, &[0x1a, 8, F, F, F, 4], |cdb| {
        Ok(mode_sense(cdb, false, be(cdb, 4, 1)))
    }),
    row(0x1b, &[0x1b, 1, 0, 0x0f, 0xf7, 4], |_| {
        Ok(Command::StartStop)
    }),
    row(0x1e, &[0x1e, 0, 0, 0, 3, 4], |cdb| {
        let prevents = cdb[4] & 1 != 0;
        Ok(Command::PreventAllow { prevents })
    }),
    row(0x25, &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 4], |_| {
        Ok(Command::ReadCapacity10)
    }),
    row(0x28, &[0x28, 0xfa, F, F, F, F, 0x1f, F, F, 4], |cdb| {
        protected(cdb)?;
        Ok(Command::Read(transfer(range_10(cdb), 7)?))
    }),
    row(0x2a, &[0x2a, 0xfa, F, F, F, F, 0x1f, F, F, 4], |cdb| {
        write(cdb, range_10(cdb), 7)
    }),
    row(0x2e, &[0x2e, 0xf6, F, F, F, F, 0x1f, F, F, 4], |cdb| {
        write_and_verify(cdb, range_10(cdb), 7)
    }),
    row(0x2f, &[0x2f, 0xf6, F, F, F, F, 0x1f, F, F, 4], |cdb| {
        verify(cdb, range_10(cdb), 7)
    }),
    row(0x34, &[0x34, 2, F, F, F, F, 0x1f, F, F, 4], |cdb| {
        Ok(Command::Prefetch(range_10(cdb)))
    }),
    row(0x35, &[0x35, 6, F, F, F, F, 0x1f, F, F, 4], |cdb| {
        Ok(Command::Flush(range_10(cdb)))
    }),
    row(0x41, &[0x41, 0xf8, F, F, F, F, 0x1f, F, F, 4], |cdb| {
        write_same(cdb, range_10(cdb), 7, false)
    }),
    row(0x42, &[0x42, 1, 0, 0, 0, 0, 0x1f, F, F, 4], |cdb| {
        // Space is freed, or it is not; there is no anchored space.
        if cdb[1] & 1 != 0 {
            return Err(Sense::in_command(1));
        }
        let bytes = be(cdb, 7, 2);
        Ok(Command::Unmap { bytes })
    }),
    row(0x4d, &[0x4d, 1, F, F, 0, F, F, F, F, 4], |cdb| {
        if cdb[1] & 1 != 0 {
            return Err(Sense::in_command(1));
        }
        Ok(Command::LogSense {
            page: cdb[2] & 0x3f,
            subpage: cdb[3],
            room: be(cdb, 7, 2),
        })
    }),
    row(0x55, &[0x55, 0x11, 0, 0, 0, 0, 0, F, F, 4], |cdb| {
        mode_select(cdb, true, be(cdb, 7, 2))
    }),
    row(0x5a, &[0x5a, 0x18, F, F, 0, 0, 0, F, F, 4], |cdb| {
        Ok(mode_sense(cdb, true, be(cdb, 7, 2)))
    }),
    action(0x5e, 0, &[0x5e, 0, 0, 0, 0, 0, 0, F, F, 4], reserve_in),
    action(0x5e, 1, &[0x5e, 1, 0, 0, 0, 0, 0, F, F, 4], reserve_in),
    action(0x5e, 2, &[0x5e, 2, 0, 0, 0, 0, 0, F, F, 4], reserve_in),
    action(0x5e, 3, &[0x5e, 3, 0, 0, 0, 0, 0, F, F, 4], reserve_in),
    action(0x5f, 0, &[0x5f, 0, F, 0, 0, F, F, F, F, 4], reserve_out),
    action(0x5f, 1, &[0x5f, 1, F, 0, 0, F, F, F, F, 4], reserve_out),
    action(0x5f, 2, &[0x5f, 2, F, 0, 0, F, F, F, F, 4], reserve_out),
    action(0x5f, 3, &[0x5f, 3, F, 0, 0, F, F, F, F, 4], reserve_out),
    action(0x5f, 4, &[0x5f, 4, F, 0, 0, F, F, F, F, 4], reserve_out),
    action(0x5f, 5, &[0x5f, 5, F, 0, 0, F, F, F, F, 4], reserve_out),
    action(0x5f, 6, &[0x5f, 6, F, 0, 0, F, F, F, F, 4], reserve_out),
    row(
        0x88,
        &[0x88, 0xfa, F, F, F, F, F, F, F, F, F, F, F, F, 0x1f, 4],
        |cdb| {
            protected(cdb)?;
            Ok(Command::Read(transfer(range_16(cdb), 10)?))
        },
    ),
    row(
        0x89,
        &[0x89, 0xf8, F, F, F, F, F, F, F, F, 0, 0, 0, F, 0x1f, 4],
        |cdb| {
            protected(cdb)?;
            let range = Range {
                lba: be_u64(cdb, 2),
                blocks: u64::from(cdb[13]),
            };
            if range.blocks > u64::from(COMPARE_BLOCKS_MAX) {
                return Err(Sense::in_command(13));
            }
            let durable = has_fua(cdb);
            Ok(Command::CompareAndWrite { range, durable })
        },
    ),
    row(
        0x8a,
        &[0x8a, 0xfa, F, F, F, F, F, F, F, F, F, F, F, F, 0x1f, 4],
        |cdb| write(cdb, range_16(cdb), 10),
    ),
    row(
        0x8b,
        &[0x8b, 0xf8, F, F, F, F, F, F, F, F, F, F, F, F, 0x1f, 4],
        |cdb| {
            protected(cdb)?;
            let range = transfer(range_16(cdb), 10)?;
            let durable = has_fua(cdb);
            Ok(Command::OrWrite { range, durable })
        },
    ),
    row(
        0x8e,
        &[0x8e, 0xf6, F, F, F, F, F, F, F, F, F, F, F, F, 0x1f, 4],
        |cdb| write_and_verify(cdb, range_16(cdb), 10),
    ),
    row(
        0x8f,
        &[0x8f, 0xf6, F, F, F, F, F, F, F, F, F, F, F, F, 0x1f, 4],
        |cdb| verify(cdb, range_16(cdb), 10),
    ),
    row(
        0x90,
        &[0x90, 2, F, F, F, F, F, F, F, F, F, F, F, F, 0x1f, 4],
        |cdb| Ok(Command::Prefetch(range_16(cdb))),
    ),
    row(
        0x91,
        &[0x91, 6, F, F, F, F, F, F, F, F, F, F, F, F, 0x1f, 4],
        |cdb| Ok(Command::Flush(range_16(cdb))),
    ),
    row(
        0x93,
        &[0x93, 0xf9, F, F, F, F, F, F, F, F, F, F, F, F, 0x1f, 4],
        |cdb| write_same(cdb, range_16(cdb), 10, cdb[1] & 1 != 0),
    ),
    action(
        0x9e,
        0x10,
        &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, F, F, F, F, 0, 4],
        |cdb| {
            let room = be(cdb, 10, 4);
            Ok(Command::ReadCapacity16 { room })
        },
    ),
    action(
        0x9e,
        0x12,
        &[0x9e, 0x12, F, F, F, F, F, F, F, F, F, F, F, F, 0, 4],
        |cdb| {
            let (lba, room) = (be_u64(cdb, 2), be(cdb, 10, 4));
            Ok(Command::LbaStatus { lba, room })
        },
    ),
    row(0xa0, &[0xa0, 0, F, 0, 0, 0, F, F, F, F, 0, 4], |cdb| {
        let (select, room) = (cdb[2], be(cdb, 6, 4));
        Ok(Command::ReportLuns { select, room })
    }),
    action(
        0xa3,
        0x0a,
        &[0xa3, 0xea, 0, 0, 0, 0, F, F, F, F, 0, 4],
        |cdb| {
            Ok(Command::ReportPortGroups {
                is_extended: cdb[1] >> 5 == 1,
                room: be(cdb, 6, 4),
            })
        },
    ),
    action(
        0xa3,
        0x0c,
        &[0xa3, 0x0c, 0x87, F, F, F, F, F, F, F, 0, 4],
        |cdb| {
            Ok(Command::ReportOpcodes {
                options: cdb[2] & 7,
                has_timeouts: cdb[2] & 0x80 != 0,
                opcode: cdb[3],
                action: u16::from_be_bytes([cdb[4], cdb[5]]),
                room: be(cdb, 6, 4),
            })
        },
    ),
    action(
        0xa3,
        0x0d,
        &[0xa3, 0x0d, 0x80, 0, 0, 0, F, F, F, F, 0, 4],
        |cdb| {
            Ok(Command::ReportTaskManagement {
                is_long: cdb[2] & 0x80 != 0,
                room: be(cdb, 6, 4),
            })
        },
    ),
    row(
        0xa8,
        &[0xa8, 0xfa, F, F, F, F, F, F, F, F, 0x1f, 4],
        |cdb| {
            protected(cdb)?;
            Ok(Command::Read(transfer(range_12(cdb), 6)?))
        },
    ),
    row(
        0xaa,
        &[0xaa, 0xfa, F, F, F, F, F, F, F, F, 0x1f, 4],
        |cdb| write(cdb, range_12(cdb), 6),
    ),
    row(
        0xae,
        &[0xae, 0xf6, F, F, F, F, F, F, F, F, 0x1f, 4],
        |cdb| write_and_verify(cdb, range_12(cdb), 6),
    ),
    row(
        0xaf,
        &[0xaf, 0xf6, F, F, F, F, F, F, F, F, 0x1f, 4],
        |cdb| verify(cdb, range_12(cdb), 6),
    ),
];

/// Returns the service action of a command, for operation codes that have some.
#[must_use]
pub fn action_of(cdb: &Cdb) -> u16 {
    u16::from(cdb[1] & 0x1f)
}

impl Command {
    /// Decodes a command.
    ///
    /// # Errors
    /// It is not known, or a field is wrong.
    pub fn decode(cdb: &Cdb) -> Result<Command, Sense> {
        let mut rows = TABLE.iter().filter(|row| row.opcode == cdb[0]);
        let Some(first) = rows.next() else {
            return Err(Sense::UNKNOWN_COMMAND);
        };
        let row = match first.action {
            None => first,
            Some(_) => {
                let wanted = Some(action_of(cdb));
                let mut all = std::iter::once(first).chain(rows);
                all.find(|row| row.action == wanted)
                    .ok_or(Sense::in_command(1))?
            }
        };
        // NACA asks for a state that we do not have (INQUIRY says so).
        let control = row.usage.len() - 1;
        if cdb[control] & 0x04 != 0 {
            return Err(Sense::in_command(u16::try_from(control).expect("below 16")));
        }
        (row.decode)(cdb)
    }
}

fn be(cdb: &Cdb, at: usize, count: usize) -> u32 {
    let bytes = &cdb[at..at + count];
    bytes
        .iter()
        .fold(0, |all, byte| all << 8 | u32::from(*byte))
}

fn be_u64(cdb: &Cdb, at: usize) -> u64 {
    u64::from(be(cdb, at, 4)) << 32 | u64::from(be(cdb, at + 4, 4))
}

fn range_6(cdb: &Cdb) -> Range {
    // 0 means 256 blocks.
    let blocks = match cdb[4] {
        0 => 256,
        blocks => u64::from(blocks),
    };
    let lba = u64::from(be(cdb, 1, 3) & 0x1f_ffff);
    Range { lba, blocks }
}

fn range_10(cdb: &Cdb) -> Range {
    Range {
        lba: u64::from(be(cdb, 2, 4)),
        blocks: u64::from(be(cdb, 7, 2)),
    }
}

fn range_12(cdb: &Cdb) -> Range {
    Range {
        lba: u64::from(be(cdb, 2, 4)),
        blocks: u64::from(be(cdb, 6, 4)),
    }
}

fn range_16(cdb: &Cdb) -> Range {
    Range {
        lba: be_u64(cdb, 2),
        blocks: u64::from(be(cdb, 10, 4)),
    }
}

/// Refuses more blocks than one command may move. `byte` is where their number is.
fn transfer(range: Range, byte: u16) -> Result<Range, Sense> {
    match range.blocks <= u64::from(TRANSFER_BLOCKS_MAX) {
        true => Ok(range),
        false => Err(Sense::in_command(byte)),
    }
}

/// Refuses protection information, which we do not have.
fn protected(cdb: &Cdb) -> Result<(), Sense> {
    match cdb[1] & 0xe0 {
        0 => Ok(()),
        _ => Err(Sense::in_command(1)),
    }
}

fn has_fua(cdb: &Cdb) -> bool {
    cdb[1] & 0x08 != 0
}

fn write(cdb: &Cdb, range: Range, byte: u16) -> Result<Command, Sense> {
    protected(cdb)?;
    Ok(Command::Write {
        range: transfer(range, byte)?,
        durable: has_fua(cdb),
    })
}

fn write_and_verify(cdb: &Cdb, range: Range, byte: u16) -> Result<Command, Sense> {
    protected(cdb)?;
    let compares = match cdb[1] >> 1 & 3 {
        0 => false,
        1 => true,
        _ => return Err(Sense::in_command(1)),
    };
    let range = transfer(range, byte)?;
    Ok(Command::WriteAndVerify { range, compares })
}

fn verify(cdb: &Cdb, range: Range, byte: u16) -> Result<Command, Sense> {
    protected(cdb)?;
    let check = match cdb[1] >> 1 & 3 {
        0 => Check::Readable,
        1 => Check::Blocks,
        3 => Check::Same,
        _ => return Err(Sense::in_command(1)),
    };
    let range = transfer(range, byte)?;
    Ok(Command::Verify { range, check })
}

fn write_same(cdb: &Cdb, range: Range, byte: u16, no_data: bool) -> Result<Command, Sense> {
    protected(cdb)?;
    let (anchors, unmaps) = (cdb[1] & 0x10 != 0, cdb[1] & 0x08 != 0);
    if anchors {
        return Err(Sense::in_command(1));
    }
    if range.blocks > WRITE_SAME_BLOCKS_MAX {
        return Err(Sense::in_command(byte));
    }
    Ok(Command::WriteSame {
        range,
        unmaps,
        no_data,
    })
}

fn mode_sense(cdb: &Cdb, is_long: bool, room: u32) -> Command {
    Command::ModeSense(ModeSense {
        is_long,
        no_blocks: cdb[1] & 0x08 != 0,
        control: cdb[2] >> 6,
        page: cdb[2] & 0x3f,
        subpage: cdb[3],
        room,
    })
}

fn mode_select(cdb: &Cdb, is_long: bool, bytes: u32) -> Result<Command, Sense> {
    // Pages of the format that every standard since SCSI-2 has.
    if cdb[1] & 0x10 == 0 {
        return Err(Sense::in_command(1));
    }
    Ok(Command::ModeSelect {
        is_long,
        saves: cdb[1] & 1 != 0,
        bytes,
    })
}

fn reserve_in(cdb: &Cdb) -> Result<Command, Sense> {
    Ok(Command::ReserveIn {
        action: cdb[1] & 0x1f,
        room: be(cdb, 7, 2),
    })
}

fn reserve_out(cdb: &Cdb) -> Result<Command, Sense> {
    Ok(Command::ReserveOut {
        action: cdb[1] & 0x1f,
        scope: cdb[2] >> 4,
        kind: cdb[2] & 0x0f,
        bytes: be(cdb, 5, 4),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cdb(bytes: &[u8]) -> Cdb {
        let mut cdb = [0; 16];
        cdb[..bytes.len()].copy_from_slice(bytes);
        cdb
    }

    #[test]
    fn the_table_is_in_order_and_each_row_has_its_own_length() {
        let keys: Vec<_> = TABLE.iter().map(|row| (row.opcode, row.action)).collect();
        assert!(keys.is_sorted() && keys.windows(2).all(|two| two[0] != two[1]));
        for row in TABLE {
            let length = match row.opcode >> 5 {
                0 => 6,
                1 | 2 => 10,
                4 => 16,
                _ => 12,
            };
            assert_eq!(row.usage.len(), length, "{:02x}", row.opcode);
            assert_eq!(row.usage[0], row.opcode);
        }
    }

    #[test]
    fn reads_of_every_length_say_the_same() {
        let range = Range {
            lba: 0x1_0203,
            blocks: 4,
        };
        for bytes in [
            &[8, 1, 2, 3, 4, 0][..],
            &[0x28, 0, 0, 1, 2, 3, 0, 0, 4],
            &[0xa8, 0, 0, 1, 2, 3, 0, 0, 0, 4],
            &[0x88, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 4],
        ] {
            assert_eq!(Command::decode(&cdb(bytes)), Ok(Command::Read(range)));
        }
        let whole = Command::decode(&cdb(&[8, 0, 0, 0, 0])).expect("a read");
        assert_eq!(whole.range().map(|range| range.blocks), Some(256));
    }

    #[test]
    fn what_is_not_supported_is_refused_where_it_is_wrong() {
        for (bytes, sense) in [
            (&[0xff][..], Sense::UNKNOWN_COMMAND),
            (&[0x28, 0x20], Sense::in_command(1)),
            (&[0x28, 0, 0, 0, 0, 0, 0, 0x08, 0x01], Sense::in_command(7)),
            (
                &[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 129],
                Sense::in_command(13),
            ),
            (&[0x5e, 0x1f], Sense::in_command(1)),
            (&[0x9e, 0x11], Sense::in_command(1)),
            (&[0x2f, 0x04], Sense::in_command(1)),
            (&[0x42, 1], Sense::in_command(1)),
            (&[0x00, 0, 0, 0, 0, 4], Sense::in_command(5)),
            (&[0x12, 0, 0x80], Sense::in_command(2)),
        ] {
            assert_eq!(Command::decode(&cdb(bytes)), Err(sense), "{bytes:x?}");
        }
    }

    #[test]
    fn flags_reach_the_command() {
        let write = Command::decode(&cdb(&[0x8a, 0x18])).expect("a write");
        assert!(matches!(write, Command::Write { durable: true, .. }));
        let same = Command::decode(&cdb(&[0x93, 0x09])).expect("a write same");
        let expected = Command::WriteSame {
            range: Range::default(),
            unmaps: true,
            no_data: true,
        };
        assert_eq!((same, same.bytes_out()), (expected, 0));
        let check = Command::decode(&cdb(&[0x2f, 6, 0, 0, 0, 0, 0, 0, 9])).expect("a verify");
        assert_eq!(check.bytes_out(), 512, "one block is compared with all");
    }
}
