//! Accepting, and one task for each connection, which carries one request.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use everglade_env::net::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::desk::Desk;
use super::routes;

/// At a time; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 64;
/// From the first byte of a request to the end of its headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// Headers, body, change and answer together, with some to spare: a client that does not read is cut off.
const LIFE_MAX: Duration = Duration::from_secs(90);
/// For an answer to be written at the end.
const MOMENT: Duration = Duration::from_millis(500);
/// After the host refused to give a descriptor.
const REST_AFTER_REFUSAL: Duration = Duration::from_millis(200);
/// Longest request line and headers. hyper wants at least 8 KiB.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Accepts until the stop, then lets those who are being answered finish.
pub(super) async fn serve(
    bound: Listener,
    desk: Arc<Desk>,
    asked: watch::Receiver<bool>,
) -> io::Result<()> {
    let socket = StdListener::from(bound.as_fd().try_clone_to_owned()?);
    socket.set_nonblocking(true)?;
    let listener = UnixListener::from_std(socket)?;
    let routes = routes::all(Arc::clone(&desk));
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    let mut stopping = asked.clone();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        tokio::select! {
            // Also if nobody can ask any more.
            _ = stopping.wait_for(|asked| *asked) => break,
            // Only to forget them.
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            (place, accepted) = next => match accepted {
                Ok((stream, _)) => {
                    let (routes, asked) = (routes.clone(), asked.clone());
                    connections.spawn(async move {
                        let _place = place;
                        carry(stream, routes, asked).await;
                    });
                }
                Err(error) => {
                    tracing::warn!("accepting an administrator's connection failed: {error}");
                    sleep(REST_AFTER_REFUSAL).await;
                }
            },
        }
    }
    // The name goes with it, so that nobody new comes while the last are answered.
    drop((listener, bound));
    let all_ended = async { while connections.join_next().await.is_some() {} };
    let enough = async {
        sleep(MOMENT).await;
        desk.settle().await;
        sleep(MOMENT).await;
    };
    // Whoever waits for a change is answered when the data plane has ended; the silent are not waited for.
    tokio::select! {
        () = all_ended => {}
        () = enough => {}
    }
    Ok(())
}

/// One connection, from its first byte to its end.
async fn carry(stream: UnixStream, routes: Router, mut asked: watch::Receiver<bool>) {
    let connection = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let mut connection = std::pin::pin!(connection);
    let exchange = async {
        tokio::select! {
            ended = connection.as_mut() => return ended,
            _ = asked.wait_for(|asked| *asked) => {}
        }
        connection.as_mut().graceful_shutdown();
        connection.await
    };
    match timeout(LIFE_MAX, exchange).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("an administrator's connection ended: {error}"),
        Err(_) => tracing::debug!("an administrator's connection was cut off: it took too long"),
    }
}
