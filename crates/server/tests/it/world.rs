//! A directory to open, and a picture of everything in it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use everglade_server::datadir::{AggregateState, Device, Phase, State, Uuid};
use everglade_server::{DataDir, datadir::DataDirError};

/// A temporary place for a data directory, which need not exist.
pub(crate) struct World {
    _keep: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

/// Name, then the properties that must not change: kind, times, size and contents.
pub(crate) type Picture = BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)>;

impl World {
    /// The place exists and is empty.
    pub(crate) fn empty() -> World {
        let world = World::missing();
        fs::create_dir(&world.path).expect("create");
        world
    }

    /// The place does not exist.
    pub(crate) fn missing() -> World {
        let keep = tempfile::tempdir().expect("a temporary directory");
        let path = keep.path().join("data");
        World { _keep: keep, path }
    }

    /// A daemon ran here once, and made one aggregate.
    pub(crate) fn served() -> World {
        let world = World::missing();
        let mut directory = world.open().expect("a first start");
        make_aggregate(&mut directory);
        directory.close();
        world
    }

    pub(crate) fn open(&self) -> Result<DataDir, DataDirError> {
        DataDir::open(&self.path)
    }

    pub(crate) fn put(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path.join(name), contents).expect("write");
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path.join(name)).expect("read")
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.path.join(name).symlink_metadata().is_ok()
    }

    /// Everything at and below the place.
    pub(crate) fn picture(&self) -> Picture {
        let mut picture = Picture::new();
        if self.path.symlink_metadata().is_ok() {
            add(&self.path, &mut picture);
        }
        picture
    }

    /// Opens, expecting a refusal that changes nothing, and returns its message.
    pub(crate) fn refusal(&self) -> String {
        let before = self.picture();
        let message = self.open().map(|_| ()).expect_err("a refusal").to_string();
        assert_eq!(
            self.picture(),
            before,
            "a refusal wrote to the directory: {message}"
        );
        assert!(!message.contains('\n'), "an error is one line: {message}");
        message
    }
}

fn add(path: &Path, picture: &mut Picture) {
    let metadata = fs::symlink_metadata(path).expect("metadata");
    let contents = if metadata.is_file() {
        fs::read(path).expect("read")
    } else {
        Vec::new()
    };
    let changed = (metadata.mtime(), metadata.mtime_nsec());
    picture.insert(
        path.to_owned(),
        (metadata.mode(), changed.0, changed.1, contents),
    );
    if metadata.is_dir() {
        for entry in fs::read_dir(path).expect("list") {
            add(&entry.expect("entry").path(), picture);
        }
    }
}

/// Creates an aggregate as a first start does; returns its device.
pub(crate) fn make_aggregate(directory: &mut DataDir) -> Device {
    let device = DataDir::directory_device("aggr0", 0, 64 << 30);
    directory
        .record(one_aggregate(&device, Phase::Creating))
        .expect("recorded as creating");
    directory.make_directory(&device).expect("made");
    directory
        .record(one_aggregate(&device, Phase::Ready))
        .expect("recorded as ready");
    device
}

/// A state with one aggregate.
pub(crate) fn one_aggregate(device: &Device, phase: Phase) -> State {
    let is_ready = phase == Phase::Ready;
    State {
        aggregates: vec![AggregateState {
            name: "aggr0".to_owned(),
            phase,
            read_only: false,
            garden_paused: false,
            epoch: u64::from(is_ready),
            uuid: is_ready.then_some(Uuid([7; 16])),
            devices: vec![device.clone()],
        }],
        spares: Vec::new(),
    }
}
