//! An initramfs: files in the cpio format that the kernel unpacks.

/// One that grows.
#[derive(Debug, Default)]
pub(crate) struct Initramfs {
    bytes: Vec<u8>,
    files: u32,
}

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;

impl Initramfs {
    pub(crate) fn directory(&mut self, name: &str) {
        self.add(name, DIRECTORY, &[]);
    }

    pub(crate) fn file(&mut self, name: &str, content: &[u8]) {
        self.add(name, FILE, content);
    }

    pub(crate) fn program(&mut self, name: &str, content: &[u8]) {
        self.add(name, PROGRAM, content);
    }

    /// The whole archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[]);
        self.bytes
    }

    /// The `newc` format: a header of hexadecimal numbers, name and content, each padded to 4 bytes.
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.files += 1;
        let number = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let fields = [
            self.files, // inode
            mode,
            0, // user
            0, // group
            1, // links
            0, // time
            number(content.len()),
            0, // device, major and minor
            0,
            0, // the device that it is, major and minor
            0,
            number(name.len() + 1),
            0, // checksum: none in this format
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format() {
        let mut archive = Initramfs::default();
        archive.directory("d");
        archive.program("d/p", b"abc");
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        let directory = "07070100000001000041ed00000000000000000000000100000000\
                         0000000000000000000000000000000000000000\
                         0000000200000000d\0";
        assert!(text.starts_with(directory), "{text}");
        let program = "07070100000002000081ed00000000000000000000000100000000\
                       0000000300000000000000000000000000000000\
                       0000000400000000d/p\0";
        assert_eq!(text.get(112..112 + 114), Some(program));
        assert!(text.contains("d/p\0\0\0abc\0"), "padded: {text}");
        assert!(text.contains("TRAILER!!!"));
        assert_eq!(bytes.len() % 4, 0);
    }
}
