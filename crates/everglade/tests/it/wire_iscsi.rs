//! An initiator that speaks just enough iSCSI to reserve: a login without questions, commands with
//! immediate data one at a time (RFC 7143 §11).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Nothing on the loopback takes this long; a silent server fails the test instead of hanging it.
const PATIENCE: Duration = Duration::from_secs(20);
const LOGIN: u8 = 0x43;
const LOGIN_RESPONSE: u8 = 0x23;
const COMMAND: u8 = 0x01;
const COMMAND_RESPONSE: u8 = 0x21;
const DATA_IN: u8 = 0x25;

/// Status of a command: it was carried out.
pub(crate) const GOOD: u8 = 0;
/// Status of a command: see the sense.
pub(crate) const CHECK_CONDITION: u8 = 2;
/// Status of a command: another host has reserved the LUN.
pub(crate) const CONFLICT: u8 = 0x18;

/// Status of a login: there is no such target for this initiator.
pub(crate) const NOT_FOUND: [u8; 2] = [2, 3];

/// Service actions of PERSISTENT RESERVE OUT.
pub(crate) const REGISTER: u8 = 0;
pub(crate) const RESERVE: u8 = 1;
pub(crate) const CLEAR: u8 = 3;

/// A session.
pub(crate) struct Initiator {
    stream: TcpStream,
    sequence: u32,
}

impl Initiator {
    /// Logs in under a name.
    pub(crate) fn log_in(portal: &str, name: &str, target: &str) -> Initiator {
        let refused = |status| panic!("the login is refused with {status:x?}");
        Initiator::try_log_in(portal, name, target).unwrap_or_else(refused)
    }

    /// Logs in under a name; else the status of the refusal.
    pub(crate) fn try_log_in(portal: &str, name: &str, target: &str) -> Result<Initiator, [u8; 2]> {
        let stream = TcpStream::connect(portal).expect("the portal is there");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut initiator = Initiator {
            stream,
            sequence: 1,
        };
        let keys = [
            format!("InitiatorName={name}"),
            format!("TargetName={target}"),
            "SessionType=Normal".to_owned(),
            "InitialR2T=Yes".to_owned(),
            "ImmediateData=Yes".to_owned(),
        ];
        let text: String = keys.iter().map(|key| format!("{key}\0")).collect();
        let mut header = [0; 48];
        // From the stage of options to full features.
        (header[0], header[1]) = (LOGIN, 0x80 | 1 << 2 | 3);
        // ISID: random format, and nothing else.
        header[8] = 0x80;
        header[24..28].copy_from_slice(&initiator.sequence.to_be_bytes());
        initiator.send(header, text.as_bytes());
        let (answer, _) = initiator.take();
        assert_eq!(answer[0] & 0x3f, LOGIN_RESPONSE);
        if answer[36..38] != [0, 0] {
            return Err([answer[36], answer[37]]);
        }
        assert_eq!(answer[1] & 0x83, 0x83, "it is over");
        // The first command tells of the connection itself.
        assert_eq!(initiator.command(&[0; 6], &[], 0).0, CHECK_CONDITION);
        Ok(initiator)
    }

    /// Waits until the server closes the connection; it may say something before.
    pub(crate) fn is_ended_by_server(&mut self) -> bool {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).is_ok()
    }

    /// PERSISTENT RESERVE OUT; its status. `outlives` is APTPL.
    pub(crate) fn reserve(
        &mut self,
        (action, kind): (u8, u8),
        (key, other): (u64, u64),
        outlives: bool,
    ) -> u8 {
        let mut parameters = [key.to_be_bytes(), other.to_be_bytes(), [0; 8]].concat();
        parameters[20] = u8::from(outlives);
        let cdb = [0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0];
        self.command(&cdb, &parameters, 0).0
    }

    /// Keys of PERSISTENT RESERVE IN.
    pub(crate) fn keys(&mut self) -> Vec<u64> {
        let (status, data) = self.command(&[0x5e, 0, 0, 0, 0, 0, 0, 1, 0, 0], &[], 256);
        assert_eq!(status, GOOD);
        let keys = data[8..].chunks(8);
        keys.map(|key| u64::from_be_bytes(key.try_into().expect("8")))
            .collect()
    }

    /// Writes one block of 512 bytes; its status.
    pub(crate) fn write(&mut self, block: u8, byte: u8) -> u8 {
        let cdb = [0x2a, 0, 0, 0, 0, block, 0, 0, 1, 0];
        self.command(&cdb, &[byte; 512], 0).0
    }

    /// One command; its status, and the data.
    fn command(&mut self, cdb: &[u8], out: &[u8], expected: u32) -> (u8, Vec<u8>) {
        let mut header = [0; 48];
        let (reads, writes) = (u8::from(expected > 0), u8::from(!out.is_empty()));
        (header[0], header[1]) = (COMMAND, 0x80 | reads << 6 | writes << 5);
        let length = expected.max(u32::try_from(out.len()).expect("short"));
        header[16..20].copy_from_slice(&self.sequence.to_be_bytes());
        header[20..24].copy_from_slice(&length.to_be_bytes());
        header[24..28].copy_from_slice(&self.sequence.to_be_bytes());
        header[32..32 + cdb.len()].copy_from_slice(cdb);
        self.sequence += 1;
        self.send(header, out);
        let mut data = Vec::new();
        loop {
            let (answer, bytes) = self.take();
            match answer[0] & 0x3f {
                DATA_IN => data.extend(bytes),
                COMMAND_RESPONSE => return (answer[3], data),
                other => panic!("an unexpected answer {other:#x}"),
            }
            if answer[1] & 1 != 0 {
                return (answer[3], data);
            }
        }
    }

    fn send(&mut self, mut header: [u8; 48], data: &[u8]) {
        let length = u32::try_from(data.len()).expect("short").to_be_bytes();
        header[5..8].copy_from_slice(&length[1..]);
        let mut bytes = [&header[..], data].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        self.stream.write_all(&bytes).expect("the server listens");
    }

    fn take(&mut self) -> ([u8; 48], Vec<u8>) {
        let mut header = [0; 48];
        self.stream.read_exact(&mut header).expect("an answer");
        let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
        let mut data = vec![0; length.next_multiple_of(4)];
        self.stream.read_exact(&mut data).expect("its data");
        data.truncate(length);
        (header, data)
    }
}
