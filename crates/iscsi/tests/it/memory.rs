//! Many sessions in little memory: nobody waits for ever, and all memory is given back.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};

use everglade_iscsi::wire::Response;
use everglade_iscsi::wire::header::{BHS_BYTES, Header, padding};
use everglade_iscsi::wire::request::{self, Request};
use everglade_iscsi::{Sessions, Settings, names};
use everglade_target::model::Model;
use everglade_target::sessions::SessionId;

const SESSIONS: u8 = 24;
const LONG: u32 = 768 << 10;
const SHORT: u32 = 128 << 10;
const TASK_SET_FULL: u8 = 0x28;

/// One host: what it will send, what it has received, and what it still waits for.
struct Host {
    id: SessionId,
    to_send: Vec<u8>,
    received: Vec<u8>,
    cmd_sn: u32,
    /// Statuses by tag.
    statuses: Vec<(u32, u8)>,
}

impl Read for Host {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(buffer)])
    }

    /// Fills all pieces, as a socket does.
    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if self.to_send.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut moved = 0;
        for buffer in buffers {
            let now = buffer.len().min(self.to_send.len() - moved);
            buffer[..now].copy_from_slice(&self.to_send[moved..moved + now]);
            moved += now;
        }
        self.to_send.drain(..moved);
        Ok(moved)
    }
}

impl Write for Host {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.received.extend(bytes);
        Ok(bytes.len())
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        pieces
            .iter()
            .try_fold(0, |all, piece| Ok(all + self.write(piece)?))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Host {
    /// A connection of the host with this number, which is about to log in.
    fn begin(sessions: &mut Sessions, number: u8, keys: &str) -> Host {
        let login = Request::Login(request::Login {
            transits: true,
            continues: false,
            current: 1,
            next: 3,
            version_min: 0,
            isid: [0x80, 0, 0, 0, 0, number],
            tsih: 0,
            itt: 0,
            cid: 0,
            cmd_sn: 1,
            exp_stat_sn: 0,
        });
        let target = names::target_name("v/l").unwrap();
        let text = format!("InitiatorName=iqn.host{number}\0TargetName={target}\0{keys}");
        Host {
            id: sessions.attach(0).unwrap(),
            to_send: login.message(true, text.as_bytes()),
            received: Vec::new(),
            cmd_sn: 1,
            statuses: Vec::new(),
        }
    }

    fn command(&mut self, cdb: [u8; 16], reads: u32, writes: u32, data: &[u8]) {
        let command = Request::Command(request::Command {
            is_final: true,
            reads: reads > 0,
            writes: writes > 0,
            attribute: 1,
            lun: 0,
            itt: self.cmd_sn,
            expected_bytes: reads.max(writes),
            cmd_sn: self.cmd_sn,
            cdb,
        });
        self.cmd_sn += 1;
        self.to_send.extend(command.message(false, data));
    }

    /// Reads answers, and sends the data that is asked for.
    fn answer(&mut self) {
        while let Some(bhs) = self.received.first_chunk::<BHS_BYTES>().copied() {
            let header = Header::parse(&bhs);
            let data = (header.data_bytes + padding(header.data_bytes)) as usize;
            if self.received.len() < BHS_BYTES + data {
                return;
            }
            self.received.drain(..BHS_BYTES + data);
            match Response::parse(&bhs).unwrap().0 {
                Response::ReadyToTransfer {
                    itt,
                    ttt,
                    offset,
                    length,
                    ..
                } => {
                    let message = Request::DataOut(request::DataOut {
                        is_final: true,
                        itt,
                        ttt,
                        data_sn: 0,
                        offset,
                    });
                    let bytes = vec![0x5a; length as usize];
                    self.to_send.extend(message.message(false, &bytes));
                }
                Response::Status { itt, status, .. }
                | Response::DataIn {
                    itt,
                    status: Some((status, _)),
                    ..
                } => self.statuses.push((itt, status)),
                Response::Login { .. } | Response::DataIn { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

fn cdb(opcode: u8, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

#[test]
fn sessions_that_want_more_than_there_is_all_get_their_turn() {
    let mut model = Model::with_lun("v/l", 4 << 20);
    let mut sessions = Sessions::new(Settings::default(), 3 << 20);
    let mut hosts: Vec<Host> = Vec::new();
    for number in 0..SESSIONS {
        let keys = "ImmediateData=Yes\0FirstBurstLength=131072\0MaxBurstLength=131072\0";
        let mut host = Host::begin(&mut sessions, number, keys);
        host.command([0; 16], 0, 0, &[]);
        // A write that waits for its data, and behind it commands with and without data.
        for _ in 0..3 {
            host.command(cdb(0x8a, LONG / 512), 0, LONG, &[]);
            host.command(cdb(0x8a, SHORT / 512), 0, SHORT, &[7; SHORT as usize]);
            host.command(cdb(0x88, LONG / 512), LONG, 0, &[]);
        }
        hosts.push(host);
    }
    let mut rounds = 0;
    while hosts.iter().any(|host| host.statuses.len() < 10) {
        rounds += 1;
        assert!(rounds < 10_000, "somebody waits for ever");
        assert!(sessions.memory().used() <= sessions.memory().total());
        for host in &mut hosts {
            let id = host.id;
            sessions.receive(id, host, &mut model);
        }
        sessions.poll(&mut model);
        while let Some(id) = sessions.next_ready() {
            let host = hosts.iter_mut().find(|host| host.id == id).unwrap();
            sessions.transmit(id, host, &mut model);
            assert!(!sessions.interest(id).closed, "nobody is ended");
        }
        hosts.iter_mut().for_each(Host::answer);
    }
    let mut refused = 0;
    for host in &hosts {
        let statuses = host.statuses.iter().filter(|(_, status)| *status != 0);
        for (itt, status) in statuses {
            // The first is the unit attention. Only commands with data of their own are refused.
            let is_attention = *itt == 1 && *status == 2;
            assert!(is_attention || *status == TASK_SET_FULL && itt % 3 == 0);
            refused += usize::from(!is_attention);
        }
    }
    assert!(refused > 0, "memory was short");
    assert!(sessions.memory().waits() > 0);
    assert_eq!(sessions.memory().used(), 0, "all of it was given back");
}

#[test]
fn a_peer_that_sends_no_data_is_ended_while_others_wait() {
    let mut model = Model::with_lun("v/l", 4 << 20);
    let mut sessions = Sessions::new(Settings::default(), 3 << 20);
    let mut hosts = Vec::new();
    for number in 0..8_u8 {
        let mut host = Host::begin(&mut sessions, number, "");
        host.command([0; 16], 0, 0, &[]);
        host.command(cdb(0x8a, LONG / 512), 0, LONG, &[]);
        hosts.push(host);
    }
    let mut closed = 0;
    for second in 0..40 {
        let now = second * 1_000_000_000;
        sessions.tick(now);
        for host in &mut hosts {
            if !sessions.interest(host.id).closed && !host.to_send.is_empty() {
                let id = host.id;
                sessions.receive(id, host, &mut model);
            }
        }
        sessions.sweep(now, &mut model);
        sessions.poll(&mut model);
        while let Some(id) = sessions.next_ready() {
            let host = hosts.iter_mut().find(|host| host.id == id).unwrap();
            sessions.transmit(id, host, &mut model);
        }
        closed = hosts
            .iter()
            .filter(|host| sessions.interest(host.id).closed)
            .count();
        // Nobody answers: no data is ever sent.
    }
    assert!(closed >= 4, "those that kept memory from others: {closed}");
    assert_eq!(u64::try_from(closed).unwrap(), sessions.memory().stalled());
}
