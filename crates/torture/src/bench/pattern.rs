//! What clients do to the server while its speed is measured: 4 KiB writes at random places, and
//! flushes.
//!
//! Each connection is one thread that sends and receives. That cannot block for ever, because what
//! it has in flight fits into the buffers of a socket.

use std::io;
use std::time::{Duration, Instant};

use crate::Random;
use crate::client::{Address, Ask, Command, Connection};

const BLOCK: u64 = 4096;
const BLOCK_U32: u32 = 4096;
const CONTENTS: usize = 64;

/// How many connections and requests are in flight, and which requests wait for a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One write, its flush, the next write.
    Single,
    /// 32 requests in flight; every ninth is a flush.
    Deep,
    /// Eight connections with four writers each; every writer flushes each of its writes.
    Jobs,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Pattern; 3] = [Pattern::Single, Pattern::Deep, Pattern::Jobs];

    /// Returns the name that tables show.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Single => "write + flush, queue 1",
            Pattern::Deep => "queue 32, a flush after every 8 writes",
            Pattern::Jobs => "8 jobs × queue 4, a flush after each write",
        }
    }

    /// Runs the pattern against an export whose first `bytes` it may overwrite. Returns the writes
    /// per second. All but the last few writes of [`Pattern::Deep`] were flushed.
    ///
    /// # Errors
    /// Those of the sockets, and error replies.
    pub fn run(
        self,
        address: &Address,
        export: &str,
        bytes: u64,
        time: Duration,
        seed: u64,
    ) -> io::Result<f64> {
        let connections = if self == Pattern::Jobs { 8 } else { 1 };
        let mut writers = Vec::new();
        for number in 0..connections {
            let connection = Connection::open(address, export)?;
            writers.push(Writer {
                connection,
                random: Random::new(seed ^ number),
                blocks: bytes / BLOCK,
                payload: noise(seed ^ number),
            });
        }
        let since = Instant::now();
        let until = since + time;
        let run = move |mut writer: Writer| match self {
            Pattern::Single => writer.in_slots(1, until),
            Pattern::Deep => writer.deep(32, 8, until),
            Pattern::Jobs => writer.in_slots(4, until),
        };
        let threads: Vec<_> = writers
            .into_iter()
            .map(|writer| std::thread::spawn(move || run(writer)))
            .collect();
        let mut writes = 0;
        for thread in threads {
            writes += match thread.join() {
                Ok(count) => count?,
                Err(panic) => std::panic::resume_unwind(panic),
            };
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let count = writes as f64;
        Ok(count / since.elapsed().as_secs_f64())
    }
}

/// Contents that nothing can compress or deduplicate.
fn noise(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let words = CONTENTS * 4096 / 8;
    (0..words)
        .flat_map(|_| random.number().to_le_bytes())
        .collect()
}

struct Writer {
    connection: Connection,
    random: Random,
    blocks: u64,
    payload: Vec<u8>,
}

impl Writer {
    fn write(&mut self, cookie: u64) -> io::Result<()> {
        let ask = Ask {
            command: Command::Write,
            fua: false,
            cookie,
            offset: self.random.below(self.blocks) * BLOCK,
            length: BLOCK_U32,
        };
        let at = usize::try_from(self.random.below(CONTENTS as u64)).expect("small") * 4096;
        self.connection
            .sender
            .send(ask, &self.payload[at..at + 4096])
    }

    fn flush(&mut self, cookie: u64) -> io::Result<()> {
        let ask = Ask {
            command: Command::Flush,
            fua: false,
            cookie,
            offset: 0,
            length: 0,
        };
        self.connection.sender.send(ask, &[])
    }

    /// The cookie of the next good reply.
    fn reply(&mut self) -> io::Result<u64> {
        let answer = self.connection.receiver.receive(|_| Some(0))?;
        match answer.error {
            0 => Ok(answer.cookie),
            error => Err(io::Error::other(format!("error {error} in a reply"))),
        }
    }

    /// Writers that wait for their write, then for their flush. The cookie's lowest bit is set for
    /// a flush.
    fn in_slots(&mut self, slots: u64, until: Instant) -> io::Result<u64> {
        for slot in 0..slots {
            self.write(slot << 1)?;
        }
        let (mut flushed, mut running) = (0, slots);
        while running > 0 {
            let cookie = self.reply()?;
            if cookie & 1 == 0 {
                self.flush(cookie | 1)?;
                continue;
            }
            flushed += 1;
            if Instant::now() < until {
                self.write(cookie & !1)?;
            } else {
                running -= 1;
            }
        }
        Ok(flushed)
    }

    /// Always `depth` requests in flight, a flush after every `group` writes.
    fn deep(&mut self, depth: u64, group: u64, until: Instant) -> io::Result<u64> {
        let (mut sent, mut received, mut writes) = (0u64, 0u64, 0u64);
        loop {
            let is_over = Instant::now() >= until;
            if is_over && sent == received {
                return Ok(writes);
            }
            if !is_over && sent - received < depth {
                if sent % (group + 1) == group {
                    self.flush(sent)?;
                } else {
                    self.write(sent)?;
                    writes += 1;
                }
                sent += 1;
                continue;
            }
            self.reply()?;
            received += 1;
        }
    }
}
