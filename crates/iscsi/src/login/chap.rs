//! CHAP (RFC 7143 §12.1.3, RFC 1994): who connects proves that it knows a secret, without sending
//! it.
//!
//! ```text
//! initiator                        target
//! CHAP_A=7,5 ---------------------->
//!            <---------------------- CHAP_A=7  CHAP_I=id  CHAP_C=challenge
//! CHAP_N=name CHAP_R=response -----> compared with hash(id, secret, challenge)
//!   [CHAP_I=id CHAP_C=challenge] --> the other way round, if the initiator asks
//!            <---------------------- [CHAP_N=our name CHAP_R=response]
//! ```
//!
//! Secrets are never shown: their type has no text, and they are cleared when they are dropped.
//! Responses are compared in a time that does not depend on them, and a name that is unknown takes
//! as long as a wrong secret.

use core::fmt;

use md5::Md5;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::wire::text::{binary, hexadecimal, number};

/// Bytes of our challenges, as many as the longest hash has.
pub const CHALLENGE_BYTES: usize = 32;
/// Longest challenge that we take (RFC 7143 §12.1.3 allows 1,024).
const CHALLENGE_BYTES_MAX: usize = 1024;
/// Least length of a secret: 96 bits (RFC 7143 §9.2.1).
pub const SECRET_BYTES_MIN: usize = 12;

/// A secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Makes a secret. `None` if it has fewer than [`SECRET_BYTES_MIN`] bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Secret> {
        (bytes.len() >= SECRET_BYTES_MIN).then(|| Secret(Zeroizing::new(bytes.to_vec())))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A name with its secret.
#[derive(Clone, Debug)]
pub struct Account {
    /// `CHAP_N`.
    pub name: String,
    /// Its secret.
    pub secret: Secret,
}

/// The accounts of a target.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// Initiators that may log in.
    pub initiators: Vec<Account>,
    /// The account by which we prove who we are, if an initiator asks.
    pub target: Option<Account>,
}

/// The ways to hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// 5.
    Md5,
    /// 7.
    Sha256,
}

impl Algorithm {
    /// Returns the best of the offered algorithms that we know.
    fn choose(offers: &str) -> Option<Algorithm> {
        let offers: Vec<&str> = offers.split(',').collect();
        [Algorithm::Sha256, Algorithm::Md5]
            .into_iter()
            .find(|known| offers.contains(&known.number()))
    }

    fn number(self) -> &'static str {
        match self {
            Algorithm::Md5 => "5",
            Algorithm::Sha256 => "7",
        }
    }

    /// Returns the response to a challenge.
    #[must_use]
    pub fn response(self, id: u8, secret: &Secret, challenge: &[u8]) -> Vec<u8> {
        let parts = [&[id], &secret.0[..], challenge];
        match self {
            Algorithm::Md5 => {
                let mut hash = Md5::new();
                parts.iter().for_each(|part| hash.update(part));
                hash.finalize().to_vec()
            }
            Algorithm::Sha256 => {
                let mut hash = Sha256::new();
                parts.iter().for_each(|part| hash.update(part));
                hash.finalize().to_vec()
            }
        }
    }
}

/// An exchange that has begun: our challenge.
pub struct Exchange {
    algorithm: Algorithm,
    id: u8,
    challenge: [u8; CHALLENGE_BYTES],
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exchange")
    }
}

/// The initiator did not prove who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// None of its algorithms is known.
    NoAlgorithm,
    /// A key is missing or cannot be read.
    Incomplete,
    /// Name or secret are wrong. The name, for the log.
    Wrong(String),
    /// It sent our own challenge back, or we have no account to prove who we are.
    Mutual,
}

/// Keys and values to answer.
pub type Pairs = Vec<(&'static str, String)>;

impl Exchange {
    /// Begins an exchange with a fresh challenge. Returns what to answer.
    ///
    /// # Errors
    /// [`Failure::NoAlgorithm`].
    pub fn begin(
        offers: &str,
        random: [u8; CHALLENGE_BYTES + 1],
    ) -> Result<(Exchange, Pairs), Failure> {
        let algorithm = Algorithm::choose(offers).ok_or(Failure::NoAlgorithm)?;
        let [id, challenge @ ..] = random;
        let exchange = Exchange {
            algorithm,
            id,
            challenge,
        };
        let pairs = vec![
            ("CHAP_A", algorithm.number().to_owned()),
            ("CHAP_I", id.to_string()),
            ("CHAP_C", hexadecimal(&challenge)),
        ];
        Ok((exchange, pairs))
    }

    /// Ends the exchange. Returns the name that the initiator proved, and what to answer. `value`
    /// finds the values of its keys.
    ///
    /// # Errors
    /// The initiator failed.
    pub fn finish<'a>(
        self,
        value: impl Fn(&str) -> Option<&'a str>,
        accounts: &Accounts,
    ) -> Result<(String, Pairs), Failure> {
        let name = value("CHAP_N").ok_or(Failure::Incomplete)?;
        let response = value("CHAP_R").and_then(|text| binary(text, CHALLENGE_BYTES));
        let response = response.ok_or(Failure::Incomplete)?;
        let wrong = || Failure::Wrong(name.chars().take(80).collect());
        let mut initiators = accounts.initiators.iter();
        let account = initiators.find(|account| account.name == name);
        // Somebody's secret is hashed in any case, so that the time does not tell who has one.
        let any = account.or(accounts.initiators.first()).ok_or_else(wrong)?;
        let expected = self
            .algorithm
            .response(self.id, &any.secret, &self.challenge);
        let is_right = bool::from(expected.ct_eq(&response));
        if !is_right || account.is_none() {
            return Err(wrong());
        }
        let (Some(id), Some(challenge)) = (value("CHAP_I"), value("CHAP_C")) else {
            return Ok((name.to_owned(), Vec::new()));
        };
        let id = number(id).and_then(|id| u8::try_from(id).ok());
        let challenge = binary(challenge, CHALLENGE_BYTES_MAX);
        let (Some(id), Some(challenge)) = (id, challenge) else {
            return Err(Failure::Incomplete);
        };
        // An initiator that sends our own challenge back wants to learn the right answer from us
        // (RFC 7143 §9.2.1).
        let is_ours = challenge == self.challenge;
        let target = accounts.target.as_ref().filter(|_| !is_ours);
        let target = target.ok_or(Failure::Mutual)?;
        let response = self.algorithm.response(id, &target.secret, &challenge);
        let pairs = vec![
            ("CHAP_N", target.name.clone()),
            ("CHAP_R", hexadecimal(&response)),
        ];
        Ok((name.to_owned(), pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str, secret: &str) -> Account {
        Account {
            name: name.to_owned(),
            secret: Secret::new(secret.as_bytes()).expect("long"),
        }
    }

    fn accounts() -> Accounts {
        Accounts {
            initiators: vec![
                account("alice", "a secret of alice"),
                account("bob", "a secret of bob"),
            ],
            target: Some(account("target", "the target's secret")),
        }
    }

    fn begun(offers: &str) -> Exchange {
        let (exchange, pairs) =
            Exchange::begin(offers, [7; CHALLENGE_BYTES + 1]).expect("a known algorithm");
        assert_eq!(pairs[1], ("CHAP_I", "7".to_owned()));
        exchange
    }

    fn answer(name: &str, response: &[u8], more: &[(&str, &str)]) -> Result<Pairs, Failure> {
        let response = hexadecimal(response);
        let mut pairs = vec![("CHAP_N", name), ("CHAP_R", &response)];
        pairs.extend(more);
        let value = |key: &str| {
            let mut pairs = pairs.iter();
            pairs.find(|pair| pair.0 == key).map(|pair| pair.1)
        };
        let (proved, pairs) = begun("7").finish(value, &accounts())?;
        assert_eq!(proved, name);
        Ok(pairs)
    }

    #[test]
    fn a_secret_has_no_text() {
        let text = format!("{:?}", accounts());
        assert!(!text.contains("secret of"), "{text}");
        assert_eq!(Secret::new(b"too short"), None);
    }

    #[test]
    fn the_better_algorithm_is_chosen() {
        for (offers, chosen) in [("5", "5"), ("5,7", "7"), ("6,5", "5")] {
            let (_, pairs) = Exchange::begin(offers, [1; 33]).expect("known");
            assert_eq!(pairs[0].1, chosen);
        }
        for offers in ["", "6", "55"] {
            let failure = Exchange::begin(offers, [1; 33]).expect_err("unknown");
            assert_eq!(failure, Failure::NoAlgorithm);
        }
    }

    /// MD5 of the byte 1, "secret-secret" and 0xaabb, computed with another program.
    #[test]
    fn a_response_is_the_hash_of_id_secret_and_challenge() {
        let secret = Secret::new(b"secret-secret").expect("long");
        let md5 = Algorithm::Md5.response(1, &secret, &[0xaa, 0xbb]);
        let sha = Algorithm::Sha256.response(1, &secret, &[0xaa, 0xbb]);
        assert_eq!(hexadecimal(&md5), "0xab0587295d58c5865802692c1cd794ff");
        assert_eq!(
            hexadecimal(&sha),
            "0xa100c61be4a3b70823025513ed63da3e9e295543b70b90e6225d77f9212ed19a"
        );
    }

    #[test]
    fn only_the_right_secret_of_a_known_name_is_accepted() {
        let secrets = accounts().initiators;
        let right = Algorithm::Sha256.response(7, &secrets[1].secret, &[7; CHALLENGE_BYTES]);
        assert_eq!(answer("bob", &right, &[]), Ok(Vec::new()));
        let mut wrong = right.clone();
        wrong[31] ^= 1;
        for (name, response) in [
            ("bob", &wrong[..]),
            ("alice", &right),
            ("carol", &right),
            ("bob", &right[..31]),
            ("bob", &[]),
        ] {
            assert_eq!(
                answer(name, response, &[]),
                Err(Failure::Wrong(name.to_owned()))
            );
        }
    }

    #[test]
    fn the_target_proves_itself_if_it_is_asked() {
        let all = accounts();
        let right = Algorithm::Sha256.response(7, &all.initiators[0].secret, &[7; CHALLENGE_BYTES]);
        let pairs = answer("alice", &right, &[("CHAP_I", "9"), ("CHAP_C", "0x0102")]);
        let secret = &all.target.expect("an account").secret;
        let expected = hexadecimal(&Algorithm::Sha256.response(9, secret, &[1, 2]));
        let expected = vec![("CHAP_N", "target".to_owned()), ("CHAP_R", expected)];
        assert_eq!(pairs, Ok(expected));
        let reflected = hexadecimal(&[7; CHALLENGE_BYTES]);
        let pairs = answer("alice", &right, &[("CHAP_I", "7"), ("CHAP_C", &reflected)]);
        assert_eq!(pairs, Err(Failure::Mutual));
        let pairs = answer("alice", &right, &[("CHAP_I", "256"), ("CHAP_C", "0x01")]);
        assert_eq!(pairs, Err(Failure::Incomplete));
    }
}
