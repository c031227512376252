//! The toy's reactors, targets and administration.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use everglade_env::{Outside, PageRef};
use everglade_target::{
    Allocation, Completion, Error, Export, Extent, LunHandle, OP_BYTES_MAX, Op, ReadSpan, Reply,
    Target,
};

use super::Bug;
use super::core::{BLOCK, Core};
use super::record::Kind;
use crate::SimWorld;
use crate::system::{Admin, AdminDone, Maker, NotMounted, Promises, System};
use crate::world::{DeviceSpec, Turn};

/// Makes toys.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToyMaker {
    /// The mistake they make.
    pub bug: Option<Bug>,
}

impl Maker for ToyMaker {
    type System = Toy;

    fn promises(&self) -> Promises {
        Promises {
            damage_is_found: None,
            journal_blocks: 0..0,
            full_host_is_no_space: false,
            discards_are_never_refused: false,
            discards_may_skip_when_full: false,
            reads_survive_write_errors: true,
            changes_are_durable: false,
        }
    }

    fn devices(&self, bytes: u64) -> Vec<DeviceSpec> {
        vec![DeviceSpec::thin(bytes)]
    }

    fn format(&self, _world: &SimWorld) -> Result<(), String> {
        // An empty device is an empty log.
        Ok(())
    }

    fn mount(&self, world: &SimWorld) -> Result<Toy, NotMounted> {
        let core = Core::mount(world, self.bug).map_err(NotMounted::Refused)?;
        let core = Rc::new(RefCell::new(core));
        let seat = |reactor| ToyTarget {
            core: Rc::clone(&core),
            reactor,
            handles: BTreeMap::new(),
            next_handle: 0,
            done: Vec::new(),
            later: Vec::new(),
            admin_done: Vec::new(),
        };
        let targets = (0..world.reactors()).map(seat).collect();
        Ok(Toy { core, targets })
    }
}

/// A running toy.
pub struct Toy {
    core: Rc<RefCell<Core>>,
    targets: Vec<ToyTarget>,
}

struct ToyTarget {
    core: Rc<RefCell<Core>>,
    reactor: usize,
    handles: BTreeMap<u64, String>,
    next_handle: u64,
    done: Vec<Completion>,
    /// Second halves of writes, for [`Bug::TornWrite`].
    later: Vec<(String, u64, u64, Vec<PageRef>, u64)>,
    admin_done: Vec<AdminDone>,
}

impl System for Toy {
    fn turn(&mut self, reactor: usize) -> Turn {
        for (name, offset, length, pages, token) in std::mem::take(&mut self.targets[reactor].later)
        {
            self.core
                .borrow_mut()
                .perform(Kind::Write, &name, offset, length, &pages);
            self.targets[reactor].done.push(Completion {
                token,
                result: Ok(Reply::Done),
            });
        }
        let kept = self.core.borrow_mut().advance(reactor);
        for (waiter, error) in kept {
            let token = waiter.token;
            let target = &mut self.targets[waiter.reactor];
            let result = error.map_or(Ok(()), Err);
            if waiter.is_admin {
                target.admin_done.push(AdminDone { token, result });
            } else {
                let result = result.map(|()| Reply::Done);
                target.done.push(Completion { token, result });
            }
            self.core.borrow().outsides[reactor].wake(waiter.reactor);
        }
        Turn::Idle { until: None }
    }

    fn target(&mut self, reactor: usize) -> &mut dyn Target {
        &mut self.targets[reactor]
    }

    fn administer(&mut self, reactor: usize, request: Admin, token: u64) {
        let mut core = self.core.borrow_mut();
        let (kind, name, size) = match &request {
            Admin::CreateVolume { name } => (Kind::CreateVolume, name.as_str(), 0),
            Admin::DeleteVolume { name } => (Kind::DeleteVolume, name.as_str(), 0),
            Admin::CreateLun { name, size_bytes } => (Kind::CreateLun, name.as_str(), *size_bytes),
            Admin::DeleteLun { name } => (Kind::DeleteLun, name.as_str(), 0),
            Admin::GrowLun { name, size_bytes } => (Kind::Grow, name.as_str(), *size_bytes),
            Admin::ShrinkLun { name, size_bytes } => (Kind::Shrink, name.as_str(), *size_bytes),
            // The toy stays as large as it is.
            Admin::ConsistencyPoint
            | Admin::StartScrub
            | Admin::GrowPool(_)
            | Admin::ReplaceDrive(_) => {
                core.wait(reactor, token, true);
                return core.outsides[reactor].wake(reactor);
            }
        };
        match core.log(reactor, kind, name, (0, size), Vec::new()) {
            Ok(()) => core.wait(reactor, token, true),
            Err(error) => {
                let done = AdminDone {
                    token,
                    result: Err(error),
                };
                self.targets[reactor].admin_done.push(done);
            }
        }
        core.outsides[reactor].wake(reactor);
    }

    fn poll_admin(&mut self, reactor: usize, done: &mut Vec<AdminDone>) {
        done.append(&mut self.targets[reactor].admin_done);
    }

    fn volumes(&self) -> Option<Vec<String>> {
        Some(self.core.borrow().volumes.iter().cloned().collect())
    }
}

impl ToyTarget {
    fn perform(&mut self, name: &str, op: Op, token: u64) -> Result<Option<Reply>, Error> {
        let mut core = self.core.borrow_mut();
        let size = core.luns.get(name).ok_or(Error::Gone)?.size_bytes;
        let (offset, length) = match &op {
            Op::Read { offset, length } => (*offset, u64::from(*length)),
            Op::Write { data, .. } | Op::CompareAndWrite { data, .. } => {
                (data.offset, u64::from(data.length))
            }
            Op::Flush => (0, 0),
            Op::Discard { offset, length, .. }
            | Op::WriteZeroes { offset, length, .. }
            | Op::Extents { offset, length, .. }
            | Op::Changes { offset, length, .. } => (*offset, *length),
        };
        if offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(Error::Invalid("beyond the end"));
        }
        let reactor = self.reactor;
        if let Op::CompareAndWrite { compare, .. } = &op {
            let blocks = &core.luns[name].blocks;
            let first = compare.offset / BLOCK;
            let block = |index: usize| blocks.get(&(first + index as u64));
            if let Some(offset) = compare.first_difference(|n| block(n).map(|it| &it[..])) {
                return Err(Error::Miscompare { offset });
            }
        }
        let durable = match op {
            Op::Read { offset, length } => {
                if length > OP_BYTES_MAX {
                    return Err(Error::Invalid("too long"));
                }
                let luck = core.outsides[reactor].random().is_multiple_of(50);
                let stale = core.bug == Some(Bug::StaleRead) && luck;
                let blocks = &core.luns[name].blocks;
                let first = offset / BLOCK;
                let last = (offset + u64::from(length)).div_ceil(BLOCK);
                let page = |block| blocks.get(&block).filter(|_| !stale).cloned();
                let pages = (first..last)
                    .map(|b| page(b).unwrap_or_else(PageRef::zero))
                    .collect();
                return Ok(Some(Reply::Data(ReadSpan {
                    offset,
                    length,
                    pages,
                })));
            }
            Op::Write { data, durable } | Op::CompareAndWrite { data, durable, .. } => {
                let pages: Vec<PageRef> =
                    data.pages.into_iter().map(|page| page.freeze()).collect();
                let length = u64::from(data.length);
                core.log(
                    reactor,
                    Kind::Write,
                    name,
                    (data.offset, length),
                    pages.clone(),
                )?;
                if core.bug == Some(Bug::TornWrite) && pages.len() > 1 && !durable {
                    // Behaves as if the second half were stored a turn later than the first.
                    let from = (data.offset / BLOCK + 1) * BLOCK;
                    let rest = data.offset + length - from;
                    let blank = vec![PageRef::zero(); pages.len() - 1];
                    core.perform(Kind::Write, name, from, rest, &blank);
                    self.later
                        .push((name.to_owned(), from, rest, pages[1..].to_vec(), token));
                    return Ok(None);
                }
                durable
            }
            Op::Flush => true,
            Op::Extents { length, .. } | Op::Changes { length, .. } => {
                let allocation = Allocation::Data;
                return Ok(Some(Reply::Extents(vec![Extent { length, allocation }])));
            }
            Op::Discard {
                offset,
                length,
                durable,
            } => {
                let (mut from, mut to) = (
                    offset.div_ceil(BLOCK) * BLOCK,
                    (offset + length) / BLOCK * BLOCK,
                );
                if core.bug == Some(Bug::DiscardsEdges) {
                    (from, to) = (offset, offset + length);
                }
                if from < to {
                    core.log(reactor, Kind::Zeroes, name, (from, to - from), Vec::new())?;
                }
                durable
            }
            Op::WriteZeroes {
                offset,
                length,
                durable,
                ..
            } => {
                core.log(reactor, Kind::Zeroes, name, (offset, length), Vec::new())?;
                durable
            }
        };
        let forgets = core.bug == Some(Bug::ForgetsForceUnitAccess) && length > 0;
        if durable && !forgets {
            core.wait(reactor, token, false);
            return Ok(None);
        }
        Ok(Some(Reply::Done))
    }
}

impl Target for ToyTarget {
    fn exports(&self) -> Vec<Export> {
        let export = |(name, lun): (&String, &super::core::Lun)| Export {
            name: name.clone(),
            uuid: [0; 16],
            lun_uuid: [0; 16],
            size_bytes: lun.size_bytes,
            read_only: false,
        };
        self.core.borrow().luns.iter().map(export).collect()
    }

    fn open(&mut self, name: &str) -> Result<(LunHandle, Export), Error> {
        let exports = self.exports();
        let export = exports.into_iter().find(|export| export.name == name);
        let export = export.ok_or_else(|| Error::NotFound(name.to_owned()))?;
        self.next_handle += 1;
        let handle = LunHandle(self.next_handle);
        self.handles.insert(handle.0, name.to_owned());
        Ok((handle, export))
    }

    fn close(&mut self, lun: LunHandle) {
        self.handles.remove(&lun.0);
    }

    fn size_bytes(&self, lun: LunHandle) -> Option<u64> {
        let core = self.core.borrow();
        self.handles
            .get(&lun.0)
            .and_then(|name| core.luns.get(name))
            .map(|lun| lun.size_bytes)
    }

    fn submit(&mut self, lun: LunHandle, op: Op, token: u64) {
        let name = self.handles.get(&lun.0).cloned();
        let result = match name {
            Some(name) => self.perform(&name, op, token),
            None => Err(Error::Gone),
        };
        if let Some(result) = result.transpose() {
            self.done.push(Completion { token, result });
        }
        let mut core = self.core.borrow_mut();
        let luck = core.outsides[self.reactor].random().is_multiple_of(100);
        if core.bug == Some(Bug::LosesCompletion) && luck {
            self.done.pop();
        }
        core.outsides[self.reactor].wake(self.reactor);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }
}
