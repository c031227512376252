//! From the name that a client sends to an open LUN, or to a text that gives the reason for a
//! refusal.

use everglade_target::{Error, Export, LunHandle, Target};

use super::terms::Style;
use crate::wire::handshake::{ExportParameters, transmission_flags as flags};
use crate::wire::option::replies;

/// Names listed in an error text; with the longest names this stays below the 4,096 bytes a text
/// may have.
const NAMES_SHOWN_MAX: usize = 12;
/// Characters of a client's name for an export that a message repeats.
const ASKED_SHOWN_MAX: usize = 128;

/// An export opened for one session.
pub(super) struct OpenExport {
    pub(super) lun: LunHandle,
    pub(super) export: Export,
}

/// The reasons why an export cannot be opened.
pub(super) struct Refusal {
    /// [`replies`].
    pub(super) kind: u32,
    /// Text for people.
    pub(super) text: String,
}

impl OpenExport {
    /// Opens the export called `name`; the empty name means the only one there is.
    pub(super) fn open(name: &str, target: &mut dyn Target) -> Result<Self, Refusal> {
        let name = if name.is_empty() {
            only_export(target)?
        } else {
            name.to_owned()
        };
        match target.open(&name) {
            Ok((lun, export)) => Ok(OpenExport { lun, export }),
            Err(Error::NotFound(_)) => Err(unknown(&name, target)),
            Err(Error::Gone) => Err(Refusal {
                kind: replies::ERR_SHUTDOWN,
                text: "the export is going away".to_owned(),
            }),
            Err(error) => Err(Refusal {
                kind: replies::ERR_UNKNOWN,
                text: error.to_string(),
            }),
        }
    }

    /// Returns the size and the flags of the export, in the reply's form.
    pub(super) fn parameters(&self, style: Style) -> ExportParameters {
        // A flush covers all sessions (contract 3 of `everglade_target`), so several connections
        // may share the work.
        let always = flags::HAS_FLAGS
            | flags::SEND_FLUSH
            | flags::SEND_FUA
            | flags::SEND_TRIM
            | flags::SEND_WRITE_ZEROES
            | flags::CAN_MULTI_CONN
            | flags::SEND_CACHE
            | flags::SEND_FAST_ZERO;
        let chunks = if style.has_chunks() {
            flags::SEND_DF
        } else {
            0
        };
        let read_only = if self.export.read_only {
            flags::READ_ONLY
        } else {
            0
        };
        ExportParameters {
            size_bytes: self.export.size_bytes,
            flags: always | chunks | read_only,
        }
    }
}

fn only_export(target: &dyn Target) -> Result<String, Refusal> {
    let mut exports = target.exports();
    if let [_] = exports[..] {
        return Ok(exports.remove(0).name);
    }
    let text = if exports.is_empty() {
        "there is no LUN yet".to_owned()
    } else {
        format!(
            "name an export, there is more than one: {}",
            names(&exports)
        )
    };
    Err(Refusal {
        kind: replies::ERR_UNKNOWN,
        text,
    })
}

fn unknown(name: &str, target: &dyn Target) -> Refusal {
    let asked: String = name.chars().take(ASKED_SHOWN_MAX).collect();
    let exports = target.exports();
    let instead = if exports.is_empty() {
        "there is no LUN yet".to_owned()
    } else {
        format!("there is {}", names(&exports))
    };
    Refusal {
        kind: replies::ERR_UNKNOWN,
        text: format!("no export {asked:?}; {instead}"),
    }
}

fn names(exports: &[Export]) -> String {
    let shown: Vec<&str> = exports
        .iter()
        .take(NAMES_SHOWN_MAX)
        .map(|e| e.name.as_str())
        .collect();
    match exports.len().saturating_sub(NAMES_SHOWN_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
