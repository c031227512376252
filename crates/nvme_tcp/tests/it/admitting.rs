//! Which hosts may use a LUN: by the name that they say, and for as long as they may.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everglade_nvme_tcp::wire::{Digests, Status};
use everglade_target::sessions::{AllowList, Caller};

use crate::host::{HOST, LUN, World, connect, connect_data, flush, subsystem};

const MIB: u64 = 1 << 20;

/// Lets the host of the tests in, until that is over.
#[derive(Default)]
struct TheHost {
    is_over: AtomicBool,
}

impl AllowList for TheHost {
    fn allows(&self, export: &str, _: &[u8; 16], caller: &Caller) -> bool {
        let is_open = !self.is_over.load(Ordering::Relaxed);
        export != LUN || is_open && caller.host.as_deref() == Some(HOST)
    }
}

fn guarded() -> (World, Arc<TheHost>) {
    let (mut world, list) = (World::with_lun(MIB), Arc::new(TheHost::default()));
    world.caller = Caller {
        allow_list: Some(Arc::<TheHost>::clone(&list)),
        ..Caller::default()
    };
    (world, list)
}

#[test]
fn a_host_is_let_in_by_its_name() {
    let (mut world, _) = guarded();
    let mut stranger = connect_data(u16::MAX, &subsystem());
    let name = b"nqn.2014-08.org.nvmexpress:uuid:1\0";
    stranger[512..512 + name.len()].copy_from_slice(name);
    let mut link = world.initialized(Digests::default());
    let done = world.complete(&mut link, connect(0, 32), &stranger);
    assert_eq!(done.status, Status::CONNECT_PARAMETERS);
    assert_eq!(world.model.open_handles(), 0);
    // The name of an earlier attempt does not count.
    let own = connect_data(u16::MAX, &subsystem());
    let done = world.complete(&mut link, connect(0, 32), &own);
    assert_eq!(done.status, Status::SUCCESS);
}

#[test]
fn a_host_that_may_no_longer_is_gone_within_a_second() {
    let (mut world, list) = guarded();
    let (mut admin, controller) = world.admin();
    let mut queue = world.queue_of(controller, 1, Digests::default());
    world.second_passes();
    world.done(&mut queue, flush(1));
    list.is_over.store(true, Ordering::Relaxed);
    world.second_passes();
    world.second_passes();
    world.heard(&mut queue);
    world.heard(&mut admin);
    assert!(queue.is_closed && admin.is_closed);
    assert_eq!((world.registry.len(), world.model.open_handles()), (0, 0));
}
