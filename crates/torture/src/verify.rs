//! Reading a whole LUN after a restart.

use std::io;

use crate::client::Command;

use crate::client::{Address, Ask, Connection};
use crate::stamp::{Found, SECTOR, identify};

/// Bytes of one read, and reads in flight.
const UNIT: u64 = 1 << 20;
const DEPTH: u64 = 4;

/// What every sector holds.
///
/// # Errors
/// Those of the socket. A read that the server refuses is [`Found::Unreadable`], block by block.
pub fn read_all(address: &Address, export: &str) -> io::Result<Vec<Found>> {
    let mut connection = Connection::open(address, export)?;
    let size = connection.size_bytes;
    let units = size.div_ceil(UNIT);
    let length = |unit: u64| u32::try_from((size - unit * UNIT).min(UNIT)).expect("1 MiB");
    let mut found = vec![Found::Garbage; usize::try_from(size / SECTOR as u64).expect("small")];
    let mut failed = Vec::new();
    let mut sent = 0;
    for received in 0..units {
        while sent < units && sent < received + DEPTH {
            connection
                .sender
                .send(read(sent, sent * UNIT, length(sent)), &[])?;
            sent += 1;
        }
        let expected = |unit| (unit < units).then(|| length(unit));
        let answer = connection.receiver.receive(expected)?;
        if answer.error == 0 {
            mark_found(&mut found, answer.cookie * UNIT, &answer.data);
        } else {
            failed.push(answer.cookie);
        }
    }
    for unit in failed {
        for offset in (unit * UNIT..size.min((unit + 1) * UNIT)).step_by(4096) {
            let length = u32::try_from((size - offset).min(4096)).expect("a block");
            let answer = connection.call(read(0, offset, length), &[])?;
            if answer.error == 0 {
                mark_found(&mut found, offset, &answer.data);
            } else {
                let first = usize::try_from(offset).expect("small") / SECTOR;
                found[first..first + length as usize / SECTOR]
                    .fill(Found::Unreadable(answer.error));
            }
        }
    }
    Ok(found)
}

fn read(cookie: u64, offset: u64, length: u32) -> Ask {
    Ask {
        command: Command::Read,
        fua: false,
        cookie,
        offset,
        length,
    }
}

fn mark_found(found: &mut [Found], offset: u64, data: &[u8]) {
    let first = offset / SECTOR as u64;
    for (sector, bytes) in (first..).zip(data.chunks_exact(SECTOR)) {
        found[usize::try_from(sector).expect("small")] = identify(sector, bytes);
    }
}
