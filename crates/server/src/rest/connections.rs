//! Accepting, and one task for each connection, which carries one request.

use std::io;
use std::net::TcpListener as StdTcpListener;
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
use super::guard::Origin;
use super::tokens::Tokens;
use crate::tls::Certificates;

/// From the first byte of a request to the end of its headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// Headers, body, change and answer together, with some to spare: a client that does not read is cut off.
const LIFE_MAX: Duration = Duration::from_secs(90);
/// After the host refused to give a descriptor.
const REST_AFTER_REFUSAL: Duration = Duration::from_millis(200);
/// Longest request line and headers. hyper wants at least 8 KiB.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Where administrators, or those who only look, come in.
pub(crate) enum Door {
    /// Who may open the socket may do everything.
    Unix(Listener),
    /// A token says who asks, in clear or through TLS.
    Tcp(StdTcpListener, Arc<Tokens>, Option<Arc<Certificates>>),
    /// Nobody is asked who they are.
    Open(StdTcpListener),
}

/// What a connection may do, as the handlers see it.
#[derive(Debug, Default)]
pub(crate) struct Life {
    is_stream: AtomicBool,
    cut: Notify,
}

impl Life {
    /// From now on it lives as long as somebody sends.
    pub(crate) fn begin_stream(&self) {
        self.is_stream.store(true, Ordering::Relaxed);
    }

    /// Nothing more will be sent; what has not been read by now never will be.
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
    tasks: JoinSet<()>,
    asked: watch::Receiver<bool>,
}

impl Connections {
    /// At most so many at a time; more wait in the kernel's queue.
    pub(crate) fn new(
        routes: Router,
        connections_max: usize,
        asked: watch::Receiver<bool>,
    ) -> Connections {
        Connections {
            routes,
            places: Arc::new(Semaphore::new(connections_max)),
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
                let serve = |stream: UnixStream, routes, asked| {
                    let caller = match stream.peer_cred() {
                        Ok(peer) => Caller::local(peer.uid()),
                        Err(_) => Caller::owner(),
                    };
                    carry(stream, Origin::Local(caller), routes, asked)
                };
                self.accept_from(|| async { Ok(listener.accept().await?.0) }, serve)
                    .await;
                // The name goes with it, so that nobody new comes while the last are answered.
                drop((listener, bound));
            }
            Door::Tcp(socket, tokens, tls) => {
                let listener = from_std(socket)?;
                let serve = |stream, routes, asked| {
                    let origin = Origin::Remote(Arc::clone(&tokens));
                    let tls = tls.as_ref().map(|tls| TlsAcceptor::from(tls.now()));
                    carry_from_afar(stream, tls, origin, routes, asked)
                };
                self.accept_from(|| async { Ok(listener.accept().await?.0) }, serve)
                    .await;
            }
            Door::Open(socket) => {
                let listener = from_std(socket)?;
                let serve = |stream, routes, asked| {
                    carry(stream, Origin::Local(Caller::nobody()), routes, asked)
                };
                self.accept_from(|| async { Ok(listener.accept().await?.0) }, serve)
                    .await;
            }
        }
        Ok(())
    }

    async fn accept_from<S, A, C>(
        &mut self,
        accept: impl Fn() -> A,
        serve: impl Fn(S, Router, watch::Receiver<bool>) -> C,
    ) where
        A: Future<Output = io::Result<S>>,
        C: Future<Output = ()> + Send + 'static,
    {
        let mut stopping = self.asked.clone();
        loop {
            let next = async {
                let place = Arc::clone(&self.places).acquire_owned().await;
                (place, accept().await)
            };
            tokio::select! {
                // Also if nobody can ask any more.
                _ = stopping.wait_for(|asked| *asked) => break,
                // Only to forget them.
                Some(_) = self.tasks.join_next(), if !self.tasks.is_empty() => {}
                (place, accepted) = next => match accepted {
                    Ok(stream) => {
                        let served = serve(stream, self.routes.clone(), self.asked.clone());
                        self.tasks.spawn(async move {
                            let _place = place;
                            served.await;
                        });
                    }
                    Err(error) => {
                        tracing::warn!("accepting a connection failed: {error}");
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

fn from_std(socket: StdTcpListener) -> io::Result<TcpListener> {
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

/// One connection over TCP, after its handshake if there is one.
async fn carry_from_afar(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    origin: Origin,
    routes: Router,
    asked: watch::Receiver<bool>,
) {
    let Some(tls) = tls else {
        return carry(stream, origin, routes, asked).await;
    };
    match timeout(HEADERS_WITHIN, tls.accept(stream)).await {
        Ok(Ok(stream)) => carry(stream, origin, routes, asked).await,
        Ok(Err(error)) => tracing::debug!("a TLS handshake failed: {error}"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

/// One connection, from its first byte to its end.
async fn carry<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    origin: Origin,
    routes: Router,
    mut asked: watch::Receiver<bool>,
) {
    let life = Arc::new(Life::default());
    let inner = TowerToHyperService::new(routes);
    let seen = Arc::clone(&life);
    let service = service_fn(move |mut request: Request<Incoming>| {
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
    let ended = match timeout(LIFE_MAX, exchange.as_mut()).await {
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
