//! The caller of a request. On the Unix socket the kernel names the user, and every user who can
//! open the socket may do everything. Over TCP a token names the caller and the caller's role.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use everglade_api::openapi::Role;
use everglade_api::{Moment, Outcome, Problem, Remembered};

use super::keys::Ticket;
use crate::records::{Deed, Records};

/// The caller of a request, and its permissions.
#[derive(Clone)]
pub(crate) struct Caller {
    /// Name in the history: `uid 0 (root)`, `token backup`.
    pub(super) name: String,
    pub(super) role: Role,
    /// The request's idempotency key, if it has one.
    pub(super) ticket: Option<Arc<Ticket>>,
}

impl Caller {
    /// Returns the caller for a process of this host that could open the socket.
    pub(super) fn local(uid: u32) -> Caller {
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let name = match user_name(&passwd, uid) {
            Some(name) => format!("uid {uid} ({name})"),
            None => format!("uid {uid}"),
        };
        Caller {
            name,
            role: Role::Admin,
            ticket: None,
        }
    }

    /// Returns the owner of the socket, for a process of this host that the kernel does not
    /// identify.
    pub(super) fn owner() -> Caller {
        let uid = fs::metadata("/proc/self").map_or(0, |metadata| metadata.uid());
        Caller::local(uid)
    }

    /// Returns an anonymous caller, for requests that need no permission.
    pub(super) fn nobody() -> Caller {
        Caller {
            name: "anybody".to_owned(),
            role: Role::ReadOnly,
            ticket: None,
        }
    }

    /// Returns anybody at this machine, for the console without a token.
    pub(super) fn console(role: Role) -> Caller {
        Caller {
            name: "console on the loopback".to_owned(),
            role,
            ticket: None,
        }
    }

    /// Returns the holder of a token.
    pub(super) fn token(name: &str, role: Role) -> Caller {
        Caller {
            name: format!("token {name}"),
            role,
            ticket: None,
        }
    }

    /// Records a change that this caller requested, and settles its key. The thread that made the
    /// change calls this, also if the client has disconnected.
    pub(super) fn remember(&self, records: &Records, now: Moment, deed: &Deed) {
        let keyed = self.ticket.as_deref().map(Ticket::keyed);
        let change = records.remember_keyed(now, &self.name, deed, keyed);
        if let Some(ticket) = &self.ticket {
            ticket.made(Remembered::of(&change));
        }
    }

    /// Notes with the key that the outcome of the change is unknown.
    pub(super) fn note_problem(&self, problem: &Problem) {
        if let (Some(ticket), Some(Outcome::Unknown)) = (&self.ticket, problem.outcome) {
            ticket.unknown(problem);
        }
    }
}

/// Finds a user's name: the third field of a line is the number, the first the name.
fn user_name(passwd: &str, uid: u32) -> Option<&str> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let found: u32 = fields.nth(1)?.parse().ok()?;
        let is_plain = name.len() <= 64 && name.chars().all(|c| c.is_ascii_graphic());
        (found == uid && is_plain).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_name_of_the_table() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\n:::\nbob:x:1000:1000::/home/bob:\n";
        assert_eq!(user_name(passwd, 0), Some("root"));
        assert_eq!(user_name(passwd, 1000), Some("bob"));
        assert_eq!(user_name(passwd, 7), None);
        assert_eq!(user_name("\u{1b}[2J:x:7:", 7), None);
    }
}
