//! Sessions of any protocol, with the model as their target.

use everglade_target::model::Model;
use everglade_target::sessions::{Session, SessionId, Sessions};

use super::streams::{Count, Piece};

/// Sessions, their target, and perhaps a second reactor.
pub(super) struct World<S: Session> {
    pub(super) sessions: Sessions<S>,
    /// The table that a session moves to when it asks where it is to be. Without one it stays.
    pub(super) other: Option<Sessions<S>>,
    pub(super) model: Model,
}

impl<S: Session> World<S> {
    /// Sends bytes on a connection, everything that the session says being taken at once. Returns
    /// the session's number, which is another one after a move.
    pub(super) fn send(&mut self, mut id: SessionId, bytes: &[u8], is_last: bool) -> SessionId {
        let mut stream = Piece { bytes, is_last };
        for _ in 0..100_000 {
            let before = stream.bytes.len();
            self.sessions.receive(id, &mut stream, &mut self.model);
            let polled = self.sessions.poll(&mut self.model);
            let mut said = Count(0);
            self.sessions.transmit(id, &mut said, &mut self.model);
            let is_asking = self.sessions.interest(id).home;
            if is_asking && let Some(other) = &mut self.other {
                let moving = self.sessions.release(id);
                std::mem::swap(&mut self.sessions, other);
                let adopted = self.sessions.adopt(0, moving, &mut self.model);
                id = adopted.expect("a place");
            } else if is_asking {
                self.sessions.stay_here(id, &mut self.model);
            }
            let is_moving = is_asking || before != stream.bytes.len() || polled > 0;
            if self.sessions.interest(id).closed || !is_moving && said.0 == 0 {
                break;
            }
        }
        id
    }

    /// Takes the socket away, after which the session must end.
    pub(super) fn end(&mut self, id: SessionId) {
        self.sessions.abandon(id, &mut self.model);
        self.sessions.poll(&mut self.model);
        assert!(
            self.sessions.interest(id).closed,
            "a session without a socket ends"
        );
        self.sessions.detach(id);
    }
}
