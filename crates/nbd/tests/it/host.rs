//! NBD over loopback TCP, with the model as the target.

#[path = "../../../target/tests/support/server.rs"]
mod server;

use everglade_nbd::{Session, Settings};
use everglade_target::model::Model;

use server::Server;

/// A running server.
pub(crate) struct Host(Server);

impl Host {
    pub(crate) fn start(model: Model) -> Self {
        Host(Server::start::<Session>(model, Settings::default()))
    }

    pub(crate) fn uri(&self, export: &str) -> String {
        format!("nbd://{}/{export}", self.0.address)
    }

    /// Ends all sessions and returns the stored data.
    pub(crate) fn stop(self) -> Model {
        self.0.stop()
    }
}
