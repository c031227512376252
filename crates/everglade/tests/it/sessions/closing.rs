//! A connection ends with what it is connected to, so that nobody sees acknowledged, unflushed writes vanish
//! under a live connection (DESIGN §5); a new size shows on a connection that stays.

use super::{LUN, MIB, ask, serve};
use crate::running::Place;
use crate::wire::{CMD_WRITE, Client, ENOSPC};

const ESHUTDOWN: u32 = 108;

#[test]
fn connections_to_a_deleted_lun_are_closed_and_others_stay() {
    let place = Place::new();
    let server = serve(&place, &[]);
    ask(&place, &["lun", "create", "vol0/more", "--size", "64MiB"]);
    let open = |lun: &str| Client::open(&server.tcp, lun).expect("a client").0;
    let (mut idle, mut busy, mut other) = (open("vol0/more"), open("vol0/more"), open(LUN));
    busy.write(0, &[7; 4096]).expect("written");
    other.write(0, &[8; 4096]).expect("written");
    ask(&place, &["lun", "delete", "vol0/more", "--yes"]);
    // Refused with ESHUTDOWN if it was heard before the connection was closed.
    let answer = busy.request(CMD_WRITE, 0, 4096, &[7; 4096]);
    assert!(
        !matches!(answer, Ok(error) if error != ESHUTDOWN),
        "{answer:?}"
    );
    assert!(busy.is_closed_by_server());
    assert!(idle.is_closed_by_server(), "one that asks nothing as well");
    assert_eq!(other.read(0, 4096), Ok(vec![8; 4096]));
    ask(&place, &["lun", "create", "vol0/more", "--size", "64MiB"]);
    let mut again = open("vol0/more");
    assert_eq!(again.read(0, 4096), Ok(vec![0; 4096]));
    server.stop();
}

#[test]
fn a_new_size_shows_on_connections_that_stay() {
    let place = Place::new();
    let server = serve(&place, &[]);
    let (mut client, size) = Client::open(&server.tcp, LUN).expect("a client");
    assert_eq!(size, 256 * MIB);
    let beyond = |client: &mut Client| client.request(CMD_WRITE, 256 * MIB, 3, b"abc").ok();
    assert_eq!(beyond(&mut client), Some(ENOSPC));
    ask(&place, &["lun", "resize", LUN, "--size", "512MiB"]);
    assert_eq!(beyond(&mut client), Some(0));
    assert_eq!(client.read(256 * MIB, 3), Ok(b"abc".to_vec()));
    server.stop();
}
