//! `--accept-rollback AGGREGATE@CP`: serve an aggregate whose devices are older than the newest
//! consistency point that was seen (decision 0031).
//!
//! The flag names the consistency point of the devices, so it accepts one state and no other: if it
//! stays in a unit file, it does not accept another old copy. There is no key in the file for it,
//! because it is meant for one start.

use std::fmt;
use std::str::FromStr;

use everglade_format::config::name_is_valid;

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptRollback {
    /// Name of the aggregate.
    pub aggregate: String,
    /// The consistency point that its devices have.
    pub cp: u64,
}

impl fmt::Display for AcceptRollback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.aggregate, self.cp)
    }
}

impl FromStr for AcceptRollback {
    type Err = String;

    fn from_str(text: &str) -> Result<AcceptRollback, String> {
        let parts = text.split_once('@');
        let parts = parts.filter(|(aggregate, _)| name_is_valid(aggregate));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match parts {
            Some((aggregate, cp)) if is_number(cp) => Ok(AcceptRollback {
                aggregate: aggregate.to_owned(),
                cp: cp.parse().map_err(|_| format!("'{cp}' is too large"))?,
            }),
            _ => Err(format!(
                "'{text}' does not say what to accept; expected AGGREGATE@CP, as the refusal says \
                it"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aggregate_and_a_consistency_point_are_named() {
        let accepted: AcceptRollback = "aggr0@17".parse().expect("both");
        assert_eq!((accepted.aggregate.as_str(), accepted.cp), ("aggr0", 17));
        assert_eq!(accepted.to_string(), "aggr0@17");
        for bad in [
            "",
            "aggr0",
            "@17",
            "aggr0@",
            "aggr0@x",
            "aggr0@+1",
            "a b@1",
            "a@99999999999999999999",
        ] {
            assert!(bad.parse::<AcceptRollback>().is_err(), "{bad}");
        }
    }
}
