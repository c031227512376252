//! Keys that initiator and target negotiate (RFC 7143 §13), and their outcome.
//!
//! | kind | what | answer |
//! | --- | --- | --- |
//! | declaration | one side says what it is | none |
//! | list | the offers, best first | the first that we know, else `Reject` |
//! | Boolean | `AND` or `OR` of both sides | the outcome |
//! | number | the smaller or the larger of both sides | the outcome |
//!
//! A key that is not offered keeps its default, which is what RFC 7143 says and not what we would
//! like.

use crate::wire::text::number;

/// Data bytes that we take in one message. Data of writes is received in place, so long messages
/// cost nothing.
pub const SEGMENT_BYTES_MAX: u32 = 1 << 20;
/// Bytes of one sequence of data that we accept or ask for.
const MAX_BURST_BYTES: u32 = 1 << 20;
/// Bytes of data that an initiator may send before it is asked.
const FIRST_BURST_BYTES: u32 = 256 << 10;
/// Requests for data of one command at a time.
const OUTSTANDING_R2T_MAX: u32 = 8;
/// Seconds that an initiator waits before it connects again.
const TIME_TO_WAIT: u32 = 2;
/// Smallest and largest number of bytes that RFC 7143 allows in lengths.
const BYTES_RANGE: (u32, u32) = (512, (1 << 24) - 1);

/// The outcome of the negotiation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Headers have digests.
    pub header_digest: bool,
    /// Data has digests.
    pub data_digest: bool,
    /// Data bytes that the initiator takes in one message.
    pub initiator_segment_bytes: u32,
    /// Bytes of a sequence of data.
    pub max_burst_bytes: u32,
    /// Bytes that may be sent before they are asked for.
    pub first_burst_bytes: u32,
    /// Only data in the command's own message may be sent before it is asked for.
    pub initial_r2t: bool,
    /// The command's own message may have data.
    pub immediate_data: bool,
    /// Requests for data of one command at a time.
    pub outstanding_r2t_max: u32,
}

impl Default for Parameters {
    /// What RFC 7143 says of a session in which nothing was negotiated.
    fn default() -> Self {
        Parameters {
            header_digest: false,
            data_digest: false,
            initiator_segment_bytes: 8192,
            max_burst_bytes: 256 << 10,
            first_burst_bytes: 64 << 10,
            initial_r2t: true,
            immediate_data: true,
            outstanding_r2t_max: 1,
        }
    }
}

/// The answer to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The key was a declaration.
    None,
    /// This is the outcome.
    Value(String),
}

impl Answer {
    fn reject() -> Answer {
        Answer::Value("Reject".to_owned())
    }

    fn boolean(value: bool) -> Answer {
        Answer::Value(if value { "Yes" } else { "No" }.to_owned())
    }
}

impl Parameters {
    /// Takes an offer or a declaration of the initiator, and returns what to answer.
    pub fn negotiate(&mut self, key: &str, value: &str) -> Answer {
        match key {
            "HeaderDigest" => digest(&mut self.header_digest, value),
            "DataDigest" => digest(&mut self.data_digest, value),
            "MaxRecvDataSegmentLength" => match in_range(value, BYTES_RANGE) {
                Some(bytes) => {
                    self.initiator_segment_bytes = bytes;
                    Answer::None
                }
                None => Answer::reject(),
            },
            "MaxBurstLength" => smaller(
                &mut self.max_burst_bytes,
                value,
                BYTES_RANGE,
                MAX_BURST_BYTES,
            ),
            "FirstBurstLength" => {
                let most = FIRST_BURST_BYTES;
                smaller(&mut self.first_burst_bytes, value, BYTES_RANGE, most)
            }
            "MaxOutstandingR2T" => {
                let most = OUTSTANDING_R2T_MAX;
                smaller(&mut self.outstanding_r2t_max, value, (1, 65535), most)
            }
            // We take data before we ask if the initiator likes to send it.
            "InitialR2T" => either(&mut self.initial_r2t, value, |offered| offered),
            "ImmediateData" => either(&mut self.immediate_data, value, |offered| offered),
            "MaxConnections" => smaller(&mut 0, value, (1, 65535), 1),
            "ErrorRecoveryLevel" => smaller(&mut 0, value, (0, 2), 0),
            "DefaultTime2Retain" => smaller(&mut 0, value, (0, 3600), 0),
            "DefaultTime2Wait" => match in_range(value, (0, 3600)) {
                Some(seconds) => Answer::Value(seconds.max(TIME_TO_WAIT).to_string()),
                None => Answer::reject(),
            },
            // Data arrives in order, whatever the initiator would be able to do.
            "DataPDUInOrder" | "DataSequenceInOrder" => either(&mut true, value, |_| true),
            // Markers are no more; `No` is what RFC 7143 §13.25 asks for.
            "IFMarker" | "OFMarker" => either(&mut false, value, |_| false),
            "IFMarkInt" | "OFMarkInt" => Answer::reject(),
            "RDMAExtensions" => either(&mut false, value, |_| false),
            "TaskReporting" => first_of(value, &["RFC3720"]),
            // RFC 7144: level 1 is RFC 7143 itself.
            "iSCSIProtocolLevel" => smaller(&mut 0, value, (0, 31), 1),
            "InitiatorRecvDataSegmentLength" | "TargetRecvDataSegmentLength" => {
                Answer::Value("Irrelevant".to_owned())
            }
            // These say something about the initiator.
            "InitiatorName" | "InitiatorAlias" | "SessionType" | "TargetName" => Answer::None,
            _ => Answer::Value("NotUnderstood".to_owned()),
        }
    }

    /// Returns the bytes that may be sent before they are asked for. The two lengths are negotiated
    /// apart from each other, and the longer is worth nothing.
    #[must_use]
    pub fn unsolicited_bytes(&self) -> u32 {
        self.first_burst_bytes.min(self.max_burst_bytes)
    }
}

/// A list of digests.
fn digest(has_digest: &mut bool, value: &str) -> Answer {
    let answer = first_of(value, &["CRC32C", "None"]);
    if let Answer::Value(chosen) = &answer {
        *has_digest = chosen == "CRC32C";
    }
    answer
}

/// The first of the offers that is among `ours`.
pub(super) fn first_of(offers: &str, ours: &[&str]) -> Answer {
    let mut offers = offers.split(',');
    match offers.find(|offer| ours.contains(offer)) {
        Some(offer) => Answer::Value(offer.to_owned()),
        None => Answer::reject(),
    }
}

fn in_range(value: &str, (least, most): (u32, u32)) -> Option<u32> {
    let value = u32::try_from(number(value)?).ok()?;
    (least..=most).contains(&value).then_some(value)
}

/// A number of which the smaller side wins.
fn smaller(outcome: &mut u32, value: &str, range: (u32, u32), most: u32) -> Answer {
    match in_range(value, range) {
        Some(offered) => {
            *outcome = offered.min(most);
            Answer::Value(outcome.to_string())
        }
        None => Answer::reject(),
    }
}

/// A Boolean, of which `joined` makes the outcome.
fn either(outcome: &mut bool, value: &str, joined: impl Fn(bool) -> bool) -> Answer {
    let offered = match value {
        "Yes" => true,
        "No" => false,
        _ => return Answer::reject(),
    };
    *outcome = joined(offered);
    Answer::boolean(*outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers to each key: usual offers, extreme offers, nonsense.
    #[test]
    fn every_key_of_the_standard_has_its_answer() {
        let answers = [
            ("HeaderDigest", "CRC32C,None", "CRC32C"),
            ("DataDigest", "None,CRC32C", "None"),
            ("DataDigest", "SHA-1,CRC32C", "CRC32C"),
            ("DataDigest", "SHA-1", "Reject"),
            ("MaxRecvDataSegmentLength", "262144", ""),
            ("MaxRecvDataSegmentLength", "511", "Reject"),
            ("MaxRecvDataSegmentLength", "16777216", "Reject"),
            ("MaxBurstLength", "16776192", "1048576"),
            ("MaxBurstLength", "0x1000", "4096"),
            ("FirstBurstLength", "16777215", "262144"),
            ("FirstBurstLength", "x", "Reject"),
            ("MaxOutstandingR2T", "1", "1"),
            ("MaxOutstandingR2T", "0", "Reject"),
            ("MaxOutstandingR2T", "65535", "8"),
            ("InitialR2T", "No", "No"),
            ("InitialR2T", "Yes", "Yes"),
            ("InitialR2T", "yes", "Reject"),
            ("ImmediateData", "No", "No"),
            ("MaxConnections", "8", "1"),
            ("ErrorRecoveryLevel", "2", "0"),
            ("ErrorRecoveryLevel", "3", "Reject"),
            ("DefaultTime2Retain", "20", "0"),
            ("DefaultTime2Wait", "0", "2"),
            ("DefaultTime2Wait", "3600", "3600"),
            ("DataPDUInOrder", "No", "Yes"),
            ("DataSequenceInOrder", "Yes", "Yes"),
            ("IFMarker", "Yes", "No"),
            ("OFMarkInt", "1~2", "Reject"),
            ("TaskReporting", "ResponseFence,RFC3720", "RFC3720"),
            ("iSCSIProtocolLevel", "2", "1"),
            ("iSCSIProtocolLevel", "0", "0"),
            ("RDMAExtensions", "Yes", "No"),
            ("TargetRecvDataSegmentLength", "8192", "Irrelevant"),
            ("InitiatorAlias", "me", ""),
            ("X-com.example.key", "1", "NotUnderstood"),
            ("Nonsense", "", "NotUnderstood"),
        ];
        for (key, offer, expected) in answers {
            let answer = match Parameters::default().negotiate(key, offer) {
                Answer::None => String::new(),
                Answer::Value(value) => value,
            };
            assert_eq!(answer, expected, "{key}={offer}");
        }
    }

    #[test]
    fn a_refused_offer_leaves_the_default() {
        let mut parameters = Parameters::default();
        for (key, offer) in [
            ("MaxBurstLength", "0"),
            ("InitialR2T", "maybe"),
            ("HeaderDigest", "MD5"),
        ] {
            parameters.negotiate(key, offer);
        }
        assert_eq!(parameters, Parameters::default());
        parameters.negotiate("MaxBurstLength", "512");
        assert_eq!(parameters.unsolicited_bytes(), 512, "the shorter counts");
    }
}
