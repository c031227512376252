//! One `everglade serve`, from a checked configuration to the end of the process.
//!
//! The order matters: the limit of open files is read before anything is opened, signals are
//! handled before anything slow begins, the directory is locked before sockets are touched, sockets
//! are bound before the engine opens devices, and the lock outlives all of them. The REST interface
//! ends last, because its callers wait for answers of the reactors.

use crate::config::ApiTcp;
use crate::datadir::Endpoints;
use crate::fronts::{self, Contents, Listeners, Protocol};
use crate::listen;
use crate::ready::{self, Output, Ready};
use crate::records::events::NewEvent;
use crate::records::{Deed, Records};
use crate::rest::attempts::Attempts;
use crate::rest::tokens::Tokens;
use crate::rest::{Doors, Remote};
use crate::signal::{self, Again};
use crate::start::{self, Reactors};
use crate::tls::Certificates;
use crate::{
    Config, DataDir, Descriptors, ServeError, StartError, Stop, administrator, clerk, descriptors,
    keeper, metrics, rest, watch,
};
use everglade_api::{Code, EventKind, Severity};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// Serves until a signal requests the end and everything is on stable storage.
///
/// # Errors
/// [`ServeError::Start`] before the ready line, [`ServeError::Failed`] after it.
pub fn serve(config: &Config, output: Output) -> Result<(), ServeError> {
    let (reservations, calls) = keeper::registry();
    let protocols = fronts::sharing(config, &reservations);
    let clients = fronts::clients(&protocols);
    let stop = Stop::new();
    let again = Again::default();
    let (limit, open) = (descriptors::raise_limit(), descriptors::open_now());
    // A start that is refused for these reasons changes nothing.
    config.check_place()?;
    signal::watch(stop.clone(), again.clone())?;
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let directory = DataDir::open(&config.data_dir).map_err(StartError::from)?;
    let state = Some(directory.state());
    let descriptors = Descriptors::share_out(limit, open, (config, clients), state)?;
    let descriptors = Arc::new(descriptors);
    descriptors.tell(clients.connections_max);
    let listeners = Listeners::bind(&protocols)?;
    let unix = config.api_unix.as_deref().map(listen::bind_api);
    let unix = unix.transpose()?;
    let api_tcp = config.api_tcp.as_ref();
    let file = api_tcp.and_then(|api| api.tokens.as_deref());
    let tokens = Tokens::open(&config.data_dir, file).map_err(StartError::Tokens)?;
    let tokens = Arc::new(tokens);
    let api_tcp = api_tcp.map(|api| open_api(api, &again)).transpose()?;
    let (tcp, api_tcp) = api_tcp.unzip();
    if let (Some(address), true) = (api_tcp, tokens.is_empty())
        && config
            .api_tcp
            .as_ref()
            .is_some_and(|it| it.console_loopback.is_none())
    {
        tracing::warn!(
            "nobody can use REST on {address} yet: make a token with 'everglade token create NAME \
            --role ROLE'"
        );
    }
    let doors = Doors { unix, tcp, tokens };
    let (metrics, metrics_at) = listen::bind_metrics(&config.metrics)?.unzip();
    let is_first = administrator::first_start::is_needed(&directory, config);
    let endpoints = Endpoints {
        api_unix: config.api_unix.clone(),
        api_tcp,
        metrics: metrics_at,
        ..listeners.endpoints().clone()
    };

    let parts = start::Parts {
        config,
        directory,
        protocols: &protocols,
        reservations: &reservations,
        listeners,
        stop: stop.clone(),
        again,
        descriptors: Arc::clone(&descriptors),
    };
    match start::start(parts) {
        Ok(reactors) => {
            let records = Arc::new(Records::open(&config.data_dir));
            begin_records(&reactors, &records, config, is_first);
            run(
                reactors,
                (records, descriptors, calls),
                (doors, metrics),
                (&endpoints, &protocols),
                (config, output, is_first),
                &stop,
            )
        }
        Err(error) => Err(error.into()),
    }
}

/// Opens the door for administrators from elsewhere.
fn open_api(api: &ApiTcp, again: &Again) -> Result<(Remote, SocketAddr), StartError> {
    let folder = api.tls_certificates.as_deref();
    let tls = folder.map(|folder| Certificates::open(folder, false));
    let tls = tls.transpose()?.map(|tls| again.add(tls));
    let (socket, address) = listen::bind_tcp(api.address, "--api-tcp")?;
    if !address.ip().is_loopback() && tls.is_none() {
        tracing::warn!(
            "REST on {address} is open to the network without encryption: tokens can be overheard"
        );
    }
    let remote = Remote {
        socket,
        tls,
        console_loopback: api.console_loopback,
    };
    Ok((remote, address))
}

/// Runs from the start of the data plane to the end of the last thread.
fn run(
    reactors: Reactors,
    kept: (Arc<Records>, Arc<Descriptors>, keeper::Calls),
    doors: (Doors, Option<TcpListener>),
    (endpoints, protocols): (&Endpoints, &[Box<dyn Protocol>]),
    (config, output, is_first): (&Config, Output, bool),
    stop: &Stop,
) -> Result<(), ServeError> {
    // The administrator keeps the data directory locked until the end.
    let administrator = reactors.administrator().clone();
    let records = Arc::clone(&kept.0);
    let began = begin(&administrator, kept, doors, endpoints, stop);
    match &began {
        Ok(_) => {
            let ready = Ready {
                endpoints,
                exports: reactors.exports(),
                contents: match is_first {
                    true => Contents::New,
                    false => Contents::Kept,
                },
                protocols,
                options: &config.options_of_clients(),
                has_console: config.has_open_console(),
            };
            ready::announce(output, &ready);
            stop.on_ask(ready::announce_stopping);
        }
        // Scripts could not find the daemon; the mounted aggregates are still stopped cleanly.
        Err(_) => stop.ask(),
    }
    let ended = reactors.wait();
    let outcome = match began {
        Ok(helpers) => {
            helpers.wait();
            ended
        }
        Err(error) => Err(error.into()),
    };
    if let Err(error) = administrator.follow_epochs() {
        tracing::warn!("{error}; the next start records which drives were in use last");
    }
    // The newest events, of the stop.
    records.settle();
    administrator.see_points();
    administrator.withdraw();
    outcome
}

/// Threads beside the data plane.
struct Helpers {
    rest: Option<rest::Rest>,
    metrics: Option<metrics::Server>,
    watch: watch::Watch,
    clerk: clerk::Clerk,
    keeper: keeper::Keeper,
}

impl Helpers {
    fn wait(self) {
        if let Some(rest) = self.rest {
            rest.wait();
        }
        if let Some(metrics) = self.metrics {
            metrics.wait();
        }
        self.watch.wait();
        self.clerk.wait();
        self.keeper.wait();
    }
}

fn begin(
    administrator: &Arc<administrator::Administrator>,
    (records, descriptors, calls): (Arc<Records>, Arc<Descriptors>, keeper::Calls),
    (doors, metrics): (Doors, Option<TcpListener>),
    endpoints: &Endpoints,
    stop: &Stop,
) -> Result<Helpers, StartError> {
    let refused = |action| move |source| StartError::System { action, source };
    let watch = watch::start(administrator.clone(), records.clone(), stop)
        .map_err(refused("start the watch"))?;
    let clerk = clerk::start(administrator.clone(), records.clone(), stop)
        .map_err(refused("start the schedule of snapshots"))?;
    let keeper = keeper::start(administrator.clone(), calls, stop)
        .map_err(refused("start the keeper of reservations"))?;
    let attempts = Arc::new(Attempts::default());
    let rest = if doors.are_shut() {
        None
    } else {
        let desk = (administrator.clone(), records.clone(), endpoints.clone());
        let rest = rest::start(doors, desk, (&descriptors, &attempts), stop);
        Some(rest.map_err(refused("start the REST interface"))?)
    };
    let metrics = metrics
        .map(|socket| {
            let (administrator, records) = (administrator.clone(), records.clone());
            metrics::start(
                socket,
                (administrator, records),
                (&descriptors, &attempts),
                stop,
            )
        })
        .transpose()
        .map_err(refused("start the metrics"))?;
    administrator.announce(endpoints);
    Ok(Helpers {
        rest,
        metrics,
        watch,
        clerk,
        keeper,
    })
}

/// Writes the records and messages of every start.
fn begin_records(reactors: &Reactors, records: &Records, config: &Config, is_first: bool) {
    let administrator = reactors.administrator();
    let now = administrator.now();
    let first = &config.first_start;
    if is_first {
        let deed = Deed {
            what: "aggregate create",
            object: first.aggregate.clone(),
            detail: format!(
                "with {}/{} of {}",
                first.volume,
                first.lun,
                first.lun_size.said()
            ),
        };
        records.remember(now, "first start", &deed);
    }
    records.events.tell(
        now,
        NewEvent {
            severity: Severity::Info,
            kind: EventKind::Daemon,
            object: "daemon".to_owned(),
            code: None,
            text: "ready".to_owned(),
        },
    );
    let found = reactors.notices();
    for accepted in &found.accepted {
        let deed = Deed {
            what: "aggregate accept-rollback",
            object: accepted.aggregate.clone(),
            detail: format!(
                "from consistency point {}, which was seen before, to {}",
                accepted.seen, accepted.found
            ),
        };
        records.remember(now, "--accept-rollback", &deed);
    }
    // The log has these already.
    let warn = |aggregate: &str, code: Code, text: String| {
        let warning = NewEvent {
            severity: Severity::Warning,
            kind: EventKind::Daemon,
            object: format!("aggregate {aggregate}"),
            code: Some(code.to_string()),
            text,
        };
        records.events.tell(now, warning);
    };
    for degraded in &found.degraded {
        let deed = Deed {
            what: "aggregate open-degraded",
            object: degraded.aggregate.clone(),
            detail: degraded.text(),
        };
        records.remember(now, "--degraded", &deed);
        warn(
            &degraded.aggregate,
            Code::AggregateDegraded,
            degraded.text(),
        );
    }
    for lost in &found.lost_copies {
        warn(&lost.aggregate, Code::LabelCopyLost, lost.text());
    }
    for pending in administrator.pending() {
        if pending.bytes > 0 {
            // A deletion of an earlier daemon.
            let object = format!("aggregate {}", pending.aggregate);
            records.jobs.begin(now, "reclaim", &object, &pending);
        }
    }
}
