//! Metrics and health, on a listener of their own. The listener is read-only, so it may be open on
//! networks where the administration is not.
//!
//! | path | answers |
//! | --- | --- |
//! | `/metrics` | everything of [`table`], in the text format of Prometheus |
//! | `/healthz` | 200 while every thread of the data plane gives a sign of life in time, else 503 |
//! | `/readyz` | 200 while at least one aggregate serves and nobody has asked for a stop, else 503 |
//!
//! A thread of its own answers, so that neither a stuck administrator nor a change under way keeps
//! a monitor waiting. Counters are read from the places that count; there are no copies.

mod collect;
mod page;
pub mod table;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use everglade_api::AggregateState;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use crate::administrator::Administrator;
use crate::records::Records;
use crate::rest::attempts::Attempts;
use crate::rest::connections::{Connections, Door};
use crate::{Descriptors, Stop};

/// A reactor that takes longer hangs.
const ALIVE_WITHIN: Duration = Duration::from_secs(5);
/// Time left for the last answers at a stop.
const MOMENT: Duration = Duration::from_millis(500);

/// The running listener.
#[derive(Debug)]
pub struct Server {
    thread: JoinHandle<()>,
}

/// The state of the handlers.
struct Gauges {
    administrator: Arc<Administrator>,
    records: Arc<Records>,
    descriptors: Arc<Descriptors>,
    attempts: Arc<Attempts>,
    stopping: watch::Receiver<bool>,
    /// Permits one liveness check at a time: a check that hangs occupies a thread.
    asking: Arc<Semaphore>,
}

/// Starts answering.
///
/// # Errors
/// The system gives no thread or descriptors.
pub fn start(
    socket: TcpListener,
    (administrator, records): (Arc<Administrator>, Arc<Records>),
    (descriptors, attempts): (&Arc<Descriptors>, &Arc<Attempts>),
    stop: &Stop,
) -> io::Result<Server> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(1)
        .build()?;
    let (ask, stopping) = watch::channel(false);
    stop.on_ask(move || _ = ask.send(true));
    let gauges = Arc::new(Gauges {
        administrator,
        records,
        descriptors: Arc::clone(descriptors),
        attempts: Arc::clone(attempts),
        stopping: stopping.clone(),
        asking: Arc::new(Semaphore::new(1)),
    });
    let descriptors = Arc::clone(descriptors);
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(gauges);
    let run = move || {
        runtime.block_on(async {
            let places = descriptors.shares.places.metrics;
            let mut connections = Connections::new(routes, places, &descriptors, stopping);
            if let Err(error) = connections.accept(Door::Open(socket)).await {
                tracing::error!("metrics and health ended early: {error}");
            }
            // Silent connections are not waited for.
            let _ = timeout(MOMENT, connections.ended()).await;
        });
        runtime.shutdown_background();
    };
    let thread = crate::background::spawn("metrics", run)?;
    Ok(Server { thread })
}

impl Server {
    /// Waits for the end after a stop.
    pub fn wait(self) {
        if self.thread.join().is_err() {
            tracing::error!("metrics and health ended by a panic");
        }
    }
}

async fn metrics(State(gauges): State<Arc<Gauges>>) -> impl IntoResponse {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let mut page = collect::all(&gauges.administrator, &gauges.records);
    collect::doors(
        &mut page,
        &gauges.administrator,
        &gauges.descriptors,
        &gauges.attempts,
    );
    let text = page.text();
    ([(header::CONTENT_TYPE, kind)], text)
}

async fn healthz(State(gauges): State<Arc<Gauges>>) -> (StatusCode, &'static str) {
    let hangs = (
        StatusCode::SERVICE_UNAVAILABLE,
        "a thread of the data plane hangs\n",
    );
    let place = timeout(ALIVE_WITHIN, Arc::clone(&gauges.asking).acquire_owned()).await;
    let Ok(Ok(place)) = place else {
        return hangs;
    };
    let stopping = *gauges.stopping.borrow();
    let asked = tokio::task::spawn_blocking(move || {
        let _place = place;
        gauges.administrator.is_alive()
    });
    tokio::select! {
        alive = asked => match alive {
            Ok(true) => (StatusCode::OK, "alive\n"),
            // Threads end at a stop, and that is as it should be.
            _ if stopping => (StatusCode::OK, "stopping\n"),
            _ => hangs,
        },
        () = sleep(ALIVE_WITHIN) => hangs,
    }
}

async fn readyz(State(gauges): State<Arc<Gauges>>) -> (StatusCode, String) {
    let unready = |why: &str| (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"));
    if *gauges.stopping.borrow() {
        return unready("stopping");
    }
    let aggregates = gauges.administrator.aggregates().aggregates;
    let online = |state| state == AggregateState::Online;
    let count = aggregates
        .iter()
        .filter(|aggregate| online(aggregate.state))
        .count();
    match count {
        0 => unready("no aggregate serves"),
        _ => (
            StatusCode::OK,
            format!("ready: {count} of {} aggregates serve\n", aggregates.len()),
        ),
    }
}
