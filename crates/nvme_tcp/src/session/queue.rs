//! A queue of a controller, as the session of its connection sees it.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use everglade_target::reservations::{Access, Host, Reservations};
use everglade_target::sessions::Tally;
use everglade_target::{Export, LunHandle};

use super::admin::Admin;
use super::command_ids::CommandIds;
use super::fused::Fused;
use crate::controllers::controller::Controller;
use crate::wire::log_page::Work;

/// See the module's documentation.
pub(super) struct Queue {
    pub(super) controller: Arc<Controller>,
    /// The host, as reservations know it.
    pub(super) host: Host,
    /// 0 is the admin queue.
    pub(super) id: u16,
    /// Entries of the submission queue.
    pub(super) entries: u32,
    /// Head of the submission queue, which counts commands that were received.
    pub(super) head: u32,
    /// The host wants to know the head.
    pub(super) has_flow_control: bool,
    /// Epoch of the controller in which the queue was connected.
    pub(super) epoch: u32,
    pub(super) command_ids: CommandIds,
    /// The namespaces that are open, by number.
    open: Vec<OpenNamespace>,
    pub(super) fused: Fused,
    /// Operations under way, for the controller: it is not disabled before they end.
    pub(super) operations: Arc<AtomicUsize>,
    /// What was done and not yet reported to the controller.
    pub(super) work: Work,
    pub(super) tally: Tally,
    /// The rest of the controller, if this is its admin queue.
    pub(super) admin: Option<Box<Admin>>,
}

/// A namespace that is open on this reactor.
pub(super) struct OpenNamespace {
    pub(super) id: u32,
    pub(super) lun: LunHandle,
    /// As it was when it was opened.
    pub(super) export: Export,
    /// Those of hosts of all protocols.
    pub(super) reservations: Arc<Reservations>,
    /// Hosts are offered reservations of their own.
    pub(super) offers_reservations: bool,
}

impl OpenNamespace {
    /// Returns whether reservations let a host do this.
    #[inline]
    pub(super) fn may(&self, host: &Host, access: Access) -> bool {
        self.reservations.may(host, access)
    }
}

impl Queue {
    pub(super) fn new(
        controller: Arc<Controller>,
        id: u16,
        entries: u32,
        open: Vec<OpenNamespace>,
    ) -> Queue {
        let epoch = controller.epoch();
        let host = Host::new(&controller.host().id);
        Queue {
            controller,
            host,
            id,
            entries,
            head: 0,
            has_flow_control: true,
            epoch,
            command_ids: CommandIds::default(),
            open,
            fused: Fused::default(),
            operations: Arc::default(),
            work: Work::default(),
            tally: Tally::default(),
            admin: None,
        }
    }

    pub(super) fn is_admin(&self) -> bool {
        self.id == 0
    }

    /// Counts a command that was received.
    #[inline]
    pub(super) fn count_command(&mut self) {
        self.head += 1;
        if self.head == self.entries {
            self.head = 0;
        }
    }

    /// Returns whether commands of this queue are no longer carried out.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        // The admin queue outlives a reset of the controller.
        self.controller.is_ended() || !self.is_admin() && self.epoch != self.controller.epoch()
    }

    /// Returns the namespace with this number.
    #[inline]
    pub(super) fn namespace(&self, id: u32) -> Option<&OpenNamespace> {
        self.open.iter().find(|namespace| namespace.id == id)
    }

    pub(super) fn namespaces(&self) -> impl Iterator<Item = &OpenNamespace> {
        self.open.iter()
    }

    /// Adds what was done to the controller's.
    pub(super) fn report_work(&mut self) {
        let work = std::mem::take(&mut self.work);
        if work != Work::default() {
            self.controller.add_work(&work);
        }
    }
}
