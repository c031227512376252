//! Sockets: stale ones are removed, live and foreign ones are not, busy ports are explained.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

use everglade_server::config::{Callers, Nbd};
use everglade_server::datadir::{Address, Endpoint, Endpoints, socket};
use everglade_server::fronts::{self, Listeners, Protocol};

use crate::world::World;

fn any_port() -> Option<SocketAddr> {
    Some("127.0.0.1:0".parse().expect("an address"))
}

fn protocols(config: Nbd) -> [Box<dyn Protocol>; 1] {
    [Box::new(fronts::nbd::Nbd::new(&config, &Arc::default()))]
}

#[test]
fn stale_sockets_and_endpoints_of_a_killed_daemon_are_removed() {
    let world = World::served();
    drop(UnixListener::bind(world.path.join("run/nbd.sock")).expect("bind"));
    drop(UnixListener::bind(world.path.join("run/api.sock")).expect("bind"));
    world.put("run/endpoints.json", "{}");
    assert!(
        world.has("run/nbd.sock"),
        "a dropped listener leaves its socket"
    );
    let _daemon = world.open().expect("a start after kill -9");
    for name in ["run/nbd.sock", "run/api.sock", "run/endpoints.json"] {
        assert!(!world.has(name), "{name}");
    }
}

#[test]
fn a_socket_somebody_answers_on_is_left_alone() {
    let world = World::empty();
    let path = world.path.join("s.sock");
    let _listener = UnixListener::bind(&path).expect("bind");
    let error = socket::unlink_stale(&path)
        .expect_err("a refusal")
        .to_string();
    assert!(error.contains("in use by another server"), "{error}");
    UnixStream::connect(&path).expect("still there");
}

#[test]
fn a_file_where_a_socket_should_be_is_left_alone() {
    let world = World::served();
    world.put("run/nbd.sock", "precious");
    let error = world.open().expect_err("a refusal").to_string();
    assert!(error.contains("not a socket"), "{error}");
    assert_eq!(world.text("run/nbd.sock"), "precious");
}

#[test]
fn both_doors_open_and_the_picked_port_is_known() {
    let world = World::empty();
    let unix = world.path.join("n.sock");
    let nbd = Nbd {
        tcp: any_port(),
        unix: Some(unix.clone()),
        connections_max: 1,
        callers: Callers::default(),
    };
    let listeners = Listeners::bind(&protocols(nbd)).expect("bound");
    let endpoints = listeners.endpoints();
    let tcp = endpoints.door("nbd_tcp").and_then(|door| door.at.clone());
    let Some(Address::Tcp(address)) = tcp else {
        panic!("TCP is on");
    };
    assert_ne!(address.port(), 0);
    std::net::TcpStream::connect(address).expect("listens");
    UnixStream::connect(&unix).expect("listens");
    let mode = fs::metadata(&unix).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it is its owner's alone");
    drop(listeners);
    assert!(!unix.exists(), "its name goes with it");
}

#[test]
fn a_busy_port_is_explained() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("bind");
    let tcp = Some(taken.local_addr().expect("address"));
    let error = Listeners::bind(&protocols(Nbd {
        tcp,
        unix: None,
        connections_max: 1,
        callers: Callers::default(),
    }));
    let error = error.expect_err("a refusal").to_string();
    assert!(
        error.contains("cannot listen on 127.0.0.1:") && error.contains("--nbd-tcp"),
        "{error}"
    );
}

#[test]
fn endpoints_are_there_while_the_daemon_is_ready() {
    let world = World::missing();
    let mut directory = world.open().expect("a start");
    let endpoints = Endpoints {
        doors: vec![Endpoint {
            name: "nbd_tcp",
            at: any_port().map(Address::Tcp),
            is_tls_required: false,
        }],
        ..Endpoints::default()
    };
    directory.announce(&endpoints);
    let text = world.text("run/endpoints.json");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["schema_version"], 1);
    assert_eq!(value["nbd_tcp"], "127.0.0.1:0");
    assert_eq!(value["pid"], std::process::id());
    directory.close();
    let left = fs::read_dir(world.path.join("run")).expect("list");
    let left: Vec<_> = left.map(|entry| entry.expect("it").file_name()).collect();
    assert_eq!(left, ["endpoints.json.spare"], "the space of the next one");
}
