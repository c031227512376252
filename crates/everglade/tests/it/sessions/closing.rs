//! A connection ends with what it is connected to, so that nobody sees acknowledged, unflushed
//! writes vanish under a live connection (docs/design/design.md §5); a new size shows on a
//! connection that stays.

use super::{LUN, MIB, ask, serve};
use crate::running::{TestDir, code, stderr};
use crate::wire::{CMD_WRITE, Client, ENOSPC};

const ESHUTDOWN: u32 = 108;

#[test]
fn connections_to_a_deleted_lun_are_closed_and_others_stay() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    ask(&dir, &["lun", "create", "vol0/more", "--size", "64MiB"]);
    let open = |lun: &str| Client::open(&server.tcp, lun).expect("a client").0;
    let (mut idle, mut busy, mut other) = (open("vol0/more"), open("vol0/more"), open(LUN));
    busy.write(0, &[7; 4096]).expect("written");
    other.write(0, &[8; 4096]).expect("written");
    ask(
        &dir,
        &["lun", "delete", "vol0/more", "--yes", "--disconnect"],
    );
    // Refused with ESHUTDOWN if it was heard before the connection was closed.
    let answer = busy.request(CMD_WRITE, 0, 4096, &[7; 4096]);
    assert!(
        !matches!(answer, Ok(error) if error != ESHUTDOWN),
        "{answer:?}"
    );
    assert!(busy.is_closed_by_server());
    assert!(idle.is_closed_by_server(), "one that asks nothing as well");
    assert_eq!(other.read(0, 4096), Ok(vec![8; 4096]));
    ask(&dir, &["lun", "create", "vol0/more", "--size", "64MiB"]);
    let mut again = open("vol0/more");
    assert_eq!(again.read(0, 4096), Ok(vec![0; 4096]));
    server.stop();
}

#[test]
fn a_new_size_shows_on_connections_that_stay() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let (mut client, size) = Client::open(&server.tcp, LUN).expect("a client");
    assert_eq!(size, 256 * MIB);
    let beyond = |client: &mut Client| client.request(CMD_WRITE, 256 * MIB, 3, b"abc").ok();
    assert_eq!(beyond(&mut client), Some(ENOSPC));
    ask(&dir, &["lun", "resize", LUN, "--size", "512MiB"]);
    assert_eq!(beyond(&mut client), Some(0));
    assert_eq!(client.read(256 * MIB, 3), Ok(b"abc".to_vec()));
    server.stop();
}

/// Smaller under a connection: what is beyond is refused from that moment on, the rest goes on, and
/// growing back shows zeroes, also after a crash.
#[test]
fn a_lun_shrinks_under_its_clients_and_growing_back_shows_zeroes() {
    const EINVAL: u32 = 22;
    let dir = TestDir::new();
    let mut server = serve(&dir, &[]);
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("a client");
    for mib in 0..32 {
        client.write(mib * MIB, &vec![9; 1 << 20]).expect("written");
    }
    client.flush().expect("flushed");
    let resize = |size: &'static str| ["lun", "resize", LUN, "--size", size];
    let refused = dir.run(&resize("8MiB"));
    assert_eq!(code(&refused), 6, "{}", stderr(&refused));
    let said = dir.run(&[&resize("8MiB")[..], &["--dry-run"]].concat());
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(
        said.contains("last 248.0 MiB would be lost") && said.contains("--yes"),
        "{said}"
    );
    assert_eq!(client.read(31 * MIB, 3), Ok(vec![9; 3]), "nothing happened");
    ask(&dir, &[&resize("8MiB")[..], &["--yes"]].concat());
    assert_eq!(client.read(8 * MIB - 3, 3), Ok(vec![9; 3]));
    assert_eq!(client.read(8 * MIB - 3, 4), Err(EINVAL));
    let beyond = client.request(CMD_WRITE, 8 * MIB, 3, b"abc").ok();
    assert_eq!(beyond, Some(ENOSPC));
    let (mut fresh, size) = Client::open(&server.tcp, LUN).expect("a client");
    assert_eq!(size, 8 * MIB);
    fresh.write(8 * MIB - 3, b"end").expect("written");
    fresh.flush().expect("flushed");
    server.kill();
    server = serve(&dir, &[]);
    ask(&dir, &resize("64MiB"));
    let (mut client, size) = Client::open(&server.tcp, LUN).expect("a client");
    assert_eq!(size, 64 * MIB);
    assert_eq!(client.read(8 * MIB - 3, 3), Ok(b"end".to_vec()));
    for mib in 8..64 {
        assert!(client.read(mib * MIB, 1 << 20) == Ok(vec![0; 1 << 20]));
    }
    let used = dir.run(&[
        "lun",
        "show",
        LUN,
        "--columns",
        "used",
        "--exact",
        "--no-header",
    ]);
    let used = String::from_utf8_lossy(&used.stdout).trim().to_owned();
    let used: u64 = used.parse().expect("a number");
    assert!((8 * MIB..9 * MIB).contains(&used), "{used} bytes are used");
    server.stop();
    ask(&dir, &["check"]);
}
