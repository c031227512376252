//! Which reactor a connection is on: not the one where the consistency points of its export run, if it can be helped.

use super::{LUN, MIB, ask, serve};
use crate::operate::http;
use crate::running::{Place, Server};
use crate::wire::Client;

/// The samples of a metric by reactor.
fn by_reactor(server: &Server, name: &str) -> Vec<u64> {
    let page = http::tcp(&server.metrics, "GET", "/metrics", "").body;
    (0..2)
        .map(|reactor| {
            let sample = format!("{name}{{reactor=\"{reactor}\"}} ");
            let mut lines = page.lines();
            let found = lines.find_map(|line| line.strip_prefix(&sample));
            found.expect("a sample").parse().expect("a number")
        })
        .collect()
}

fn connections(server: &Server) -> Vec<u64> {
    by_reactor(server, "everglade_reactor_connections")
}

/// Connections that went to another reactor.
pub(super) fn moved(server: &Server) -> u64 {
    let page = http::tcp(&server.metrics, "GET", "/metrics", "").body;
    let name = "everglade_connections_moved_total ";
    let found = page.lines().find_map(|line| line.strip_prefix(name));
    found.expect("a sample").parse().expect("a number")
}

/// Waits until closed connections are gone.
#[track_caller]
pub(super) fn wait_for(server: &Server, expected: &[u64]) {
    for _ in 0..500 {
        if connections(server) == expected {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{:?} are not {expected:?}", connections(server));
}

/// Two pools, at home on one of two reactors each.
pub(super) fn two_pools(place: &Place, options: &[&str]) -> Server {
    let server = serve(place, &[&["--reactors", "2"], options].concat());
    ask(place, &["aggregate", "create", "b", "--size", "1GiB"]);
    ask(place, &["volume", "create", "other", "--aggregate", "b"]);
    ask(place, &["lun", "create", "other/lun", "--size", "64MiB"]);
    assert_eq!(by_reactor(&server, "everglade_reactor_aggregates"), [1, 1]);
    server
}

#[test]
fn a_lone_connection_keeps_away_from_the_home_of_its_export() {
    let place = Place::new();
    let server = two_pools(&place, &[]);
    // Three in a round, so that each is first here and first there, as their turns are.
    for round in 0..4u8 {
        let other = ("other/lun", [1, 0]);
        for (export, expected) in [(LUN, [0, 1]), other, other] {
            let (mut client, _) = Client::open(&server.tcp, export).expect("a client");
            client.write(MIB, &[round; 5000]).expect("written");
            assert_eq!(connections(&server), expected, "{export}");
            assert_eq!(client.read(MIB, 5000), Ok(vec![round; 5000]));
            drop(client);
            wait_for(&server, &[0, 0]);
        }
    }
    let moves = moved(&server);
    assert!((1..12).contains(&moves), "{moves} of 12 were at home first");
    server.stop();
}

#[test]
fn several_connections_share_the_reactors_whatever_they_serve() {
    let place = Place::new();
    let server = two_pools(&place, &[]);
    let mut clients = Vec::new();
    for count in 1..=9u64 {
        clients.push(Client::open(&server.tcp, LUN).expect("a client").0);
        let mut found = connections(&server);
        found.sort_unstable();
        assert_eq!(found, [count / 2, count.div_ceil(2)]);
    }
    for (client, number) in clients.iter_mut().zip(0u64..) {
        client.write(number * MIB, &[7; 4096]).expect("written");
    }
    drop(clients);
    wait_for(&server, &[0, 0]);
    server.stop();
}
