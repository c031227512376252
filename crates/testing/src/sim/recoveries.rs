//! Recoveries from a power cut at each write of a short run: each finds one of the allowed states,
//! and media that `check` finds clean.
//!
//! A recovery depends only on the blocks that it reads, so media that agree in those with media
//! judged before are not mounted again ([`Footprint`]), unless background work is under way on
//! them: its progress is not part of the state.

use super::story::{Life as _, Story};
use super::{Failure, Report};
use crate::engine::{EngineMaker, EngineSystem};
use crate::system::Maker;
use crate::world::{Cut, CutPoint, Footprint, Images, Keep};
use crate::{Rng, Seed, SimWorld};

/// One recovery in `NESTED` continues, and is itself cut at each of its writes.
const NESTED: u64 = 97;
/// Media remembered.
const KNOWN_MAX: usize = 128;

/// A state that a run went through.
pub(super) struct Entry<S> {
    pub(super) state: S,
    /// Writes of the world at the request, and at its answer.
    pub(super) asked: u64,
    pub(super) answered: u64,
    pub(super) is_durable: bool,
}

impl<S> Entry<S> {
    /// Returns the states of a life, with the last request after `asked` writes.
    pub(super) fn of<T: Story<State = S>>(life: &T::Life<'_>, world: &SimWorld, asked: u64) -> Self
    where
        S: Clone,
    {
        Entry {
            state: life.now().clone(),
            asked,
            answered: world.writes(),
            is_durable: life.states().len() == 1,
        }
    }
}

/// States that a cut at write `at` may leave.
fn possible_at<S: Clone>(entries: &[Entry<S>], at: u64) -> Vec<S> {
    let is_sure = |entry: &Entry<S>| entry.is_durable && entry.answered < at;
    let first = entries.iter().rposition(is_sure).unwrap_or(0);
    let rest = entries[first..].iter();
    rest.take_while(|entry| entry.asked < at)
        .map(|entry| entry.state.clone())
        .collect()
}

/// See the module's documentation.
pub(super) struct Recoveries<'a, S: Story> {
    maker: &'a EngineMaker,
    entries: &'a [Entry<S::State>],
    /// Footprints of judged media, and their states.
    known: Vec<(Footprint, S::State)>,
    ticket: u64,
}

pub(super) fn mount(maker: &EngineMaker, world: &SimWorld) -> Result<EngineSystem, Failure> {
    let mounted = maker.mount(world);
    mounted.map_err(|error| Failure::new(error).within("mount"))
}

impl<'a, S: Story> Recoveries<'a, S> {
    /// Returns the recoveries of run `number`, from which the kept subset of unflushed writes is
    /// drawn.
    pub(super) fn new(
        maker: &'a EngineMaker,
        entries: &'a [Entry<S::State>],
        number: u64,
    ) -> Recoveries<'a, S> {
        Recoveries {
            maker,
            entries,
            known: Vec::new(),
            ticket: number,
        }
    }

    /// Judges all cuts of a world that watched them, and the one at its end.
    pub(super) fn judge_all(
        &mut self,
        world: &SimWorld,
        number: u64,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let mut points: Vec<(u64, CutPoint)> = world
            .take_cuts()
            .into_iter()
            .map(|point| (point.writes, point))
            .collect();
        points.push((world.writes() + 1, world.cut_point()));
        let mut rng = Rng::for_part(number, "cuts of words");
        for (at, point) in &points {
            let keeps = [
                Keep::Nothing,
                Keep::Everything,
                Keep::Random(rng.draw()),
                Keep::Random(rng.draw()),
            ];
            for keep in keeps {
                let images = point.images(Cut::whole(keep));
                report.cuts += 1;
                report.add_losses(images.losses);
                let verdict = self.judge(&images, *at, report);
                verdict
                    .map_err(|failure| failure.within(format!("cut at write {at}, {keep:?}")))?;
            }
        }
        Ok(())
    }

    fn judge(&mut self, images: &Images, at: u64, report: &mut Report) -> Result<(), Failure> {
        let possible = possible_at(self.entries, at);
        report.recoveries += 1;
        self.ticket += 1;
        let is_nested = self.ticket.is_multiple_of(NESTED);
        let is_going_on = possible.iter().any(S::is_going_on);
        if !is_nested
            && !is_going_on
            && let Some(state) = self.recall(images)
        {
            report.recoveries_known += 1;
            return match possible.contains(&state) {
                true => Ok(()),
                false => Err(Failure::new("Durable: a state that cannot be")),
            };
        }
        // The recovery that is known was of clean media.
        let offline = SimWorld::restart(images.clone(), Seed(3), 1);
        self.maker
            .check(&offline)
            .map_err(|error| Failure::new(error).within("check"))?;
        let world = SimWorld::restart(images.clone(), Seed(3), 1);
        if !is_nested {
            world.track();
            let state = self.settle(&world, possible)?;
            if !is_going_on {
                self.known.insert(0, (world.take_footprint(), state));
                self.known.truncate(KNOWN_MAX);
            }
            return Ok(());
        }
        world.watch_cuts(1, 400);
        let later = self.go_on(&world, possible)?;
        let before = later[0].answered;
        for point in world.take_cuts().into_iter().step_by(3) {
            let again = point.writes;
            report.cuts += 1;
            report.cuts_in_recovery += u64::from(again <= before);
            report.recoveries += 1;
            let states = match again <= before {
                true => possible_at(self.entries, at),
                false => possible_at(&later, again),
            };
            let within = |failure: Failure| failure.within(format!("cut again at {again}"));
            let images = point.images(Cut::whole(Keep::Nothing));
            let offline = SimWorld::restart(images.clone(), Seed(4), 1);
            let checked = self.maker.check(&offline);
            checked.map_err(|error| within(Failure::new(error).within("check")))?;
            let world = SimWorld::restart(images, Seed(4), 1);
            self.settle(&world, states).map_err(within)?;
        }
        Ok(())
    }

    /// Mounts the media, and finds the matching state.
    fn settle(&self, world: &SimWorld, possible: Vec<S::State>) -> Result<S::State, Failure> {
        let mut life = S::Life::new(world, mount(self.maker, world)?, possible);
        life.settle()?;
        Ok(life.now().clone())
    }

    /// Mounts the media, and then continues. Returns the states of the life, the state found first.
    fn go_on(
        &self,
        world: &SimWorld,
        possible: Vec<S::State>,
    ) -> Result<Vec<Entry<S::State>>, Failure> {
        let mut life = S::Life::new(world, mount(self.maker, world)?, possible);
        life.settle()?;
        let mut later = vec![Entry::of::<S>(&life, world, 0)];
        for step in S::goes_on(life.now()).into_iter().chain(S::ends()) {
            let asked = world.writes();
            life.step(step)?;
            later.push(Entry::of::<S>(&life, world, asked));
        }
        Ok(later)
    }

    fn recall(&mut self, images: &Images) -> Option<S::State> {
        let place = self.known.iter().position(|(mark, _)| mark.fits(images))?;
        self.known[..=place].rotate_right(1);
        Some(self.known[0].1.clone())
    }
}
