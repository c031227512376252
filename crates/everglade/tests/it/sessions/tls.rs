//! Encrypted connections, with certificates as libnbd, QEMU and nbdkit want them; allow-lists; idle
//! connections.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{LUN, ask};
use crate::running::{Server, TestDir, stderr};
use crate::tools::{have, must, must_fail};
use crate::wire::{Client, client_flags, option};

/// Certificates of an authority, a server and a client, each with openssl's defaults of today.
struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    fn new(dir: &TestDir) -> Certificates {
        let folder = dir.file("tls");
        fs::create_dir(&folder).expect("create");
        let certificates = Certificates { folder };
        let authority = [
            "-x509",
            "-days",
            "30",
            "-subj",
            "/CN=authority",
            "-out",
            &certificates.path("ca-cert.pem"),
        ];
        certificates.request("ca", &authority);
        certificates.certify("server", "subjectAltName=DNS:localhost,IP:127.0.0.1");
        certificates.certify(
            "client",
            "extendedKeyUsage=clientAuth\nsubjectAltName=DNS:db1.example.org",
        );
        certificates
    }

    fn path(&self, name: &str) -> String {
        text(&self.folder.join(name)).to_owned()
    }

    fn request(&self, who: &str, more: &[&str]) {
        let key = self.path(&format!("{who}-key.pem"));
        let new = [
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ];
        let arguments = [&new[..], &["-nodes", "-keyout", &key], more].concat();
        must("openssl", &arguments);
    }

    fn certify(&self, who: &str, extension: &str) {
        let (request, settings) = (self.path("request.pem"), self.path("settings"));
        self.request(who, &["-subj", &format!("/CN={who}"), "-out", &request]);
        fs::write(&settings, extension).expect("write");
        let certificate = self.path(&format!("{who}-cert.pem"));
        let arguments = [
            "x509",
            "-req",
            "-days",
            "30",
            "-CAcreateserial",
            "-CA",
            &self.path("ca-cert.pem"),
            "-CAkey",
            &self.path("ca-key.pem"),
            "-in",
            &request,
            "-extfile",
            &settings,
            "-out",
            &certificate,
        ];
        must("openssl", &arguments);
    }

    /// A folder that only knows the authority.
    fn without_client(&self, dir: &TestDir) -> PathBuf {
        let folder = dir.file("authority-only");
        fs::create_dir(&folder).expect("create");
        fs::copy(self.path("ca-cert.pem"), folder.join("ca-cert.pem")).expect("copy");
        folder
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// A server with these lines in `[nbd]`.
fn serve(dir: &TestDir, lines: &str) -> Server {
    let file = dir.file("everglade.toml");
    fs::write(&file, format!("[nbd]\n{lines}\n")).expect("write");
    super::serve(dir, &["--config", text(&file)])
}

/// `nbds` with certificates in `folder`.
fn encrypted_uri(server: &Server, export: &str, folder: &Path) -> String {
    let port = server.tcp.rsplit(':').next().expect("a port");
    let folder = text(folder);
    format!("nbds://localhost:{port}/{export}?tls-certificates={folder}")
}

/// 16 MiB that compress to nothing small, and zeroes.
fn image(dir: &TestDir) -> PathBuf {
    let path = dir.file("image");
    let mut bytes = vec![0; 32 << 20];
    let source = fs::File::open("/dev/urandom").expect("open");
    source
        .take(16 << 20)
        .read_exact(&mut bytes[8 << 20..24 << 20])
        .expect("read");
    fs::write(&path, bytes).expect("write");
    path
}

#[test]
fn required_encryption_is_used_by_real_clients_and_nothing_else_gets_in() {
    if !have(&["openssl", "nbdcopy", "nbdinfo", "qemu-img"]) {
        return;
    }
    let dir = TestDir::new();
    let certificates = Certificates::new(&dir);
    let tls = certificates.path("");
    let lines =
        format!("tls = \"required\"\ntls_certificates = \"{tls}\"\ntls_clients = \"certified\"");
    let server = serve(&dir, &lines);
    let start = [&client_flags()[..], &option(5, b"")].concat();
    let mut silent = Client::greet(&server.tcp).expect("a greeting");
    silent.send(&start).expect("sent");
    assert_eq!(silent.option_reply().expect("a reply"), 1);
    let uri = encrypted_uri(&server, LUN, &certificates.folder);
    let said = must("nbdinfo", &[&uri]);
    assert!(said.contains("tls") || said.contains("TLS"), "{said}");

    let image = image(&dir);
    let copy = dir.file("copy");
    must("nbdcopy", &["--connections=4", text(&image), &uri]);
    must("nbdcopy", &["--connections=4", &uri, text(&copy)]);
    let (image_bytes, copied) = (
        fs::read(&image).expect("read"),
        fs::read(&copy).expect("read"),
    );
    assert!(copied[..image_bytes.len()] == image_bytes);
    let port = server.tcp.rsplit(':').next().expect("a port");
    let object = format!("tls-creds-x509,id=tls,dir={tls},endpoint=client");
    let disk = format!(
        "driver=nbd,server.type=inet,server.host=localhost,server.port={port},export={LUN},\
         tls-creds=tls"
    );
    let arguments = ["compare", "--object", &object, "--image-opts", &disk];
    let local = format!("driver=raw,file.filename={}", text(&copy));
    must("qemu-img", &[&arguments[..], &[&local]].concat());

    // In clear, without a certificate of ours, or with half of a handshake: no way in.
    must_fail("nbdinfo", &[&server.uri(LUN)]);
    assert!(Client::open(&server.tcp, LUN).is_err());
    let stranger = certificates.without_client(&dir);
    must_fail("nbdinfo", &[&encrypted_uri(&server, LUN, &stranger)]);
    let mut garbler = Client::greet(&server.tcp).expect("a greeting");
    garbler.send(&start).expect("sent");
    assert_eq!(garbler.option_reply().expect("a reply"), 1);
    let _ = garbler.send(&[0x55; 5000]);
    assert!(garbler.is_closed_by_server());
    // It has begun and does not go on; nobody waits for it longer than for other handshakes.
    assert!(silent.is_closed_by_server());
    // The Unix socket is not for strangers anyway.
    must("nbdinfo", &["--size", &server.unix_uri(LUN)]);
    must("nbdinfo", &["--size", &uri]);
    server.stop();
}

#[test]
fn offered_encryption_may_be_used_or_not() {
    if !have(&["openssl", "nbdinfo"]) {
        return;
    }
    let dir = TestDir::new();
    let certificates = Certificates::new(&dir);
    let lines = format!(
        "tls = \"offered\"\ntls_certificates = \"{}\"",
        certificates.path("")
    );
    let server = serve(&dir, &lines);
    let anyone = certificates.without_client(&dir);
    must(
        "nbdinfo",
        &["--size", &encrypted_uri(&server, LUN, &anyone)],
    );
    must("nbdinfo", &["--size", &server.uri(LUN)]);
    server.stop();
}

/// Sends the option that opens an export, a write of 200 KiB and a flush in one go, which no client
/// should: all but the option is in the encryption's buffers when the session moves.
const AHEAD: &str = r#"
import socket, ssl, struct, sys
host, port, folder, export = sys.argv[1:]
def take(stream, count):
    taken = b""
    while len(taken) < count:
        more = stream.recv(count - len(taken))
        assert more, "closed"
        taken += more
    return taken
def option(number, data):
    return b"IHAVEOPT" + struct.pack(">II", number, len(data)) + data
def request(command, cookie, offset, length):
    return struct.pack(">IHHQQI", 0x25609513, 0, command, cookie, offset, length)
plain = socket.create_connection((host, int(port)))
take(plain, 18)
plain.sendall(struct.pack(">I", 3) + option(5, b""))
assert take(plain, 20)[12:16] == b"\0\0\0\1"
trust = ssl.create_default_context(cafile=folder + "/ca-cert.pem")
stream = trust.wrap_socket(plain, server_hostname="localhost")
name = export.encode()
payload = bytes(range(256)) * 800
stream.sendall(option(7, struct.pack(">I", len(name)) + name + b"\0\0")
    + request(1, 1, 4096, len(payload)) + payload + request(3, 2, 0, 0))
take(stream, 20 + 12 + 20)
for cookie in (1, 2):
    assert take(stream, 16) == struct.pack(">IIQ", 0x67446698, 0, cookie)
stream.sendall(request(0, 3, 4096, len(payload)))
assert take(stream, 16 + len(payload))[16:] == payload
"#;

/// Each export is at home on one of the two reactors; a lone connection is first here and then
/// there.
#[test]
fn an_encrypted_connection_moves_to_another_reactor() {
    if !have(&["openssl", "nbdcopy", "python3"]) {
        return;
    }
    let dir = TestDir::new();
    let certificates = Certificates::new(&dir);
    let tls = certificates.path("");
    let lines = format!("[nbd]\ntls = \"required\"\ntls_certificates = \"{tls}\"\n");
    let file = dir.file("everglade.toml");
    fs::write(&file, lines).expect("write");
    let server = super::placing::two_pools(&dir, &["--config", text(&file)]);
    let image = image(&dir);
    let written = fs::read(&image).expect("read");
    let gone = || super::placing::wait_for_none(&server);
    let port = server.tcp.rsplit(':').next().expect("a port");
    let folder = text(&certificates.folder);
    for export in [LUN, "other/lun", "other/lun", LUN] {
        let before = super::placing::moved(&server);
        for _ in 0..2 {
            must("python3", &["-c", AHEAD, "localhost", port, folder, export]);
            gone();
        }
        assert_eq!(super::placing::moved(&server), before + 1.0, "{export}");
        let uri = encrypted_uri(&server, export, &certificates.folder);
        let copy = dir.file("copy");
        must("nbdcopy", &["--connections=1", text(&image), &uri]);
        gone();
        must("nbdcopy", &["--connections=1", &uri, text(&copy)]);
        gone();
        let copied = fs::read(&copy).expect("read");
        assert!(copied[..written.len()] == written, "{export}");
    }
    server.stop();
}

/// Certificates expire: new ones are taken up without a restart, and bad ones change nothing.
#[test]
fn certificates_are_read_again_at_sighup_and_connections_stay() {
    if !have(&["openssl", "nbdinfo"]) {
        return;
    }
    let dir = TestDir::new();
    let certificates = Certificates::new(&dir);
    let lines = format!(
        "tls = \"offered\"\ntls_certificates = \"{}\"",
        certificates.path("")
    );
    let server = serve(&dir, &lines);
    let (mut stays, _) = Client::open(&server.tcp, LUN).expect("a client");
    let hang_up = || {
        let pid = rustix::process::Pid::from_raw(server.pid().cast_signed()).expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("sent");
    };
    let knows = |folder: &Path| {
        let uri = encrypted_uri(&server, LUN, folder);
        let output = std::process::Command::new("nbdinfo")
            .args(["--size", &uri])
            .output();
        output.expect("nbdinfo runs").status.success()
    };
    let before = certificates.without_client(&dir);
    assert!(knows(&before));
    // Another authority, another certificate.
    let other_place = TestDir::new();
    let others = Certificates::new(&other_place);
    let after = others.without_client(&other_place);
    assert!(!knows(&after));
    fs::write(certificates.path("server-key.pem"), "no key").expect("write");
    hang_up();
    assert!(knows(&before), "bad ones change nothing");
    for file in ["server-key.pem", "server-cert.pem"] {
        fs::copy(others.path(file), certificates.path(file)).expect("copy");
    }
    hang_up();
    let begun = std::time::Instant::now();
    while !knows(&after) {
        let waited = begun.elapsed();
        assert!(
            waited < std::time::Duration::from_secs(30),
            "it is not read"
        );
    }
    assert!(!knows(&before));
    stays.write(0, b"abc").expect("written");
    server.stop();
}

#[test]
fn certificates_that_cannot_be_used_refuse_the_start() {
    if !have(&["openssl"]) {
        return;
    }
    let dir = TestDir::new();
    let certificates = Certificates::new(&dir);
    let refused = |lines: &str, part: &str| {
        let file = dir.file("everglade.toml");
        fs::write(&file, format!("[nbd]\n{lines}\n")).expect("write");
        let output = dir.serve_in_vain(&["--config", text(&file)]);
        let said = stderr(&output);
        assert!(said.contains(part), "'{part}' is not in: {said}");
        assert!(!said.contains("PRIVATE"), "{said}");
    };
    refused("tls = \"required\"", "nbd.tls_certificates is not given");
    refused("tls = \"yes\"", "expected off, offered or required");
    refused("tls_clients = \"certified\"", "nbd.tls is off");
    let lines = format!(
        "tls = \"offered\"\ntls_certificates = \"{}\"",
        certificates.path("")
    );
    let key = certificates.path("server-key.pem");
    must("chmod", &["644", &key]);
    refused(&lines, "everybody may read this key");
    must("chmod", &["600", &key]);
    fs::write(&key, "no key").expect("write");
    refused(&lines, "server-key.pem");
    fs::remove_file(certificates.path("server-cert.pem")).expect("remove");
    refused(&lines, "server-cert.pem");
    refused("allow = 7", "expected a table");
    refused(
        "allow.v = \"local\"",
        "expected VOLUME/LUN, VOLUME/LUN@SNAPSHOT",
    );
    refused("allow.\"v/*\" = \"home\"", "expected an address");
}

#[test]
fn an_allow_list_hides_what_a_caller_may_not_use() {
    let dir = TestDir::new();
    let lines = "allow.\"vol0/near\" = \"local\"\nallow.\"vol0/far\" = [\"10.9.8.0/24\"]";
    let server = serve(&dir, lines);
    for lun in ["vol0/near", "vol0/far"] {
        ask(&dir, &["lun", "create", lun, "--size", "64MiB"]);
    }
    Client::open(&server.tcp, LUN).expect("it is for all");
    assert!(Client::open(&server.tcp, "vol0/near").is_err());
    assert!(Client::open(&server.tcp, "vol0/far").is_err());
    if have(&["nbdinfo"]) {
        let list = must("nbdinfo", &["--list", &server.uri("")]);
        assert!(list.contains(LUN) && !list.contains("near") && !list.contains("far"));
        must("nbdinfo", &["--size", &server.unix_uri("vol0/near")]);
        must_fail("nbdinfo", &["--size", &server.unix_uri("vol0/far")]);
    }
    server.stop();
}

#[test]
fn an_allow_list_knows_clients_by_the_names_in_their_certificates() {
    if !have(&["openssl", "nbdinfo"]) {
        return;
    }
    let dir = TestDir::new();
    let certificates = Certificates::new(&dir);
    let lines = format!(
        "tls = \"offered\"\ntls_certificates = \"{}\"\ntls_clients = \"certified\"\n\
         allow.\"vol0/mine\" = \"cert:db1.example.org\"\nallow.\"vol0/other\" \
         = \"cert:db2.example.org\"",
        certificates.path("")
    );
    let server = serve(&dir, &lines);
    for lun in ["vol0/mine", "vol0/other"] {
        ask(&dir, &["lun", "create", lun, "--size", "64MiB"]);
    }
    let uri = |lun: &str| encrypted_uri(&server, lun, &certificates.folder);
    must("nbdinfo", &["--size", &uri("vol0/mine")]);
    must("nbdinfo", &["--size", &uri(LUN)]);
    must_fail("nbdinfo", &["--size", &uri("vol0/other")]);
    // In clear nobody has a name.
    assert!(Client::open(&server.tcp, "vol0/mine").is_err());
    must_fail("nbdinfo", &["--size", &server.unix_uri("vol0/mine")]);
    Client::open(&server.tcp, LUN).expect("it is for all");
    server.stop();
}

#[test]
fn an_idle_connection_is_closed_if_that_is_wanted() {
    let dir = TestDir::new();
    let server = serve(&dir, "idle_timeout = \"2s\"");
    let (mut idle, _) = Client::open(&server.tcp, LUN).expect("a client");
    idle.write(0, b"abc").expect("written");
    assert!(idle.is_closed_by_server());
    server.stop();
}
