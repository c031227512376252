//! The knee of the latency of the load of a database ([`crate::oltp`]): our server over NBD and
//! over NVMe/TCP, and a raw file behind `qemu-storage-daemon`. Each has the same disk and space.
//! Only one runs at a time, because a server that writes in the background would slow the others.

use std::path::Path;
use std::time::Duration;

use super::load::{self, Place};
use super::protocols::nvme_of;
use super::server::{Server, sparse_file};
use crate::Failure;
use crate::oltp::knee::Point;
use crate::oltp::run::Run;
use crate::oltp::search::{Row, search};
use crate::rig::Installation;

/// Four times the cache of ours.
const BYTES: u64 = 2 << 30;
const LUN_SIZE: &str = "2GiB";
const MEMORY: &str = "1GiB";
/// The first rate of a search.
const FROM: f64 = 1000.0;
const WARM_UP: Duration = Duration::from_secs(1);

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arm {
    Nbd,
    Nvme,
    Peer,
}

const ARMS: [(Arm, &str); 3] = [
    (Arm::Nbd, "everglade, NBD"),
    (Arm::Nvme, "everglade, NVMe/TCP"),
    (Arm::Peer, "qsd raw, NBD"),
];

/// What was found of one server.
#[derive(Debug)]
pub struct Found {
    /// For people.
    pub name: &'static str,
    /// The knees of all rounds; rounds without a knee are left out.
    pub knees: Vec<Point>,
    /// All rates of the last round.
    pub rows: Vec<Row>,
}

/// Looks for the knee of each server in each round. Who begins changes from round to round.
///
/// # Errors
/// What fails, and with which server.
pub fn run(
    folder: &Path,
    everglade: &Path,
    rounds: u64,
    time: Duration,
) -> Result<Vec<Found>, Failure> {
    let mut found: Vec<Found> = ARMS
        .iter()
        .map(|(_, name)| Found {
            name,
            knees: Vec::new(),
            rows: Vec::new(),
        })
        .collect();
    for round in 0..rounds {
        for turn in 0..ARMS.len() as u64 {
            let index = usize::try_from((round + turn) % ARMS.len() as u64).unwrap_or(0);
            let (arm, name) = ARMS[index];
            let place = folder.join(format!("{round}-{turn}"));
            std::fs::create_dir(&place).map_err(|error| Failure::rig("make a folder", &error))?;
            let started = Started::of(arm, &place, everglade)?;
            let problem = |error: std::io::Error| Failure::rig(name, &error);
            load::fill(started.place.clone(), &started.export, BYTES).map_err(problem)?;
            let run = Run {
                place: started.place.clone(),
                export: started.export.clone(),
                bytes: Some(BYTES),
                rate: FROM,
                warm_up: WARM_UP,
                time,
                connections: 2,
                seed: round + 1,
            };
            let (rows, knee) = search(&run, FROM, |_| ()).map_err(problem)?;
            found[index].knees.extend(knee);
            found[index].rows = rows;
            drop(started);
            // Space for the next one.
            let _ = std::fs::remove_dir_all(&place);
        }
    }
    Ok(found)
}

/// A running server.
struct Started {
    place: Place,
    export: String,
    _server: Server,
}

impl Started {
    fn of(arm: Arm, folder: &Path, everglade: &Path) -> Result<Started, Failure> {
        if arm == Arm::Peer {
            let image = folder.join("raw.img");
            sparse_file(&image, BYTES)?;
            let server = Server::qemu(folder, "peer", &image, "raw")?;
            return Ok(Started {
                place: Place::from(&server.socket),
                export: server.export.clone(),
                _server: server,
            });
        }
        let installation = Installation::new(everglade, folder);
        let words = [
            "--lun-size",
            LUN_SIZE,
            "--memory",
            MEMORY,
            "--nvme-tcp",
            ":0",
        ];
        let daemon = installation.serve(&words)?;
        let (place, export) = match arm {
            Arm::Nvme => nvme_of(&installation, &daemon)?,
            _ => (Place::Nbd(daemon.unix.clone()), "vol0/lun0".to_owned()),
        };
        Ok(Started {
            place,
            export,
            _server: Server::of_daemon(daemon, "vol0/lun0")?,
        })
    }
}
