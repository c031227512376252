//! Numbers of commands and statuses, and the messages that carry them (RFC 7143 §4.2.2).
//!
//! A command's number tells its place in the order of commands. The target tells which number comes
//! next and which is the last allowed: the *window*. It opens as commands end and never closes, so
//! an initiator that follows the rules is never refused for lack of room.

use everglade_target::sessions::memory::{Class, Reservation};

use super::outgoing::{Data, Digests, Outgoing};
use crate::wire::response::{Numbers, Response};

/// What a command's number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// It is the next.
    Next,
    /// It is outside of the window: ignored without a word.
    Outside,
    /// Numbers before it are missing. One connection cannot lose messages.
    Gap,
}

/// The sending side of a connection.
#[derive(Default)]
pub(super) struct Link {
    pub(super) outgoing: Outgoing,
    pub(super) digests: Digests,
    stat_sn: u32,
    exp_cmd_sn: u32,
    max_cmd_sn: u32,
}

impl Link {
    /// Begins with the numbers of the first login request.
    pub(super) fn begin(&mut self, cmd_sn: u32, stat_sn: u32) {
        self.exp_cmd_sn = cmd_sn;
        self.max_cmd_sn = cmd_sn;
        self.stat_sn = stat_sn;
    }

    /// Returns what a command's number says.
    pub(super) fn order(&self, cmd_sn: u32) -> Order {
        let ahead = cmd_sn.wrapping_sub(self.exp_cmd_sn);
        // Serial numbers: what is more than half of all numbers ahead is behind.
        let window = self
            .max_cmd_sn
            .wrapping_sub(self.exp_cmd_sn)
            .wrapping_add(1);
        match ahead {
            0 if window > 0 && window < 1 << 31 => Order::Next,
            ahead if ahead < window && window < 1 << 31 => Order::Gap,
            _ => Order::Outside,
        }
    }

    /// Takes the next command.
    pub(super) fn advance(&mut self) {
        self.exp_cmd_sn = self.exp_cmd_sn.wrapping_add(1);
    }

    /// Opens the window to this number of commands.
    pub(super) fn open_window(&mut self, room: u32) {
        let last = self.exp_cmd_sn.wrapping_add(room).wrapping_sub(1);
        if last.wrapping_sub(self.max_cmd_sn) < 1 << 31 {
            self.max_cmd_sn = last;
        }
    }

    /// Queues a message that holds no memory.
    pub(super) fn send(&mut self, response: &Response, data: Data) {
        self.send_holding(response, data, Reservation::none(Class::Small), true);
    }

    /// Queues a message. `held` is charged until it is sent; `is_answer` says that it ends a
    /// request.
    pub(super) fn send_holding(
        &mut self,
        response: &Response,
        data: Data,
        held: Reservation,
        is_answer: bool,
    ) {
        let bhs = response.encode(Numbers {
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn,
        });
        if response.advances() {
            self.stat_sn = self.stat_sn.wrapping_add(1);
        }
        self.outgoing.push(bhs, data, self.digests, held, is_answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_behind_the_largest() {
        let mut link = Link::default();
        link.begin(u32::MAX - 1, 5);
        link.open_window(4);
        for number in [u32::MAX - 1, u32::MAX, 0, 1] {
            assert_eq!(link.order(number), Order::Next);
            link.advance();
        }
        assert_eq!(link.order(2), Order::Outside, "the window is closed");
        link.open_window(2);
        assert_eq!((link.order(3), link.order(4)), (Order::Gap, Order::Outside));
        assert_eq!(link.order(1), Order::Outside, "it was there before");
        link.open_window(1);
        assert_eq!(link.order(3), Order::Gap, "a window never closes");
    }
}
