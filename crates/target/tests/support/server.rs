//! A small server for tests of protocols: sessions over loopback TCP on one thread, with the model
//! as the target.
//!
//! It is also the shortest example of a reactor around [`Sessions`].

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use everglade_target::model::Model;
use everglade_target::sessions::{Caller, Received, Session, SessionId, Sessions};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A running server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Model>>,
}

impl Server {
    pub(crate) fn start<S: Session>(model: Model, settings: S::Settings) -> Self
    where
        S::Settings: 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || serve::<S>(&listener, model, settings, &stopped));
        Server {
            address,
            stop,
            thread: Some(thread),
        }
    }

    /// Ends all sessions and returns the stored data.
    pub(crate) fn stop(mut self) -> Model {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap()
    }
}

fn serve<S: Session>(
    listener: &TcpListener,
    mut model: Model,
    settings: S::Settings,
    stop: &AtomicBool,
) -> Model {
    let begin = Instant::now();
    let now = || u64::try_from(begin.elapsed().as_nanos()).unwrap();
    let mut sessions = Sessions::<S>::new(settings, 256 << 20);
    let mut sockets: HashMap<SessionId, TcpStream> = HashMap::new();
    let mut again: Vec<SessionId> = Vec::new();
    let mut stopping = false;
    loop {
        let (mut readable, mut writable) = wait(listener, &sessions, &sockets, again.is_empty());
        readable.append(&mut again);
        while let Ok((socket, _)) = listener.accept() {
            socket.set_nonblocking(true).unwrap();
            socket.set_nodelay(true).unwrap();
            let caller = Caller {
                address: Some(socket.peer_addr().unwrap().ip()),
                local: Some(socket.local_addr().unwrap()),
                ..Caller::default()
            };
            sockets.insert(sessions.attach_caller(now(), caller).unwrap(), socket);
        }
        for id in readable {
            let received = sessions.receive(id, sockets.get_mut(&id).unwrap(), &mut model);
            if received == Received::More {
                again.push(id);
            }
        }
        loop {
            sessions.poll(&mut model);
            for id in &writable {
                if sockets.contains_key(id) {
                    sessions.writable(*id, &mut model);
                }
            }
            writable.extend(std::iter::from_fn(|| sessions.next_ready()));
            let Some(id) = writable.pop() else { break };
            let Some(socket) = sockets.get_mut(&id) else {
                continue;
            };
            sessions.transmit(id, socket, &mut model);
            if sessions.interest(id).closed {
                sessions.detach(id);
                sockets.remove(&id);
            }
        }
        sessions.sweep(now(), &mut model);
        if stop.load(Ordering::SeqCst) && !stopping {
            stopping = true;
            sessions.stop(&mut model);
        }
        if stopping && sessions.is_empty() {
            return model;
        }
    }
}

/// Waits for sockets; returns the readable and the writable.
fn wait<S: Session>(
    listener: &TcpListener,
    sessions: &Sessions<S>,
    sockets: &HashMap<SessionId, TcpStream>,
    idle: bool,
) -> (Vec<SessionId>, Vec<SessionId>) {
    let ids: Vec<SessionId> = sockets.keys().copied().collect();
    let flags = |id: &SessionId| {
        let interest = sessions.interest(*id);
        let read = if interest.read {
            PollFlags::IN
        } else {
            PollFlags::empty()
        };
        let write = if interest.write {
            PollFlags::OUT
        } else {
            PollFlags::empty()
        };
        read | write
    };
    let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
    fds.extend(ids.iter().map(|id| PollFd::new(&sockets[id], flags(id))));
    // The timeout is short, because no event reports a stop.
    let nanoseconds = if idle { 20_000_000 } else { 0 };
    poll(
        &mut fds,
        Some(&Timespec {
            tv_sec: 0,
            tv_nsec: nanoseconds,
        }),
    )
    .unwrap();
    let with = |wanted: PollFlags| {
        let events = ids.iter().zip(&fds[1..]);
        events
            .filter(move |(_, fd)| fd.revents().intersects(wanted))
            .map(|(id, _)| *id)
            .collect()
    };
    let ended = PollFlags::HUP | PollFlags::ERR;
    (with(PollFlags::IN | ended), with(PollFlags::OUT | ended))
}
