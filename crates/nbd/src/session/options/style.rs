//! `NBD_OPT_STRUCTURED_REPLY` and `NBD_OPT_EXTENDED_HEADERS` (proto "Option types", and its
//! extension `EXTENDED_HEADERS`): the style of headers and replies.

use super::super::terms::Style;
use super::{Haggling, acknowledge, refuse};
use crate::wire::option::{options, replies};

impl Haggling {
    pub(super) fn use_structured(&mut self, data: &[u8]) -> Vec<u8> {
        let option = options::STRUCTURED_REPLY;
        if !data.is_empty() {
            return refuse(
                option,
                replies::ERR_INVALID,
                "STRUCTURED_REPLY takes no data",
            );
        }
        match self.style {
            Style::Simple => {
                self.style = Style::Structured;
                acknowledge(option)
            }
            Style::Structured => refuse(
                option,
                replies::ERR_INVALID,
                "structured replies were negotiated already",
            ),
            // Extended headers take precedence.
            Style::Extended => refuse(
                option,
                replies::ERR_EXT_HEADER_REQD,
                "extended headers were negotiated already",
            ),
        }
    }

    pub(super) fn use_extended(&mut self, data: &[u8]) -> Vec<u8> {
        let option = options::EXTENDED_HEADERS;
        if !data.is_empty() {
            return refuse(
                option,
                replies::ERR_INVALID,
                "EXTENDED_HEADERS takes no data",
            );
        }
        if self.style == Style::Extended {
            let text = "extended headers were negotiated already";
            return refuse(option, replies::ERR_INVALID, text);
        }
        self.style = Style::Extended;
        acknowledge(option)
    }
}
