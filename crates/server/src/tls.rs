//! Certificates, in the files that libnbd, nbdkit and QEMU expect: a folder with `server-cert.pem`,
//! `server-key.pem`, and `ca-cert.pem` if clients need certificates, too.
//!
//! Certificates expire, so they can be read again while connections use them
//! ([`Certificates::read_again`], at SIGHUP): open connections keep the certificates that they
//! began with.

use everglade_env::lock::RwLock;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use webpki::EndEntityCert;

const CERTIFICATE: &str = "server-cert.pem";
const KEY: &str = "server-key.pem";
const AUTHORITY: &str = "ca-cert.pem";

/// The reasons why there can be no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be used.
    #[error("cannot use {path} for TLS: {problem}; expected PEM as of openssl or certtool")]
    File {
        /// The file.
        path: PathBuf,
        /// The problem with the file. The message never has contents of the file.
        problem: String,
    },
    /// The files do not belong together.
    #[error("the files in {folder} do not make a server's certificate: {problem}")]
    Together {
        /// The folder.
        folder: PathBuf,
        /// A description of the problem.
        problem: String,
    },
}

/// The certificates below a folder, as they were when they were read last.
#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
    clients_need_certificates: bool,
    now: RwLock<Arc<ServerConfig>>,
}

impl Certificates {
    /// Reads the certificates and the key.
    ///
    /// # Errors
    /// A file is missing or invalid, or other users may read the key.
    pub fn open(
        folder: &Path,
        clients_need_certificates: bool,
    ) -> Result<Arc<Certificates>, TlsError> {
        let now = load(folder, clients_need_certificates)?;
        Ok(Arc::new(Certificates {
            folder: folder.to_owned(),
            clients_need_certificates,
            now: RwLock::new(now),
        }))
    }

    /// Returns the configuration for a new connection.
    #[must_use]
    pub fn now(&self) -> Arc<ServerConfig> {
        let now = self.now.read();
        Arc::clone(&now)
    }

    /// Reads them again, for connections that begin from now on.
    ///
    /// # Errors
    /// As at first. Then nothing changes.
    pub fn read_again(&self) -> Result<(), TlsError> {
        let fresh = load(&self.folder, self.clients_need_certificates)?;
        *self.now.write() = fresh;
        tracing::info!("read the certificates in {} again", self.folder.display());
        Ok(())
    }
}

/// Returns the DNS names in the certificate that a client has shown, which was verified before.
/// None if it showed none.
pub(crate) fn names_of(shown: &[CertificateDer<'_>]) -> Vec<String> {
    let certificate = shown
        .first()
        .and_then(|first| EndEntityCert::try_from(first).ok());
    let names = certificate.iter().flat_map(|shown| shown.valid_dns_names());
    names.map(str::to_ascii_lowercase).collect()
}

fn load(folder: &Path, clients_need_certificates: bool) -> Result<Arc<ServerConfig>, TlsError> {
    let together = |error: &dyn std::fmt::Display| TlsError::Together {
        folder: folder.to_owned(),
        problem: error.to_string(),
    };
    let certificates = certificates(&folder.join(CERTIFICATE))?;
    let key = key(&folder.join(KEY))?;
    let provider: Arc<CryptoProvider> = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| together(&error))?;
    let builder = if clients_need_certificates {
        let mut roots = RootCertStore::empty();
        for certificate in self::certificates(&folder.join(AUTHORITY))? {
            roots.add(certificate).map_err(|error| together(&error))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.build().map_err(|error| together(&error))?;
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let config = builder.with_single_cert(certificates, key);
    config.map(Arc::new).map_err(|error| together(&error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unusable = |problem: String| TlsError::File {
        path: path.to_owned(),
        problem,
    };
    let bytes = fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let certificates = certificates.map_err(|error| unusable(error.to_string()))?;
    if certificates.is_empty() {
        return Err(unusable("there is no certificate in it".to_owned()));
    }
    Ok(certificates)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let unusable = |problem: String| TlsError::File {
        path: path.to_owned(),
        problem,
    };
    let about = fs::metadata(path).map_err(|error| unusable(error.to_string()))?;
    if about.mode() & 0o007 != 0 {
        let problem = "everybody may read this key; 'chmod o= FILE' makes it secret";
        return Err(unusable(problem.to_owned()));
    }
    PrivateKeyDer::from_pem_file(path).map_err(|error| unusable(error.to_string()))
}
