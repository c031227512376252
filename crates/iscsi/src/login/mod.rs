//! The login phase (RFC 7143 §6): who connects, to what, on which terms.
//!
//! ```text
//! first request --identify--> security stage --CHAP--> operational stage --> full feature phase
//!      |                           |     (may be left out)    ^    |
//!      +---------------------------+--------------------------+    |
//!      any error: a response with the reason, then the end         v
//!                                        the caller opens the export, or refuses
//! ```
//!
//! A request is a header with a text. A text may be spread over several requests, each answered
//! with nothing. The stage changes when the initiator asks for it and nothing is missing.
//!
//! 1. Nothing is said about exports before the initiator proved who it is, if that is required.
//! 2. A key is negotiated once. The length of a login is bounded by the bytes of a text, by the
//!    number of requests and by the time limit of the table of sessions.

pub mod chap;
pub mod keys;

use crate::names;
use crate::wire::request;
use crate::wire::response::Response;
use crate::wire::text;
use chap::{Accounts, CHALLENGE_BYTES, Exchange, Failure};
use keys::Answer;
pub use keys::Parameters;

/// Stages.
const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL_FEATURE: u8 = 3;

/// Longest text of an initiator.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Longest text of ours: what an initiator takes before it says more.
const ANSWER_BYTES_MAX: usize = 8192;
/// Requests of one login; a login needs about four.
const REQUESTS_MAX: u32 = 32;
/// Our group of portals.
pub const PORTAL_GROUP: u16 = 1;

/// Reasons of refusals (RFC 7143 §11.13.5): class and detail.
pub mod status {
    /// All is well.
    pub const SUCCESS: (u8, u8) = (0, 0);
    /// The initiator made a mistake.
    pub const INITIATOR_ERROR: (u8, u8) = (2, 0);
    /// The initiator did not prove who it is.
    pub const NOT_AUTHENTICATED: (u8, u8) = (2, 1);
    /// There is no such target.
    pub const NOT_FOUND: (u8, u8) = (2, 3);
    /// The version is not known.
    pub const UNSUPPORTED_VERSION: (u8, u8) = (2, 5);
    /// The session has its connection.
    pub const TOO_MANY_CONNECTIONS: (u8, u8) = (2, 6);
    /// A key is missing.
    pub const MISSING_PARAMETER: (u8, u8) = (2, 7);
    /// There is no such kind of session.
    pub const UNKNOWN_SESSION_TYPE: (u8, u8) = (2, 9);
    /// There is no such session.
    pub const NO_SUCH_SESSION: (u8, u8) = (2, 10);
    /// The message is not allowed in a login.
    pub const NOT_A_LOGIN: (u8, u8) = (2, 11);
    /// The target made a mistake.
    pub const TARGET_ERROR: (u8, u8) = (3, 0);
    /// The target cannot serve now.
    pub const UNAVAILABLE: (u8, u8) = (3, 1);
}

/// Class and detail of an answer.
pub type Status = (u8, u8);

/// A login.
#[derive(Debug, Default)]
pub struct Login {
    text: Vec<u8>,
    begun: Option<Begun>,
    requests: u32,
    parameters: Parameters,
    /// Keys that were negotiated.
    seen: Vec<String>,
    security: Security,
    has_declared: bool,
}

/// What the first request said.
#[derive(Debug)]
struct Begun {
    stage: u8,
    isid: [u8; 6],
    cid: u16,
    itt: u32,
    initiator: String,
    /// The export; `None` for a discovery session.
    export: Option<String>,
}

#[derive(Debug, Default)]
enum Security {
    /// Nothing was said.
    #[default]
    Open,
    /// CHAP was chosen, and no algorithm yet.
    Chosen,
    /// Our challenge was sent.
    Challenged(Exchange),
    /// The initiator proved to be this one.
    Proved(String),
    /// Both sides agreed to do without.
    Without,
}

/// Answers whether the caller may see an export, when it has this name of an initiator: the name
/// comes first.
pub type Exists<'a> = &'a dyn Fn(&str, &str) -> bool;

/// What the steps of a login need from outside.
pub struct Outside<'a> {
    /// Who may log in; `None` if everybody may.
    pub accounts: Option<&'a Accounts>,
    /// Fresh random bytes.
    pub random: &'a dyn Fn() -> [u8; CHALLENGE_BYTES + 1],
    /// Answers whether the caller may see an export, if the owner of the session wants to be asked
    /// where the session is to be.
    pub asks_for_home: Option<Exists<'a>>,
}

/// The outcome of a login.
#[derive(Debug)]
pub struct Established {
    /// Name of the initiator, normalised.
    pub initiator: String,
    /// The initiator's part of the session's identity.
    pub isid: [u8; 6],
    /// Number of the connection.
    pub cid: u16,
    /// The export; `None` for a discovery session.
    pub export: Option<String>,
    /// Outcome of the negotiation.
    pub parameters: Parameters,
    /// The name that the initiator proved to have, for the log.
    pub proved: Option<String>,
}

/// The answer to a request.
#[derive(Debug)]
pub enum Step {
    /// This message, and the login goes on.
    Answer(Response, Vec<u8>),
    /// The owner of the session is to say where this export will be opened; then the same request
    /// again, without its text.
    AskForHome(String),
    /// The session may begin; then this message, with the session's number.
    Establish(Box<Established>, Response, Vec<u8>),
    /// This refusal ends the connection. The text is for the log.
    Refuse(Response, String),
}

struct Refusal(Status, String);

fn refused<T>(status: Status, text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(status, text.into()))
}

impl Login {
    /// Takes a request with its text.
    pub fn step(&mut self, request: &request::Login, data: &[u8], outside: &Outside<'_>) -> Step {
        match self.try_step(request, data, outside) {
            Ok(step) => step,
            Err(Refusal(status, text)) => Step::Refuse(refusal(request, status), text),
        }
    }

    /// Returns who logs in, for the log.
    #[must_use]
    pub fn initiator(&self) -> Option<&str> {
        self.begun.as_ref().map(|begun| begun.initiator.as_str())
    }

    fn try_step(
        &mut self,
        request: &request::Login,
        data: &[u8],
        outside: &Outside<'_>,
    ) -> Result<Step, Refusal> {
        self.check(request)?;
        self.text.extend_from_slice(data);
        if self.text.len() > TEXT_BYTES_MAX {
            return refused(status::INITIATOR_ERROR, "the text of the login is too long");
        }
        if request.continues {
            if request.transits {
                let text = "a text that goes on cannot end its stage";
                return refused(status::INITIATOR_ERROR, text);
            }
            return Ok(Step::Answer(answer(request, false, 0), Vec::new()));
        }
        let Ok(pairs) = text::parse(&self.text) else {
            return refused(status::INITIATOR_ERROR, "the text of the login is damaged");
        };
        if self.begun.is_none() {
            let begun = identify(request, &pairs)?;
            if let (Some(exists), Some(export)) = (outside.asks_for_home, &begun.export)
                && exists(&begun.initiator, export)
            {
                return Ok(Step::AskForHome(export.clone()));
            }
            self.begun = Some(begun);
        }
        self.text.clear();
        let mut answers = Vec::new();
        let begun = self.begun.as_ref().expect("it was identified");
        let (stage, is_normal) = (begun.stage, begun.export.is_some());
        if !std::mem::replace(&mut self.has_declared, true) && is_normal {
            let group = PORTAL_GROUP.to_string();
            text::push(&mut answers, "TargetPortalGroupTag", &group);
        }
        match stage {
            SECURITY => self.secure(&pairs, outside, &mut answers)?,
            _ => {
                self.must_be_secure(outside)?;
                self.negotiate(&pairs, &mut answers)?;
            }
        }
        if answers.len() > ANSWER_BYTES_MAX {
            return refused(status::INITIATOR_ERROR, "the login has too many keys");
        }
        if !request.transits || !self.may_leave(stage) {
            return Ok(Step::Answer(answer(request, false, 0), answers));
        }
        let is_onward = match (stage, request.next) {
            (SECURITY, OPERATIONAL | FULL_FEATURE) => true,
            (_, next) => stage == OPERATIONAL && next == FULL_FEATURE,
        };
        if !is_onward {
            return refused(status::INITIATOR_ERROR, "there is no such stage to go to");
        }
        self.must_be_secure(outside)?;
        let response = answer(request, true, 0);
        if request.next == OPERATIONAL {
            self.begun.as_mut().expect("identified").stage = OPERATIONAL;
            return Ok(Step::Answer(response, answers));
        }
        let begun = self.begun.take().expect("it was identified");
        let proved = match &self.security {
            Security::Proved(name) => Some(name.clone()),
            _ => None,
        };
        let established = Established {
            initiator: begun.initiator,
            isid: begun.isid,
            cid: begun.cid,
            export: begun.export,
            parameters: self.parameters.clone(),
            proved,
        };
        Ok(Step::Establish(Box::new(established), response, answers))
    }

    /// Checks the header of a request.
    fn check(&mut self, request: &request::Login) -> Result<(), Refusal> {
        self.requests += 1;
        if self.requests > REQUESTS_MAX {
            return refused(status::INITIATOR_ERROR, "the login has too many requests");
        }
        if request.version_min > 0 {
            return refused(status::UNSUPPORTED_VERSION, "only version 0 is known");
        }
        let stage = match &self.begun {
            None if request.current <= OPERATIONAL => request.current,
            None => return refused(status::INITIATOR_ERROR, "the login begins in no stage"),
            Some(begun) => {
                let is_same =
                    (begun.isid, begun.cid, begun.itt) == (request.isid, request.cid, request.itt);
                if !is_same {
                    let text = "a request belongs to another login";
                    return refused(status::INITIATOR_ERROR, text);
                }
                begun.stage
            }
        };
        if request.current != stage {
            return refused(status::INITIATOR_ERROR, "a request is in another stage");
        }
        Ok(())
    }

    /// The security stage.
    fn secure(
        &mut self,
        pairs: &[(String, String)],
        outside: &Outside<'_>,
        answers: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let value = |key: &str| {
            let mut pairs = pairs.iter();
            pairs.find(|pair| pair.0 == key).map(|pair| pair.1.as_str())
        };
        if let Some(offers) = value("AuthMethod") {
            self.only_once("AuthMethod")?;
            let method = match outside.accounts {
                Some(_) => "CHAP",
                None => "None",
            };
            if !offers.split(',').any(|offer| offer == method) {
                let text = format!("the initiator offers {offers:.80?} where {method} is required");
                return refused(status::NOT_AUTHENTICATED, text);
            }
            text::push(answers, "AuthMethod", method);
            self.security = match outside.accounts {
                Some(_) => Security::Chosen,
                None => Security::Without,
            };
        }
        if let Some(offers) = value("CHAP_A") {
            if !matches!(self.security, Security::Chosen) {
                let text = "CHAP was not chosen, or has begun before";
                return refused(status::INITIATOR_ERROR, text);
            }
            let begun = Exchange::begin(offers, (outside.random)());
            let (exchange, pairs) = begun.map_err(|failure| unproved(&failure))?;
            for (key, value) in pairs {
                text::push(answers, key, &value);
            }
            self.security = Security::Challenged(exchange);
        } else if value("CHAP_N").is_some() || value("CHAP_R").is_some() {
            let Security::Challenged(exchange) = std::mem::take(&mut self.security) else {
                return refused(
                    status::INITIATOR_ERROR,
                    "there is no challenge to respond to",
                );
            };
            let accounts = outside.accounts.expect("CHAP was chosen");
            let finished = exchange.finish(value, accounts);
            let (name, pairs) = finished.map_err(|failure| unproved(&failure))?;
            // An account that is called like an initiator is that initiator's alone.
            let initiator = self.initiator().unwrap_or_default();
            let is_iscsi_name = |name: &str| {
                let mut kinds = ["iqn.", "eui.", "naa."].iter();
                kinds.any(|kind| name.starts_with(kind))
            };
            let of_account = names::normalised(&name).filter(|name| is_iscsi_name(name));
            if of_account.is_some_and(|of_account| of_account != initiator) {
                let text = format!("the account {name:.80?} is another initiator's");
                return refused(status::NOT_AUTHENTICATED, text);
            }
            for (key, value) in pairs {
                text::push(answers, key, &value);
            }
            self.security = Security::Proved(name);
        }
        // Initiators may declare and negotiate other things here, too (RFC 7143 §6.3.2).
        let is_secret = |key: &str| key == "AuthMethod" || key.starts_with("CHAP_");
        let others = pairs.iter().filter(|(key, _)| !is_secret(key));
        let others: Vec<_> = others.cloned().collect();
        self.answer_all(&others, answers)
    }

    /// The operational stage.
    fn negotiate(
        &mut self,
        pairs: &[(String, String)],
        answers: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        if !self.seen.iter().any(|key| key == "our segments") {
            self.seen.push("our segments".to_owned());
            let bytes = keys::SEGMENT_BYTES_MAX.to_string();
            text::push(answers, "MaxRecvDataSegmentLength", &bytes);
        }
        self.answer_all(pairs, answers)
    }

    fn answer_all(
        &mut self,
        pairs: &[(String, String)],
        answers: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        for (key, value) in pairs {
            self.only_once(key)?;
            if let Answer::Value(value) = self.parameters.negotiate(key, value) {
                text::push(answers, key, &value);
            }
        }
        Ok(())
    }

    /// RFC 7143 §6.2: a key is not negotiated again.
    fn only_once(&mut self, key: &str) -> Result<(), Refusal> {
        if self.seen.iter().any(|seen| seen == key) {
            let text = format!("the key {key} comes twice");
            return refused(status::INITIATOR_ERROR, text);
        }
        self.seen.push(key.to_owned());
        Ok(())
    }

    /// Fails if the initiator has to prove who it is, and did not.
    fn must_be_secure(&self, outside: &Outside<'_>) -> Result<(), Refusal> {
        match (outside.accounts, &self.security) {
            (None, _) | (Some(_), Security::Proved(_)) => Ok(()),
            (Some(_), _) => refused(
                status::NOT_AUTHENTICATED,
                "the initiator does not prove who it is, and must",
            ),
        }
    }

    /// Returns whether nothing is missing in this stage.
    fn may_leave(&self, stage: u8) -> bool {
        stage != SECURITY || !matches!(self.security, Security::Chosen | Security::Challenged(_))
    }
}

/// Returns what the first request says.
fn identify(request: &request::Login, pairs: &[(String, String)]) -> Result<Begun, Refusal> {
    let value = |key: &str| {
        let mut pairs = pairs.iter();
        pairs.find(|pair| pair.0 == key).map(|pair| pair.1.as_str())
    };
    let Some(initiator) = value("InitiatorName") else {
        return refused(status::MISSING_PARAMETER, "the initiator has no name");
    };
    let Some(initiator) = names::normalised(initiator) else {
        return refused(
            status::INITIATOR_ERROR,
            "the initiator's name is no iSCSI name",
        );
    };
    let export = match value("SessionType") {
        Some("Discovery") => None,
        None | Some("Normal") => {
            let Some(target) = value("TargetName") else {
                return refused(status::MISSING_PARAMETER, "no target is named");
            };
            let Some(export) = names::export_name(target) else {
                let text = format!("there is no target {target:.223?}");
                return refused(status::NOT_FOUND, text);
            };
            Some(export)
        }
        Some(_) => {
            let text = "the session is neither for discovery nor normal";
            return refused(status::UNKNOWN_SESSION_TYPE, text);
        }
    };
    Ok(Begun {
        stage: request.current,
        isid: request.isid,
        cid: request.cid,
        itt: request.itt,
        initiator,
        export,
    })
}

fn unproved(failure: &Failure) -> Refusal {
    let text = match failure {
        Failure::NoAlgorithm => "CHAP with an algorithm that is not known".to_owned(),
        Failure::Incomplete => "CHAP with a key that is missing or damaged".to_owned(),
        Failure::Wrong(name) => format!("CHAP with a wrong name or secret: {name:?}"),
        Failure::Mutual => {
            "mutual CHAP without a secret of ours, or with our own challenge".to_owned()
        }
    };
    Refusal(status::NOT_AUTHENTICATED, text)
}

fn answer(request: &request::Login, transits: bool, tsih: u16) -> Response {
    Response::Login {
        transits,
        continues: false,
        current: request.current,
        next: request.next,
        isid: request.isid,
        tsih,
        itt: request.itt,
        status: status::SUCCESS,
    }
}

/// Returns the refusal of a login.
#[must_use]
pub fn refusal(request: &request::Login, status: Status) -> Response {
    Response::Login {
        transits: false,
        continues: false,
        current: request.current,
        next: 0,
        isid: request.isid,
        tsih: request.tsih,
        itt: request.itt,
        status,
    }
}
