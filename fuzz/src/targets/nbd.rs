//! NBD: a whole session from bytes, against the model; and the codec's parsers one by one.

use everglade_nbd::wire::{
    Chunk, ClientFlags, ContextRequest, InfoRequest, OptionHeader, Request, SimpleReply,
};
use everglade_nbd::{Sessions, Settings};
use everglade_target::model::Model;

use super::Target;
use super::world::World;

const LUN: &str = "v/l";
const BLOCK: usize = 4096;

/// What a client sends.
struct Client(Vec<u8>);

impl Client {
    fn new() -> Client {
        let flags = ClientFlags {
            fixed_newstyle: true,
            no_zeroes: true,
        };
        Client(flags.encode().to_vec())
    }

    fn option(mut self, option: u32, data: &[u8]) -> Client {
        let length = u32::try_from(data.len()).expect("short");
        self.0.extend(OptionHeader { option, length }.encode());
        self.0.extend(data);
        self
    }

    /// In the bytes of the wire, so that a mistake of the codec is not made twice.
    fn request(mut self, flags: u16, command: u16, offset: u64, length: u32) -> Client {
        self.0.extend(0x2560_9513u32.to_be_bytes());
        self.0.extend(flags.to_be_bytes());
        self.0.extend(command.to_be_bytes());
        self.0.extend(u64::from(command).to_be_bytes());
        self.0.extend(offset.to_be_bytes());
        self.0.extend(length.to_be_bytes());
        if command == 1 {
            self.0.resize(self.0.len() + length as usize, 0x5a);
        }
        self
    }

    /// The same with extended headers; flag 0x20 announces a payload.
    fn extended(mut self, flags: u16, command: u16, offset: u64, length: u64) -> Client {
        self.0.extend(0x21e4_1c71u32.to_be_bytes());
        self.0.extend(flags.to_be_bytes());
        self.0.extend(command.to_be_bytes());
        self.0.extend(u64::from(command).to_be_bytes());
        self.0.extend(offset.to_be_bytes());
        self.0.extend(length.to_be_bytes());
        if flags & 0x20 != 0 {
            let length = usize::try_from(length).expect("short");
            self.0.resize(self.0.len() + length, 0x5a);
        }
        self
    }
}

fn info() -> Vec<u8> {
    let request = InfoRequest {
        name: LUN.to_owned(),
        wanted: vec![0, 3],
    };
    request.encode()
}

/// `NBD_OPT_SET_META_CONTEXT` for the allocation of the LUN.
fn contexts() -> Vec<u8> {
    let text = |text: &str| {
        let length = u32::try_from(text.len()).expect("short");
        [&length.to_be_bytes()[..], text.as_bytes()].concat()
    };
    [
        text(LUN),
        1u32.to_be_bytes().to_vec(),
        text("base:allocation"),
    ]
    .concat()
}

pub(super) const SESSION: Target = Target {
    name: "nbd-session",
    bytes_max: 16 << 10,
    seeds: || {
        let simple = Client::new()
            .option(7, &info())
            .request(0, 1, 4096, 4096)
            .request(1, 1, 100, 700)
            .request(0, 0, 0, 8192)
            .request(0, 3, 0, 0)
            .request(0, 4, 0, 8192)
            .request(0, 6, 512, 4096)
            .request(0, 2, 0, 0);
        let haggling = Client::new()
            .option(3, &[])
            .option(6, &info())
            .option(8, &[])
            .option(10, &contexts())
            .option(7, &info())
            .request(0, 7, 0, 65536)
            .request(0, 5, 0, 4096)
            .request(4, 0, 0, 100)
            .request(0, 0, 1 << 40, 100);
        let old = Client::new()
            .option(1, LUN.as_bytes())
            .request(0, 0, 0, 1 << 20);
        let extended = Client::new()
            .option(11, &[])
            .option(10, &contexts())
            .option(7, &info())
            .extended(0x20, 1, 4096, 700)
            .extended(0, 0, 0, 8192)
            .extended(0, 7, 0, 200_000)
            .extended(0, 6, 0, 1 << 33)
            .extended(0x20, 7, 0, 12);
        [simple, haggling, old, extended]
            .map(|client| client.0)
            .into()
    },
    run: session,
};

/// Sends the input in two pieces, everything the session says being taken at once. A session that
/// asks where it is to be stays or goes to another table, as the first byte says.
fn session(input: &[u8]) {
    let settings = Settings {
        asks_for_home: true,
        ..Settings::default()
    };
    let moves = input.first().is_some_and(|byte| byte % 2 == 1);
    let cut = input
        .first()
        .map_or(0, |byte| usize::from(*byte) * 7 % input.len());
    let mut other = Sessions::new(settings.clone(), 64 << 20);
    let _ = other.attach(0);
    let mut world = World {
        sessions: Sessions::new(settings, 64 << 20),
        other: moves.then_some(other),
        model: Model::with_lun(LUN, 64 * BLOCK as u64),
    };
    let id = world.sessions.attach(0).expect("a place");
    let id = world.send(id, &input[..cut], false);
    let id = world.send(id, &input[cut..], true);
    world.end(id);
}

pub(super) const CODEC: Target = Target {
    name: "nbd-codec",
    bytes_max: 512,
    seeds: || vec![info(), contexts(), Client::new().request(0, 0, 0, 1).0],
    run: |input| {
        if let Some(request) = InfoRequest::parse(input) {
            assert_eq!(InfoRequest::parse(&request.encode()), Some(request));
        }
        if let Some(request) = input.first_chunk().and_then(Request::parse) {
            assert_eq!(Request::parse(&request.encode()), Some(request));
        }
        if let Some(request) = ContextRequest::parse(input) {
            assert_eq!(request.encode(), input);
        }
        if let Some(request) = input.first_chunk().and_then(Request::parse_extended) {
            let again = Request::parse_extended(&request.encode_extended());
            assert_eq!(again, Some(request));
        }
        if let Some(chunk) = input.first_chunk().and_then(Chunk::parse_structured) {
            let again = Chunk::parse_structured(&chunk.encode_structured());
            assert_eq!(again, Some(chunk));
        }
        if let Some(chunk) = input.first_chunk().and_then(Chunk::parse_extended) {
            assert_eq!(Chunk::parse_extended(&chunk.encode_extended()), Some(chunk));
        }
        if let Some(reply) = input.first_chunk().and_then(SimpleReply::parse) {
            assert_eq!(SimpleReply::parse(&reply.encode()), Some(reply));
        }
        if let Some(header) = input.first_chunk().and_then(OptionHeader::parse) {
            assert_eq!(OptionHeader::parse(&header.encode()), Some(header));
        }
        let _ = input.first_chunk().and_then(ClientFlags::parse);
    },
};
