//! iSCSI: a whole session from bytes, against the model; and the codec's parsers one by one.

use everglade_iscsi::scsi::{Command, cdb::Cdb};
use everglade_iscsi::wire::request::{self, Request};
use everglade_iscsi::wire::{Response, text};
use everglade_iscsi::{Sessions, Settings, names};
use everglade_target::model::Model;
use everglade_target::reservations::Reservations;

use super::Target;
use super::world::World;

const LUN: &str = "v/l";
const BLOCK: usize = 4096;

/// What an initiator sends.
struct Initiator {
    bytes: Vec<u8>,
    cmd_sn: u32,
}

impl Initiator {
    fn logged_in(keys: &str) -> Initiator {
        let target = names::target_name(LUN).expect("short");
        let text = format!("InitiatorName=iqn.fuzz\0TargetName={target}\0{keys}");
        Initiator {
            bytes: login(&text),
            cmd_sn: 1,
        }
    }

    fn command(mut self, cdb: &[u8], reads: bool, length: u32, data: &[u8]) -> Initiator {
        let mut block: Cdb = [0; 16];
        block[..cdb.len()].copy_from_slice(cdb);
        let command = Request::Command(request::Command {
            is_final: true,
            reads,
            writes: !reads,
            attribute: 1,
            lun: 0,
            itt: self.cmd_sn,
            expected_bytes: length,
            cmd_sn: self.cmd_sn,
            cdb: block,
        });
        self.cmd_sn += 1;
        self.bytes.extend(command.message(false, data));
        self
    }

    fn data(mut self, itt: u32, ttt: u32, data: &[u8]) -> Initiator {
        let message = Request::DataOut(request::DataOut {
            is_final: true,
            itt,
            ttt,
            data_sn: 0,
            offset: 0,
        });
        self.bytes.extend(message.message(false, data));
        self
    }

    fn other(mut self, request: &Request, data: &[u8]) -> Initiator {
        self.bytes.extend(request.message(true, data));
        self
    }
}

fn login(text: &str) -> Vec<u8> {
    let login = Request::Login(request::Login {
        transits: true,
        continues: false,
        current: 1,
        next: 3,
        version_min: 0,
        isid: [0x80, 0, 0, 0, 0, 1],
        tsih: 0,
        itt: 0,
        cid: 0,
        cmd_sn: 1,
        exp_stat_sn: 0,
    });
    login.message(true, text.as_bytes())
}

pub(super) const SESSION: Target = Target {
    name: "iscsi-session",
    bytes_max: 32 << 10,
    seeds: || {
        let usual = Initiator::logged_in("InitialR2T=No\0ImmediateData=Yes\0")
            .command(&[0], true, 0, &[])
            .command(&[0x12, 1, 0x83, 0, 255], true, 255, &[])
            .command(&[0x2a, 0, 0, 0, 0, 8, 0, 0, 2], false, 1024, &[0x5a; 1024])
            .command(&[0x28, 0, 0, 0, 0, 8, 0, 0, 2], true, 1024, &[])
            .command(&[0x35], true, 0, &[])
            .command(
                &[0x93, 8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9],
                false,
                512,
                &[0; 512],
            );
        let asked = Initiator::logged_in("MaxBurstLength=512\0ImmediateData=No\0")
            .command(&[0], true, 0, &[])
            .command(&[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], false, 512, &[])
            .data(2, 1, &[0x77; 512])
            .command(
                &[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
                false,
                1024,
                &[],
            )
            .data(3, 2, &[0x77; 1024]);
        let managed = Initiator::logged_in("HeaderDigest=None\0")
            .command(&[0], true, 0, &[])
            .command(&[0x5f, 6, 0, 0, 0, 0, 0, 0, 24], false, 24, &[1; 24])
            .command(&[0x5e, 3, 0, 0, 0, 0, 0, 1, 0], true, 256, &[])
            .command(&[0x2a, 0, 0, 0, 0, 0, 0, 0, 200], false, 102_400, &[])
            .other(
                &Request::TaskManagement(request::TaskManagement {
                    function: 5,
                    lun: 0,
                    itt: 900,
                    referenced: 4,
                    cmd_sn: 5,
                    referenced_cmd_sn: 0,
                }),
                &[],
            )
            .other(
                &Request::NopOut(request::NopOut {
                    lun: 0,
                    itt: 901,
                    ttt: 0xffff_ffff,
                    cmd_sn: 5,
                }),
                b"ping",
            )
            .other(
                &Request::Logout(request::Logout {
                    reason: 0,
                    itt: 902,
                    cid: 0,
                    cmd_sn: 5,
                }),
                &[],
            );
        let discovery = Initiator {
            bytes: login("InitiatorName=iqn.fuzz\0SessionType=Discovery\0"),
            cmd_sn: 1,
        };
        let discovery = discovery.other(
            &Request::Text(request::Text {
                is_final: true,
                continues: false,
                lun: 0,
                itt: 2,
                ttt: 0xffff_ffff,
                cmd_sn: 1,
            }),
            b"SendTargets=All\0",
        );
        [usual, asked, managed, discovery]
            .map(|initiator| initiator.bytes)
            .into()
    },
    run: session,
};

/// Sends the input in two pieces, everything the session says being taken at once. A session that
/// asks where it is to be stays or goes to another table, as the length says.
fn session(input: &[u8]) {
    let settings = Settings {
        asks_for_home: true,
        ..Settings::default()
    };
    let mut other = Sessions::new(settings.clone(), 64 << 20);
    let _ = other.attach(0);
    let moves = input.len() % 2 == 1;
    let mut world = World {
        sessions: Sessions::new(settings, 64 << 20),
        other: moves.then_some(other),
        model: Model::with_lun(LUN, 64 * BLOCK as u64),
    };
    let mut id = world.sessions.attach(0).expect("a place");
    let (first, second) = input.split_at(input.len() / 3);
    for (piece, is_last) in [(first, false), (second, true)] {
        id = world.send(id, piece, is_last);
        world.sessions.sweep(1_000_000_000, &mut world.model);
    }
    world.end(id);
    let held = world.sessions.memory().used();
    assert_eq!(held, 0, "all memory was given back");
    assert_eq!(world.model.open_handles(), 0, "the LUN is closed");
}

pub(super) const CODEC: Target = Target {
    name: "iscsi-codec",
    bytes_max: 4 << 10,
    seeds: || {
        let usual = Initiator::logged_in("").command(&[0x28], true, 512, &[]);
        vec![usual.bytes, b"SendTargets=All\0".to_vec(), vec![0; 64]]
    },
    run: codec,
};

fn codec(input: &[u8]) {
    for chunk in input.chunks(48) {
        let mut bhs = [0; 48];
        bhs[..chunk.len()].copy_from_slice(chunk);
        if let Some(request) = Request::parse(&bhs) {
            let again = request.encode(bhs[0] & 0x40 != 0);
            assert_eq!(Request::parse(&again), Some(request));
        }
        let _ = Response::parse(&bhs);
        let mut block: Cdb = [0; 16];
        block.copy_from_slice(&bhs[..16]);
        let _ = Command::decode(&block);
    }
    let _ = text::parse(input);
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = (text::number(text), text::binary(text, 64));
        if let Some(export) = names::export_name(text) {
            assert_eq!(
                names::export_name(&names::target_name(&export).expect("short")),
                Some(export)
            );
        }
    }
    let _ = Reservations::default().restore(input);
}
