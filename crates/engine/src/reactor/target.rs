//! The engine as protocol sessions see it.

use std::sync::Arc;

use everglade_env::Outside;
use everglade_target::{Completion, Error, Export, Image, LunHandle, Op, Target, Token};

use crate::ops::{Client, Origin};
use crate::pool::cpu::Subsystem;
use crate::pool::image;
use crate::pool::limit::Applied;
use crate::pool::volume::{Lun, Volume};
use crate::reactor::ahead::Stream;
use crate::reactor::{Core, OpenLun};

impl<O: Outside> Core<O> {
    fn find_lun(&self, name: &str) -> Result<Arc<Lun>, Error> {
        let missing = || Error::NotFound(name.to_owned());
        let (volume, lun) = name.split_once('/').ok_or_else(missing)?;
        let find = |volume: Arc<Volume>| match lun.split_once('@') {
            None => volume.lun(lun),
            Some((lun, snapshot)) => volume.images().get(snapshot)?.luns.get(lun).cloned(),
        };
        for aggregate in self.shared.all() {
            if let Some(found) = aggregate.volume(volume).and_then(find) {
                return match aggregate.standing.refusal_of_reads() {
                    Some(error) => Err(error),
                    None => Ok(found),
                };
            }
        }
        Err(missing())
    }
}

fn export(lun: &Lun) -> Export {
    Export {
        name: lun.full_name(),
        uuid: lun.uuid(),
        lun_uuid: lun.lun_uuid(),
        size_bytes: lun.size_bytes(),
        read_only: lun.snapshot.is_some() || !lun.volume.aggregate.is_online(),
    }
}

impl<O: Outside> Target for Core<O> {
    fn exports(&self) -> Vec<Export> {
        let mut exports = Vec::new();
        for aggregate in self.shared.all() {
            if aggregate.standing.is_readable() {
                for volume in aggregate.all_volumes() {
                    exports.extend(volume.all_luns().iter().map(|lun| export(lun)));
                }
            }
        }
        exports.sort_by(|a, b| a.name.cmp(&b.name));
        exports
    }

    /// For each snapshot of the volume, the LUN that is the same file or, if there is none, has the
    /// same name. A LUN may have been renamed since the snapshot, or it may be a copy of the old
    /// LUN.
    fn images(&self, name: &str) -> Vec<Image> {
        let Ok(lun) = self.find_lun(name) else {
            return Vec::new();
        };
        let images = lun.volume.images();
        let same = |image: &image::Image| {
            let same_file = image.luns.values().find(|known| known.file == lun.file);
            same_file
                .or_else(|| image.luns.get(&*lun.name.get()))
                .cloned()
        };
        let others = images
            .iter()
            .filter(|(label, _)| lun.snapshot.as_ref() != Some(*label));
        let found = others.filter_map(|(label, image)| Some((label, same(image)?)));
        let image = |(label, lun): (&String, Arc<Lun>)| Image {
            label: label.clone(),
            export: lun.full_name(),
            lun_uuid: lun.lun_uuid(),
        };
        found.map(image).collect()
    }

    fn open(&mut self, name: &str) -> Result<(LunHandle, Export), Error> {
        let lun = self.find_lun(name)?;
        let handle = self.shared.new_handle();
        let export = export(&lun);
        let open = OpenLun {
            lun,
            stream: Stream::default(),
            is_read_only: export.read_only,
            limits: Applied::default(),
            limits_seen: 0,
        };
        self.luns.insert(handle, open);
        Ok((LunHandle(handle), export))
    }

    fn close(&mut self, lun: LunHandle) {
        self.luns.remove(&lun.0);
    }

    fn size_bytes(&self, lun: LunHandle) -> Option<u64> {
        let OpenLun {
            lun, is_read_only, ..
        } = self.luns.get(&lun.0)?;
        // An aggregate that cannot be changed any more closes the sessions that could change it, so
        // that no client believes that unflushed data is stored (docs/design/design.md §5).
        // Sessions with a read-only export stay open.
        let standing = &lun.volume.aggregate.standing;
        let is_serving = match is_read_only {
            true => standing.is_readable(),
            false => standing.is_online(),
        };
        (is_serving && !lun.is_gone()).then(|| lun.size_bytes())
    }

    fn submit(&mut self, lun: LunHandle, op: Op, token: Token) {
        if self.shared.limits.is_any() {
            return self.begin_or_hold(lun, op, token);
        }
        if !self.meter.is_sample() {
            return self.begin(lun, op, token);
        }
        let before = self.meter.of_clients();
        let session = self.enter(Subsystem::Client);
        self.begin(lun, op, token);
        self.enter(session);
        self.meter.count_others(before);
    }

    fn expect_reads(&mut self, lun: LunHandle, reads: &[(u64, u32)]) {
        self.prefetch(lun.0, reads);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.end_shared();
        done.append(&mut self.done);
    }
}

impl<O: Outside> Core<O> {
    /// Returns the image that changes are counted from, for an operation that asks for changes.
    pub(super) fn since_of(&self, op: &Op) -> Option<Arc<Lun>> {
        match op {
            Op::Changes { since, .. } => self.luns.get(&since.0).map(|open| open.lun.clone()),
            _ => None,
        }
    }

    /// Begins an operation of a session, and ends it if it need not wait.
    pub(super) fn begin(&mut self, lun: LunHandle, op: Op, token: Token) {
        let LunHandle(handle) = lun;
        if let Op::Read { offset, length } = op {
            return self.read_lun(handle, (offset, length), token);
        }
        let Some(lun) = self.luns.get(&handle).map(|open| open.lun.clone()) else {
            let result = Err(Error::Gone);
            return self.done.push(Completion { token, result });
        };
        let since = self.since_of(&op);
        let client = Client::new(lun, op, Origin::Session(token));
        self.begin_client(Client { since, ..client });
    }
}
