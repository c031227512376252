//! A second protocol beside NBD, over real sockets: it needs nothing but a place in the list.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use everglade_api::CreateLun;
use everglade_server::config::{Callers, NbdSettings, UnixListen};
use everglade_server::datadir::{Address, Endpoints};
use everglade_server::fronts::{self, Counts, Listeners, Protocol};
use everglade_server::signal::Again;
use everglade_server::start::{self, Parts, Reactors};
use everglade_server::{Config, DataDir, Descriptors, Settings, Stop};

use crate::line::Lines;
use crate::world::World;

const LUN_BYTES: u64 = 16 << 20;
/// Clients of the line protocol at a time.
const LINES_MAX: u32 = 2;

/// A daemon with both protocols.
struct Daemon {
    _world: World,
    reactors: Reactors,
    stop: Stop,
    endpoints: Endpoints,
}

impl Daemon {
    /// Starts a daemon with `vol0/lun0`, which no client of the line protocol on the loopback may
    /// use, and `vol0/free`.
    fn start() -> Daemon {
        let world = World::missing();
        let off = || "off".parse().expect("off");
        let settings = Settings {
            data_dir: Some(world.path.clone()),
            memory: Some("256MiB".parse().expect("a size")),
            reactors: Some(2),
            nbd: NbdSettings {
                tcp: Some("127.0.0.1:0".parse().expect("an address")),
                unix: Some(UnixListen::Off),
                ..NbdSettings::default()
            },
            api_unix: Some(UnixListen::Off),
            metrics_tcp: Some(off()),
            aggregate_size: Some("1GiB".parse().expect("a size")),
            lun_size: Some("16MiB".parse().expect("a size")),
            ..Settings::default()
        };
        let config = Config::resolve(settings, Some("/dev/null".as_ref())).expect("good");
        let mut callers = Callers::default();
        let elsewhere = "10.1.0.0/16".parse().expect("a network");
        let added = callers.allow.add("vol0/lun0", vec![elsewhere]);
        added.expect("a pattern");
        let mut protocols = fronts::all(&config);
        protocols.push(Box::new(Lines {
            tcp: "127.0.0.1:0".parse().expect("an address"),
            connections_max: LINES_MAX,
            callers,
        }));
        let directory = world.open().expect("a first start");
        let (stop, endpoints, reactors) = start(&config, directory, &protocols);
        let free = CreateLun {
            name: "free".parse().expect("a name"),
            size_bytes: LUN_BYTES,
        };
        let made = reactors.administrator().create_lun("vol0", &free);
        made.expect("a second LUN");
        Daemon {
            _world: world,
            reactors,
            stop,
            endpoints,
        }
    }

    fn address(&self, door: &str) -> SocketAddr {
        let door = self.endpoints.door(door).expect("it has one");
        match door.at {
            Some(Address::Tcp(address)) => address,
            _ => panic!("it is open"),
        }
    }

    fn line(&self) -> Client {
        let stream = TcpStream::connect(self.address("line_tcp")).expect("it listens");
        Client(BufReader::new(stream))
    }

    fn counts(&self, protocol: &str) -> Counts {
        let all = self.reactors.administrator().clients();
        let found = all.into_iter().find(|(name, _)| *name == protocol);
        found.expect("it is counted").1
    }

    /// Ends the daemon as an orderly stop does.
    fn stop(self) {
        self.stop.ask();
        self.reactors.wait().expect("all is on stable storage");
    }
}

fn start(
    config: &Config,
    directory: DataDir,
    protocols: &[Box<dyn Protocol>],
) -> (Stop, Endpoints, Reactors) {
    let (limit, open) = (everglade_server::descriptors::raise_limit(), 64);
    let needs = (config, fronts::clients(protocols));
    let descriptors = Descriptors::share_out(limit, open, needs, Some(directory.state()));
    let listeners = Listeners::bind(protocols).expect("free ports");
    let endpoints = listeners.endpoints().clone();
    let stop = Stop::new();
    let reactors = start::start(Parts {
        config,
        directory,
        protocols,
        reservations: &Arc::default(),
        listeners,
        stop: stop.clone(),
        again: Again::default(),
        descriptors: Arc::new(descriptors.expect("enough")),
    });
    (stop, endpoints, reactors.expect("a start"))
}

/// A client of the line protocol.
struct Client(BufReader<TcpStream>);

impl Client {
    fn say(&mut self, line: &str) {
        let text = format!("{line}\n");
        self.0.get_mut().write_all(text.as_bytes()).expect("sent");
    }

    /// The next line, or nothing at the end.
    fn hear(&mut self) -> String {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(_) => line.trim_end().to_owned(),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => String::new(),
            Err(error) => panic!("{error}"),
        }
    }

    fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.hear()
    }
}

/// An NBD client that has chosen an export by the oldest of all handshakes.
fn nbd(address: SocketAddr, export: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    let length = u32::try_from(export.len()).expect("a short name");
    let hello = [
        &3_u32.to_be_bytes()[..],
        b"IHAVEOPT",
        &1_u32.to_be_bytes(),
        &length.to_be_bytes(),
        export.as_bytes(),
    ];
    stream.write_all(&hello.concat()).expect("sent");
    let mut chosen = [0; 10];
    stream.read_exact(&mut chosen).expect("an export");
    assert_eq!(&chosen[..8], &LUN_BYTES.to_be_bytes());
    stream
}

/// The byte that 4,096 bytes of the export begin with.
fn nbd_read(stream: &mut TcpStream, offset: u64) -> u8 {
    let request = [
        &0x2560_9513_u32.to_be_bytes()[..],
        &[0; 4],
        b"whatever",
        &offset.to_be_bytes(),
        &4096_u32.to_be_bytes(),
    ];
    stream.write_all(&request.concat()).expect("sent");
    let mut reply = [0; 16 + 4096];
    stream.read_exact(&mut reply).expect("a reply");
    assert_eq!(&reply[4..16], b"\0\0\0\0whatever", "no error");
    reply[16]
}

#[test]
fn two_protocols_serve_the_same_bytes_and_are_counted_apart() {
    let daemon = Daemon::start();
    let mut line = daemon.line();
    assert_eq!(line.hear(), "hello");
    assert_eq!(line.ask("open vol0/free"), format!("open {LUN_BYTES}"));
    assert_eq!(line.ask("write 8192 77"), "done");
    let mut nbd = nbd(daemon.address("nbd_tcp"), "vol0/free");
    assert_eq!([nbd_read(&mut nbd, 8192), nbd_read(&mut nbd, 0)], [77, 0]);
    assert_eq!(line.ask("read 8192"), "data 77");
    let (lines, nbds) = (daemon.counts("line"), daemon.counts("nbd"));
    let requests = |counts: &Counts, name: &str| {
        let mut operations = counts.sessions.operations.iter();
        let found = operations.find(|operation| operation.name == name);
        found.map(|operation| operation.requests)
    };
    assert_eq!(requests(&lines, "read"), Some(1));
    assert_eq!(requests(&lines, "write"), Some(1));
    assert_eq!(requests(&lines, "trim"), None);
    assert_eq!(requests(&nbds, "read"), Some(2));
    assert_eq!(requests(&nbds, "write"), Some(0));
    assert_eq!(
        (lines.sessions.sessions_open, nbds.sessions.sessions_open),
        (1, 1)
    );
    assert_eq!(lines.memory.total, nbds.memory.total, "half of it each");
    assert_eq!(lines.memory.total + nbds.memory.total, 32 << 20);
    let statistics = daemon.reactors.administrator().statistics();
    let read = statistics.operations.iter().find(|it| it.op == "read");
    assert_eq!(read.map(|it| it.count), Some(3), "whatever they speak");
    assert_eq!(statistics.connection_count, 2);
    line.say("bye");
    assert_eq!(line.hear(), "", "it is over when the client says so");
    daemon.stop();
}

#[test]
fn each_protocol_has_its_own_allow_list_and_its_own_limit() {
    let daemon = Daemon::start();
    let mut first = daemon.line();
    assert_eq!(first.hear(), "hello");
    assert_eq!(first.ask("open vol0/lun0"), "no vol0/lun0");
    assert_eq!(first.ask("open vol0/free"), format!("open {LUN_BYTES}"));
    let mut nbd = nbd(daemon.address("nbd_tcp"), "vol0/lun0");
    assert_eq!(nbd_read(&mut nbd, 0), 0, "nbd.allow names nobody");
    let mut second = daemon.line();
    assert_eq!(second.hear(), "hello");
    assert_eq!(daemon.line().hear(), "", "there are as many as may be");
    assert_eq!(nbd_read(&mut nbd, 4096), 0, "of the other protocol only");
    daemon.stop();
}

#[test]
fn sessions_end_with_their_lun_and_with_the_server() {
    let daemon = Daemon::start();
    let mut orphan = daemon.line();
    assert_eq!(orphan.hear(), "hello");
    assert_eq!(orphan.ask("open vol0/free"), format!("open {LUN_BYTES}"));
    let mut idle = daemon.line();
    assert_eq!(idle.hear(), "hello");
    let deleted = daemon
        .reactors
        .administrator()
        .delete_lun("vol0", "free", true);
    deleted.expect("deleted");
    assert_eq!(orphan.hear(), "stopping", "the sweep found it");
    assert_eq!(orphan.hear(), "");
    let mut nbd = nbd(daemon.address("nbd_tcp"), "vol0/lun0");
    daemon.stop();
    assert_eq!(idle.hear(), "stopping");
    assert_eq!(idle.hear(), "");
    assert_eq!(nbd.read(&mut [0; 1]).expect("an orderly end"), 0);
}
