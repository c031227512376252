//! Where the daemon is: at a Unix socket of this machine, or at an address with a token.
//!
//! | given | connection | who asks |
//! | --- | --- | --- |
//! | a socket | Unix | the user, as the kernel says |
//! | `https://HOST:PORT` | TCP with TLS; the certificate is verified | the holder of the token |
//! | `http://HOST:PORT` | TCP, to the loopback only | the holder of the token |
//!
//! A token that travels in clear belongs to everybody who listens, so `http` is refused for other
//! machines.

use std::fmt;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everglade_api::PORT;
use hyper::Uri;
use hyper::header::HeaderValue;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::failure::{Failure, exit};

/// A token has at most 256 characters.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;
/// Where Debian, Red Hat and SUSE keep the authorities that they trust.
const AUTHORITIES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// Where a daemon is asked.
#[derive(Clone, Debug)]
pub enum Daemon {
    /// A Unix socket.
    Socket(PathBuf),
    /// An address.
    Endpoint(Endpoint),
}

/// An address of a daemon, with the means to be heard there.
#[derive(Clone)]
pub struct Endpoint {
    /// As it was given.
    address: String,
    host: String,
    port: u16,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// The value of the `Authorization` header.
    token: HeaderValue,
}

/// A connection to a daemon.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl fmt::Debug for Endpoint {
    /// Never the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl fmt::Display for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Daemon::Socket(path) => path.display().fmt(f),
            Daemon::Endpoint(endpoint) => f.write_str(&endpoint.address),
        }
    }
}

impl Daemon {
    /// Connects.
    pub(crate) async fn connect(&self) -> Result<Box<dyn Stream>, Failure> {
        let unreachable = |error: io::Error| self.unreachable(&error);
        match self {
            Daemon::Socket(path) => {
                let stream = UnixStream::connect(path).await.map_err(unreachable)?;
                Ok(Box::new(stream))
            }
            Daemon::Endpoint(endpoint) => {
                let address = (endpoint.host.as_str(), endpoint.port);
                let stream = TcpStream::connect(address).await.map_err(unreachable)?;
                let Some((config, name)) = &endpoint.tls else {
                    return Ok(Box::new(stream));
                };
                let connector = TlsConnector::from(Arc::clone(config));
                let stream = connector.connect(name.clone(), stream).await;
                Ok(Box::new(stream.map_err(unreachable)?))
            }
        }
    }

    /// What the `Host` header has.
    pub(crate) fn host(&self) -> &str {
        match self {
            Daemon::Socket(_) => "everglade",
            Daemon::Endpoint(endpoint) => &endpoint.host,
        }
    }

    /// Returns the token for the `Authorization` header; none for a socket, where the kernel says
    /// who asks.
    pub(crate) fn token(&self) -> Option<&HeaderValue> {
        match self {
            Daemon::Socket(_) => None,
            Daemon::Endpoint(endpoint) => Some(&endpoint.token),
        }
    }

    /// The failure to connect.
    fn unreachable(&self, error: &io::Error) -> Failure {
        let hint = match (self, error.kind()) {
            (Daemon::Socket(_), io::ErrorKind::PermissionDenied) => {
                "run this as the user the daemon runs as"
            }
            (Daemon::Socket(_), _) => {
                "start it with 'everglade serve', or name its place with --data-dir or --socket"
            }
            (Daemon::Endpoint(_), io::ErrorKind::InvalidData) => {
                "name the authority of its certificate with --ca, and the host as the certificate \
                 does"
            }
            (Daemon::Endpoint(_), _) => "the daemon listens there if it has [api] tcp",
        };
        let message = format!("cannot reach the daemon at {self}: {error}; {hint}");
        Failure::new(exit::UNREACHABLE, message)
    }
}

impl Endpoint {
    /// Reads an address, the file of the token, and the authorities that may vouch for the daemon:
    /// those of `ca`, else those that this machine trusts. `ca` may be the daemon's own
    /// certificate.
    ///
    /// # Errors
    /// The address is none, a file cannot be used, or the token would be sent in clear.
    pub fn open(address: &str, token_file: &Path, ca: Option<&Path>) -> Result<Endpoint, Failure> {
        let refuse = |text: String| Failure::new(exit::USAGE, text);
        let uri: Option<Uri> = address.parse().ok();
        let parts = uri.as_ref().and_then(|uri| {
            let has_path = !matches!(uri.path(), "" | "/") || uri.query().is_some();
            let scheme = uri.scheme_str().filter(|_| !has_path)?;
            Some((scheme, uri.host()?, uri.port_u16().unwrap_or(PORT)))
        });
        let Some((scheme @ ("http" | "https"), host, port)) = parts else {
            return Err(refuse(format!(
                "'{address}' is not an endpoint; expected https://HOST or https://HOST:PORT"
            )));
        };
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let is_here =
            || host == "localhost" || host.parse().is_ok_and(|it: IpAddr| it.is_loopback());
        let tls = match scheme {
            "https" => {
                let name = ServerName::try_from(host.clone());
                let name = name.map_err(|error| refuse(format!("'{host}': {error}")))?;
                Some((trusting(ca).map_err(refuse)?, name))
            }
            _ if is_here() => None,
            _ => {
                return Err(refuse(format!(
                    "{address} would send the token in clear; use https, or an SSH tunnel"
                )));
            }
        };
        Ok(Endpoint {
            address: address.to_owned(),
            host,
            port,
            tls,
            token: token(token_file).map_err(refuse)?,
        })
    }
}

/// Reads a token that only its owner may read.
fn token(path: &Path) -> Result<HeaderValue, String> {
    let shown = path.display();
    let unreadable = |error| format!("cannot read the token in {shown}: {error}");
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if metadata.mode() & 0o077 != 0 {
        return Err(format!(
            "{shown} can be read by others (mode {:o}); its token is a secret: chmod 600",
            metadata.mode() & 0o777
        ));
    }
    let is_short = metadata.len() <= TOKEN_FILE_BYTES_MAX;
    let text = if is_short {
        fs::read_to_string(path).map_err(unreadable)?
    } else {
        String::new()
    };
    let one_word = text.split_whitespace().collect::<Vec<_>>();
    let [word] = one_word.as_slice() else {
        return Err(format!("{shown} is not one token and nothing else"));
    };
    let mut value = HeaderValue::from_str(&format!("Bearer {word}"))
        .map_err(|_| format!("{shown} has characters that no token has"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The configuration of a client that trusts these authorities.
fn trusting(ca: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let path = match ca {
        Some(path) => path,
        None => AUTHORITIES
            .iter()
            .map(Path::new)
            .find(|path| path.is_file())
            .ok_or("this machine has no list of authorities; name one with --ca")?,
    };
    let shown = path.display();
    let bad = |error: &dyn fmt::Display| format!("cannot use {shown} as authority: {error}");
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| bad(&error))?;
    let mut pinned = Vec::new();
    for certificate in certificates {
        let certificate = certificate.map_err(|error| bad(&error))?;
        pinned.extend(ca.map(|_| certificate.clone()));
        let added = roots.add(certificate);
        // The machine's list may have certificates of kinds that are not known here.
        if ca.is_some() {
            added.map_err(|error| bad(&error))?;
        }
    }
    if roots.is_empty() {
        return Err(bad(&"there is no certificate in it"));
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| bad(&error))?;
    let roots = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = Arc::new(Pinning {
        pinned,
        chains: roots.build().map_err(|error| bad(&error))?,
    });
    let config = config
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    Ok(Arc::new(config.with_no_client_auth()))
}

/// Verifies chains as usual, and takes the very certificates that `--ca` names: a daemon's own
/// certificate, which nobody else has signed. OpenSSL marks such a certificate as an authority, and
/// as that it may not be a server's in a chain.
#[derive(Debug)]
struct Pinning {
    pinned: Vec<CertificateDer<'static>>,
    chains: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Pinning {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.pinned.iter().any(|known| known == end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        self.chains
            .verify_server_cert(end_entity, intermediates, name, ocsp, now)
    }

    // That the daemon has the key of its certificate is verified in any case.

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn secret(text: &str, mode: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(&file, text).expect("write");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("chmod");
        file
    }

    #[test]
    fn an_endpoint_has_a_scheme_a_host_and_perhaps_a_port() {
        let file = secret("0123456789abcdefghij\n", 0o600);
        let open = |address: &str| Endpoint::open(address, file.path(), None);
        let port = |address: &str| open(address).map(|it| (it.host, it.port)).ok();
        let named = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(port("http://localhost"), named("localhost", PORT));
        assert_eq!(port("http://127.0.0.1:80/"), named("127.0.0.1", 80));
        assert_eq!(port("http://[::1]:1234"), named("::1", 1234));
        for bad in [
            "",
            "localhost",
            "store:9811",
            "ftp://store",
            "http://localhost/v1",
            "https://",
        ] {
            let refused = open(bad).expect_err(bad);
            assert_eq!(refused.code, exit::USAGE);
            assert!(
                refused.message.contains("is not an endpoint"),
                "{}",
                refused.message
            );
        }
        let refused = open("http://10.0.0.1").expect_err("in clear").message;
        assert!(refused.contains("in clear"), "{refused}");
        assert!(
            !format!("{:?}", open("http://localhost")).contains("0123"),
            "no token is shown"
        );
    }

    #[test]
    fn a_token_is_one_word_that_others_cannot_read() {
        for (text, mode, part) in [
            ("0123456789abcdefghij", 0o644, "chmod 600"),
            ("", 0o600, "not one token"),
            ("a read-only 0123456789abcdefghij", 0o600, "not one token"),
            ("\u{e9}\u{1}", 0o600, "characters"),
        ] {
            let file = secret(text, mode);
            let refused = token(file.path()).expect_err(part);
            assert!(refused.contains(part), "{refused}");
            assert!(!refused.contains("0123"), "{refused}");
        }
    }

    #[test]
    fn an_authority_is_a_certificate() {
        let file = secret("no certificate", 0o644);
        let refused = trusting(Some(file.path())).expect_err("none");
        assert!(refused.contains("no certificate in it"), "{refused}");
    }
}
