//! A client that speaks just enough NBD to misbehave: what real clients refuse to send.
//!
//! Fixed newstyle handshake, one request at a time, simple replies. Field names are those of the
//! protocol document.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const FLAG_C_FIXED_NEWSTYLE: u32 = 1;
const FLAG_C_NO_ZEROES: u32 = 2;
const OPT_EXPORT_NAME: u32 = 1;
/// Of all requests, which are made one at a time.
const COOKIE: u64 = 0x0123_4567_89ab_cdef;

pub(crate) const CMD_READ: u16 = 0;
pub(crate) const CMD_WRITE: u16 = 1;
pub(crate) const CMD_FLUSH: u16 = 3;
pub(crate) const CMD_TRIM: u16 = 4;
pub(crate) const EPERM: u32 = 1;
pub(crate) const EIO: u32 = 5;
pub(crate) const EINVAL: u32 = 22;
pub(crate) const ENOSPC: u32 = 28;

/// Nothing on the loopback takes this long; a silent server fails the test instead of hanging it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection after the server's greeting.
pub(crate) struct Client {
    stream: TcpStream,
}

impl Client {
    /// Connects and checks the greeting.
    pub(crate) fn greet(address: &str) -> io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut client = Client { stream };
        let greeting: [u8; 18] = client.take()?;
        assert_eq!(greeting[..8], NBDMAGIC.to_be_bytes());
        assert_eq!(greeting[8..16], IHAVEOPT.to_be_bytes());
        Ok(client)
    }

    /// Connects and enters transmission; returns the size of the export too.
    pub(crate) fn open(address: &str, export: &str) -> io::Result<(Client, u64)> {
        let mut client = Client::greet(address)?;
        let mut bytes = (FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES)
            .to_be_bytes()
            .to_vec();
        bytes.extend(option(OPT_EXPORT_NAME, export.as_bytes()));
        client.send(&bytes)?;
        let size = u64::from_be_bytes(client.take()?);
        let _transmission_flags: [u8; 2] = client.take()?;
        Ok((client, size))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// One request; the error number of its reply. The payload of a good read is dropped.
    pub(crate) fn request(
        &mut self,
        command: u16,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> io::Result<u32> {
        let outcome = self.exchange(command, offset, length, payload)?;
        Ok(outcome.err().unwrap_or(0))
    }

    /// Reads; the bytes, or the error number of the reply.
    #[track_caller]
    pub(crate) fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, u32> {
        self.exchange(CMD_READ, offset, length, &[])
            .expect("a reply to a read")
    }

    /// Writes; the error number of the reply if it is one.
    #[track_caller]
    pub(crate) fn write(&mut self, offset: u64, payload: &[u8]) -> Result<(), u32> {
        let length = u32::try_from(payload.len()).expect("short");
        self.exchange(CMD_WRITE, offset, length, payload)
            .expect("a reply to a write")
            .map(drop)
    }

    /// Flushes; the error number of the reply if it is one.
    #[track_caller]
    pub(crate) fn flush(&mut self) -> Result<(), u32> {
        self.exchange(CMD_FLUSH, 0, 0, &[])
            .expect("a reply to a flush")
            .map(drop)
    }

    /// Trims; the error number of the reply if it is one.
    #[track_caller]
    pub(crate) fn trim(&mut self, offset: u64, length: u32) -> Result<(), u32> {
        self.exchange(CMD_TRIM, offset, length, &[])
            .expect("a reply to a trim")
            .map(drop)
    }

    /// Sends a request without payload and does not wait for its reply.
    pub(crate) fn ask(&mut self, command: u16, offset: u64, length: u32) {
        // The reply tells whether it arrived.
        let _ = self.send(&header(command, offset, length));
    }

    /// Takes one reply to an option; its kind.
    pub(crate) fn option_reply(&mut self) -> io::Result<u32> {
        let _magic_and_option: [u8; 12] = self.take()?;
        let kind = u32::from_be_bytes(self.take()?);
        let length = u32::from_be_bytes(self.take()?);
        let mut data = vec![0; length as usize];
        self.stream.read_exact(&mut data)?;
        Ok(kind)
    }

    /// What to wait for.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Takes what has arrived, whatever it is; how much.
    pub(crate) fn take_some(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.read(bytes)
    }

    /// Takes so many bytes.
    pub(crate) fn take_all(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.stream.read_exact(bytes)
    }

    /// Takes one reply without data; its error number.
    pub(crate) fn reply(&mut self) -> io::Result<u32> {
        let magic = u32::from_be_bytes(self.take()?);
        let error = u32::from_be_bytes(self.take()?);
        let _cookie: [u8; 8] = self.take()?;
        assert_eq!(magic, REPLY_MAGIC);
        Ok(error)
    }

    /// Takes one reply, with this much data if it is good; its error number, or the kind of what
    /// went wrong.
    pub(crate) fn reply_with(&mut self, length: usize) -> Result<u32, io::ErrorKind> {
        let error = self.reply().map_err(|error| error.kind())?;
        if error == 0 {
            let mut data = vec![0; length];
            let read = self.stream.read_exact(&mut data);
            read.map_err(|error| error.kind())?;
        }
        Ok(error)
    }

    fn exchange(
        &mut self,
        command: u16,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> io::Result<Result<Vec<u8>, u32>> {
        let mut bytes = header(command, offset, length);
        bytes.extend(payload);
        self.send(&bytes)?;
        let magic = u32::from_be_bytes(self.take()?);
        let error = u32::from_be_bytes(self.take()?);
        let cookie = u64::from_be_bytes(self.take()?);
        assert_eq!(magic, REPLY_MAGIC);
        assert_eq!(cookie, COOKIE);
        if error != 0 {
            return Ok(Err(error));
        }
        let mut data = Vec::new();
        if command == CMD_READ {
            data.resize(length as usize, 0);
            self.stream.read_exact(&mut data)?;
        }
        Ok(Ok(data))
    }

    /// Whether the server has closed this connection, after discarding what it still says.
    pub(crate) fn is_closed_by_server(&mut self) -> bool {
        let mut scrap = [0; 4096];
        loop {
            match self.stream.read(&mut scrap) {
                Ok(0) => return true,
                Ok(_) => {}
                // The whole machine may be paused and go on.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::ConnectionReset,
            }
        }
    }
}

/// The header of a request.
pub(crate) fn header(command: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(command.to_be_bytes());
    bytes.extend(COOKIE.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// One option of the handshake.
pub(crate) fn option(kind: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).expect("short");
    option_claiming(kind, length, data)
}

/// One option whose length is whatever one claims.
pub(crate) fn option_claiming(kind: u32, length: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = IHAVEOPT.to_be_bytes().to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(data);
    bytes
}

/// The client flags that start a handshake.
pub(crate) fn client_flags() -> [u8; 4] {
    (FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES).to_be_bytes()
}
