//! Data of writes (RFC 7143 §11.7, §11.8): with the command, without being asked for, asked for.
//!
//! Data comes in order: `DataPDUInOrder` and `DataSequenceInOrder` are negotiated so. So the place
//! of a message's data is where the data before it ends, and any other place is an error. Data
//! for a task that does not exist (any more) is dropped: a task may end before its data.

use super::super::segment::Dest;
use super::task::ReadyToTransfer;
use super::{Admission, Cx, Full, skip_if_short};
use crate::scsi::Sense;
use crate::wire::header::{Header, NO_TAG};
use crate::wire::response::Response;
use crate::wire::{Bhs, Request, request};
use everglade_target::sessions::memory::{Class, Reservation};

use super::super::outgoing::Data;

impl Full {
    /// Decides about data whose header has arrived.
    pub(super) fn data_out(
        &mut self,
        data: &request::DataOut,
        header: &Header,
        cx: &mut Cx<'_>,
    ) -> Admission {
        let length = header.data_bytes;
        let Some(id) = self.tasks.by_tag(data.itt) else {
            return skip_if_short(header);
        };
        let limit = cx.parameters.unsolicited_bytes();
        let task = self.tasks.get_mut(id);
        if task.is_aborted || !task.has_memory || task.work.is_some() {
            return skip_if_short(header);
        }
        let end = u64::from(task.received) + u64::from(length);
        let is_next = data.offset == task.received;
        let fits = if data.ttt == NO_TAG {
            let is_agreed = task.unsolicited && end <= u64::from(limit.min(task.expected));
            is_agreed && data.data_sn == task.data_sn
        } else {
            task.r2ts.front().is_some_and(|asked| {
                let is_expected = (asked.ttt, asked.data_sn) == (data.ttt, data.data_sn);
                // The last message of a sequence completes it, and no other does.
                let is_right = match data.is_final {
                    true => length == asked.left,
                    false => length < asked.left,
                };
                is_expected && is_right
            })
        };
        if !is_next || !fits {
            self.end(id, Err(Sense::DATA_PHASE_ERROR), cx);
            return skip_if_short(header);
        }
        task.is_receiving = true;
        let left = task.keep.saturating_sub(task.received);
        Admission::Receive(Dest::Task {
            id,
            at: task.received,
            keep: length.min(left),
            length,
        })
    }

    /// Takes the data of a message.
    pub(super) fn data_arrived(
        &mut self,
        id: usize,
        bhs: &Bhs,
        length: u32,
        is_intact: bool,
        cx: &mut Cx<'_>,
    ) {
        let task = self.tasks.get_mut(id);
        task.is_receiving = false;
        task.received += length;
        task.touched = cx.metrics.now();
        match Request::parse(bhs) {
            Some(Request::DataOut(data)) if data.ttt == NO_TAG => {
                task.data_sn = task.data_sn.wrapping_add(1);
                task.unsolicited = !data.is_final;
            }
            Some(Request::DataOut(_)) => {
                let asked = task.r2ts.front_mut().expect("it was asked for");
                asked.left -= length;
                asked.data_sn = asked.data_sn.wrapping_add(1);
                if asked.left == 0 {
                    task.r2ts.pop_front();
                }
            }
            _ => {}
        }
        if task.is_aborted {
            self.drop_task(id, cx);
        } else if !is_intact {
            self.end(id, Err(Sense::DIGEST_ERROR), cx);
        } else {
            self.progress(id, cx);
        }
    }

    /// Goes on with a task that has its memory: asks for data, or begins to work.
    pub(super) fn progress(&mut self, id: usize, cx: &mut Cx<'_>) {
        let task = self.tasks.get_mut(id);
        if !task.awaits_data() {
            return self.run(id, cx);
        }
        if task.unsolicited || task.is_receiving {
            return;
        }
        task.asked = task.asked.max(task.received);
        let most = cx.parameters.outstanding_r2t_max as usize;
        while task.asked < task.keep && task.r2ts.len() < most {
            self.ttts = self.ttts.wrapping_add(1) % NO_TAG;
            let length = (task.keep - task.asked).min(cx.parameters.max_burst_bytes);
            let response = Response::ReadyToTransfer {
                lun: task.lun,
                itt: task.itt,
                ttt: self.ttts,
                r2t_sn: task.r2t_count,
                offset: task.asked,
                length,
            };
            task.r2ts.push_back(ReadyToTransfer {
                ttt: self.ttts,
                left: length,
                data_sn: 0,
            });
            task.r2t_count += 1;
            task.asked += length;
            let none = Reservation::none(Class::Small);
            cx.link.send_holding(&response, Data::None, none, false);
        }
    }
}
