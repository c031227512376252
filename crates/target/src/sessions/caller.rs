//! The client of a session, and what depends on it: whether the connection must be encrypted first,
//! and which exports the client may use.

use core::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use crate::{Completion, Error, Export, Image, LunHandle, Op, Target, Token};

/// Whether a connection may or must switch to TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// There is no TLS.
    #[default]
    Off,
    /// The client decides; no export needs TLS.
    Offered,
    /// The client must begin TLS before all other requests.
    Required,
}

/// Decides which exports a caller may see. Other exports do not exist for the caller.
pub trait AllowList: Send + Sync {
    /// Returns whether a client may use an export, or an image of one: `export` is the name to open
    /// it by, and `lun` the UUID of the LUN that it is or is an image of. The client may have
    /// opened it long ago under that name.
    fn allows(&self, export: &str, lun: &[u8; 16], caller: &Caller) -> bool;
}

/// The client at the other end of a connection.
#[derive(Clone, Default)]
pub struct Caller {
    /// Its address; `None` for a local socket.
    pub address: Option<IpAddr>,
    /// Our address that it connected to; `None` for a local socket.
    pub local: Option<SocketAddr>,
    /// Names in the client's certificate; set before its first encrypted bytes reach the session.
    pub names: Arc<OnceLock<Vec<String>>>,
    /// The name by which a client of iSCSI or NVMe/TCP has introduced itself: its IQN or NQN.
    pub host: Option<String>,
    /// Whether the client may or must encrypt.
    pub tls: TlsMode,
    /// The list of exports that the client may see; `None` for all.
    pub allow_list: Option<Arc<dyn AllowList>>,
}

impl Caller {
    /// Returns whether the client may see an export, or an image of one; see
    /// [`AllowList::allows`].
    #[must_use]
    pub fn allows(&self, export: &str, lun: &[u8; 16]) -> bool {
        let list = self.allow_list.as_ref();
        list.is_none_or(|list| list.allows(export, lun, self))
    }
}

/// The target restricted to the exports that a caller may see.
pub struct Allowed<'a> {
    /// The unrestricted target.
    pub target: &'a mut dyn Target,
    /// The caller.
    pub caller: &'a Caller,
}

impl Target for Allowed<'_> {
    fn exports(&self) -> Vec<Export> {
        let mut exports = self.target.exports();
        exports.retain(|export| self.caller.allows(&export.name, &export.lun_uuid));
        exports
    }

    fn images(&self, name: &str) -> Vec<Image> {
        let mut images = self.target.images(name);
        images.retain(|image| self.caller.allows(&image.export, &image.lun_uuid));
        images
    }

    fn open(&mut self, name: &str) -> Result<(LunHandle, Export), Error> {
        let (lun, export) = self.target.open(name)?;
        if self.caller.allows(&export.name, &export.lun_uuid) {
            return Ok((lun, export));
        }
        self.target.close(lun);
        Err(Error::NotFound(name.to_owned()))
    }

    fn close(&mut self, lun: LunHandle) {
        self.target.close(lun);
    }

    fn size_bytes(&self, lun: LunHandle) -> Option<u64> {
        self.target.size_bytes(lun)
    }

    fn submit(&mut self, lun: LunHandle, op: Op, token: Token) {
        self.target.submit(lun, op, token);
    }

    fn expect_reads(&mut self, lun: LunHandle, reads: &[(u64, u32)]) {
        self.target.expect_reads(lun, reads);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.target.poll(done);
    }
}
