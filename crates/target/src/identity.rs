//! Names by which hosts recognise a LUN: all of them follow from its UUID.
//!
//! A host that sees one LUN on several paths, or by several protocols, knows by these names that it
//! is one. So they must not depend on the protocol, on the path, or on the LUN's name.
//!
//! | name | bytes | from |
//! | --- | --- | --- |
//! | NAA, format 6 (SPC-4 §7.8.6.6.5) | 16 | 6, company, 100 bits of the UUID |
//! | EUI-64 | 8 | company, 40 bits |
//! | NGUID (NVMe base §4.7.1.4) | 16 | 64 bits, company, 40 bits |
//! | serial number | 20 characters | 80 bits, hexadecimal |
//!
//! The bits are the first ones of the UUID. The company is not an assigned one: its bit for locally
//! administered numbers is set, so it cannot be any company's.

/// Stands where an organisation's assigned number would be. Bit 1 of the first byte means that the
/// number is administered locally.
const COMPANY: [u8; 3] = [0x02, 0x45, 0x47];

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    uuid: [u8; 16],
}

impl Identity {
    /// The identity of the LUN with this UUID.
    #[must_use]
    pub fn of(uuid: &[u8; 16]) -> Identity {
        Identity { uuid: *uuid }
    }

    /// Returns the UUID.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Returns the NAA designator: 128 bits of format 6.
    #[must_use]
    pub fn naa(&self) -> [u8; 16] {
        let [a, b, c] = COMPANY;
        let mut naa = [0; 16];
        naa[0] = 0x60 | a >> 4;
        naa[1] = a << 4 | b >> 4;
        naa[2] = b << 4 | c >> 4;
        naa[3] = c << 4 | self.uuid[0] >> 4;
        for (index, place) in naa[4..].iter_mut().enumerate() {
            *place = self.uuid[index] << 4 | self.uuid[index + 1] >> 4;
        }
        naa
    }

    /// Returns the EUI-64.
    #[must_use]
    pub fn eui64(&self) -> [u8; 8] {
        let mut eui = [0; 8];
        eui[..3].copy_from_slice(&COMPANY);
        eui[3..].copy_from_slice(&self.uuid[..5]);
        eui
    }

    /// Returns the NGUID.
    #[must_use]
    pub fn nguid(&self) -> [u8; 16] {
        let mut nguid = [0; 16];
        nguid[..8].copy_from_slice(&self.uuid[..8]);
        nguid[8..11].copy_from_slice(&COMPANY);
        nguid[11..].copy_from_slice(&self.uuid[8..13]);
        nguid
    }

    /// Returns the serial number, 20 capital hexadecimal digits.
    #[must_use]
    pub fn serial(&self) -> String {
        use std::fmt::Write as _;
        self.uuid[..10]
            .iter()
            .fold(String::new(), |mut text, byte| {
                // Writing to a String cannot fail.
                let _ = write!(text, "{byte:02X}");
                text
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_bits_of_the_uuid_in_order() {
        let uuid = std::array::from_fn(|index| u8::try_from(0x11 * index).expect("at most 255"));
        let identity = Identity::of(&uuid);
        assert_eq!(
            u128::from_be_bytes(identity.naa()),
            0x6024_5470_0112_2334_4556_6778_899a_abbc
        );
        assert_eq!(u64::from_be_bytes(identity.eui64()), 0x0245_4700_1122_3344);
        assert_eq!(
            u128::from_be_bytes(identity.nguid()),
            0x0011_2233_4455_6677_0245_4788_99aa_bbcc
        );
        assert_eq!(identity.serial(), "00112233445566778899");
    }
}
