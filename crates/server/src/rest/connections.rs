//! Accepts connections, and runs one task for each; a connection carries one request.
//!
//! Each listening socket has its own limit of connections. When the limit is reached, a new caller
//! takes the place of a silent connection ([`super::silent`]). If no connection is silent, the
//! caller waits until one ends.

use std::io;
use std::net::{IpAddr, TcpListener as StdTcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use everglade_env::net::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::caller::Caller;
use super::guard::{Keys, Origin};
use super::silent::{Silent, Voice};
use crate::Descriptors;
use crate::seldom::Seldom;
use crate::tls::Certificates;

/// Time limit from the first byte of a request to the end of its headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// Headers, body, change and answer together, with some to spare: a client that does not read is
/// cut off.
const LIFE_MAX: Duration = Duration::from_secs(90);
/// Pause after the host refused a descriptor.
const REST_AFTER_REFUSAL: Duration = Duration::from_millis(200);
/// Least interval between two log lines about refused descriptors.
const LINE_EVERY: Duration = Duration::from_secs(60);
/// The reason logged for a silent connection that was closed.
const CUT: &str = "a connection that was silent made room for another";
/// Longest request line and headers. hyper wants at least 8 KiB.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// A door: a socket on which callers connect.
pub(crate) enum Door {
    /// A Unix socket. Its permissions decide who may connect; callers may do everything.
    Unix(Listener),
    /// A token says who asks, in clear or through TLS.
    Tcp(StdTcpListener, Keys, Option<Arc<Certificates>>),
    /// A TCP socket without authentication.
    Open(StdTcpListener),
}

/// The time limits of a connection, for its handlers.
#[derive(Debug, Default)]
pub(crate) struct Life {
    is_stream: AtomicBool,
    cut: Notify,
}

impl Life {
    /// Lifts the time limit: the connection lives as long as the stream is sent.
    pub(crate) fn begin_stream(&self) {
        self.is_stream.store(true, Ordering::Relaxed);
    }

    /// Ends the stream. Data that the client has not read by now is dropped.
    pub(crate) fn end_stream(&self) {
        self.is_stream.store(false, Ordering::Relaxed);
        self.cut.notify_one();
    }

    fn is_stream(&self) -> bool {
        self.is_stream.load(Ordering::Relaxed)
    }
}

/// Connections of one door, all that are open.
pub(crate) struct Connections {
    routes: Router,
    places: Arc<Semaphore>,
    silent: Arc<Silent>,
    descriptors: Arc<Descriptors>,
    tasks: JoinSet<()>,
    asked: watch::Receiver<bool>,
}

/// The state that all connections of a door share.
struct Given {
    routes: Router,
    asked: watch::Receiver<bool>,
    voice: Voice,
}

impl Connections {
    /// Makes a door with at most `connections_max` connections at a time. For a further client, the
    /// connection that has been silent longest is closed. If no connection is silent, the client
    /// waits in the kernel's queue.
    pub(crate) fn new(
        routes: Router,
        connections_max: usize,
        descriptors: &Arc<Descriptors>,
        asked: watch::Receiver<bool>,
    ) -> Connections {
        Connections {
            routes,
            places: Arc::new(Semaphore::new(connections_max)),
            silent: Arc::default(),
            descriptors: Arc::clone(descriptors),
            tasks: JoinSet::new(),
            asked,
        }
    }

    /// Accepts until the stop. Those who are being answered then still are.
    pub(crate) async fn accept(&mut self, door: Door) -> io::Result<()> {
        match door {
            Door::Unix(bound) => {
                let socket = StdUnixListener::from(bound.as_fd().try_clone_to_owned()?);
                socket.set_nonblocking(true)?;
                let listener = UnixListener::from_std(socket)?;
                let serve = |stream: UnixStream, _, given| {
                    let caller = match stream.peer_cred() {
                        Ok(peer) => Caller::local(peer.uid()),
                        Err(_) => Caller::owner(),
                    };
                    carry(stream, Origin::Local(caller), given)
                };
                let accept = || async { Ok((listener.accept().await?.0, None)) };
                self.accept_from(accept, serve).await;
                // The name is removed too, so that no client connects while the last requests are
                // answered.
                drop((listener, bound));
            }
            Door::Tcp(socket, keys, tls) => {
                let listener = from_std(socket)?;
                let serve = |stream, address: Option<IpAddr>, given| {
                    let address = address.expect("TCP has addresses");
                    let origin = Origin::Remote(keys.clone(), address);
                    let tls = tls.as_ref().map(|tls| TlsAcceptor::from(tls.now()));
                    carry_from_afar(stream, tls, origin, given)
                };
                self.accept_from(|| accept_tcp(&listener), serve).await;
            }
            Door::Open(socket) => {
                let listener = from_std(socket)?;
                let serve =
                    |stream, _, given| carry(stream, Origin::Local(Caller::nobody()), given);
                self.accept_from(|| accept_tcp(&listener), serve).await;
            }
        }
        Ok(())
    }

    async fn accept_from<S, A, C>(
        &mut self,
        accept: impl Fn() -> A,
        serve: impl Fn(S, Option<IpAddr>, Given) -> C,
    ) where
        A: Future<Output = io::Result<(S, Option<IpAddr>)>>,
        C: Future<Output = ()> + Send + 'static,
    {
        let mut stopping = self.asked.clone();
        let told = Seldom::new(LINE_EVERY);
        // A client that has connected and waits for a place.
        let mut next: Option<(S, Option<IpAddr>)> = None;
        loop {
            let place = Arc::clone(&self.places).acquire_owned();
            tokio::select! {
                // If the sender is gone, no stop can be requested, so stop too.
                _ = stopping.wait_for(|asked| *asked) => break,
                // Ended tasks are only removed from the set.
                Some(_) = self.tasks.join_next(), if !self.tasks.is_empty() => {}
                place = place, if next.is_some() => {
                    let (stream, address) = next.take().expect("asked for above");
                    let given = Given {
                        routes: self.routes.clone(),
                        asked: self.asked.clone(),
                        voice: self.silent.enter(address),
                    };
                    let counted = self.descriptors.count();
                    let served = serve(stream, address, given);
                    self.tasks.spawn(async move {
                        let _kept = (place, counted);
                        served.await;
                    });
                }
                accepted = accept(), if next.is_none() => match accepted {
                    Ok(accepted) => {
                        next = Some(accepted);
                        if self.places.available_permits() == 0 {
                            self.silent.cut_one();
                        }
                    }
                    Err(error) => {
                        if let Some(others) = told.due() {
                            tracing::warn!(
                                "the administration cannot accept a connection: {error} \
                                 ({others} failures before)"
                            );
                        }
                        sleep(REST_AFTER_REFUSAL).await;
                    }
                },
            }
        }
    }

    /// Waits until all have ended.
    pub(crate) async fn ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn accept_tcp(listener: &TcpListener) -> io::Result<(TcpStream, Option<IpAddr>)> {
    let (stream, from) = listener.accept().await?;
    Ok((stream, Some(from.ip())))
}

fn from_std(socket: StdTcpListener) -> io::Result<TcpListener> {
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

/// Serves one connection over TCP, after its handshake if it is encrypted.
async fn carry_from_afar(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    origin: Origin,
    given: Given,
) {
    let Some(tls) = tls else {
        return carry(stream, origin, given).await;
    };
    let shaken = tokio::select! {
        shaken = timeout(HEADERS_WITHIN, tls.accept(stream)) => shaken,
        () = given.voice.is_cut() => return tracing::debug!("{CUT}"),
    };
    match shaken {
        Ok(Ok(stream)) => carry(stream, origin, given).await,
        Ok(Err(error)) => tracing::debug!("a TLS handshake failed: {error}"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

/// Serves one connection, from its first byte to its end.
async fn carry<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    origin: Origin,
    given: Given,
) {
    let Given {
        routes,
        mut asked,
        voice,
    } = given;
    let (life, voice) = (Arc::new(Life::default()), Arc::new(voice));
    let heard = Arc::clone(&voice);
    let inner = TowerToHyperService::new(routes);
    let seen = Arc::clone(&life);
    let service = service_fn(move |mut request: Request<Incoming>| {
        match origin {
            // A request suffices: the kernel has identified the caller, or the door is open to all.
            Origin::Local(_) => heard.spoke(),
            // The guard decides whether it may ask.
            Origin::Remote(..) => drop(request.extensions_mut().insert(Arc::clone(&heard))),
        }
        request.extensions_mut().insert(origin.clone());
        request.extensions_mut().insert(Arc::clone(&seen));
        inner.call(request)
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let exchange = async {
        tokio::select! {
            ended = connection.as_mut() => return ended,
            _ = asked.wait_for(|asked| *asked) => {}
        }
        connection.as_mut().graceful_shutdown();
        connection.await
    };
    let mut exchange = std::pin::pin!(exchange);
    let ended = tokio::select! {
        ended = timeout(LIFE_MAX, exchange.as_mut()) => ended,
        () = voice.is_cut() => return tracing::debug!("{CUT}"),
    };
    let ended = match ended {
        Err(_) if life.is_stream() => {
            tokio::select! {
                ended = exchange => Ok(ended),
                () = life.cut.notified() => return,
            }
        }
        ended => ended,
    };
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("a connection ended: {error}"),
        Err(_) => tracing::debug!("a connection was cut off: it took too long"),
    }
}
