//! Clients that stop in the middle: what they hold is bounded, and nobody waits for them.

use super::{LUN, MIB, serve};
use crate::running::TestDir;
use crate::thrift::status_bytes;
use crate::wire::{CMD_WRITE, Client};

/// The header of a write of 32 MiB.
fn long_write(offset: u64) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend([0, 0, 0, 1]);
    bytes.extend([9; 8]);
    bytes.extend(offset.to_be_bytes());
    bytes.extend((32u32 << 20).to_be_bytes());
    bytes
}

#[test]
fn sixty_four_clients_stalled_in_a_long_write_disturb_nobody() {
    let dir = TestDir::new();
    let mut server = serve(&dir, &["--memory", "256MiB"]);
    let mut stalled = Vec::new();
    for number in 0..64 {
        let (mut client, _) = Client::open(&server.tcp, LUN).expect("a client");
        client
            .send(&long_write(number % 4 * 32 * MIB))
            .expect("sent");
        // Half a slice more than some whole ones, so that each holds what it can.
        client.send(&vec![7; 3 << 19]).expect("sent");
        stalled.push(client);
    }
    let (mut good, _) = Client::open(&server.tcp, LUN).expect("a client");
    let last = 255 * MIB;
    for round in 0..50u8 {
        let block = vec![round; 64 << 10];
        good.write(last, &block).expect("written");
        assert!(good.read(last, 64 << 10) == Ok(block));
    }
    good.flush().expect("flushed");
    let held = status_bytes(&server, "VmRSS:");
    println!("64 stalled writers: {} MiB resident", held / MIB);
    assert!(held < 256 * MIB, "{held}");
    // One of them goes on after all, another leaves.
    let mut first = stalled.remove(0);
    first.send(&vec![7; (32 << 20) - (3 << 19)]).expect("sent");
    let mut reply = first.reply().expect("a reply");
    assert_eq!(reply, 0);
    drop(stalled);
    reply = first.request(CMD_WRITE, 0, 3, b"abc").expect("a reply");
    assert_eq!(reply, 0);
    assert!(server.is_running());
    server.stop();
}

#[test]
fn clients_that_do_not_take_their_replies_hold_little_and_disturb_nobody() {
    let dir = TestDir::new();
    let server = serve(&dir, &["--memory", "256MiB"]);
    let (mut good, _) = Client::open(&server.tcp, LUN).expect("a client");
    for mib in 0..32 {
        good.write(mib * MIB, &vec![5; 1 << 20]).expect("written");
    }
    let mut silent = Vec::new();
    for _ in 0..32 {
        let (mut client, _) = Client::open(&server.tcp, LUN).expect("a client");
        for _ in 0..4 {
            let mut read = long_write(0);
            read[7] = 0;
            client.send(&read).expect("sent");
        }
        silent.push(client);
    }
    for round in 0..50u8 {
        good.write(40 * MIB, &[round; 4096]).expect("written");
        assert_eq!(good.read(40 * MIB, 4096), Ok(vec![round; 4096]));
    }
    // Their replies are pages of the cache, which they share.
    let held = status_bytes(&server, "VmRSS:");
    println!("32 silent readers: {} MiB resident", held / MIB);
    assert!(held < 256 * MIB, "{held}");
    drop(silent);
    server.stop();
}
