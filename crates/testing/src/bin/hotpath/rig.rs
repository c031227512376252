//! The server without a kernel: one reactor's engine and one session, driven turn by turn.

use everglade_engine::admin::Change;
use everglade_engine::{AdminDone, Core, Engine, Options, Plan, State, create};
use everglade_env::{BLOCK_SIZE, DeviceId};
use everglade_format::volume::Sync;
use everglade_nbd::{SessionId, Sessions, Settings};

use crate::client::Wire;
use crate::ram::{Ram, RamOutside};

/// 64 MiB: enough level-1 blocks that the tree is a tree, and filled in a second under callgrind.
pub(crate) const LUN_BYTES: u64 = 64 << 20;
/// Device size in bytes: large, so that neither the journal nor the reserve causes a consistency
/// point.
const DEVICE_BYTES: u64 = 16 << 30;
/// Turns after which something is stuck.
const TURNS_MAX: u64 = 1 << 20;
pub(crate) const BLOCK: u64 = BLOCK_SIZE as u64;

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const FLUSH: u16 = 3;
const REPLY_BYTES: u64 = 16;

pub(crate) struct Rig {
    engine: Engine,
    pub(crate) core: Core<RamOutside>,
    pub(crate) sessions: Sessions,
    session: SessionId,
    pub(crate) wire: Wire,
    next_token: u64,
    random: u64,
}

impl Rig {
    /// Returns a rig with a LUN full of committed data.
    pub(crate) fn new(memory_bytes: u64) -> Rig {
        let ram = Ram::new(DEVICE_BYTES);
        let device = [DeviceId(0)];
        let plan = Plan::new("aggr0", [1; 16], [2; 32], vec![[3; 16]]);
        create(&ram, &device, &plan).expect("memory can be formatted");
        let engine = Engine::new(Options {
            reactors: 1,
            memory_bytes,
            // Consistency points run only on request.
            cp_interval: 1 << 60,
            ..Options::default()
        });
        engine
            .open(&ram, &device, &[], None)
            .expect("what was formatted can be opened");
        let core = Core::new(&engine, 0, RamOutside::new(&ram));
        let mut sessions = Sessions::new(Settings::default(), 128 << 20);
        let session = sessions.attach(1).expect("room for one session");
        let mut rig = Rig {
            engine,
            core,
            sessions,
            session,
            wire: Wire::default(),
            next_token: 0,
            random: 1,
        };
        while rig.engine.aggregates()[0].state != State::Online {
            rig.core.turn();
        }
        rig.change(Change::CreateVolume {
            name: "v".to_owned(),
            sync: Sync::Standard,
        });
        rig.change(Change::CreateLun {
            volume: "v".to_owned(),
            name: "l".to_owned(),
            size_bytes: LUN_BYTES,
        });
        rig.wire.say_hello("v/l");
        rig.turn();
        rig.fill();
        rig
    }

    fn change(&mut self, change: Change) {
        self.next_token += 1;
        self.core.change(0, change, self.next_token);
        self.await_admin();
    }

    /// A consistency point, from its beginning to its commit.
    pub(crate) fn consistency_point(&mut self) {
        self.next_token += 1;
        self.core.consistency_point(0, self.next_token);
        self.await_admin();
    }

    fn await_admin(&mut self) {
        let mut done: Vec<AdminDone> = Vec::new();
        for _ in 0..TURNS_MAX {
            self.core.turn();
            self.core.poll_admin(&mut done);
            if let Some(done) = done.pop() {
                return done.result.expect("the change is possible");
            }
        }
        panic!("a change was never answered");
    }

    /// Does the work of the server's reactor in a turn.
    pub(crate) fn turn(&mut self) {
        self.sessions
            .receive(self.session, &mut self.wire, &mut self.core);
        self.core.turn();
        self.sessions.poll(&mut self.core);
        while let Some(session) = self.sessions.next_ready() {
            self.sessions
                .transmit(session, &mut self.wire, &mut self.core);
        }
    }

    /// Runs turns until all requests are answered with this many bytes.
    pub(crate) fn until(&mut self, bytes: u64) {
        for _ in 0..TURNS_MAX {
            if self.wire.received_bytes == bytes {
                return;
            }
            assert!(
                self.wire.received_bytes < bytes,
                "more was answered than was asked"
            );
            self.turn();
        }
        panic!("a request was never answered");
    }

    /// `depth` requests at once, like a client that keeps as many in flight. `payload` is what each
    /// write carries.
    pub(crate) fn requests(&mut self, command: u16, offsets: &[u64], payload: &[u8], reply: u64) {
        let before = self.wire.received_bytes;
        for offset in offsets {
            let length = match command {
                READ => BLOCK_SIZE,
                _ => payload.len(),
            };
            let length = u32::try_from(length).expect("at most a few hundred blocks");
            self.wire.ask(command, *offset, length);
            self.wire.push(payload);
        }
        self.until(before + offsets.len() as u64 * (REPLY_BYTES + reply));
    }

    /// A block's offset, the same sequence in every run.
    pub(crate) fn any_offset(&mut self, bytes: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % (bytes / BLOCK) * BLOCK
    }

    fn fill(&mut self) {
        let payload = [0x5a; BLOCK_SIZE];
        for first in (0..LUN_BYTES).step_by(1 << 20) {
            let offsets: Vec<u64> = (first..first + (1 << 20)).step_by(BLOCK_SIZE).collect();
            for some in offsets.chunks(32) {
                self.requests(WRITE, some, &payload, 0);
            }
        }
        self.consistency_point();
    }
}
