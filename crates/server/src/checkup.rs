//! Checks of a configuration that read other files: certificates and tokens.

use crate::Config;
use crate::fronts::{self, Admission};
use crate::rest::tokens::Tokens;
use crate::signal::Again;
use crate::tls::Certificates;

impl Config {
    /// Checks the files that the configuration names, as a start would.
    ///
    /// # Errors
    /// A description of the first unusable file, in one line.
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
