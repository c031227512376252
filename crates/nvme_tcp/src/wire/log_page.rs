//! Log pages (base "Log Page Identifiers").

use core::net::{IpAddr, SocketAddr};

use super::fields::{put, put_text};
use super::opcode::{FABRICS, admin, io};

/// Identifiers of log pages that we know.
pub mod id {
    /// Log pages that there are.
    pub const SUPPORTED: u8 = 0x00;
    /// Commands that failed.
    pub const ERRORS: u8 = 0x01;
    /// Health.
    pub const HEALTH: u8 = 0x02;
    /// Firmware.
    pub const FIRMWARE: u8 = 0x03;
    /// Namespaces that have changed.
    pub const CHANGED_NAMESPACES: u8 = 0x04;
    /// Commands that there are, and what they change.
    pub const EFFECTS: u8 = 0x05;
    /// Asymmetric access.
    pub const ACCESS: u8 = 0x0c;
    /// Subsystems.
    pub const DISCOVERY: u8 = 0x70;
    /// Notices about reservations.
    pub const NOTICES: u8 = 0x80;
}

/// Which log pages a controller has, one word for each identifier.
#[must_use]
pub fn supported(pages: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    for page in pages {
        bytes[4 * usize::from(*page)] = 1;
    }
    bytes
}

/// What a controller has done, in the health log page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Read commands.
    pub reads: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Write commands.
    pub writes: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Commands that failed because of media.
    pub media_errors: u64,
}

/// Bytes of the unit in which the health log page counts data.
const DATA_UNIT_BYTES: u64 = 512_000;

/// Makes the health log page. There is no sensor and no wear; the spare is all there.
#[must_use]
pub fn health(work: &Work) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    // 25 °C in kelvin: zero would be taken for a broken sensor.
    put(&mut bytes, 1, &298_u16.to_le_bytes());
    bytes[3] = 100;
    bytes[4] = 10;
    put(
        &mut bytes,
        32,
        &work.bytes_read.div_ceil(DATA_UNIT_BYTES).to_le_bytes(),
    );
    put(
        &mut bytes,
        48,
        &work.bytes_written.div_ceil(DATA_UNIT_BYTES).to_le_bytes(),
    );
    put(&mut bytes, 64, &work.reads.to_le_bytes());
    put(&mut bytes, 80, &work.writes.to_le_bytes());
    put(&mut bytes, 160, &work.media_errors.to_le_bytes());
    bytes
}

/// Makes the firmware log page: the first slot is active.
#[must_use]
pub fn firmware(release: &str) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    bytes[0] = 1;
    put_text(&mut bytes, 8, 8, release, b' ');
    bytes
}

/// Makes the list of changed namespaces; more than 1,024 are told as one number.
#[must_use]
pub fn changed_namespaces(ids: &[u32]) -> Vec<u8> {
    if ids.len() > 1024 {
        return super::identify::namespaces(std::iter::once(u32::MAX));
    }
    super::identify::namespaces(ids.iter().copied())
}

/// Makes the effects log page.
#[must_use]
pub fn effects(has_reservations: bool) -> Vec<u8> {
    const SUPPORTED: u32 = 1 << 0;
    const CHANGES_BLOCKS: u32 = 1 << 1;
    let mut bytes = vec![0; 4096];
    let admin_commands = [
        admin::GET_LOG_PAGE,
        admin::IDENTIFY,
        admin::ABORT,
        admin::SET_FEATURES,
        admin::GET_FEATURES,
        admin::ASYNC_EVENT,
        admin::KEEP_ALIVE,
        FABRICS,
    ];
    for opcode in admin_commands {
        put(
            &mut bytes,
            4 * usize::from(opcode),
            &SUPPORTED.to_le_bytes(),
        );
    }
    let reads = [io::FLUSH, io::READ, io::COMPARE, io::VERIFY];
    let writes = [
        io::WRITE,
        io::WRITE_ZEROES,
        io::DATASET_MANAGEMENT,
        io::COPY,
    ];
    let reservations = [
        io::RESERVATION_REGISTER,
        io::RESERVATION_REPORT,
        io::RESERVATION_ACQUIRE,
        io::RESERVATION_RELEASE,
    ];
    let of = |opcodes: &[u8], effects: u32| opcodes.iter().map(move |it| (*it, effects)).collect();
    let mut all: Vec<(u8, u32)> = of(&reads, SUPPORTED);
    all.extend::<Vec<_>>(of(&writes, SUPPORTED | CHANGES_BLOCKS));
    if has_reservations {
        all.extend::<Vec<_>>(of(&reservations, SUPPORTED));
    }
    for (opcode, effects) in all {
        put(
            &mut bytes,
            1024 + 4 * usize::from(opcode),
            &effects.to_le_bytes(),
        );
    }
    bytes
}

/// Makes the log page of asymmetric access: one group, optimized, with these namespaces unless only
/// groups are wanted.
#[must_use]
pub fn access(namespaces: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; 16 + 32];
    // The number of changes, of the page and of the group, stays what it is.
    put(&mut bytes, 0, &1_u64.to_le_bytes());
    put(&mut bytes, 8, &1_u16.to_le_bytes());
    put(&mut bytes, 16, &1_u32.to_le_bytes());
    let count = u32::try_from(namespaces.len()).expect("namespaces are few");
    put(&mut bytes, 20, &count.to_le_bytes());
    put(&mut bytes, 24, &1_u64.to_le_bytes());
    // Optimized.
    bytes[32] = 1;
    bytes.extend(namespaces.iter().flat_map(|id| id.to_le_bytes()));
    bytes
}

/// Header of the discovery log page.
pub const DISCOVERY_HEADER_BYTES: usize = 1024;
/// Entry of the discovery log page.
pub const DISCOVERY_ENTRY_BYTES: usize = 1024;

/// Makes the header of the discovery log page.
#[must_use]
pub fn discovery_header(generation: u64, records: u64) -> Vec<u8> {
    let mut bytes = vec![0; DISCOVERY_HEADER_BYTES];
    put(&mut bytes, 0, &generation.to_le_bytes());
    put(&mut bytes, 8, &records.to_le_bytes());
    bytes
}

/// An entry of the discovery log page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryEntry<'a> {
    /// The discovery service that the host is connected to, not a subsystem with namespaces.
    pub is_discovery: bool,
    /// Its name.
    pub subsystem: &'a str,
    /// Where it is reached.
    pub address: SocketAddr,
}

impl DiscoveryEntry<'_> {
    /// Encodes the entry.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; DISCOVERY_ENTRY_BYTES];
        // TCP.
        bytes[0] = 3;
        let ip = self.address.ip().to_canonical();
        bytes[1] = match ip {
            IpAddr::V4(_) => 1,
            IpAddr::V6(_) => 2,
        };
        bytes[2] = if self.is_discovery { 3 } else { 2 };
        // TREQ: a secure channel is not required; flow control can be turned off.
        bytes[3] = 2 | 1 << 2;
        // PORTID: told apart by the port; CNTLID: any.
        put(&mut bytes, 4, &self.address.port().to_le_bytes());
        put(&mut bytes, 6, &u16::MAX.to_le_bytes());
        // ASQSZ.
        put(&mut bytes, 8, &32_u16.to_le_bytes());
        if self.is_discovery {
            // EFLAGS: the same list at all ports; it can be watched.
            put(&mut bytes, 10, &3_u16.to_le_bytes());
        }
        let port = self.address.port().to_string();
        put_text(&mut bytes, 32, 32, &port, b' ');
        put_text(&mut bytes, 256, 256, self.subsystem, 0);
        put_text(&mut bytes, 512, 256, &ip.to_string(), b' ');
        bytes
    }
}

/// A host in a report of reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registrant {
    /// Its identifier.
    pub host_id: [u8; 16],
    /// With which it is registered.
    pub key: u64,
    /// It holds the reservation.
    pub holds: bool,
}

/// Makes a report of reservations with identifiers of 16 bytes (base "Reservation Status Extended
/// Data Structure"). `kind` is 0 if there is none; `persists` says that it outlives the power.
#[must_use]
pub fn reservation_report(
    generation: u32,
    kind: u8,
    persists: bool,
    hosts: &[Registrant],
) -> Vec<u8> {
    let mut bytes = vec![0; 64 * (1 + hosts.len())];
    put(&mut bytes, 0, &generation.to_le_bytes());
    bytes[4] = kind;
    let count = u16::try_from(hosts.len()).unwrap_or(u16::MAX);
    put(&mut bytes, 5, &count.to_le_bytes());
    bytes[9] = u8::from(persists);
    for (entry, host) in bytes[64..].chunks_exact_mut(64).zip(hosts) {
        // Controllers have no fixed numbers.
        put(entry, 0, &u16::MAX.to_le_bytes());
        entry[2] = u8::from(host.holds);
        put(entry, 8, &host.key.to_le_bytes());
        put(entry, 16, &host.host_id);
    }
    bytes
}
