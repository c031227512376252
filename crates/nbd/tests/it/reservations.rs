//! Reservations of hosts of other protocols keep NBD clients out.

use std::sync::{Arc, Mutex};

use everglade_nbd::Settings;
use everglade_target::reservations::{Existing, Host, Kind, Registry};

use crate::held::Held;
use crate::peer::{FLUSH, Peer, READ, TRIM, WRITE_ZEROES, reply, request, write};

const MIB: u64 = 1 << 20;
const EPERM: u32 = 1;

/// A client, the reservations, and the lines for the log.
struct Scene {
    peer: Peer,
    registry: Arc<Registry>,
    uuid: [u8; 16],
    lines: Arc<Mutex<Vec<String>>>,
}

fn scene() -> Scene {
    let target = Held::with_lun(4 * MIB);
    let uuid = everglade_target::Target::exports(&target)[0].uuid;
    let registry = Arc::new(Registry::default());
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let settings = Settings {
        reservations: Some(Arc::clone(&registry)),
        notes: Some(Arc::new(move |line: &str| {
            kept.lock().unwrap().push(line.to_owned());
        })),
        ..Settings::default()
    };
    Scene {
        peer: Peer::in_transmission(target, settings),
        registry,
        uuid,
        lines,
    }
}

impl Scene {
    fn reserve(&self, kind: Kind) {
        let host = Host::new(b"iscsi\0someone");
        let reserved = self.registry.lun(&self.uuid).change(|state| {
            state.register(&host, Existing::Ignored, 7)?;
            state.acquire(&host, 7, kind)
        });
        assert_eq!(reserved, Ok(()));
    }

    fn release(&self) {
        let host = Host::new(b"iscsi\0someone");
        let lun = self.registry.lun(&self.uuid);
        assert_eq!(lun.change(|state| state.clear(&host, 7)), Ok(()));
    }
}

#[test]
fn a_reservation_keeps_writers_out_and_an_exclusive_one_readers_too() {
    for kind in Kind::ALL {
        let mut scene = scene();
        let written = scene.peer.exchange(&write(0, 1, 0, b"abc"));
        assert_eq!(written, reply(0, 1));
        scene.reserve(kind);
        let operations = scene.peer.target.log.len();
        for message in [
            write(0, 2, 0, b"xyz"),
            request(TRIM, 0, 2, 0, 4096),
            request(WRITE_ZEROES, 0, 2, 0, 4096),
        ] {
            let told = scene.peer.exchange(&message);
            assert_eq!(told, reply(EPERM, 2), "{kind:?}: {message:02x?}");
        }
        assert_eq!(scene.peer.target.log.len(), operations, "{kind:?}");
        let read = scene.peer.exchange(&request(READ, 0, 3, 0, 3));
        match kind.admits_readers() {
            true => assert_eq!(read, [&reply(0, 3)[..], b"abc"].concat(), "{kind:?}"),
            false => assert_eq!(read, reply(EPERM, 3), "{kind:?}"),
        }
        let flushed = scene.peer.exchange(&request(FLUSH, 0, 4, 0, 0));
        assert_eq!(flushed, reply(0, 4));
        let lines = scene.lines.lock().unwrap().clone();
        assert_eq!(lines.len(), 1, "one line for the session: {lines:?}");
        assert!(lines[0].contains("is kept out"), "{lines:?}");
        scene.release();
        let written = scene.peer.exchange(&write(0, 5, 0, b"xyz"));
        assert_eq!(written, reply(0, 5));
    }
}

#[test]
fn a_write_whose_data_comes_after_the_reservation_is_refused() {
    for length in [8192, usize::try_from(2 * MIB).unwrap()] {
        let mut scene = scene();
        let message = write(0, 9, 0, &vec![b'x'; length]);
        let half = message.len() / 2;
        assert_eq!(scene.peer.exchange(&message[..half]), b"");
        scene.reserve(Kind::WriteExclusive);
        let told = scene.peer.exchange(&message[half..]);
        assert_eq!(told, reply(EPERM, 9), "{length} bytes");
        let log = &scene.peer.target.log;
        let end = format!("{log:?}");
        assert!(
            length > 8192 || log.is_empty(),
            "nothing was written: {end}"
        );
        // The stream goes on.
        let read = scene.peer.exchange(&request(READ, 0, 10, 3 * MIB, 1));
        assert_eq!(read[..16], reply(0, 10)[..16]);
    }
}
