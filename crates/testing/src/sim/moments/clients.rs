//! Requests of clients, and their checks of the answers.

use everglade_target::{Completion, Error, LunHandle, Op, Reply, WriteSpan};

use super::track::{Change, Seen, odd_blocks, page_of, value_of};
use super::volume::Task;
use super::{BLOCK, Life, Pending, Reading};
use crate::system::System;

impl Life<'_> {
    /// Lets the clients of a reactor make requests. Returns true if they have more.
    pub(super) fn work(&mut self, reactor: usize) -> bool {
        if self.world.is_cut() || self.is_failed {
            return false;
        }
        let mut wants_more = false;
        for client in 0..self.known.clients.len() {
            let it = &self.known.clients[client];
            if it.reactor != reactor || self.actions == 0 {
                continue;
            }
            if it.is_busy || !self.known.volumes[it.volume].is_open() {
                wants_more = true;
                continue;
            }
            wants_more = true;
            if self.rng.one_in(2) {
                continue;
            }
            self.actions -= 1;
            self.begin(client);
        }
        wants_more
    }

    fn handle(&mut self, client: usize) -> Option<LunHandle> {
        let it = &self.known.clients[client];
        if let Some(handle) = it.handle {
            return Some(handle);
        }
        let reactor = it.reactor;
        let mut refused = None;
        // The LUN has one of these names.
        for name in self.known.volumes[it.volume].possible_names(it.lun) {
            match self.system.target(reactor).open(&name) {
                Ok((handle, _)) => {
                    self.known.clients[client].handle = Some(handle);
                    return Some(handle);
                }
                Err(error) => refused = refused.or(Some((name, error))),
            }
        }
        let (name, error) = refused.expect("it has a name");
        self.excuse(&format!("{name} cannot be opened"), &error);
        None
    }

    /// An error is an answer only if something is wrong with the devices.
    pub(super) fn excuse(&mut self, what: &str, error: &dyn std::fmt::Display) {
        self.errors += 1;
        if self.is_tolerant {
            self.is_failed = true;
        } else {
            self.fail(format!("{what}: a valid request failed: {error}"));
        }
    }

    pub(super) fn new_token(&mut self, pending: Pending) -> u64 {
        self.token += 1;
        self.pending.insert(self.token, pending);
        self.token
    }

    fn begin(&mut self, client: usize) {
        let Some(handle) = self.handle(client) else {
            return;
        };
        let issued = self.tick();
        let it = &self.known.clients[client];
        let (width, first_block, reactor) = (it.track.base.len(), it.first_block, it.reactor);
        let first = self.rng.index(width);
        let count = 1 + self
            .rng
            .index((width - first).min([1, 4, 250][self.rng.clone().index(3)]));
        let offset = (first_block + first as u64) * BLOCK;
        let length = count as u64 * BLOCK;
        let durable = self.rng.one_in(16);
        let kind = self.rng.below(20);
        let (pending, op) = match kind {
            0..12 => {
                let value = self.known.next_value;
                self.known.next_value += 1;
                let bytes: Vec<u8> = (first..first + count)
                    .flat_map(|slot| page_of(value, slot as u64))
                    .collect();
                self.change(client, (first, count), value, issued);
                let data = WriteSpan::copy_of(offset, &bytes);
                (Pending::Change(client), Op::Write { data, durable })
            }
            12..14 => {
                self.change(client, (first, count), 0, issued);
                let op = Op::Discard {
                    offset,
                    length,
                    durable,
                };
                (Pending::Change(client), op)
            }
            14..15 => {
                let ended = self.known.clients.iter().map(|it| it.track.ended());
                let flushing = ended.collect();
                self.known.clients[client].flushing = flushing;
                (Pending::Flush(client), Op::Flush)
            }
            _ => {
                self.expect(client);
                let length = u32::try_from(width as u64 * BLOCK).expect("at most 1 MiB");
                let op = Op::Read {
                    offset: first_block * BLOCK,
                    length,
                };
                (Pending::Read(client), op)
            }
        };
        self.known.clients[client].is_busy = true;
        let token = self.new_token(pending);
        self.trace(format!(
            "client {client}: {pending:?} {first}+{count} token {token}"
        ));
        self.system.target(reactor).submit(handle, op, token);
    }

    fn change(&mut self, client: usize, (first, count): (usize, usize), value: u64, issued: u64) {
        self.known.clients[client].track.changes.push(Change {
            first,
            count,
            value,
            issued,
            ended: None,
            is_refused: false,
        });
    }

    /// Records the expected content of a read that begins now, if no restore is under way when it
    /// ends either.
    fn expect(&mut self, client: usize) {
        let it = &self.known.clients[client];
        let volume = &self.known.volumes[it.volume];
        let is_over =
            volume.shown.is_some() && volume.restoring().is_some_and(|goal| goal.covers(it.lun));
        self.known.clients[client].reading = Reading {
            before: (!is_over).then(|| it.track.now()),
            after: Vec::new(),
        };
    }

    /// Handles a restore before a client's read: all blocks then show the target, with the client's
    /// changes from some number on on top of it, at least without those answered before the request
    /// for the restore. Called when a restore is requested, and when a read ends.
    pub(super) fn may_show_target(&mut self, client: usize) {
        let it = &self.known.clients[client];
        let volume = &self.known.volumes[it.volume];
        let Some(goal) = volume.restoring() else {
            return;
        };
        if !goal.covers(it.lun) {
            return;
        }
        let index = client - volume.clients.start;
        let image = volume.snapshots[&goal.target].image.as_ref();
        let image = &image.expect("only what was looked at is restored")[index];
        let least = match &volume.task {
            Task::Restore { least, .. } => least[index],
            _ => volume.from[index].first().copied().unwrap_or(0),
        };
        let all = it.track.changes.len();
        let most = self.known.most_before(client);
        let images = (least..=most).map(|from| it.track.blocks(image, from, all));
        let images: Vec<_> = images.collect();
        self.known.clients[client].reading.after.extend(images);
    }

    /// Compares all that a read saw with the images that it may show: it is one of them, not
    /// something of each.
    fn judge_read(&mut self, client: usize, seen: &[Seen]) {
        let reading = std::mem::take(&mut self.known.clients[client].reading);
        let images: Vec<_> = reading.before.iter().chain(&reading.after).collect();
        let odd = images.iter().map(|image| odd_blocks(image, seen));
        let (index, best) = odd
            .enumerate()
            .min_by_key(|(_, odd)| odd.len())
            .expect("it may show what was there, or what is");
        if best.is_empty() && index >= reading.before.iter().len() {
            let volume = self.known.clients[client].volume;
            self.known.sees_target(volume);
        }
        if !best.is_empty() {
            self.fail(format!(
                "ReadAfterWrite: client {client} reads what is none of {} images; of the one that \
                fits best {} blocks differ (block, is, should be): {:?}",
                images.len(),
                best.len(),
                &best[..best.len().min(8)]
            ));
        }
    }

    /// Takes the answers that a reactor has.
    pub(super) fn collect(&mut self, reactor: usize) {
        let mut done = Vec::new();
        self.system.target(reactor).poll(&mut done);
        if !done.is_empty() {
            // Reactor 0 continues the tasks.
            self.world.wake(0);
        }
        for completion in done {
            let Some(pending) = self.pending.remove(&completion.token) else {
                self.fail(format!("token {} was answered twice", completion.token));
                return;
            };
            self.finish(pending, completion);
        }
    }

    fn finish(&mut self, pending: Pending, completion: Completion) {
        let ended = self.tick();
        let short = match &completion.result {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.to_string(),
        };
        self.trace(format!("token {} {pending:?}: {short}", completion.token));
        match pending {
            Pending::Look { volume, client } => {
                let slots = self.known.clients[client].track.base.len();
                let seen = self.seen(completion.result, slots);
                self.looked(volume, client, seen);
            }
            Pending::Change(client) => self.changed(client, ended, completion.result),
            Pending::Flush(client) => {
                self.known.clients[client].is_busy = false;
                if let Err(error) = completion.result {
                    return self.refused(client, "flush", &error);
                }
                let (volume, lun) = (
                    self.known.clients[client].volume,
                    self.known.clients[client].lun,
                );
                let flushed = std::mem::take(&mut self.known.clients[client].flushing);
                for (other, count) in self.known.clients.iter_mut().zip(flushed) {
                    if other.volume == volume && other.lun == lun {
                        // A restore meanwhile began to count anew.
                        let count = count.min(other.track.ended());
                        other.track.floor = other.track.floor.max(count);
                    }
                }
            }
            Pending::Last => {
                if let Err(error) = completion.result {
                    self.excuse("the last discard", &error);
                }
            }
            Pending::Read(client) => {
                self.known.clients[client].is_busy = false;
                self.may_show_target(client);
                let slots = self.known.clients[client].track.base.len();
                if let Err(error @ (Error::Gone | Error::NotFound(_))) = &completion.result {
                    return self.refused(client, "read", error);
                }
                let seen = self.seen(completion.result, slots);
                self.judge_read(client, &seen);
            }
        }
    }

    fn changed(&mut self, client: usize, ended: u64, result: Result<Reply, Error>) {
        let it = &mut self.known.clients[client];
        it.is_busy = false;
        let last = it.track.changes.last_mut();
        match result {
            Ok(_) => {
                if let Some(last) = last {
                    last.ended = Some(ended);
                }
                if self.is_always {
                    it.track.floor = it.track.changes.len();
                }
            }
            Err(Error::NoSpace) => {
                if let Some(last) = last {
                    (last.ended, last.is_refused) = (Some(ended), true);
                }
            }
            Err(error) => self.refused(client, "change", &error),
        }
    }

    /// Something else than space was missing.
    fn refused(&mut self, client: usize, what: &str, error: &Error) {
        let it = &mut self.known.clients[client];
        let volume = &self.known.volumes[it.volume];
        let is_razed = matches!(
            volume.task,
            Task::Raze { .. } | Task::Rebuild { .. } | Task::Clone(_)
        );
        if is_razed && matches!(error, Error::Gone | Error::NotFound(_)) {
            if let Some(handle) = it.handle.take() {
                let reactor = it.reactor;
                self.system.target(reactor).close(handle);
            }
            return;
        }
        self.excuse(&format!("client {client}: {what}"), error);
    }

    /// Returns the values that a reader saw.
    fn seen(&mut self, result: Result<Reply, Error>, slots: usize) -> Vec<Seen> {
        let span = match result {
            Ok(Reply::Data(span)) => span,
            other => {
                let text = format!("{:?}", other.err());
                self.errors += 1;
                if !self.is_tolerant {
                    self.fail(format!("a valid request failed: a read: {text}"));
                }
                return vec![None; slots];
            }
        };
        if span.pages.len() != slots {
            let pages = span.pages.len();
            self.fail(format!(
                "Foreign: {pages} blocks were read instead of {slots}"
            ));
            return vec![None; slots];
        }
        let mut seen = Vec::new();
        for (slot, page) in span.pages.iter().enumerate() {
            let value = value_of(&page[..], slot as u64);
            if value.is_none() {
                self.fail(format!(
                    "Foreign: block {slot} of a read holds what nobody wrote there"
                ));
            }
            seen.push(value);
        }
        seen
    }
}
