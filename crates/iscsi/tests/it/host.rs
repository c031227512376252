//! iSCSI over loopback TCP, with the model as the target.

#[path = "../../../target/tests/support/server.rs"]
mod server;

use everglade_iscsi::{Session, Settings, names};
use everglade_target::model::Model;

use server::Server;

/// A running target.
pub(crate) struct Host(Server);

impl Host {
    pub(crate) fn start(model: Model, settings: Settings) -> Self {
        Host(Server::start::<Session>(model, settings))
    }

    pub(crate) fn url(&self, export: &str) -> String {
        let target = names::target_name(export).unwrap();
        format!("iscsi://{}/{target}/0", self.0.address)
    }

    /// Ends all sessions and returns the stored data.
    pub(crate) fn stop(self) -> Model {
        self.0.stop()
    }
}
