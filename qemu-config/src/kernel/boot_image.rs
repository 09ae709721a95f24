//! What a kernel file tells about itself.

use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, elf};

/// How a bzImage's kernel is packed, and with which program it can be unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    Xz,
    Zstd,
}

/// The boot protocol's header starts at 0x1f1; its signature is at 0x202.
const SETUP_SECTORS: usize = 0x1f1;
const SIGNATURE: usize = 0x202;
const VERSION: usize = 0x20e;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
const SECTOR: usize = 512;

fn number(image: &[u8], at: usize, bytes: usize) -> Option<usize> {
    let bytes = image.get(at..at.checked_add(bytes)?)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
}

fn is_bzimage(image: &[u8]) -> bool {
    image.get(SIGNATURE..).is_some_and(|rest| rest.starts_with(b"HdrS"))
}

/// The release, as `uname -r` will print it. `None` when it is no kernel for x86-64.
pub(crate) fn release(image: &[u8]) -> Option<String> {
    let text = if is_bzimage(image) {
        image.get(number(image, VERSION, 2)?.checked_add(SECTOR)?..)?
    } else if is_elf(image) {
        const BANNER: &[u8] = b"Linux version ";
        let banner = |at: &usize| {
            let rest = image.get(at.saturating_add(BANNER.len())..).unwrap_or_default();
            rest.first().is_some_and(u8::is_ascii_digit)
        };
        let places = (0..image.len())
            .filter(|at| image.get(*at..).is_some_and(|rest| rest.starts_with(BANNER)));
        image.get(places.into_iter().find(banner)?.checked_add(BANNER.len())?..)?
    } else {
        return None;
    };
    let word = text.iter().take(128).take_while(|byte| byte.is_ascii_graphic());
    let release: String = word.map(|byte| char::from(*byte)).collect();
    (!release.is_empty()).then_some(release)
}

/// The packed kernel in a bzImage, if we can unpack it.
pub(crate) fn payload(image: &[u8]) -> Option<(Packing, &[u8])> {
    if !is_bzimage(image) {
        return None;
    }
    // 0 stands for 4, for the sake of very old boot loaders.
    let sectors = match number(image, SETUP_SECTORS, 1)? {
        0 => 4,
        sectors => sectors,
    };
    let begin =
        (sectors + 1).checked_mul(SECTOR)?.checked_add(number(image, PAYLOAD_OFFSET, 4)?)?;
    // The unpacked length follows the packed bytes and is counted with them.
    let end = begin.checked_add(number(image, PAYLOAD_LENGTH, 4)?)?.checked_sub(4)?;
    let payload = image.get(begin..end)?;
    let packing = match payload {
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Packing::Xz,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
        _ => return None,
    };
    Some((packing, payload))
}

fn is_elf(image: &[u8]) -> bool {
    elf::FileHeader64::<Endianness>::parse(image).is_ok()
}

/// Whether QEMU can start this vmlinux directly: it has the note that says where.
pub(crate) fn starts_by_itself(vmlinux: &[u8]) -> bool {
    const PHYS32_ENTRY: elf::NoteType = elf::NoteType(18);
    let check = || -> object::Result<bool> {
        let header = elf::FileHeader64::<Endianness>::parse(vmlinux)?;
        let endian = header.endian()?;
        for segment in header.program_headers(endian, vmlinux)? {
            let Some(mut notes) = segment.notes(endian, vmlinux)? else { continue };
            while let Some(note) = notes.next()? {
                if note.name() == b"Xen" && note.n_type(endian) == PHYS32_ENTRY {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    };
    check().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
        image[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn bzimage(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 0x1000];
        put(&mut image, SETUP_SECTORS, &[1]);
        put(&mut image, SIGNATURE, b"HdrS");
        put(&mut image, VERSION, &0x100_u16.to_le_bytes());
        put(&mut image, 0x300, b"6.12.1+deb13 (builder) #1\0");
        put(&mut image, PAYLOAD_OFFSET, &0x40_u32.to_le_bytes());
        let length = u32::try_from(payload.len() + 4).unwrap();
        put(&mut image, PAYLOAD_LENGTH, &length.to_le_bytes());
        put(&mut image, 0x440, payload);
        image
    }

    #[test]
    fn a_bzimage() {
        let xz = b"\xfd7zXZ\0rest";
        let image = bzimage(xz);
        assert_eq!(release(&image).as_deref(), Some("6.12.1+deb13"));
        assert_eq!(payload(&image), Some((Packing::Xz, &xz[..])));
        assert_eq!(payload(&bzimage(b"\x28\xb5\x2f\xfdx")).unwrap().0, Packing::Zstd);
        assert_eq!(payload(&bzimage(b"BZh9")), None, "booted as it is");
    }

    #[test]
    fn nonsense_is_no_kernel() {
        for image in [&b""[..], b"hello", &[0; 0x300], b"\x7fELF"] {
            assert_eq!(release(image), None);
            assert_eq!(payload(image), None);
            assert!(!starts_by_itself(image));
        }
        let mut torn = bzimage(b"\xfd7zXZ\0");
        put(&mut torn, PAYLOAD_LENGTH, &u32::MAX.to_le_bytes());
        assert_eq!(payload(&torn), None);
        put(&mut torn, VERSION, &[0xff, 0xff]);
        assert_eq!(release(&torn), None);
    }
}
