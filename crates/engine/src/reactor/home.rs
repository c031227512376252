//! The home reactor's work: mounting, beginning and driving consistency points.

use everglade_affinity::{Entry, Permit, RANGES, STRIPES, VolumeAffinities};
use everglade_env::{Nanos, Outside};
use everglade_format::{CpNumber, Pointer};
use everglade_journal::Position;
use everglade_target::Error;

use crate::background::turns;
use crate::change;
use crate::cp::{StepEnd, commit, freeze};
use crate::home::aggregate::Home;
use crate::home::run::Phase;
use crate::mount::mounting::Mounting;
use crate::pool::aggregate::{Aggregate, State};
use crate::pool::log::Log;
use crate::pool::trigger::{Trigger, Wait};
use crate::pool::volume::Volume;
use crate::reactor::meter::subsystem_of;
use crate::reactor::{Core, Work};
use crate::read::load::{LoadCx, Stop};
use crate::shared::Message;

/// Steps of a consistency point in one slice.
const SLICE_STEPS: usize = 16;
/// A slice ends with the step that takes it beyond this: clients of this reactor wait meanwhile.
const SLICE_NANOS: Nanos = 250_000;
/// Rest of an idle system with deleted files between the consistency points that shrink them, in
/// nanoseconds.
const RECLAIM_REST: Nanos = 20_000_000;
/// The same rest while clients change data, and the time that deletions wait for further ones then:
/// each consistency point costs clients some latency. Fast writers have several consistency points
/// in that time, and one of them frees blocks: a pass of the scans and its changes all over the
/// maps cost as much for few victims as for many.
const RECLAIM_REST_BUSY: Nanos = 250_000_000;

impl<O: Outside> Core<O> {
    pub(super) fn begin_mount(&mut self, mounting: Box<Mounting>) {
        let id = self.add(Work::Mount(mounting));
        self.enqueue(id);
    }

    pub(super) fn run_mount(&mut self, id: usize) {
        let mut wants = Vec::new();
        let operation = &mut self.operations[id];
        let Work::Mount(mounting) = &mut operation.work else {
            unreachable!("checked by the caller")
        };
        for (pointer, page) in mounting.pins() {
            operation.pinned.insert(pointer, Ok(page.clone()));
        }
        let aggregate = mounting.aggregate.clone();
        let mut cx = LoadCx {
            aggregate: aggregate.id,
            redirects: &aggregate.redirects,
            volume: None,
            cache: &self.shared.cache,
            pinned: &operation.pinned,
            wants: &mut wants,
        };
        let affinities = &self.shared.affinities;
        let outcome = mounting.run(&mut cx, || {
            VolumeAffinities::add(affinities, &aggregate.affinities.aggregate, STRIPES, RANGES)
                .map_err(|gone| Error::Io(gone.to_string()))
        });
        match outcome.map_err(Stop::settled) {
            Ok(None) => {
                operation.pinned.clear();
                self.enqueue(id);
            }
            Ok(Some(home)) => {
                let from = Position::of(&mounting.superblock);
                self.finish_mount(id, home, from);
            }
            Err(Stop::Load) => self.load(id, aggregate.id, wants),
            Err(Stop::Failed(error)) => {
                self.operations.remove(id);
                self.fail_aggregate(aggregate.id, format!("it could not be mounted: {error}"));
            }
            Err(Stop::Commit | Stop::Log | Stop::Space | Stop::Io | Stop::Damaged(_)) => {
                unreachable!("a mount waits for pages only, and damage is settled")
            }
        }
    }

    fn finish_mount(&mut self, id: usize, mut home: Home, from: Position) {
        self.operations.remove(id);
        let aggregate = home.aggregate.clone();
        let mut names = self.shared.volume_names.lock();
        let twin = aggregate
            .all_volumes()
            .into_iter()
            .find(|volume| names.contains_key(&*volume.name.get()));
        if let Some(twin) = twin {
            drop(names);
            let text = format!(
                "its volume {} has the name of a volume of another aggregate",
                twin.name
            );
            return self.fail_aggregate(aggregate.id, text);
        }
        for volume in aggregate.all_volumes() {
            names.insert(volume.name.to_string(), aggregate.id);
        }
        drop(names);
        home.last_begin = self.outside.now();
        home.replaying = aggregate.log.is_some().then_some(from);
        let driver = self.add(Work::ConsistencyPoint(aggregate.id));
        self.drivers.insert(aggregate.id, driver);
        self.homes.insert(aggregate.id, home);
        self.enqueue(driver);
        if aggregate.log.is_some() {
            self.begin_replay(&aggregate, from);
        } else if aggregate.media.has_groups() && !aggregate.is_halted() {
            // A drive may lack the newest superblock. Clients may flush what they read, and drives
            // that lack it may be opened without the others.
            aggregate.want_cp(aggregate.beyond_cut_change());
        } else {
            self.go_online(&aggregate);
        }
    }

    /// Admits clients; for reading only if the aggregate halted during its replay.
    pub(super) fn go_online(&mut self, aggregate: &Aggregate) {
        aggregate.standing.open();
        if aggregate.must_commit_first() && aggregate.committed() == aggregate.opened {
            aggregate.want_cp(aggregate.beyond_cut_change());
        }
        self.tell_progress(aggregate.id);
        self.wake_home(aggregate.id);
    }

    pub(super) fn wake_home(&mut self, aggregate: u32) {
        if let Some(driver) = self.drivers.get(&aggregate) {
            self.enqueue(*driver);
        }
    }

    /// Wakes the drivers of homes where something is due, and scrubs that have rested.
    pub(super) fn wake_homes(&mut self) {
        let now = self.outside.now();
        if !self.resting.is_empty() {
            self.wake_scrubs(now);
        }
        let due: Vec<u32> = self
            .homes
            .iter()
            .filter(|(_, home)| {
                home.run.is_none() && self.next_begin(home).is_some_and(|(at, _)| at <= now)
                    || home.aggregate.space.take_hunger()
            })
            .map(|(id, _)| *id)
            .collect();
        for aggregate in due {
            self.prepare(aggregate);
            self.wake_home(aggregate);
        }
    }

    /// When the next consistency point of a home should begin, and why; `None`: no need to.
    pub(super) fn next_begin(&self, home: &Home) -> Option<(Nanos, Trigger)> {
        let aggregate = &home.aggregate;
        if home.run.is_some() || aggregate.is_halted() {
            return None;
        }
        let space = &aggregate.space;
        let is_mounting = aggregate.state() == State::Mounting;
        let at_once = [
            // A stop waits until the journal was replayed.
            (aggregate.stop_requested() && !is_mounting, Trigger::Stop),
            (
                home.requests
                    .iter()
                    .any(|asked| !asked.change.is_deletion()),
                Trigger::Change,
            ),
            // Blocks derived while the aggregate was opened are written to their places.
            (!home.derived.is_empty() && !is_mounting, Trigger::Reclaim),
            (space.needs_trash() && !is_mounting, Trigger::Reclaim),
            (
                aggregate.log.as_ref().is_some_and(Log::is_filling),
                Trigger::Journal,
            ),
            (space.is_dirty_enough(), Trigger::Dirty),
            (aggregate.wanted() >= aggregate.joining(), Trigger::Wanted),
        ];
        if let Some((_, trigger)) = at_once.into_iter().find(|(is_due, _)| *is_due) {
            return Some((0, trigger));
        }
        let interval = self.shared.options.cp_interval;
        if !home.requests.is_empty() {
            // Each consistency point more has a freeze and a publication that writers wait for.
            let rest = match space.dirty() > 0 {
                true => RECLAIM_REST_BUSY.min(interval),
                false => 0,
            };
            return Some((home.last_begin + rest, Trigger::Change));
        }
        let media = &aggregate.media;
        let has_wrong = media.has_groups() && media.copies.has_notes();
        let is_optional = home.scrub.is_waiting() || has_wrong;
        let at_once = (home.repair.is_some() || is_optional).then_some(0);
        let work = turns::next_work(home).into_iter().chain(at_once).min();
        let catches_up = media.is_any_behind();
        let mut next = None;
        if (work.is_some() || catches_up) && !is_mounting {
            let rest = match aggregate.has_changes() {
                true => RECLAIM_REST_BUSY,
                false => RECLAIM_REST,
            };
            let rested = home.last_begin + rest.min(interval);
            // A drive that is yet to begin must not make consistency points without a rest.
            let copying = catches_up.then(|| home.catching_up.rests_until().unwrap_or(rested));
            let work = work.map(|due| due.max(rested));
            next = work.into_iter().chain(copying).min();
        }
        let timer = aggregate
            .has_changes()
            .then_some(home.last_begin + interval);
        match (next, timer) {
            (Some(at), timer) if timer.is_none_or(|timer| at <= timer) => {
                Some((at, Trigger::Reclaim))
            }
            (_, timer) => timer.map(|at| (at, Trigger::Timer)),
        }
    }

    /// Runs a slice of an aggregate's consistency points.
    pub(super) fn run_consistency_point(
        &mut self,
        id: usize,
        aggregate: u32,
        permit: Option<Permit>,
    ) {
        let mut permit = permit;
        let home = self.homes.get_mut(&aggregate).expect("drivers run at home");
        if permit.is_some() {
            home.is_entering = false;
        } else if home.is_entering {
            // The home waits for the Aggregate affinity; an early wake-up is served when the
            // affinity is granted.
            return;
        }
        self.shared.share_with_cache();
        let begun = self.outside.now();
        for _ in 0..SLICE_STEPS {
            let now = self.outside.now();
            if now > begun + SLICE_NANOS && permit.is_none() {
                break;
            }
            let home = self.homes.get_mut(&aggregate).expect("drivers run at home");
            // A halted aggregate needs this step too: only this reactor frees its memory.
            if !home.leaving.is_empty() && permit.is_none() {
                home.leaving.step();
                continue;
            }
            if home.aggregate.is_halted() {
                self.end_home(aggregate);
                return self.leave(permit);
            }
            (home.now, home.wall_seconds) = (now, self.outside.wall_seconds());
            let phase = home.run.as_ref().map(|run| run.phase);
            let subsystem = subsystem_of(phase, home.aggregate.media.has_parity());
            self.meter.enter(subsystem, || now);
            let phase = phase.map(Phase::name);
            home.aggregate.counts.enter_phase(phase, now);
            let mut trigger = Trigger::Timer;
            let publish = match &home.run {
                Some(run) => run.phase == Phase::Publish,
                None => {
                    let home = &self.homes[&aggregate];
                    match self.next_begin(home) {
                        Some((at, due)) if at <= now => trigger = due,
                        _ => return self.leave(permit),
                    }
                    false
                }
            };
            let home = self.homes.get_mut(&aggregate).expect("as above");
            if publish || home.run.is_none() {
                let Some(inside) = permit
                    .take()
                    .or_else(|| self.enter_aggregate(aggregate, id))
                else {
                    return;
                };
                if publish {
                    self.publish(aggregate, inside);
                } else {
                    self.freeze(aggregate, inside, now, trigger);
                    let took = self.outside.now().saturating_sub(now);
                    let counts = &self.homes[&aggregate].aggregate.counts;
                    counts.add_phase("freeze", took);
                }
                continue;
            }
            assert!(
                permit.is_none(),
                "a consistency point is inside an affinity only to freeze and to publish"
            );
            if !self.step(id, aggregate) {
                return;
            }
        }
        self.enqueue_for_next_turn(id);
    }

    fn enter_aggregate(&mut self, aggregate: u32, id: usize) -> Option<Permit> {
        let shared = self.shared.aggregate(aggregate);
        match self
            .shared
            .affinities
            .enter(self.index, &shared.affinities.aggregate, id as u64)
        {
            Entry::Entered(permit) => Some(permit),
            Entry::Queued => {
                self.homes
                    .get_mut(&aggregate)
                    .expect("as above")
                    .is_entering = true;
                None
            }
            Entry::Gone => panic!("the affinity of an aggregate that is at home here was removed"),
        }
    }

    fn freeze(&mut self, aggregate: u32, permit: Permit, now: Nanos, trigger: Trigger) {
        let home = self
            .homes
            .get_mut(&aggregate)
            .expect("freezes happen at home");
        home.last_begin = now;
        let options = &self.shared.options;
        home.cleans_on_demand = options.cleans_on_demand;
        home.moves_unshare = options.moves_unshare;
        let volumes = &home.volumes;
        let is_there = |volume| volumes.contains_key(&volume);
        home.aggregate.scattered.keep_only(is_there);
        let mut reclaim_budget = 0;
        if !reclaim_rests(home, now, trigger, options.cp_interval) {
            home.last_reclaim = now;
            reclaim_budget = options.reclaim_regions;
        }
        let media = &home.aggregate.media;
        media.share.begin(now);
        if home.aggregate.has_changes() {
            media.pace.hear(now);
        }
        let is_back_to_back = trigger.is_pressure() && home.is_pressed;
        home.aggregate.counts.count_begun(trigger, is_back_to_back);
        if home.aggregate.stop_requested() {
            home.aggregate.standing.begin_stop();
        }
        let mut stranded = Vec::new();
        let mut context = change::Context {
            affinities: &self.shared.affinities,
            names: &self.shared.volume_names,
            stranded: &mut stranded,
            seconds: home.wall_seconds,
            reclaim_regions: options.reclaim_regions,
            reclaim_budget,
            create_scan: options.create_scan,
            luns_together: options.luns_together,
            stage_blocks: options.stage_blocks,
        };
        freeze::freeze(home, &permit, &mut context);
        self.leave(Some(permit));
        if self.homes[&aggregate].aggregate.space.begin_progress() {
            self.tell_progress(aggregate);
        }
        for message in stranded {
            self.post(message.reactor, Message::Stranded(message.message));
        }
    }

    /// Runs one step outside any affinity. Returns false if the home must wait.
    fn step(&mut self, id: usize, aggregate: u32) -> bool {
        let mut wants = Vec::new();
        let operation = &mut self.operations[id];
        let home = self
            .homes
            .get_mut(&aggregate)
            .expect("steps happen at home");
        let shared = home.aggregate.clone();
        let known = match shared.redirects.is_any() || shared.redirects.has_moved() {
            true => home.run.as_ref().and_then(|run| run.volume()),
            false => None,
        };
        let known = known.and_then(|id| home.volumes.get(&id));
        let known = known.map(|volume| volume.shared.clone());
        let mut cx = LoadCx {
            aggregate: shared.id,
            redirects: &shared.redirects,
            volume: known.as_deref().map(Volume::followed),
            cache: &self.shared.cache,
            pinned: &operation.pinned,
            wants: &mut wants,
        };
        let outcome = crate::cp::step(home, &mut cx);
        if outcome.is_ok() {
            operation.pinned.clear();
        }
        let writer = &mut home.run.as_mut().expect("under way").writer;
        let ops = writer.take_ready(shared.media.share.blocks());
        let wanted = home.host.wanted.filter(|_| !home.host.asked);
        let phase = home.run.as_ref().expect("under way").phase.name();
        let progress = home
            .run
            .as_ref()
            .expect("under way")
            .progress(&shared.space);
        let is_awaited = shared.space.set_progress(progress);
        if !ops.is_empty() {
            shared.media.share.set_writing(true);
        }
        for op in ops {
            self.submit_cp(aggregate, op);
        }
        if is_awaited {
            self.tell_progress(aggregate);
        }
        match outcome.map_err(Stop::settled) {
            Ok(StepEnd::Again | StepEnd::Publish) => true,
            Err(Stop::Load) => {
                self.pin_unwritten(id, aggregate, &mut wants);
                if wants.is_empty() {
                    return true;
                }
                shared.counts.begin_wait(Wait::Load, self.outside.now());
                self.load(id, aggregate, wants);
                false
            }
            Err(Stop::Io) => {
                shared.counts.begin_wait(Wait::Device, self.outside.now());
                if let Some((extent, area)) = wanted {
                    self.want(aggregate, extent, area);
                }
                false
            }
            Err(Stop::Damaged(_)) => unreachable!("damage is settled"),
            Err(Stop::Failed(error)) => {
                // The consistency point will not be committed; the last committed one is intact
                // (C-08).
                self.halt_aggregate(
                    aggregate,
                    format!("a consistency point failed in its {phase} phase: {error}"),
                );
                self.end_home(aggregate);
                false
            }
            Err(Stop::Commit | Stop::Log | Stop::Space) => {
                unreachable!("a consistency point does not wait for itself")
            }
        }
    }

    /// Gives a consistency point those of the blocks it wants that it is about to write itself.
    fn pin_unwritten(&mut self, id: usize, aggregate: u32, wants: &mut Vec<Pointer>) {
        let home = &self.homes[&aggregate];
        let (media, key) = (&home.aggregate.media, &home.aggregate.key);
        let run = home.run.as_ref().expect("under way");
        let unwritten = |pvbn| {
            let planned = || run.stripes.unwritten(media, pvbn);
            run.writer.unwritten(media, pvbn).or_else(planned)
        };
        let pinned = &mut self.operations[id].pinned;
        wants.retain(|pointer| match unwritten(pointer.pvbn) {
            Some(page) if key.tag(&page) == pointer.tag => {
                pinned.insert(*pointer, Ok(page));
                false
            }
            _ => true,
        });
    }

    /// Ends the consistency point under way of a halted aggregate: only the state that readers need
    /// is kept, and no waiter is left. An aggregate that was to commit before it admits clients
    /// admits them now, for reading.
    fn end_home(&mut self, aggregate: u32) {
        let home = self.homes.get_mut(&aggregate).expect("it is at home here");
        home.abandon_run();
        let shared = home.aggregate.clone();
        self.refuse_requests(aggregate);
        if shared.state() == State::Mounting && shared.log.is_none() {
            self.go_online(&shared);
        }
    }

    fn publish(&mut self, aggregate: u32, permit: Permit) {
        let home = self
            .homes
            .get_mut(&aggregate)
            .expect("commits happen at home");
        let executed = home.last_begin;
        home.end_bite();
        let mut run = commit::publish(home, &permit);
        for (_, _, overlay) in run.frozen.drain(..) {
            home.leaving.add(overlay);
        }
        let stopped = run.last;
        let shared = home.aggregate.clone();
        self.leave(Some(permit));
        if stopped {
            shared.standing.stopped();
        }
        for (request, result) in run.answers {
            self.answer(&request, result.map(|()| executed));
        }
        let last = CpNumber(shared.opened.0 + 2);
        if shared.state() == State::Mounting && shared.log.is_none() && shared.committed() >= last {
            self.go_online(&shared);
        }
        self.tell_progress(aggregate);
        let is_pressed = self
            .next_begin(&self.homes[&aggregate])
            .is_some_and(|(_, trigger)| trigger.is_pressure());
        self.homes.get_mut(&aggregate).expect("as above").is_pressed = is_pressed;
        if !stopped {
            self.prepare(aggregate);
            self.punch(aggregate);
            self.scrub(aggregate);
        }
    }
}

/// True if a consistency point that begins for another reason leaves deleted files to a later one.
/// False if space is short, because then clients wait for it.
fn reclaim_rests(home: &Home, now: Nanos, trigger: Trigger, interval: Nanos) -> bool {
    let space = &home.aggregate.space;
    let rested = home.last_reclaim + RECLAIM_REST_BUSY.min(interval);
    trigger != Trigger::Reclaim && now < rested && space.dirty() > 0 && !space.is_short()
}
