//! The login phase joined to the target: exports are opened here, and seats are taken.

use everglade_target::sessions::{Allowed, Caller};
use everglade_target::{Error, Identity, Target};

use super::discovery::Discovery;
use super::full::{Admission, Full, Goes, Opened};
use super::outgoing::{Data, Digests};
use super::segment::Dest;
use super::text::{Exchange, TEXT_BYTES_MAX};
use super::{Phase, Session};
use crate::login::chap::CHALLENGE_BYTES;
use crate::login::{self, Established, Login, Outside, Step, status};
use crate::names;
use crate::node;
use crate::scsi::{Unit, reserve};
use crate::wire::header::Header;
use crate::wire::response::Response;
use crate::wire::{Bhs, Request, request};

/// A login under way.
pub(super) struct Handshake {
    login: Login,
    /// The owner wants to know of the export before it is opened, and was not asked yet.
    may_ask: bool,
    has_begun: bool,
    waits: Waits,
}

/// What a login waits for, besides bytes.
enum Waits {
    Nothing,
    /// The owner is to say where this export is opened.
    Home(Box<(request::Login, String)>),
    /// Another session has the seat.
    Seat(Box<(request::Login, Established, Response, Vec<u8>, node::Ticket)>),
}

impl Handshake {
    pub(super) fn new(may_ask: bool) -> Handshake {
        Handshake {
            login: Login::default(),
            may_ask,
            has_begun: false,
            waits: Waits::Nothing,
        }
    }

    pub(super) fn home_question(&self) -> Option<&str> {
        match &self.waits {
            Waits::Home(asked) => Some(&asked.1),
            _ => None,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        !matches!(self.waits, Waits::Nothing)
    }

    pub(super) fn waits_for_seat(&self) -> bool {
        matches!(self.waits, Waits::Seat(_))
    }

    pub(super) fn initiator(&self) -> Option<&str> {
        match &self.waits {
            Waits::Seat(waiting) => Some(&waiting.1.initiator),
            _ => self.login.initiator(),
        }
    }
}

impl Session {
    /// Decides about a message before the login has ended.
    pub(super) fn admit_login(&mut self, header: &Header) -> Admission {
        let is_login = header.opcode == request::opcodes::LOGIN;
        let is_short = header.data_bytes as usize <= TEXT_BYTES_MAX;
        match is_login && is_short {
            true => Admission::Receive(Dest::collect(header.data_bytes)),
            false => Admission::End,
        }
    }

    /// Takes a login request.
    pub(super) fn login_received(
        &mut self,
        bhs: &Bhs,
        dest: Dest,
        target: &mut dyn Target,
    ) -> Goes {
        let (Some(Request::Login(asked)), Dest::Collect { bytes, .. }) =
            (Request::parse(bhs), dest)
        else {
            return Goes::ToItsEnd;
        };
        if let Phase::Login(handshake) = &mut self.phase
            && !std::mem::replace(&mut handshake.has_begun, true)
        {
            self.link.begin(asked.cmd_sn, asked.exp_stat_sn);
        }
        self.login_step(&asked, &bytes, target)
    }

    /// Goes on with a login that waited.
    pub(super) fn resume_login(&mut self, target: &mut dyn Target) {
        let Phase::Login(handshake) = &mut self.phase else {
            return;
        };
        let goes = match std::mem::replace(&mut handshake.waits, Waits::Nothing) {
            Waits::Nothing => Goes::On,
            Waits::Home(asked) => {
                handshake.may_ask = false;
                self.login_step(&asked.0, &[], target)
            }
            Waits::Seat(waiting) => {
                let (asked, established, response, text, ticket) = *waiting;
                self.establish(&asked, established, (response, text), Some(ticket), target)
            }
        };
        if goes == Goes::ToItsEnd {
            self.drain(target);
            self.settle(target);
        }
    }

    fn login_step(
        &mut self,
        asked: &request::Login,
        bytes: &[u8],
        target: &mut dyn Target,
    ) -> Goes {
        let caller = &self.caller;
        let Phase::Login(handshake) = &mut self.phase else {
            return Goes::ToItsEnd;
        };
        let exists = |initiator: &str, export: &str| {
            let host = Some(initiator.to_owned());
            let caller = &Caller {
                host,
                ..caller.clone()
            };
            let target = &mut *target;
            let exports = Allowed { target, caller }.exports();
            exports.iter().any(|it| it.name == export)
        };
        let exists = std::cell::RefCell::new(exists);
        let exists = |initiator: &str, export: &str| (exists.borrow_mut())(initiator, export);
        let random = self.settings.random.clone();
        // Without random numbers there are no accounts (`Settings`), and no challenges.
        let random = move || match &random {
            Some(random) => random(),
            None => [0; CHALLENGE_BYTES + 1],
        };
        let accounts = self.settings.accounts.as_deref();
        // A session that has something to send stays where it is.
        let may_ask = handshake.may_ask && self.link.outgoing.is_empty();
        let outside = Outside {
            accounts: accounts.filter(|_| self.settings.random.is_some()),
            random: &random,
            asks_for_home: may_ask.then_some(&exists),
        };
        if accounts.is_some() && self.settings.random.is_none() {
            return Goes::ToItsEnd;
        }
        match handshake.login.step(asked, bytes, &outside) {
            Step::Answer(response, text) => {
                self.link.send(&response, Data::Bytes(text));
                Goes::On
            }
            Step::AskForHome(export) => {
                handshake.waits = Waits::Home(Box::new((*asked, export)));
                Goes::On
            }
            Step::Refuse(response, text) => self.refuse(response, &text),
            Step::Establish(established, response, text) => {
                self.establish(asked, *established, (response, text), None, target)
            }
        }
    }

    fn refuse(&mut self, response: Response, text: &str) -> Goes {
        self.note(&format!("the login is refused: {text}"));
        self.link.send(&response, Data::None);
        Goes::ToItsEnd
    }

    /// Begins the session that was negotiated.
    fn establish(
        &mut self,
        asked: &request::Login,
        established: Established,
        (response, text): (Response, Vec<u8>),
        ticket: Option<node::Ticket>,
        target: &mut dyn Target,
    ) -> Goes {
        self.caller.host = Some(established.initiator.clone());
        let refusal = |status| login::refusal(asked, status);
        let Some(name) = &established.export else {
            self.begin_phase(&established, with_tsih(response, 1), text);
            self.phase = Phase::Discovery(Box::new(Discovery {
                text: Exchange::default(),
                began: self.metrics.now(),
            }));
            return Goes::On;
        };
        let identity = node::Identity {
            initiator: established.initiator.clone(),
            isid: established.isid,
            export: name.clone(),
        };
        let node = std::sync::Arc::clone(&self.settings.node);
        if asked.tsih != 0 {
            // RFC 7143 §6.3.1: another connection of a session, of which there is one.
            let (status, text) = match node.has(&identity, asked.tsih) {
                true => (status::TOO_MANY_CONNECTIONS, "a session has one connection"),
                false => (
                    status::NO_SUCH_SESSION,
                    "there is no session with this number",
                ),
            };
            return self.refuse(refusal(status), text);
        }
        let mut allowed = Allowed {
            target: &mut *target,
            caller: &self.caller,
        };
        let (lun, export) = match allowed.open(name) {
            Ok(opened) => opened,
            Err(Error::NotFound(_)) => {
                let text = format!("there is no LUN {name:.128?} for this host");
                return self.refuse(refusal(status::NOT_FOUND), &text);
            }
            Err(Error::Gone) => {
                let text = "the LUN is going away";
                return self.refuse(refusal(status::UNAVAILABLE), text);
            }
            Err(error) => {
                let text = error.to_string();
                return self.refuse(refusal(status::TARGET_ERROR), &text);
            }
        };
        let ticket = ticket.unwrap_or_else(|| node.ticket(&identity));
        let seat = match node.sit(&ticket) {
            Ok(seat) => seat,
            Err(node::Refusal::Outdated) => {
                target.close(lun);
                let text = "a newer login of the same host takes its place";
                return self.refuse(refusal(status::UNAVAILABLE), text);
            }
            Err(node::Refusal::Occupied) => {
                target.close(lun);
                if let Phase::Login(handshake) = &mut self.phase {
                    let waiting = (*asked, established, response, text, ticket);
                    handshake.waits = Waits::Seat(Box::new(waiting));
                }
                return Goes::On;
            }
        };
        let names = Identity::of(&export.uuid);
        let target_name = names::target_name(name).expect("it was logged in to");
        self.begin_phase(&established, with_tsih(response, seat.tsih()), text);
        self.link.open_window(self.settings.commands_max);
        self.phase = Phase::Full(Box::new(Full::new(Opened {
            lun,
            unit: Unit {
                target_name,
                export: export.name,
                lun_uuid: export.lun_uuid,
                read_only: export.read_only,
                naa: names.naa(),
                serial: names.serial(),
                size_bytes: export.size_bytes,
            },
            host: reserve::host(&established.initiator, established.isid),
            initiator: established.initiator,
            reservations: node.reservations(&export.uuid),
            events: node.events(&export.uuid),
            seat,
            cid: established.cid,
        })));
        Goes::On
    }

    /// Queues the last answer of the login; what was negotiated counts from then on.
    fn begin_phase(&mut self, established: &Established, response: Response, text: Vec<u8>) {
        self.link.open_window(self.settings.commands_max);
        self.link.send(&response, Data::Bytes(text));
        self.parameters = established.parameters.clone();
        self.link.digests = Digests {
            header: self.parameters.header_digest,
            data: self.parameters.data_digest,
        };
    }
}

fn with_tsih(mut response: Response, number: u16) -> Response {
    if let Response::Login { tsih, .. } = &mut response {
        *tsih = number;
    }
    response
}
