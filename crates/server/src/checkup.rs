//! The checks of a configuration that need to look at other files: certificates and tokens.

use crate::Config;
use crate::fronts::{self, Admission};
use crate::rest::tokens::Tokens;
use crate::signal::Again;
use crate::tls::Certificates;

impl Config {
    /// Looks at the files that the configuration names, as a start would.
    ///
    /// # Errors
    /// One line about the first that cannot be used.
    pub fn check_files(&self) -> Result<(), String> {
        for protocol in fronts::all(self) {
            Admission::open(protocol.callers(), &Again::default())
                .map_err(|error| error.to_string())?;
        }
        let Some(api) = &self.api_tcp else {
            return Ok(());
        };
        Tokens::read(&api.tokens)?;
        match &api.tls_certificates {
            Some(folder) => Certificates::open(folder, false)
                .map(drop)
                .map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }
}
