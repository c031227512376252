//! This project: an aggregate of the daemon as it is made by default, in a directory of the disk
//! that is measured.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::server::Server;
use super::rest;
use super::store::{Points, Store, Taken};
use crate::Failure;
use crate::rig::Installation;

/// Requests at a time: what the daemon takes.
const AT_A_TIME: usize = 16;
/// More is a hang.
const DRAINED_WITHIN: Duration = Duration::from_secs(120);
/// How often it is looked whether something is over.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The daemon, with aggregates in it.
pub(super) struct Ours {
    daemon: Rc<Server>,
    installation: Rc<Installation>,
    api: PathBuf,
    metrics: String,
    aggregate: String,
    images: BTreeMap<(String, String), Server>,
    restored: u64,
    settled: u64,
}

impl Ours {
    /// Starts the daemon. Its first aggregate is the store.
    pub(super) fn start(installation: Installation, memory: &str) -> Result<Ours, Failure> {
        let words = [
            "--memory",
            memory,
            "--lun-size",
            "1GiB",
            "--metrics-tcp",
            ":0",
        ];
        let daemon = installation.serve(&words)?;
        let metrics = daemon.metrics.clone().unwrap_or_default();
        let api = installation.data_dir().join("run/api.sock");
        Ok(Ours {
            daemon: Rc::new(Server::of_daemon(daemon, "vol0/lun0")?),
            installation: Rc::new(installation),
            api,
            metrics,
            aggregate: "aggr0".to_owned(),
            images: BTreeMap::new(),
            restored: 0,
            settled: 0,
        })
    }

    /// Another aggregate of the same daemon, of that size.
    pub(super) fn another(&self, name: &str, bytes: u64) -> Result<Ours, Failure> {
        let it = Ours {
            daemon: self.daemon.clone(),
            installation: self.installation.clone(),
            api: self.api.clone(),
            metrics: self.metrics.clone(),
            aggregate: name.to_owned(),
            images: BTreeMap::new(),
            restored: 0,
            settled: 0,
        };
        let body = json!({ "name": name, "size_bytes": bytes });
        it.ask("POST", "/v1/aggregates", Some(&body))?;
        Ok(it)
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        rest::ask(&self.api, method, path, body)
    }

    fn about(&self) -> Result<Value, Failure> {
        self.ask("GET", &format!("/v1/aggregates/{}", self.aggregate), None)
    }

    /// What a volume is called: names are unique in the daemon, not in the store.
    fn called(&self, volume: &str) -> String {
        format!("{}-{volume}", self.aggregate)
    }

    fn add_volume(&self, volume: &str) -> Result<(), Failure> {
        let body =
            json!({ "name": volume, "aggregate": self.aggregate, "snapshot_policy": "none" });
        self.ask("POST", "/v1/volumes", Some(&body)).map(drop)
    }
}

fn us(told: &Value, field: &str) -> Result<Duration, Failure> {
    let found = told["taken"][field].as_u64();
    let found = found.ok_or_else(|| Failure::Rig(format!("no {field} in {told}")))?;
    Ok(Duration::from_micros(found))
}

impl Store for Ours {
    fn name(&self) -> &'static str {
        "everglade"
    }

    fn add(&mut self, volume: &str, image: &str, bytes: u64) -> Result<(), Failure> {
        let called = self.called(volume);
        if !self.images.keys().any(|(known, _)| known == volume) {
            self.add_volume(&called)?;
        }
        let body = json!({ "name": image, "size_bytes": bytes });
        self.ask("POST", &format!("/v1/volumes/{called}/luns"), Some(&body))?;
        let server = self.daemon.beside(&format!("{called}/{image}"));
        let key = (volume.to_owned(), image.to_owned());
        self.images.insert(key, server);
        Ok(())
    }

    fn server(&self, volume: &str, image: &str) -> Result<&Server, Failure> {
        let known = self.images.get(&(volume.to_owned(), image.to_owned()));
        known.ok_or_else(|| Failure::Rig(format!("{volume}/{image} was not made")))
    }

    fn snapshot(&mut self, volume: &str, name: &str) -> Result<Taken, Failure> {
        let path = format!("/v1/volumes/{}/snapshots", self.called(volume));
        let begun = Instant::now();
        let told = self.ask("POST", &path, Some(&json!({ "name": name })))?;
        Ok(Taken {
            answered: begun.elapsed(),
            taken: us(&told, "taken_us")?,
            durable: us(&told, "durable_us")?,
        })
    }

    fn delete(&self, volume: &str, names: &[String]) -> Result<(), Failure> {
        let (next, api) = (AtomicUsize::new(0), &self.api);
        let volume = self.called(volume);
        let one_after_the_other = || {
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                let path = format!("/v1/volumes/{volume}/snapshots/{name}");
                rest::ask(api, "DELETE", &path, None)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..AT_A_TIME)
                .map(|_| scope.spawn(one_after_the_other))
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| match thread.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
        })
    }

    fn remove_image(&mut self, volume: &str, image: &str) -> Result<(), Failure> {
        self.ask(
            "DELETE",
            &format!("/v1/volumes/{}/luns/{image}", self.called(volume)),
            None,
        )?;
        self.images.remove(&(volume.to_owned(), image.to_owned()));
        Ok(())
    }

    fn remove(&mut self, volume: &str) -> Result<(), Failure> {
        self.ask(
            "DELETE",
            &format!("/v1/volumes/{}", self.called(volume)),
            None,
        )?;
        self.images.retain(|(known, _), _| known != volume);
        Ok(())
    }

    fn restore(&mut self, volume: &str, name: &str) -> Result<Duration, Failure> {
        self.restored += 1;
        let saved = format!("saved-{}", self.restored);
        let called = self.called(volume);
        let path = format!("/v1/volumes/{called}/snapshots/{name}/actions/restore");
        let begun = Instant::now();
        self.ask("POST", &path, Some(&json!({ "safety_snapshot": saved })))?;
        let took = begun.elapsed();
        self.delete(volume, &[saved])?;
        Ok(took)
    }

    fn settle(&mut self) -> Result<(), Failure> {
        // A change is answered when its consistency point is committed, and that has everything
        // before it.
        let volume = self.called("settling");
        if self.settled == 0 {
            self.add_volume(&volume)?;
            let body = json!({ "name": "lun", "size_bytes": 1 << 20 });
            self.ask("POST", &format!("/v1/volumes/{volume}/luns"), Some(&body))?;
        }
        self.settled += 1;
        let body = json!({ "size_bytes": (1 << 20) + self.settled * 4096 });
        self.ask(
            "PATCH",
            &format!("/v1/volumes/{volume}/luns/lun"),
            Some(&body),
        )
        .map(drop)
    }

    fn drain(&mut self) -> Result<(), Failure> {
        let since = Instant::now();
        while self.is_draining()? {
            if since.elapsed() > DRAINED_WITHIN {
                let text = format!("{} gives nothing back for too long", self.aggregate);
                return Err(Failure::Broken(text));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn is_draining(&self) -> Result<bool, Failure> {
        if self.about()?["pending_free_bytes"].as_u64() != Some(0) {
            return Ok(true);
        }
        let jobs = self.ask("GET", "/v1/jobs?state=running", None)?;
        Ok(jobs["jobs"].as_array().is_some_and(|jobs| !jobs.is_empty()))
    }

    fn used(&self) -> Result<f64, Failure> {
        let space = self.about()?;
        let bytes = |field: &str| space[field].as_f64().unwrap_or(f64::NAN);
        Ok(bytes("used_bytes") / bytes("size_bytes"))
    }

    fn points(&self) -> Result<Option<Points>, Failure> {
        let text = rest::page(&self.metrics, "/metrics")?;
        let of = format!("aggregate=\"{}\"", self.aggregate);
        let sum = |name: &str| -> f64 {
            let lines = text.lines();
            let found = lines.filter(|line| line.starts_with(name) && line.contains(&of));
            let values = found.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            values.sum()
        };
        Ok(Some(Points {
            count: sum("everglade_cp_total"),
            seconds: sum("everglade_cp_phase_seconds_sum"),
        }))
    }
}
