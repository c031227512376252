//! A scripted initiator: sends messages as the test says, and reads what comes back.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use everglade_iscsi::wire::digest::digest;
use everglade_iscsi::wire::header::{BHS_BYTES, Header, NO_TAG, padding};
use everglade_iscsi::wire::request::{self, Request};
use everglade_iscsi::wire::{Numbers, Response};
use everglade_iscsi::{Session, SessionMetrics, Settings, names};
use everglade_target::Target as _;
use everglade_target::sessions::{Caller, Metrics as _};

use crate::held::Held;

pub(crate) const GOOD: u8 = 0;
pub(crate) const CHECK: u8 = 2;
pub(crate) const CONFLICT: u8 = 0x18;

/// A message of the target.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) response: Response,
    pub(crate) numbers: Numbers,
    pub(crate) data: Vec<u8>,
}

pub(crate) struct Initiator {
    pub(crate) session: Session,
    pub(crate) target: Held,
    pub(crate) metrics: Arc<SessionMetrics>,
    pub(crate) cmd_sn: u32,
    itt: u32,
    has_digests: bool,
    /// Bytes moved by one send or receive.
    pub(crate) chunk: usize,
    rest: Vec<u8>,
    /// Number of the next status, once the first has come.
    stat_sn: Option<u32>,
}

/// The usual keys of a login, without names.
pub(crate) const KEYS: &[(&str, &str)] = &[
    ("HeaderDigest", "None"),
    ("DataDigest", "None"),
    ("InitialR2T", "No"),
    ("ImmediateData", "Yes"),
    ("MaxRecvDataSegmentLength", "262144"),
    ("MaxBurstLength", "262144"),
    ("FirstBurstLength", "65536"),
    ("MaxOutstandingR2T", "2"),
];

pub(crate) fn text(pairs: &[(&str, &str)]) -> Vec<u8> {
    let all = pairs.iter().map(|(key, value)| format!("{key}={value}\0"));
    all.collect::<String>().into_bytes()
}

pub(crate) fn login(current: u8, next: u8, transits: bool) -> request::Login {
    request::Login {
        transits,
        continues: false,
        current,
        next,
        version_min: 0,
        isid: [0x80, 0, 0, 0, 0, 1],
        tsih: 0,
        itt: 1,
        cid: 0,
        cmd_sn: 1,
        exp_stat_sn: 0,
    }
}

impl Initiator {
    /// Connected, nothing exchanged.
    pub(crate) fn new(target: Held, settings: Settings) -> Initiator {
        let metrics: Arc<SessionMetrics> = Arc::default();
        let session = Session::new(7 << 32, settings, &metrics).with_caller(Caller {
            local: Some("10.0.0.1:3260".parse().unwrap()),
            ..Caller::default()
        });
        Initiator {
            session,
            target,
            metrics,
            cmd_sn: 1,
            itt: 100,
            has_digests: false,
            chunk: usize::MAX,
            rest: Vec::new(),
            stat_sn: None,
        }
    }

    /// Logs in to `vol0/lun0` with these keys, and takes the first unit attention.
    pub(crate) fn logged_in(target: Held, settings: Settings, keys: &[(&str, &str)]) -> Initiator {
        let mut initiator = Initiator::new(target, settings);
        let name = names::target_name("vol0/lun0").unwrap();
        let mut pairs = vec![("InitiatorName", "iqn.test:me"), ("TargetName", &name)];
        pairs.extend(keys);
        let answers = initiator.send(&Request::Login(login(1, 3, true)), true, &text(&pairs));
        let [Answer { response, .. }] = &answers[..] else {
            panic!("one answer: {answers:?}");
        };
        let is_in = matches!(
            response,
            Response::Login {
                transits: true,
                tsih: 1..,
                ..
            }
        );
        assert!(is_in, "{response:?}");
        initiator.has_digests = keys.contains(&("HeaderDigest", "CRC32C"));
        assert_eq!(initiator.sense(&[0; 6]), (6, 0x29, 0), "power on");
        initiator
    }

    pub(crate) fn standard(size_bytes: u64) -> Initiator {
        Self::logged_in(Held::with_lun(size_bytes), Settings::default(), KEYS)
    }

    /// Passes time.
    pub(crate) fn wait(&mut self, seconds: u64) {
        let now = self.metrics.sessions().now() + seconds * 1_000_000_000;
        self.metrics.sessions().tick(now);
        self.session.tick(now, &mut self.target);
    }

    /// Sends a message, and returns what comes back.
    pub(crate) fn send(&mut self, request: &Request, immediate: bool, data: &[u8]) -> Vec<Answer> {
        let bytes = self.message(request, immediate, data);
        self.send_bytes(&bytes)
    }

    /// A message with its digests.
    pub(crate) fn message(&self, request: &Request, immediate: bool, data: &[u8]) -> Vec<u8> {
        let plain = request.message(immediate, data);
        if !self.has_digests {
            return plain;
        }
        let (head, rest) = plain.split_at(BHS_BYTES);
        let mut bytes = [head, &digest([head])].concat();
        bytes.extend(rest);
        if !rest.is_empty() {
            bytes.extend(digest([rest]));
        }
        bytes
    }

    /// Sends bytes, and returns what comes back.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> Vec<Answer> {
        let mut rest = bytes;
        loop {
            let sent = self.push(rest);
            rest = &rest[sent..];
            let worked = self.work();
            let taken = self.take();
            self.rest.extend(&taken);
            if sent == 0 && !worked && taken.is_empty() {
                break;
            }
        }
        self.answers()
    }

    fn push(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() && self.session.wants_read() {
            let mut pieces: Vec<IoSliceMut<'_>> =
                (0..300).map(|_| IoSliceMut::new(&mut [])).collect();
            let count = self.session.receive_buffers(&mut pieces);
            assert!(count > 0, "a session that wants to read has room");
            let mut moved = 0;
            for piece in &mut pieces[..count] {
                let now = piece.len().min(rest.len()).min(self.chunk - moved);
                piece[..now].copy_from_slice(&rest[..now]);
                rest = &rest[now..];
                moved += now;
            }
            self.session.received(moved, &mut self.target);
        }
        bytes.len() - rest.len()
    }

    fn work(&mut self) -> bool {
        let mut done = Vec::new();
        self.target.poll(&mut done);
        let mut any = !done.is_empty();
        if self.session.home_question().is_some() {
            assert_eq!(self.target.open, 0, "nothing is open while it asks");
            self.session.stay(&mut self.target);
            any = true;
        }
        for completion in done {
            let (token, result) = (completion.token, completion.result);
            self.session.completed(token, result, &mut self.target);
        }
        any
    }

    fn take(&mut self) -> Vec<u8> {
        let mut taken = Vec::new();
        while self.session.wants_write() {
            let mut pieces = vec![IoSlice::new(&[]); 300];
            let count = self.session.transmit_buffers(&mut pieces);
            let before = taken.len();
            for piece in &pieces[..count] {
                let now = piece.len().min(self.chunk - (taken.len() - before));
                taken.extend_from_slice(&piece[..now]);
            }
            let moved = taken.len() - before;
            assert!(moved > 0, "pieces are not empty");
            self.session.transmitted(moved, &mut self.target);
        }
        taken
    }

    fn answers(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        let bytes = std::mem::take(&mut self.rest);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let bhs = rest[..BHS_BYTES].try_into().unwrap();
            let header = Header::parse(&bhs);
            let mut at = BHS_BYTES;
            if self.has_digests {
                assert_eq!(rest[at..at + 4], digest([&rest[..at]]));
                at += 4;
            }
            let length = header.data_bytes as usize;
            let whole = length + padding(header.data_bytes) as usize;
            let data = rest[at..at + length].to_vec();
            assert!(rest[at + length..at + whole].iter().all(|byte| *byte == 0));
            if self.has_digests && length > 0 {
                let sum = digest([&rest[at..at + whole]]);
                assert_eq!(rest[at + whole..at + whole + 4], sum);
                at += 4;
            }
            rest = &rest[at + whole..];
            let (response, numbers) = Response::parse(&bhs).unwrap();
            if response.advances() {
                let expected = self.stat_sn.unwrap_or(numbers.stat_sn);
                assert_eq!(numbers.stat_sn, expected, "statuses are numbered in order");
                self.stat_sn = Some(expected.wrapping_add(1));
            }
            answers.push(Answer {
                response,
                numbers,
                data,
            });
        }
        answers
    }

    /// A command, with the next number and a fresh tag.
    pub(crate) fn next_command(&mut self, cdb: &[u8], reads: u32, writes: u32) -> request::Command {
        let mut block = [0; 16];
        block[..cdb.len()].copy_from_slice(cdb);
        self.itt += 1;
        let cmd_sn = self.cmd_sn;
        self.cmd_sn = self.cmd_sn.wrapping_add(1);
        request::Command {
            is_final: true,
            reads: reads > 0,
            writes: writes > 0,
            attribute: 1,
            lun: 0,
            itt: self.itt,
            expected_bytes: reads.max(writes),
            cmd_sn,
            cdb: block,
        }
    }

    /// Carries out a command that reads up to `room` bytes. Returns status and data.
    pub(crate) fn read(&mut self, cdb: &[u8], room: u32) -> (u8, Vec<u8>) {
        let command = self.next_command(cdb, room, 0);
        let answers = self.send(&Request::Command(command), false, &[]);
        Self::outcome(&answers)
    }

    /// Carries out a command that takes `data`, sending it as it is asked for.
    pub(crate) fn write(&mut self, cdb: &[u8], data: &[u8]) -> (u8, Vec<u8>) {
        let length = u32::try_from(data.len()).unwrap();
        let command = self.next_command(cdb, 0, length);
        let mut answers = self.send(&Request::Command(command), false, &[]);
        while let Some(Answer {
            response:
                Response::ReadyToTransfer {
                    ttt,
                    offset,
                    length,
                    ..
                },
            ..
        }) = answers.first()
        {
            let part = &data[*offset as usize..][..*length as usize];
            let message = self.data_out(command.itt, *ttt, 0, *offset, true);
            let more = self.send(&Request::DataOut(message), false, part);
            answers.remove(0);
            answers.extend(more);
        }
        Self::outcome(&answers)
    }

    pub(crate) fn data_out(
        &self,
        itt: u32,
        ttt: u32,
        data_sn: u32,
        offset: u32,
        is_final: bool,
    ) -> request::DataOut {
        request::DataOut {
            is_final,
            itt,
            ttt,
            data_sn,
            offset,
        }
    }

    /// Status and data of one command's answers, whose numbers must be right.
    pub(crate) fn outcome(answers: &[Answer]) -> (u8, Vec<u8>) {
        let mut data = Vec::new();
        let mut expected_sn = 0;
        for answer in answers {
            match &answer.response {
                Response::DataIn {
                    status,
                    data_sn,
                    offset,
                    ..
                } => {
                    assert_eq!((*data_sn, *offset as usize), (expected_sn, data.len()));
                    expected_sn += 1;
                    data.extend_from_slice(&answer.data);
                    if let Some((status, _)) = status {
                        return (*status, data);
                    }
                }
                Response::Status { status, .. } => {
                    data.extend_from_slice(&answer.data);
                    return (*status, data);
                }
                other => panic!("not an answer to a command: {other:?}"),
            }
        }
        panic!("no status in {answers:?}")
    }

    /// Carries out a command that must fail; returns key and codes.
    pub(crate) fn sense(&mut self, cdb: &[u8]) -> (u8, u8, u8) {
        let (status, data) = self.read(cdb, 0);
        Self::codes(status, &data)
    }

    pub(crate) fn codes(status: u8, data: &[u8]) -> (u8, u8, u8) {
        assert_eq!(status, CHECK);
        assert_eq!(data[..2], [0, 18]);
        (data[4], data[14], data[15])
    }

    pub(crate) fn read_16(lba: u64, blocks: u32) -> Vec<u8> {
        Self::cdb_16(0x88, 0, lba, blocks)
    }

    pub(crate) fn write_16(lba: u64, blocks: u32) -> Vec<u8> {
        Self::cdb_16(0x8a, 0, lba, blocks)
    }

    pub(crate) fn cdb_16(opcode: u8, flags: u8, lba: u64, blocks: u32) -> Vec<u8> {
        let mut cdb = vec![opcode, flags];
        cdb.extend(lba.to_be_bytes());
        cdb.extend(blocks.to_be_bytes());
        cdb
    }
}

/// A ping that wants an answer.
pub(crate) fn ping(itt: u32, cmd_sn: u32) -> Request {
    Request::NopOut(request::NopOut {
        lun: 0,
        itt,
        ttt: NO_TAG,
        cmd_sn,
    })
}
