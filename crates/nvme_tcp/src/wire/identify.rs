//! Structures that Identify returns, each of 4,096 bytes (base "Identify Command", NVM command set
//! "Identify"). Only fields that are not zero are written; their places are in the code.

use super::fields::{put, put_text};

/// Size of every structure.
pub const BYTES: usize = 4096;

/// Values of CNS, the kind of a structure.
pub mod cns {
    /// A namespace.
    pub const NAMESPACE: u8 = 0x00;
    /// The controller.
    pub const CONTROLLER: u8 = 0x01;
    /// Ids of active namespaces.
    pub const NAMESPACES: u8 = 0x02;
    /// Descriptors of a namespace's identity.
    pub const DESCRIPTORS: u8 = 0x03;
    /// A namespace, as a command set sees it.
    pub const NAMESPACE_OF_SET: u8 = 0x05;
    /// The controller, as a command set sees it.
    pub const CONTROLLER_OF_SET: u8 = 0x06;
    /// Ids of active namespaces of a command set.
    pub const NAMESPACES_OF_SET: u8 = 0x07;
    /// A namespace, whatever the command set.
    pub const NAMESPACE_OF_ANY_SET: u8 = 0x08;
    /// Controllers to which a namespace is attached.
    pub const CONTROLLERS_OF_NAMESPACE: u8 = 0x12;
    /// Controllers of the subsystem.
    pub const CONTROLLERS: u8 = 0x13;
    /// Combinations of command sets.
    pub const COMMAND_SETS: u8 = 0x1c;
}

/// Bytes of a block as 2 to the power of this.
pub const BLOCK_SHIFT: u32 = 9;
/// Bytes of a block: 512, so that hosts can use file systems and partition tables that were made on
/// disks with blocks of 512 bytes. Other fields tell hosts that requests of whole 4 KiB are faster.
pub const BLOCK_BYTES: u64 = 1 << BLOCK_SHIFT;
/// Bytes of a page of the controller as 2 to the power of this, the unit of some limits.
pub const PAGE_SHIFT: u32 = 12;

/// The version that we follow: 2.0.
pub const VERSION: u32 = 2 << 16;

/// The temperature of which hosts are warned, in kelvin. There is no sensor, so it is never met.
pub const WARNING_KELVIN: u16 = 343;

/// Names and numbers in the controller's structure.
#[derive(Clone, Debug)]
pub struct ControllerFacts<'a> {
    /// The controller.
    pub id: u16,
    /// Serial number, at most 20 characters.
    pub serial: &'a str,
    /// Version of the software, at most 8 characters.
    pub release: &'a str,
    /// Name of the subsystem.
    pub subsystem: &'a str,
    /// The discovery controller, which has no namespaces.
    pub is_discovery: bool,
    /// Highest namespace id.
    pub namespaces_max: u32,
    /// Asynchronous event requests that are kept.
    pub event_requests_max: u8,
    /// Longest transfer in bytes, a power of two pages.
    pub transfer_bytes_max: u32,
    /// Longest data in the message of a command.
    pub in_capsule_bytes_max: u32,
    /// Entries of a queue.
    pub entries_max: u16,
    /// The longest write that is whole or absent, for readers and after a power cut, in bytes.
    pub atomic_bytes: u32,
    /// The longest compare and write in bytes.
    pub compare_and_write_bytes: u32,
    /// The reservation commands are there.
    pub has_reservations: bool,
}

/// Bits of the optional commands.
mod optional {
    pub(super) const COMPARE: u16 = 1 << 0;
    pub(super) const DATASET_MANAGEMENT: u16 = 1 << 2;
    pub(super) const WRITE_ZEROES: u16 = 1 << 3;
    pub(super) const RESERVATIONS: u16 = 1 << 5;
    pub(super) const VERIFY: u16 = 1 << 7;
    pub(super) const COPY: u16 = 1 << 8;
}

/// Makes the controller's structure.
#[must_use]
pub fn controller(facts: &ControllerFacts<'_>) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    put_text(&mut bytes, 4, 20, facts.serial, b' ');
    put_text(&mut bytes, 24, 40, "Everglade", b' ');
    put_text(&mut bytes, 64, 8, facts.release, b' ');
    // MDTS.
    bytes[77] = shift_of(facts.transfer_bytes_max);
    put(&mut bytes, 78, &facts.id.to_le_bytes());
    put(&mut bytes, 80, &VERSION.to_le_bytes());
    // OAES: events of namespaces, or of the discovery log page.
    let events = match facts.is_discovery {
        true => super::feature::events::DISCOVERY,
        false => super::feature::events::NAMESPACE,
    };
    put(&mut bytes, 92, &events.to_le_bytes());
    // CTRATT: host identifiers of 16 bytes; every command keeps a controller alive.
    let attributes: u32 = 1 << 0 | 1 << 6;
    put(&mut bytes, 96, &attributes.to_le_bytes());
    // CNTRLTYPE.
    bytes[111] = if facts.is_discovery { 2 } else { 1 };
    // ACL, AERL, less one each.
    bytes[258] = 3;
    bytes[259] = facts.event_requests_max - 1;
    // FRMW: one slot, read-only.
    bytes[260] = 1 << 1 | 1 << 0;
    // LPA: effects log page, offsets and long lengths of log pages.
    bytes[261] = 1 << 1 | 1 << 2;
    // KAS: keep-alive times are counted in seconds, told in units of 100 ms.
    put(&mut bytes, 320, &10_u16.to_le_bytes());
    // SGLS: supported, with offsets in the message of a command.
    let sgls: u32 = 1 << 0 | 1 << 20;
    put(&mut bytes, 536, &sgls.to_le_bytes());
    put(&mut bytes, 514, &facts.entries_max.to_le_bytes());
    put_text(&mut bytes, 768, 256, facts.subsystem, 0);
    if facts.is_discovery {
        return bytes;
    }
    // CMIC: several ports, several controllers, asymmetric access is reported.
    bytes[76] = 1 << 0 | 1 << 1 | 1 << 3;
    // WCTEMP, CCTEMP in kelvin: thresholds that are never met, because there is no sensor.
    put(&mut bytes, 266, &WARNING_KELVIN.to_le_bytes());
    put(&mut bytes, 268, &353_u16.to_le_bytes());
    // ANATT in seconds, ANACAP: optimized access; one group.
    bytes[342] = 10;
    bytes[343] = 1 << 0;
    put(&mut bytes, 344, &1_u32.to_le_bytes());
    put(&mut bytes, 348, &1_u32.to_le_bytes());
    // SQES, CQES: 64 and 16 bytes.
    bytes[512] = 6 << 4 | 6;
    bytes[513] = 4 << 4 | 4;
    put(&mut bytes, 516, &facts.namespaces_max.to_le_bytes());
    let mut commands = optional::COMPARE
        | optional::DATASET_MANAGEMENT
        | optional::WRITE_ZEROES
        | optional::VERIFY
        | optional::COPY;
    if facts.has_reservations {
        commands |= optional::RESERVATIONS;
    }
    put(&mut bytes, 520, &commands.to_le_bytes());
    // FUSES: compare and write.
    put(
        &mut bytes,
        522,
        &u16::from(facts.compare_and_write_bytes > 0).to_le_bytes(),
    );
    // VWC: there is one, and a flush of all namespaces is supported.
    bytes[525] = 1 | 3 << 1;
    // AWUN, AWUPF, less one: a write is whole or absent, for readers and after a power cut.
    for at in [526, 528] {
        put(
            &mut bytes,
            at,
            &blocks_less_one(facts.atomic_bytes).to_le_bytes(),
        );
    }
    let both = blocks_less_one(facts.compare_and_write_bytes);
    put(&mut bytes, 532, &both.to_le_bytes());
    // OCFS: copies of format 0.
    put(&mut bytes, 534, &1_u16.to_le_bytes());
    // MNAN.
    put(&mut bytes, 540, &facts.namespaces_max.to_le_bytes());
    // IOCCSZ, IORCSZ in units of 16 bytes; MSDBD: one descriptor of data.
    let capsule = (64 + facts.in_capsule_bytes_max) / 16;
    put(&mut bytes, 1792, &capsule.to_le_bytes());
    put(&mut bytes, 1796, &1_u32.to_le_bytes());
    bytes[1803] = 1;
    // OFCS: Disconnect.
    put(&mut bytes, 1804, &1_u16.to_le_bytes());
    // PSD0: the only power state, of no told power.
    bytes
}

/// Returns the power of two of pages that `bytes` are.
fn shift_of(bytes: u32) -> u8 {
    let shift = bytes.trailing_zeros() - PAGE_SHIFT;
    u8::try_from(shift).expect("a power of two")
}

fn blocks_less_one(bytes: u32) -> u16 {
    let blocks = (bytes >> BLOCK_SHIFT).saturating_sub(1);
    u16::try_from(blocks).unwrap_or(u16::MAX)
}

/// Facts about a namespace.
#[derive(Clone, Debug)]
pub struct NamespaceFacts {
    /// Size in bytes, whole blocks.
    pub size_bytes: u64,
    /// It cannot be written to.
    pub read_only: bool,
    /// Unique for ever.
    pub nguid: [u8; 16],
    /// Unique for ever.
    pub eui64: [u8; 8],
    /// The LUN's.
    pub uuid: [u8; 16],
    /// See [`ControllerFacts`].
    pub atomic_bytes: u32,
    /// See [`ControllerFacts`].
    pub compare_and_write_bytes: u32,
    /// Longest range of a copy, in blocks.
    pub copy_range_blocks_max: u16,
    /// Longest copy, in blocks.
    pub copy_blocks_max: u32,
    /// Ranges of a copy.
    pub copy_ranges_max: u8,
    /// The reservation commands are there.
    pub has_reservations: bool,
    /// Reservations can outlive the power.
    pub can_persist: bool,
}

impl NamespaceFacts {
    /// RESCAP: all kinds of reservations; the key of a host may be ignored.
    fn reservations(&self) -> u8 {
        match self.has_reservations {
            true => 0xfe | u8::from(self.can_persist),
            false => 0,
        }
    }
}

/// Blocks of a 4-KiB unit, less one.
const UNIT_LESS_ONE: u16 = 7;

/// Makes the structure of a namespace.
#[must_use]
pub fn namespace(facts: &NamespaceFacts) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    let blocks = facts.size_bytes >> BLOCK_SHIFT;
    // NSZE, NCAP, NUSE.
    for at in [0, 8, 16] {
        put(&mut bytes, at, &blocks.to_le_bytes());
    }
    // NSFEAT: thin; atomicity of its own; identifiers are not used again; preferred units.
    bytes[24] = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4;
    // NMIC: shared by controllers.
    bytes[30] = 1;
    bytes[31] = facts.reservations();
    // DLFEAT: deallocated blocks read as zeroes; zeroes may be deallocated.
    bytes[33] = 1 | 1 << 3;
    // NAWUN, NAWUPF, NACWU, less one each.
    for at in [34, 36] {
        put(
            &mut bytes,
            at,
            &blocks_less_one(facts.atomic_bytes).to_le_bytes(),
        );
    }
    let both = blocks_less_one(facts.compare_and_write_bytes);
    put(&mut bytes, 38, &both.to_le_bytes());
    // NPWG, NPWA, NPDG, NPDA: units of 4 KiB. NOWS: 64 KiB.
    for at in [64, 66, 68, 70] {
        put(&mut bytes, at, &UNIT_LESS_ONE.to_le_bytes());
    }
    put(&mut bytes, 72, &127_u16.to_le_bytes());
    // MSSRL, MCL, MSRC.
    put(&mut bytes, 74, &facts.copy_range_blocks_max.to_le_bytes());
    put(&mut bytes, 76, &facts.copy_blocks_max.to_le_bytes());
    bytes[80] = facts.copy_ranges_max - 1;
    // ANAGRPID.
    put(&mut bytes, 92, &1_u32.to_le_bytes());
    // NSATTR: write-protected.
    bytes[99] = u8::from(facts.read_only);
    put(&mut bytes, 104, &facts.nguid);
    put(&mut bytes, 120, &facts.eui64);
    // LBAF0.
    bytes[130] = u8::try_from(BLOCK_SHIFT).expect("9");
    bytes
}

/// Makes the structure of a namespace that every command set has.
#[must_use]
pub fn namespace_of_any_set(facts: &NamespaceFacts) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    // NSFEAT: identifiers are not used again. NMIC: shared.
    bytes[0] = 1 << 3;
    bytes[1] = 1;
    bytes[2] = facts.reservations();
    put(&mut bytes, 4, &1_u32.to_le_bytes());
    bytes[8] = u8::from(facts.read_only);
    // NSTAT: ready.
    bytes[14] = 1;
    bytes
}

/// Makes the limits of the NVM command set, in powers of two of pages: verify, write zeroes.
#[must_use]
pub fn controller_of_nvm_set() -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    // The longest range of a command is 65,536 blocks.
    let longest = u8::try_from(16 + BLOCK_SHIFT - PAGE_SHIFT).expect("13");
    bytes[0] = longest;
    bytes[1] = longest;
    bytes
}

/// Makes the list of a namespace's identifiers: EUI-64, NGUID, UUID, command set.
#[must_use]
pub fn descriptors(facts: &NamespaceFacts) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BYTES);
    let all: [(u8, &[u8]); 4] = [
        (1, &facts.eui64),
        (2, &facts.nguid),
        (3, &facts.uuid),
        (4, &[0]),
    ];
    for (kind, identifier) in all {
        let length = u8::try_from(identifier.len()).expect("at most 16 bytes");
        bytes.extend_from_slice(&[kind, length, 0, 0]);
        bytes.extend_from_slice(identifier);
    }
    bytes.resize(BYTES, 0);
    bytes
}

/// Makes a list of numbers of 32 bits: the first 1,024 of `ids`, which are sorted.
#[must_use]
pub fn namespaces(ids: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut bytes: Vec<u8> = ids.take(BYTES / 4).flat_map(u32::to_le_bytes).collect();
    bytes.resize(BYTES, 0);
    bytes
}

/// Makes a list of controllers, which are sorted: their number, then the first 2,047.
#[must_use]
pub fn controllers(ids: impl Iterator<Item = u16>) -> Vec<u8> {
    let ids: Vec<u16> = ids.take(BYTES / 2 - 1).collect();
    let count = u16::try_from(ids.len()).expect("at most 2,047");
    let mut bytes: Vec<u8> = count.to_le_bytes().to_vec();
    bytes.extend(ids.into_iter().flat_map(u16::to_le_bytes));
    bytes.resize(BYTES, 0);
    bytes
}

/// Makes the list of combinations of command sets: the NVM command set alone.
#[must_use]
pub fn command_sets() -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    bytes[0] = 1;
    bytes
}
