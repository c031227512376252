//! NVMe/TCP: whole sessions from bytes, against the model; and the codec's parsers one by one.

use std::sync::Arc;

use everglade_nvme_tcp::wire::pdu::{Initialize, parse_termination};
use everglade_nvme_tcp::wire::sqe::FLAGS_SGL;
use everglade_nvme_tcp::wire::{
    Command, CommonHeader, Completion, Connect, ConnectData, DataHeader, Digests, Layout, PduKind,
    Sgl, SglKind, nqn,
};
use everglade_nvme_tcp::{Registry, Session, Sessions, Settings};
use everglade_target::model::Model;

use super::Target;
use super::world::World;

const LUN: &str = "v/l";
/// That of the first LUN of a model.
const UUID: [u8; 16] = ((1_u128 << 96) | 1).to_be_bytes();
const BLOCK: usize = 4096;

/// What a host sends, without digests.
#[derive(Default)]
struct Host(Vec<u8>);

impl Host {
    fn initialize(mut self) -> Host {
        let first = Initialize {
            version: 0,
            alignment: 0,
            digests: Digests::default(),
            digests_reserved: 0,
            limit: 0,
        };
        self.0.extend(first.encode(PduKind::InitializeRequest));
        self
    }

    fn connect(self, queue: u16, controller: u16) -> Host {
        let parameters = Connect {
            format: 0,
            queue,
            entries: 31,
            disables_flow_control: queue > 0,
            keep_alive_ms: 0,
        };
        let data = ConnectData {
            host_id: [1; 16],
            controller,
            subsystem: nqn::of_lun(LUN, &UUID).expect("short"),
            host: "nqn.h".to_owned(),
        };
        self.command(0x7f, 0, parameters.words(), &data.encode(), 0)
    }

    /// A command with data in its message, or with `length` bytes that are transferred otherwise.
    fn command(mut self, opcode: u8, id: u16, words: [u32; 6], data: &[u8], length: u32) -> Host {
        let in_message = u32::try_from(data.len()).expect("short");
        let (kind, length) = match in_message {
            0 => (SglKind::Transport, length),
            _ => (SglKind::InCapsule, in_message),
        };
        let command = Command {
            opcode,
            flags: FLAGS_SGL,
            id,
            namespace: 1,
            sgl: Sgl {
                kind,
                address: 0,
                length,
            },
            words,
        };
        let header = CommonHeader {
            kind: PduKind::Command.code(),
            flags: 0,
            header_bytes: 72,
            data_offset: 72,
            length: 72 + in_message,
        };
        self.0.extend(header.encode());
        self.0.extend(command.encode());
        self.0.extend(data);
        self
    }

    fn data(mut self, id: u16, tag: u16, data: &[u8]) -> Host {
        let length = u32::try_from(data.len()).expect("short");
        let header = CommonHeader {
            kind: PduKind::HostData.code(),
            flags: 4,
            header_bytes: 24,
            data_offset: 24,
            length: 24 + length,
        };
        let fields = DataHeader {
            command_id: id,
            tag,
            offset: 0,
            length,
        };
        self.0.extend(fields.encode(&header));
        self.0.extend(data);
        self
    }
}

/// The messages with which an admin queue begins.
fn admin() -> Host {
    let enable = [0, 0x14, 0x0046_0001, 0, 0, 0];
    let host = Host::default().initialize().connect(0, u16::MAX);
    let mut host = host.command(0x7f, 1, enable, &[], 0);
    // The type of a fabrics command is in the place of the namespace.
    let at = host.0.len() - 72 + 8 + 4;
    host.0[at] = 0;
    host
}

pub(super) const SESSION: Target = Target {
    name: "nvme-session",
    bytes_max: 16 << 10,
    seeds: || {
        let first = |word: u32| [word, 0, 0, 0, 0, 0];
        let blocks = |first: u32, count: u32| [first, 0, count - 1, 0, 0, 0];
        // The first byte chooses the connection: even the admin queue, odd another.
        let whole = Host(vec![2]);
        let whole = Host([whole.0, admin().0].concat());
        let asking = Host(vec![0])
            .command(6, 2, first(1), &[], 4096)
            .command(6, 3, first(0), &[], 4096)
            .command(2, 4, first(2 | 127 << 16), &[], 512)
            .command(9, 5, [0x0b, 1 << 8, 0, 0, 0, 0], &[], 0)
            .command(0x0c, 6, first(0), &[], 0)
            .command(10, 7, first(0x81), &[], 16)
            .command(9, 8, first(0x16), &[1; 512], 0)
            .command(8, 9, first(6 << 16), &[], 0)
            .command(0x18, 10, first(0), &[], 0);
        let moving = Host(vec![1])
            .command(1, 1, blocks(8, 8), &[3; BLOCK], 0)
            .command(2, 2, blocks(8, 8), &[], 4096)
            .command(1, 3, blocks(1, 2), &[], 1024)
            .data(3, 0, &[5; 1024])
            .command(0, 4, first(0), &[], 0)
            .command(8, 5, blocks(0, 100), &[], 0)
            .command(5, 6, blocks(8, 1), &[3; 512], 0)
            .command(9, 7, [0, 4, 0, 0, 0, 0], &[0; 16], 0)
            .command(0x19, 8, [16, 0, 0, 0, 0, 0], &[0; 32], 0)
            .command(0x0c, 9, blocks(0, 64), &[], 0)
            .command(0x0d, 10, first(0), &[1; 16], 0)
            .command(0x0e, 11, [63, 1, 0, 0, 0, 0], &[], 256);
        [whole, asking, moving].map(|host| host.0).into()
    },
    run: session,
};

/// Sends the input in two pieces on one of three connections, which the first byte chooses: an
/// admin queue that is ready, a queue for input and output that is ready, or a new connection.
fn session(input: &[u8]) {
    let Some((choice, input)) = input.split_first() else {
        return;
    };
    let settings = Settings::new(Arc::new(Registry::new()));
    let mut world = World {
        sessions: Sessions::new(settings, 64 << 20),
        other: None,
        model: Model::with_lun(LUN, 64 * BLOCK as u64),
    };
    let open = |world: &mut World<Session>| world.sessions.attach(0).expect("a place");
    let first = open(&mut world);
    world.send(first, &admin().0, false);
    let second = open(&mut world);
    let queue = Host::default().initialize().connect(1, 1);
    world.send(second, &queue.0, false);
    let third = open(&mut world);
    let id = match choice {
        choice if choice & 2 != 0 => third,
        choice if choice & 1 != 0 => second,
        _ => first,
    };
    let cut = usize::from(*choice) * 7 % (input.len() + 1);
    world.send(id, &input[..cut], false);
    world.send(id, &input[cut..], true);
    world.sessions.tick(2_000_000_000);
    world.sessions.sweep(2_000_000_000, &mut world.model);
    for id in [first, second, third] {
        world.end(id);
    }
    let held = world.sessions.memory().used();
    assert_eq!(
        (held, world.model.open_handles()),
        (0, 0),
        "nothing is left"
    );
}

pub(super) const CODEC: Target = Target {
    name: "nvme-codec",
    bytes_max: 1024,
    seeds: || {
        let host = admin().0;
        vec![host[..128].to_vec(), host[128..].to_vec()]
    },
    run: |input| {
        if let Some(bytes) = input.first_chunk() {
            let command = Command::parse(bytes);
            assert_eq!(Command::parse(&command.encode()), command);
            let connect = Connect::of(&command);
            let words = connect.words();
            assert_eq!(Connect::of(&Command { words, ..command }), connect);
        }
        if let Some(bytes) = input.first_chunk() {
            let completion = Completion::parse(bytes);
            assert_eq!(Completion::parse(&completion.encode()), completion);
        }
        if let Some(bytes) = input.first_chunk() {
            let header = CommonHeader::parse(bytes);
            assert_eq!(header.encode(), *bytes);
            for (header_digest, data) in [(false, false), (true, true)] {
                let digests = Digests {
                    header: header_digest,
                    data,
                };
                if let Ok(layout) = Layout::check(&header, digests, 4)
                    && input.len() >= layout.data_at
                {
                    let _ = layout.check_header_digest(input);
                }
            }
        }
        if let Some(bytes) = input.first_chunk() {
            let data = ConnectData::parse(bytes);
            let again = data.encode();
            let again = ConnectData::parse(again.first_chunk().expect("1,024 bytes"));
            assert_eq!(again, data);
        }
        let _ = input.first_chunk().map(Initialize::parse);
        let _ = input.first_chunk().map(parse_termination);
        if let Ok(text) = std::str::from_utf8(input)
            && let Some(lun) = nqn::lun_of(text)
        {
            let again = nqn::of_lun(&lun, &UUID).expect("as long as the text");
            assert_eq!(again.len(), text.len());
        }
    },
};
