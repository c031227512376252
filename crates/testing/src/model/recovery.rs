//! Judgement of a recovery: whether a crash may leave the state found.
//!
//! `model.recover(at)` → `exports(…)` → `block(…)` for every block of `blocks_ever` (and any
//! others) → `finish(cp)`. Here an event counts as having happened if the world had counted fewer
//! than `at` writes, so that one run answers for each of its cuts.

use std::collections::BTreeMap;

use everglade_env::PageRef;

use super::history::{BlockHistory, Version};
use super::{LunId, Model, Moment, OpId, Rule, Violation, VolumeId};

/// The places that prove an operation, and the places that lack it.
#[derive(Default)]
struct Sight {
    seen: Option<String>,
    unseen: Option<String>,
}

/// The judgement of one recovered system.
pub struct Recovery<'m> {
    model: &'m Model,
    at: u64,
    /// Per aggregate: everything acknowledged before this is durable, by the flushes that ended.
    covered: BTreeMap<u32, Moment>,
    /// True if operations durable by a log alone may be lost.
    without_log: bool,
    /// True if the surviving operations need not be a prefix: operations that were not durable may
    /// be missing in between.
    with_gaps: bool,
    /// True if names are damaged: durable objects may be left out, or have another name.
    without_names: bool,
    sights: BTreeMap<OpId, Sight>,
    present: BTreeMap<LunId, u64>,
    volumes: Option<Vec<VolumeId>>,
    /// State found, if the model continues from it.
    found: Option<BTreeMap<LunId, BTreeMap<u64, BlockHistory>>>,
}

impl Model {
    /// Judges a system recovered from a cut at device write `at` ([`u64::MAX`]: after everything
    /// told).
    #[must_use]
    pub fn recover(&self, at: u64) -> Recovery<'_> {
        let mut covered = BTreeMap::new();
        for mark in self.marks.iter().filter(|mark| mark.since.writes < at) {
            let covers = covered.entry(mark.aggregate).or_insert(mark.covers);
            *covers = mark.covers.max(*covers);
        }
        Recovery {
            model: self,
            at,
            covered,
            without_log: false,
            with_gaps: false,
            without_names: false,
            sights: BTreeMap::new(),
            present: BTreeMap::new(),
            volumes: None,
            found: None,
        }
    }

    fn happened(&self, op: OpId, at: u64) -> bool {
        self.ops[op.0].issued.writes < at
    }
}

impl<'m> Recovery<'m> {
    /// Allows for a damaged log: only consistency points, and objects durable by one (volumes and
    /// LUNs), count.
    pub fn forget_log(&mut self) {
        self.without_log = true;
        self.covered.clear();
        let marks = self.model.marks.iter();
        for mark in marks.filter(|mark| mark.by_cp && mark.since.writes < self.at) {
            let covers = self.covered.entry(mark.aggregate).or_insert(mark.covers);
            *covers = mark.covers.max(*covers);
        }
    }

    /// Allows survivors that are not a prefix, if every durable operation survived.
    pub fn allow_gaps(&mut self) {
        self.with_gaps = true;
    }

    /// Allows for damaged names: a durable object may be missing as a whole, or have another name.
    /// An object found under its name is judged as usual.
    pub fn forget_names(&mut self) {
        self.without_names = true;
    }

    /// Keeps the state found, so that [`Recovery::adopt`] can continue from it.
    #[must_use]
    pub fn adopting(mut self) -> Self {
        self.found = Some(BTreeMap::new());
        self
    }

    /// Returns whether an object made by `created` and removed by `deletes` may exist: (may be
    /// present, may be absent).
    fn may_exist(&self, created: Option<OpId>, deletes: &[OpId]) -> (bool, bool) {
        let came = self.was_asked_for(created);
        let came_for_good = created.is_none_or(|op| self.is_durable(op));
        let went = deletes.iter().any(|&op| self.model.happened(op, self.at));
        let went_for_good = deletes
            .iter()
            .any(|&op| self.is_durable(op) || created == Some(op));
        (came && !went_for_good, !came_for_good || went)
    }

    /// True if no crash at this moment may take `op` away.
    fn is_durable(&self, op: OpId) -> bool {
        let record = &self.model.ops[op.0];
        let Some(acked) = record.acked.filter(|acked| acked.writes < self.at) else {
            return false;
        };
        let by_log = record.what.is_of_a_client() && self.without_log;
        record.durable && !by_log
            || self
                .covered
                .get(&record.aggregate)
                .is_some_and(|covers| acked < *covers)
    }

    fn was_asked_for(&self, created: Option<OpId>) -> bool {
        created.is_none_or(|op| self.model.happened(op, self.at))
    }

    /// Judges the list of exports (name and size in bytes) and, if given, that of volumes.
    ///
    /// # Errors
    /// The list is one no crash may leave.
    pub fn exports(
        &mut self,
        exports: &[(String, u64)],
        volumes: Option<&[String]>,
    ) -> Result<(), Violation> {
        let mut unknown: BTreeMap<&str, u64> = exports
            .iter()
            .map(|(name, size)| (name.as_str(), *size))
            .collect();
        // Youngest first: where a name was used again, it is the younger one's. What was not asked
        // for yet has no name.
        for (index, lun) in self.model.luns.iter().enumerate().rev() {
            if !self.was_asked_for(lun.created) {
                continue;
            }
            let size = unknown.remove(lun.name.as_str());
            let is_present = size.is_some();
            if self.without_names && !is_present {
                continue;
            }
            self.existence(&lun.name, lun.created, &lun.deletes, is_present)?;
            if let Some(size) = size {
                self.size(LunId(index), size)?;
                self.present.insert(LunId(index), size);
            }
        }
        if self.without_names {
            return Ok(());
        }
        if let Some((name, _)) = unknown.first_key_value() {
            let detail = format!("LUN {name} exists and was never asked for");
            return Err(Violation::new(Rule::Exports, detail));
        }
        let Some(names) = volumes else { return Ok(()) };
        let mut unknown: Vec<&String> = names.iter().collect();
        let mut present = Vec::new();
        for (index, volume) in self.model.volumes.iter().enumerate().rev() {
            if !self.was_asked_for(volume.created) {
                continue;
            }
            let place = unknown.iter().position(|name| **name == volume.name);
            if let Some(place) = place {
                unknown.remove(place);
                present.push(VolumeId(index));
            }
            self.existence(
                &volume.name,
                volume.created,
                &volume.deletes,
                place.is_some(),
            )?;
        }
        self.volumes = Some(present);
        match unknown.first() {
            None => Ok(()),
            Some(name) => {
                let detail = format!("volume {name} exists and was never asked for");
                Err(Violation::new(Rule::Exports, detail))
            }
        }
    }

    fn existence(
        &mut self,
        name: &str,
        created: Option<OpId>,
        deletes: &[OpId],
        is_present: bool,
    ) -> Result<(), Violation> {
        let (may_be_present, may_be_absent) = self.may_exist(created, deletes);
        let broken = |detail: String| Err(Violation::new(Rule::Exports, detail));
        if is_present && !may_be_present {
            return broken(format!("{name} exists after a deletion that was durable"));
        }
        if !is_present && !may_be_absent {
            return broken(format!("{name} is gone"));
        }
        let at = self.at;
        let deletes = deletes.iter().filter(|&&op| created != Some(op));
        let deletes: Vec<OpId> = deletes
            .copied()
            .filter(|&op| self.model.happened(op, at))
            .collect();
        if is_present {
            self.saw(created, name);
            deletes.into_iter().for_each(|op| self.missed(op, name));
        } else if deletes.is_empty() {
            created.into_iter().for_each(|op| self.missed(op, name));
        } else if created.is_none_or(|op| self.is_durable(op)) && deletes.len() == 1 {
            self.saw(Some(deletes[0]), name);
        }
        Ok(())
    }

    fn size(&mut self, lun: LunId, size: u64) -> Result<(), Violation> {
        let known = &self.model.luns[lun.0];
        let durable = |op: Option<OpId>| op.is_none_or(|op| self.is_durable(op));
        let first = known
            .sizes
            .iter()
            .rposition(|&(op, _)| durable(op))
            .unwrap_or(0);
        let fitting = |index: &usize| *index >= first && known.sizes[*index].1 == size;
        let fits: Vec<usize> = (0..known.sizes.len()).filter(fitting).collect();
        let (Some(&least), Some(&greatest)) = (fits.first(), fits.last()) else {
            let possible: Vec<u64> = known.sizes[first..].iter().map(|(_, size)| *size).collect();
            let detail = format!("{} has {size} bytes, not one of {possible:?}", known.name);
            return Err(Violation::new(Rule::Exports, detail));
        };
        // A LUN may have had the same size twice: then neither operation is proven.
        if least == greatest {
            self.saw(known.sizes[least].0, &known.name);
        }
        for &(op, _) in &known.sizes[greatest + 1..] {
            match op {
                Some(op) if self.model.happened(op, self.at) => self.missed(op, &known.name),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns id, name and size of the existing LUNs.
    #[must_use]
    pub fn luns(&self) -> Vec<(LunId, String, u64)> {
        let named =
            |(&lun, &size): (&LunId, &u64)| (lun, self.model.luns[lun.0].name.clone(), size);
        self.present.iter().map(named).collect()
    }

    /// Judges what a block holds.
    ///
    /// # Errors
    /// Checks a block against the states that a crash may leave.
    pub fn block(&mut self, lun: LunId, block: u64, page: &PageRef) -> Result<(), Violation> {
        let bytes = &page[..];
        let model = self.model;
        let known = &model.luns[lun.0];
        if let Some(found) = &mut self.found {
            let mut history = BlockHistory::starting_with(page.clone());
            // What is damaged can be read as long as the group derives what was at a former place.
            if known
                .blocks
                .get(&block)
                .is_some_and(|it| it.may_be_damaged(bytes))
            {
                history.mark();
            }
            found.entry(lun).or_default().insert(block, history);
        }
        let place = format!("{} block {block}", known.name);
        let Some(history) = known.blocks.get(&block) else {
            if bytes.iter().all(|&byte| byte == 0) {
                return Ok(());
            }
            return Err(Violation::new(
                Rule::Foreign,
                format!("{place}: written by nobody"),
            ));
        };
        let at = self.at;
        let happened = |op: OpId| model.happened(op, at);
        let versions = history.versions();
        let floor = versions
            .iter()
            .rposition(|v| v.op.is_none_or(|op| self.is_durable(op)));
        let floor = floor.unwrap_or(0);
        let Some((least, greatest)) = history.fitting(floor, 0, bytes, happened) else {
            // A part was written over an operation that is missing: the block has the part over
            // what was there before, which is no version. It proves nothing.
            let in_part = |it: &Version| it.in_part && it.op.is_some_and(happened);
            if self.with_gaps && versions[floor + 1..].iter().any(in_part) {
                return Ok(());
            }
            return Err(self.unfitting(history, &place, floor, bytes));
        };
        // Only contents prove that an operation survived: a durable operation that changed nothing
        // (zeroes over zeroes) proves nothing about earlier ones.
        let least = history
            .fitting(0, 0, bytes, happened)
            .map_or(least, |(first, _)| first);
        for (index, version) in versions.iter().enumerate().skip(1) {
            let Some(op) = version.op.filter(|&op| happened(op)) else {
                continue;
            };
            // If operations may be missing, an overwritten operation may be among them.
            if least == index || least > index && !self.with_gaps {
                self.saw(Some(op), &place);
            } else if greatest < index {
                self.missed(op, &place);
            }
        }
        Ok(())
    }

    /// A block answered with an error. With `anywhere` any block may, else only one that is
    /// damaged.
    ///
    /// # Errors
    /// This block has no reason to.
    pub fn unreadable(&mut self, lun: LunId, block: u64, anywhere: bool) -> Result<(), Violation> {
        let model = self.model;
        let at = self.at;
        let name = &model.luns[lun.0].name;
        let complaint = || {
            let detail = format!("{name} block {block} cannot be read");
            Err(Violation::new(Rule::Unreadable, detail))
        };
        let empty = BlockHistory::default();
        let history = model.luns[lun.0].blocks.get(&block).unwrap_or(&empty);
        let versions = history.versions();
        let floor = versions
            .iter()
            .rposition(|v| v.op.is_none_or(|op| self.is_durable(op)))
            .unwrap_or(0);
        if !anywhere && !history.is_marked(floor, |op| model.happened(op, at)) {
            return complaint();
        }
        if let Some(found) = &mut self.found {
            let possible = versions[floor..]
                .iter()
                .filter(|v| v.op.is_none_or(|op| model.happened(op, at)));
            let history = BlockHistory::unreadable(possible);
            found.entry(lun).or_default().insert(block, history);
        }
        Ok(())
    }

    fn unfitting(
        &self,
        history: &BlockHistory,
        place: &str,
        floor: usize,
        bytes: &[u8],
    ) -> Violation {
        let by = |index: usize| match history.versions()[index].op {
            Some(op) => self.model.describe(op).to_string(),
            None => "what was there at first".to_owned(),
        };
        match history.fitting(0, 0, bytes, |_| true) {
            Some((_, greatest)) if greatest < floor => {
                let detail = format!(
                    "{place}: holds {}, lost {}, which was durable",
                    by(greatest),
                    by(floor)
                );
                Violation::new(Rule::Durable, detail)
            }
            Some((least, _)) => {
                let detail = format!("{place}: holds {}, which comes after the cut", by(least));
                Violation::new(Rule::Foreign, detail)
            }
            None => {
                let zero = if bytes.iter().all(|&byte| byte == 0) {
                    " (zeroes)"
                } else {
                    ""
                };
                let detail = format!(
                    "{place}: holds what it never held{zero}; durable is {}",
                    by(floor)
                );
                Violation::new(Rule::Foreign, detail)
            }
        }
    }

    fn saw(&mut self, op: Option<OpId>, place: &str) {
        if let Some(op) = op {
            self.sights
                .entry(op)
                .or_default()
                .seen
                .get_or_insert_with(|| place.to_owned());
        }
    }

    fn missed(&mut self, op: OpId, place: &str) {
        self.sights
            .entry(op)
            .or_default()
            .unseen
            .get_or_insert_with(|| place.to_owned());
    }

    /// Judges all observations together. `cp` is the consistency point that recovery reports, to be
    /// compared with those that operations reported.
    ///
    /// # Errors
    /// The parts do not make a whole any crash may leave.
    pub fn finish(&self, cp: Option<u64>) -> Result<(), Violation> {
        let model = self.model;
        // If operations are missing, the last survivor proves nothing about earlier ones.
        let cp = cp.filter(|_| !self.with_gaps);
        // Per aggregate, the youngest operation that survived.
        let mut youngest: BTreeMap<u32, OpId> = BTreeMap::new();
        for (&op, sight) in &self.sights {
            if let (Some(seen), Some(unseen), false) =
                (&sight.seen, &sight.unseen, model.ops[op.0].loose)
            {
                let what = model.describe(op);
                let detail = format!("{what} is there in {seen} and not in {unseen}");
                return Err(Violation::new(Rule::Whole, detail));
            }
            if sight.seen.is_some() {
                let best = youngest.entry(model.ops[op.0].aggregate).or_insert(op);
                if model.ops[best.0].issued < model.ops[op.0].issued {
                    *best = op;
                }
            }
        }
        for (&op, sight) in &self.sights {
            let record = &model.ops[op.0];
            if let (Some(tag), Some(cp)) = (record.cp, cp) {
                let belongs = tag <= cp;
                let is_early = !belongs && sight.seen.is_some() && !record.loose;
                if belongs && sight.unseen.is_some() || is_early {
                    let what = model.describe(op);
                    let but = if belongs { "is missing" } else { "is there" };
                    let detail = format!("recovered at {cp}, but {what} {but}");
                    return Err(Violation::new(Rule::ConsistencyPoint, detail));
                }
            }
            let Some(unseen) = &sight.unseen else {
                continue;
            };
            if self.is_durable(op) {
                let detail = format!("{} was durable and is not in {unseen}", model.describe(op));
                return Err(Violation::new(Rule::Durable, detail));
            }
            let acked = record.acked.filter(|acked| acked.writes < self.at);
            if let (Some(acked), Some(later)) = (acked, youngest.get(&record.aggregate))
                && acked < model.ops[later.0].issued
                && !self.with_gaps
            {
                let detail = format!(
                    "{} is not in {unseen}, but {} survived, which began after it was acknowledged",
                    model.describe(op),
                    model.describe(*later)
                );
                return Err(Violation::new(Rule::Prefix, detail));
            }
        }
        Ok(())
    }

    /// The model of the system as found, to go on with: one version per block, nothing under way.
    #[must_use]
    pub fn adopt(self) -> Model {
        let found = self.found.expect("adopting() was asked for before looking");
        let mut next = Model {
            order: self.model.order,
            // For a cut in the past, later operations never happened.
            writes: self.model.writes.min(self.at),
            ..Model::default()
        };
        let mut ids = BTreeMap::new();
        for (index, volume) in self.model.volumes.iter().enumerate() {
            let id = VolumeId(index);
            let is_present = match &self.volumes {
                Some(present) => present.contains(&id),
                None => volume.deletes.is_empty(),
            };
            if is_present {
                ids.insert(id, next.add_volume(&volume.name, volume.aggregate));
            }
        }
        for (&lun, &size) in &self.present {
            let known = &self.model.luns[lun.0];
            // A LUN whose volume is being deleted can still be there only with its volume.
            let Some(&volume) = ids.get(&known.volume) else {
                continue;
            };
            let adopted = next.add_lun(volume, &known.name, size);
            let blocks = found.get(&lun).into_iter().flatten();
            next.luns[adopted.0].blocks = blocks
                .map(|(&block, history)| (block, history.clone()))
                .collect();
        }
        next
    }
}
