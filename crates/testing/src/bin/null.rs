//! `null SOCKET BYTES [MEMORY]`: our NBD sessions over a target that does nothing, for
//! `cargo xtask bench nbd`. Reads return the same page again and again, writes are forgotten. What
//! this serves is the most that any engine under these sessions could, if its data were in the
//! processor's first cache.
//!
//! With MEMORY, each block up to this number of bytes has a page of its own, found by its number in
//! one array: a cache without a look-up. The difference to reading the same page again is the cost
//! of memory.
//!
//! The loop is that of the server's reactor without engine, timers and administrators.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;
use std::time::Duration;

use everglade_env::reactor::{Interest, Real};
use everglade_env::{BLOCK_SIZE, Outside, Page, PageRef, World, WorldOptions};
use everglade_nbd::{Received, SessionId, Sessions, Settings};
use everglade_target::{
    Completion, Error, Export, LunHandle, Op, ReadSpan, Reply, Target, Token, span,
};

/// Key of the listener; connections have the others.
const LISTENER: u64 = 1 << 62;
const PAYLOAD_BYTES_MAX: u64 = 1 << 30;

struct Null {
    export: Export,
    /// Pages by block, repeated.
    pages: Vec<PageRef>,
    done: Vec<Completion>,
}

impl Target for Null {
    fn exports(&self) -> Vec<Export> {
        vec![self.export.clone()]
    }

    fn open(&mut self, _name: &str) -> Result<(LunHandle, Export), Error> {
        Ok((LunHandle(1), self.export.clone()))
    }

    fn close(&mut self, _lun: LunHandle) {}

    fn size_bytes(&self, _lun: LunHandle) -> Option<u64> {
        Some(self.export.size_bytes)
    }

    fn submit(&mut self, _lun: LunHandle, op: Op, token: Token) {
        let result = Ok(match op {
            Op::Read { offset, length } => {
                let first = offset / BLOCK_SIZE as u64;
                let count = span::block_count(offset, u64::from(length));
                let page = |number: u64| {
                    let number = number % self.pages.len() as u64;
                    self.pages[usize::try_from(number).expect("below a length")].clone()
                };
                Reply::Data(ReadSpan {
                    offset,
                    length,
                    pages: (first..first + count).map(page).collect(),
                })
            }
            Op::Extents { .. } | Op::Changes { .. } => Reply::Extents(Vec::new()),
            _ => Reply::Done,
        });
        self.done.push(Completion { token, result });
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }
}

struct Server {
    outside: Real,
    sessions: Sessions,
    sockets: HashMap<SessionId, UnixStream>,
    by_key: HashMap<u64, SessionId>,
    next_key: u64,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (socket, bytes, memory) = match &words[..] {
        [socket, bytes] => (socket, bytes, "0"),
        [socket, bytes, memory] => (socket, bytes, &**memory),
        _ => {
            eprintln!("usage: null SOCKET BYTES [MEMORY]");
            return ExitCode::from(2);
        }
    };
    let number = |word: &str| {
        let parsed = word.parse::<u64>();
        parsed.map_err(|_| std::io::Error::other(format!("{word} is not a number of bytes")))
    };
    let outcome = number(bytes)
        .and_then(|bytes| Ok((bytes, number(memory)?)))
        .and_then(|(bytes, memory)| serve(socket, bytes, memory));
    if let Err(error) = outcome {
        eprintln!("null: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn serve(socket: &str, size_bytes: u64, memory: u64) -> std::io::Result<()> {
    let world = World::new(&WorldOptions::default()).map_err(std::io::Error::other)?;
    let listener = UnixListener::bind(socket)?;
    listener.set_nonblocking(true)?;
    let page = |_| {
        let mut content = Page::zeroed();
        content.fill(0x5a);
        content.freeze()
    };
    let pages = (0..(memory / BLOCK_SIZE as u64).max(1)).map(page);
    let mut target = Null {
        export: Export {
            name: "null".to_owned(),
            uuid: [0; 16],
            lun_uuid: [0; 16],
            size_bytes,
            read_only: false,
        },
        pages: pages.collect(),
        done: Vec::new(),
    };
    let mut server = Server {
        outside: world.reactor(0)?,
        sessions: Sessions::new(Settings::default(), PAYLOAD_BYTES_MAX),
        sockets: HashMap::new(),
        by_key: HashMap::new(),
        next_key: 0,
    };
    server
        .outside
        .register(&listener, Interest::READ, LISTENER)?;
    let (mut ready, mut completions) = (Vec::new(), Vec::new());
    let mut is_behind = false;
    loop {
        ready.clear();
        // No operation is ever submitted to devices, but a ring must be polled.
        server.outside.poll(&mut completions);
        let timeout = is_behind.then_some(Duration::ZERO);
        server.outside.wait(timeout, &mut ready);
        is_behind = false;
        for event in &ready {
            if event.key == LISTENER {
                server.accept(&listener)?;
            } else if let Some(session) = server.by_key.get(&event.key).copied() {
                if event.readable || event.hangup {
                    is_behind |= server.receive(session, &mut target);
                }
                server.transmit(session, event.key, &mut target);
            }
        }
    }
}

impl Server {
    fn accept(&mut self, listener: &UnixListener) -> std::io::Result<()> {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(true)?;
            let Some(session) = self.sessions.attach(self.outside.now()) else {
                continue;
            };
            self.outside
                .register(&stream, Interest::BOTH, self.next_key)?;
            self.by_key.insert(self.next_key, session);
            self.sockets.insert(session, stream);
            self.next_key += 1;
        }
    }

    /// True if there may be more.
    fn receive(&mut self, session: SessionId, target: &mut Null) -> bool {
        let Some(socket) = self.sockets.get_mut(&session) else {
            return false;
        };
        let received = self.sessions.receive(session, socket, target);
        self.sessions.poll(target);
        received == Received::More
    }

    fn transmit(&mut self, session: SessionId, key: u64, target: &mut Null) {
        if let Some(socket) = self.sockets.get_mut(&session) {
            self.sessions.writable(session, target);
            self.sessions.transmit(session, socket, target);
            self.sessions.poll(target);
        }
        while self.sessions.next_ready().is_some() {}
        let wanted = self.sessions.interest(session);
        if wanted.closed {
            self.sessions.detach(session);
            self.by_key.remove(&key);
            self.sockets.remove(&session);
        } else if let Some(socket) = self.sockets.get(&session) {
            let interest = Interest {
                readable: wanted.read,
                writable: wanted.write,
            };
            // A socket that cannot be watched is met as closed by the next event.
            let _ = self.outside.modify(socket, interest, key);
        }
    }
}
