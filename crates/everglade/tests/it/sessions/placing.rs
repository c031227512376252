//! Which reactor a connection is on: not the one where the consistency points of its export run, if
//! it can be helped.

use super::{LUN, MIB, ask, serve};
use crate::operate::http;
use crate::operate::metrics::value;
use crate::running::{Server, TestDir};
use crate::wire::Client;

fn page(server: &Server) -> String {
    http::tcp(&server.metrics, "GET", "/metrics", "").body
}

/// The samples of a metric by reactor.
fn by_reactor(server: &Server, name: &str) -> [f64; 2] {
    let page = page(server);
    [0, 1].map(|reactor| value(&page, &format!("{name}{{reactor=\"{reactor}\"}}")))
}

fn connections(server: &Server) -> [f64; 2] {
    by_reactor(server, "everglade_reactor_connections")
}

/// Connections that went to another reactor.
pub(super) fn moved(server: &Server) -> f64 {
    value(&page(server), "everglade_connections_moved_total")
}

/// Waits until closed connections are gone.
#[track_caller]
pub(super) fn wait_for_none(server: &Server) {
    for _ in 0..500 {
        if connections(server) == [0.0, 0.0] {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{:?} are still there", connections(server));
}

/// Two pools, at home on one of two reactors each.
pub(super) fn two_pools(dir: &TestDir, options: &[&str]) -> Server {
    let server = serve(dir, &[&["--reactors", "2"], options].concat());
    ask(dir, &["aggregate", "create", "b", "--size", "1GiB"]);
    ask(dir, &["volume", "create", "other", "--aggregate", "b"]);
    ask(dir, &["lun", "create", "other/lun", "--size", "64MiB"]);
    assert_eq!(
        by_reactor(&server, "everglade_reactor_aggregates"),
        [1.0, 1.0]
    );
    server
}

#[test]
fn a_lone_connection_keeps_away_from_the_home_of_its_export() {
    let dir = TestDir::new();
    let server = two_pools(&dir, &[]);
    // Three in a round, so that each is first here and first there, as their turns are.
    for round in 0..4u8 {
        let other = ("other/lun", [1.0, 0.0]);
        for (export, expected) in [(LUN, [0.0, 1.0]), other, other] {
            let (mut client, _) = Client::open(&server.tcp, export).expect("a client");
            client.write(MIB, &[round; 5000]).expect("written");
            assert_eq!(connections(&server), expected, "{export}");
            assert_eq!(client.read(MIB, 5000), Ok(vec![round; 5000]));
            drop(client);
            wait_for_none(&server);
        }
    }
    let moves = moved(&server);
    assert!(
        (1.0..12.0).contains(&moves),
        "{moves} of 12 were at home first"
    );
    server.stop();
}

#[test]
fn several_connections_share_the_reactors_whatever_they_serve() {
    let dir = TestDir::new();
    let server = two_pools(&dir, &[]);
    let mut clients = Vec::new();
    for count in 1..=9u32 {
        clients.push(Client::open(&server.tcp, LUN).expect("a client").0);
        let mut found = connections(&server);
        found.sort_by(f64::total_cmp);
        let shares = [count / 2, count.div_ceil(2)];
        assert_eq!(found, shares.map(f64::from));
    }
    for (client, number) in clients.iter_mut().zip(0u64..) {
        client.write(number * MIB, &[7; 4096]).expect("written");
    }
    drop(clients);
    wait_for_none(&server);
    server.stop();
}
