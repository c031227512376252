//! A setting that is on or off.

use std::fmt;
use std::str::FromStr;

/// On or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// `on`.
    On,
    /// `off`.
    #[default]
    Off,
}

impl Switch {
    /// True for `on`.
    #[must_use]
    pub fn is_on(self) -> bool {
        self == Switch::On
    }
}

impl FromStr for Switch {
    type Err = String;

    fn from_str(word: &str) -> Result<Switch, String> {
        match word {
            "on" => Ok(Switch::On),
            "off" => Ok(Switch::Off),
            other => Err(format!("'{other}' is neither 'on' nor 'off'")),
        }
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Switch::On => "on",
            Switch::Off => "off",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_it_is_read() {
        for switch in [Switch::On, Switch::Off] {
            assert_eq!(switch.to_string().parse(), Ok(switch));
        }
        assert!("yes".parse::<Switch>().is_err());
    }
}
