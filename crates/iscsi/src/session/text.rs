//! Text requests: which targets there are (RFC 7143 §11.10, appendix C).
//!
//! ```text
//! SendTargets=All      all targets that the caller may see; in discovery sessions only
//! SendTargets=NAME     that target
//! SendTargets=         the session's own target
//! ```
//!
//! An answer that is longer than what the initiator takes at once goes out in parts: the initiator
//! asks for the rest with our tag. There is at most one unfinished answer.

use core::net::{IpAddr, SocketAddr};

use everglade_target::Target;
use everglade_target::sessions::Caller;

use super::link::Link;
use super::outgoing::Data;
use crate::login::{PORTAL_GROUP, Parameters};
use crate::names;
use crate::wire::header::NO_TAG;
use crate::wire::request;
use crate::wire::response::Response;
use crate::wire::text;

/// Longest text request, over all its parts.
pub(super) const TEXT_BYTES_MAX: usize = 16 << 10;

/// The state of text requests.
#[derive(Default)]
pub(super) struct Exchange {
    /// A request that goes on.
    asked: Vec<u8>,
    /// The rest of an answer, and the tag to ask for it.
    rest: Option<(u32, Vec<u8>)>,
    tags: u32,
}

/// Who asks, and what for.
pub(super) struct Asker<'a> {
    pub(super) caller: &'a Caller,
    /// The target of the session; `None` in a discovery session.
    pub(super) own: Option<&'a str>,
    pub(super) parameters: &'a mut Parameters,
    /// Exports that the caller may see.
    pub(super) target: &'a dyn Target,
}

/// The request makes no sense.
pub(super) struct Senseless;

impl Exchange {
    /// Answers a text request.
    pub(super) fn answer(
        &mut self,
        request: &request::Text,
        data: &[u8],
        asker: Asker<'_>,
        link: &mut Link,
    ) -> Result<(), Senseless> {
        let room = asker.parameters.initiator_segment_bytes as usize;
        let text = if request.ttt == NO_TAG {
            // A new request: the rest of another answer is not wanted any more.
            self.rest = None;
            self.asked.extend_from_slice(data);
            if self.asked.len() > TEXT_BYTES_MAX {
                return Err(Senseless);
            }
            if request.continues {
                self.send(request, Vec::new(), Some(NO_TAG), link);
                return Ok(());
            }
            let asked = std::mem::take(&mut self.asked);
            let pairs = text::parse(&asked).map_err(|_| Senseless)?;
            answers(&pairs, asker)
        } else {
            let is_known = |rest: &(u32, Vec<u8>)| rest.0 == request.ttt;
            self.rest.take().filter(is_known).ok_or(Senseless)?.1
        };
        let (now, later) = text.split_at(text.len().min(room));
        if later.is_empty() {
            self.send(request, now.to_vec(), None, link);
        } else {
            self.tags = (self.tags + 1) % NO_TAG;
            self.rest = Some((self.tags, later.to_vec()));
            self.send(request, now.to_vec(), Some(self.tags), link);
        }
        Ok(())
    }

    /// Queues an answer. With a tag of ours it goes on.
    fn send(&self, request: &request::Text, text: Vec<u8>, tag: Option<u32>, link: &mut Link) {
        let response = Response::Text {
            is_final: tag.is_none(),
            // Our text goes on, as opposed to the initiator's.
            continues: tag.is_some_and(|tag| tag != NO_TAG),
            lun: request.lun,
            itt: request.itt,
            ttt: match tag {
                // The initiator goes on; it needs a tag for that, too.
                Some(NO_TAG) => 0,
                Some(tag) => tag,
                None => NO_TAG,
            },
        };
        link.send(&response, Data::Bytes(text));
    }
}

fn answers(pairs: &[(String, String)], asker: Asker<'_>) -> Vec<u8> {
    let mut answers = Vec::new();
    let mut has_listed = false;
    for (key, value) in pairs {
        match key.as_str() {
            // One list in an answer, so that its length is bounded by the number of LUNs.
            "SendTargets" if std::mem::replace(&mut has_listed, true) => {
                text::push(&mut answers, key, "Reject");
            }
            "SendTargets" => match (value.as_str(), asker.own) {
                ("All", Some(_)) => text::push(&mut answers, key, "Reject"),
                ("All", None) => {
                    let exports = asker.target.exports();
                    let targets = exports.iter().filter_map(|it| names::target_name(&it.name));
                    targets.for_each(|target| push_target(&mut answers, &target, asker.caller));
                }
                ("", Some(own)) => push_target(&mut answers, own, asker.caller),
                (name, own) => {
                    let export = names::export_name(name);
                    let exports = asker.target.exports();
                    let is_there = |export: &String| exports.iter().any(|it| it.name == *export);
                    let target = export
                        .filter(is_there)
                        .and_then(|it| names::target_name(&it));
                    // A normal session learns of its own target only.
                    let target = target.filter(|it| own.is_none_or(|own| own == it));
                    if let Some(target) = target {
                        push_target(&mut answers, &target, asker.caller);
                    }
                }
            },
            // A declaration that may come at any time.
            "MaxRecvDataSegmentLength" => {
                asker.parameters.negotiate(key, value);
            }
            "InitiatorAlias" => {}
            "InitiatorName" | "SessionType" | "TargetName" => {
                text::push(&mut answers, key, "Reject");
            }
            _ => text::push(&mut answers, key, "NotUnderstood"),
        }
    }
    answers
}

/// Appends a target with the portal by which the caller came in, which is one that it can reach.
fn push_target(answers: &mut Vec<u8>, target: &str, caller: &Caller) {
    text::push(answers, "TargetName", target);
    if let Some(portal) = caller.local {
        let address = format!("{},{PORTAL_GROUP}", portal_text(portal));
        text::push(answers, "TargetAddress", &address);
    }
}

/// An address as RFC 7143 §13.8 writes it. An IPv4 client of a socket for both kinds sees IPv4.
fn portal_text(portal: SocketAddr) -> String {
    let ip = portal.ip().to_canonical();
    match ip {
        IpAddr::V4(ip) => format!("{ip}:{}", portal.port()),
        IpAddr::V6(ip) => format!("[{}]:{}", ip, portal.port()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portals_are_written_as_initiators_read_them() {
        for (portal, text) in [
            ("10.0.0.1:3260", "10.0.0.1:3260"),
            ("[::1]:3260", "[::1]:3260"),
            ("[::ffff:10.0.0.1]:99", "10.0.0.1:99"),
        ] {
            assert_eq!(portal_text(portal.parse().expect("an address")), text);
        }
    }
}
