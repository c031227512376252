//! The peer: files in subvolumes of btrfs on a loop device of the same disk, each served by a
//! `qemu-storage-daemon` of its own, without the kernel's page cache (`O_DIRECT`, io_uring).
//!
//! | ours | there |
//! | --- | --- |
//! | volume | subvolume |
//! | LUN | file in it |
//! | snapshot: taken; durable | `subvolume snapshot -r`; and `filesystem sync` after it |
//! | deletion | `subvolume delete`, a hundred with one call; `filesystem sync` |
//! | restore | the subvolume is put aside, and a writable snapshot of the snapshot takes its name; then `filesystem sync`. The server is stopped meanwhile, and its start is not measured. |
//!
//! Times are those of the programs, whose start takes a millisecond or two.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::server::{Mounted, Server, must, sparse_file};
use super::store::{Points, Store, Taken};
use crate::Failure;

/// Paths of one call.
const PATHS: usize = 100;

pub(super) struct Btrfs {
    /// Before the mount, which they keep files of open.
    servers: BTreeMap<(String, String), Server>,
    folder: PathBuf,
    mounted: Mounted,
    image: PathBuf,
}

impl Btrfs {
    /// A file system of that size, in a folder on the disk that is measured.
    pub(super) fn make(folder: &Path, name: &str, bytes: u64) -> Result<Btrfs, Failure> {
        let folder = folder.join(name);
        fs::create_dir(&folder).map_err(|error| Failure::at("make", &folder, &error))?;
        let mounted = Mounted::make(&folder, "btrfs", bytes)?;
        let kept = mounted.folder.join("snapshots");
        fs::create_dir(&kept).map_err(|error| Failure::at("make", &kept, &error))?;
        let image = folder.join("btrfs.img");
        Ok(Btrfs {
            servers: BTreeMap::new(),
            folder,
            mounted,
            image,
        })
    }

    fn path(&self, volume: &str) -> PathBuf {
        self.mounted.folder.join(volume)
    }

    fn kept(&self, volume: &str, name: &str) -> PathBuf {
        let kept = self.mounted.folder.join("snapshots");
        kept.join(format!("{volume}@{name}"))
    }

    fn sync(&self) -> Result<(), Failure> {
        let all = self.mounted.folder.to_string_lossy();
        must("btrfs", &["filesystem", "sync", &all]).map(drop)
    }

    fn serve(&mut self, volume: &str, image: &str) -> Result<(), Failure> {
        let file = self.path(volume).join(format!("{image}.img"));
        let name = format!("{volume}-{image}");
        let server = Server::qemu(&self.folder, &name, &file, "raw")?;
        let key = (volume.to_owned(), image.to_owned());
        self.servers.insert(key, server);
        Ok(())
    }

    /// Ends the servers of a volume; their images.
    fn stop(&mut self, volume: &str) -> Vec<String> {
        let of_it = self.servers.keys().filter(|(known, _)| known == volume);
        let images: Vec<String> = of_it.map(|(_, image)| image.clone()).collect();
        self.servers.retain(|(known, _), _| known != volume);
        for image in &images {
            // The next server of this name makes its own.
            let _ = fs::remove_file(self.folder.join(format!("{volume}-{image}.sock")));
        }
        images
    }
}

impl Drop for Btrfs {
    fn drop(&mut self) {
        self.servers.clear();
        // Its space goes when it is unmounted, which comes next.
        let _ = fs::remove_file(&self.image);
    }
}

fn subvolume(words: &[&str], paths: &[PathBuf]) -> Result<(), Failure> {
    let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
    let mut all = vec!["subvolume"];
    all.extend(words);
    all.extend(paths.iter().map(AsRef::as_ref));
    must("btrfs", &all).map(drop)
}

impl Store for Btrfs {
    fn name(&self) -> &'static str {
        "qsd raw on btrfs"
    }

    fn add(&mut self, volume: &str, image: &str, bytes: u64) -> Result<(), Failure> {
        let path = self.path(volume);
        if !path.exists() {
            subvolume(&["create"], std::slice::from_ref(&path))?;
        }
        sparse_file(&path.join(format!("{image}.img")), bytes)?;
        self.serve(volume, image)
    }

    fn server(&self, volume: &str, image: &str) -> Result<&Server, Failure> {
        let known = self.servers.get(&(volume.to_owned(), image.to_owned()));
        known.ok_or_else(|| Failure::Rig(format!("{volume}/{image} was not made")))
    }

    fn snapshot(&mut self, volume: &str, name: &str) -> Result<Taken, Failure> {
        let paths = [self.path(volume), self.kept(volume, name)];
        let begun = Instant::now();
        subvolume(&["snapshot", "-r"], &paths)?;
        let taken = begun.elapsed();
        self.sync()?;
        let durable = begun.elapsed();
        Ok(Taken {
            taken,
            durable,
            answered: durable,
        })
    }

    fn delete(&self, volume: &str, names: &[String]) -> Result<(), Failure> {
        let paths: Vec<_> = names.iter().map(|name| self.kept(volume, name)).collect();
        for paths in paths.chunks(PATHS) {
            subvolume(&["delete"], paths)?;
        }
        self.sync()
    }

    fn remove_image(&mut self, volume: &str, image: &str) -> Result<(), Failure> {
        self.servers.remove(&(volume.to_owned(), image.to_owned()));
        let path = self.path(volume).join(format!("{image}.img"));
        fs::remove_file(&path).map_err(|error| Failure::at("remove", &path, &error))?;
        self.sync()
    }

    fn remove(&mut self, volume: &str) -> Result<(), Failure> {
        self.stop(volume);
        subvolume(&["delete"], &[self.path(volume)])?;
        self.sync()
    }

    fn restore(&mut self, volume: &str, name: &str) -> Result<Duration, Failure> {
        let images = self.stop(volume);
        let (path, kept, aside) = (
            self.path(volume),
            self.kept(volume, name),
            self.path("aside"),
        );
        let begun = Instant::now();
        fs::rename(&path, &aside).map_err(|error| Failure::at("rename", &path, &error))?;
        subvolume(&["snapshot"], &[kept, path])?;
        self.sync()?;
        let took = begun.elapsed();
        subvolume(&["delete"], &[aside])?;
        for image in images {
            self.serve(volume, &image)?;
        }
        Ok(took)
    }

    fn settle(&mut self) -> Result<(), Failure> {
        self.sync()
    }

    fn drain(&mut self) -> Result<(), Failure> {
        subvolume(&["sync"], std::slice::from_ref(&self.mounted.folder))?;
        self.sync()
    }

    fn is_draining(&self) -> Result<bool, Failure> {
        let all = self.mounted.folder.to_string_lossy();
        let left = must("btrfs", &["subvolume", "list", "-d", &all])?;
        Ok(!left.trim().is_empty())
    }

    fn used(&self) -> Result<f64, Failure> {
        let all = self.mounted.folder.to_string_lossy();
        let told = must("df", &["--block-size=1", "--output=used,size", &all])?;
        let line = told.lines().nth(1).unwrap_or_default();
        let mut words = line.split_whitespace().map(str::parse::<f64>);
        match (words.next(), words.next()) {
            (Some(Ok(used)), Some(Ok(size))) => Ok(used / size),
            _ => Err(Failure::Rig(format!("did not understand df: {told}"))),
        }
    }

    fn points(&self) -> Result<Option<Points>, Failure> {
        Ok(None)
    }
}
