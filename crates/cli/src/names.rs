//! Names of what there is, for shells that complete a word.
//!
//! A shell waits for them at a key press, so they come within a second or not at all, and nothing
//! is said if the daemon does not answer.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use everglade_api::{
    Aggregates, HostGroups, Hosts, Jobs, Luns, Policies, Snapshots, Tokens, Trash, TrashKind,
    Volumes,
};

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::session::Session;

const WITHIN: Duration = Duration::from_secs(1);
/// Volumes of which all LUNs and snapshots are listed; of more, the word must name the volume.
const VOLUMES_MAX: usize = 32;

/// What a word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `aggr0`.
    Aggregate,
    /// `vol0`.
    Volume,
    /// `vol0/lun0`.
    Lun,
    /// `vol0@monday`.
    Snapshot,
    /// `vol0` or `vol0/lun0`.
    VolumeOrLun,
    /// `vol0` or `vol0@monday`.
    VolumeOrSnapshot,
    /// `daily`.
    Policy,
    /// `db1`.
    Host,
    /// `cluster`.
    HostGroup,
    /// `7`.
    Job,
    /// `backup`.
    Token,
    /// `vol0/lun0`, in the trash.
    LunInTrash,
    /// `vol0`, in the trash.
    VolumeInTrash,
    /// `vol0@monday`, in the trash.
    SnapshotInTrash,
    /// Any of them.
    InTrash,
}

/// Returns the names that a word may become; none if they cannot be had at once.
#[must_use]
pub fn names(daemon: &Daemon, kind: Kind, word: &str) -> Vec<String> {
    let (send, found) = mpsc::channel();
    let (session, word) = (Session::new(daemon.clone()), word.to_owned());
    let ask = move || {
        // Nobody may be waiting any more.
        let _ = send.send(ask(&session, kind, &word));
    };
    if thread::Builder::new().spawn(ask).is_err() {
        return Vec::new();
    }
    match found.recv_timeout(WITHIN) {
        Ok(Ok(names)) => names,
        _ => Vec::new(),
    }
}

fn in_trash(
    session: &Session,
    is_meant: impl Fn(TrashKind) -> bool,
) -> Result<Vec<String>, Failure> {
    let all = session.get::<Trash>("/v1/trash")?.meant.trash;
    let meant = all.into_iter().filter(|item| is_meant(item.kind));
    Ok(meant.map(|item| item.name).collect())
}

fn ask(session: &Session, kind: Kind, word: &str) -> Result<Vec<String>, Failure> {
    let names: Vec<String> = match kind {
        Kind::Aggregate => {
            let all = session
                .get::<Aggregates>("/v1/aggregates")?
                .meant
                .aggregates;
            all.into_iter().map(|it| it.name).collect()
        }
        Kind::Volume => volumes(session)?,
        Kind::Token => {
            let all = session.get::<Tokens>("/v1/tokens")?.meant.tokens;
            all.into_iter().map(|it| it.name).collect()
        }
        Kind::LunInTrash => in_trash(session, |kind| kind == TrashKind::Lun)?,
        Kind::VolumeInTrash => in_trash(session, |kind| kind == TrashKind::Volume)?,
        Kind::SnapshotInTrash => in_trash(session, |kind| kind == TrashKind::Snapshot)?,
        Kind::InTrash => in_trash(session, |_| true)?,
        Kind::Lun => within(session, word, '/', luns)?,
        Kind::Snapshot => within(session, word, '@', snapshots)?,
        Kind::VolumeOrLun => [volumes(session)?, within(session, word, '/', luns)?].concat(),
        Kind::VolumeOrSnapshot => {
            [volumes(session)?, within(session, word, '@', snapshots)?].concat()
        }
        Kind::Policy => {
            let all = session.get::<Policies>("/v1/policies")?.meant.policies;
            all.into_iter().map(|it| it.name).collect()
        }
        Kind::Host => {
            let all = session.get::<Hosts>("/v1/hosts")?.meant.hosts;
            all.into_iter().map(|it| it.name).collect()
        }
        Kind::HostGroup => {
            let all = session.get::<HostGroups>("/v1/host-groups")?.meant;
            all.host_groups.into_iter().map(|it| it.name).collect()
        }
        Kind::Job => {
            let all = session.get::<Jobs>("/v1/jobs")?.meant.jobs;
            all.into_iter().map(|it| it.id.to_string()).collect()
        }
    };
    Ok(names)
}

fn volumes(session: &Session) -> Result<Vec<String>, Failure> {
    let all = session.get::<Volumes>("/v1/volumes")?.meant.volumes;
    Ok(all.into_iter().map(|it| it.name).collect())
}

fn luns(session: &Session, volume: &str) -> Result<Vec<String>, Failure> {
    let all = session.get::<Luns>(&format!("/v1/volumes/{volume}/luns"))?;
    Ok(all.meant.luns.into_iter().map(|it| it.name).collect())
}

fn snapshots(session: &Session, volume: &str) -> Result<Vec<String>, Failure> {
    let all = session.get::<Snapshots>(&format!("/v1/volumes/{volume}/snapshots"))?;
    Ok(all.meant.snapshots.into_iter().map(|it| it.name).collect())
}

/// Lists what is in volumes. A word with the mark names one volume; a word without it stands for
/// all volumes whose names begin with it.
fn within(
    session: &Session,
    word: &str,
    mark: char,
    of: impl Fn(&Session, &str) -> Result<Vec<String>, Failure>,
) -> Result<Vec<String>, Failure> {
    let meant = match word.split_once(mark) {
        Some((volume, _)) => vec![volume.to_owned()],
        None => {
            let mut all = volumes(session)?;
            all.retain(|name| name.starts_with(word));
            all
        }
    };
    if meant.len() > VOLUMES_MAX {
        return Ok(meant
            .iter()
            .map(|volume| format!("{volume}{mark}"))
            .collect());
    }
    let mut names = Vec::new();
    for volume in meant {
        let inside = of(session, &volume)?.into_iter();
        names.extend(inside.map(|name| format!("{volume}{mark}{name}")));
    }
    Ok(names)
}
