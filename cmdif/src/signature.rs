//! Signatures: a byte chosen so that all bytes of a structure together give 0xff when they are
//! XORed.

/// XOR of all bytes.
pub(crate) fn xor(bytes: &[u8]) -> u8 {
    let (words, rest) = bytes.as_chunks::<8>();
    let folded = words.iter().fold(0, |sum, word| sum ^ u64::from_ne_bytes(*word));
    folded.to_ne_bytes().iter().chain(rest).fold(0, |sum, byte| sum ^ byte)
}

/// Whether a structure that holds its signature is whole.
pub(crate) fn verify(bytes: &[u8]) -> bool {
    xor(bytes) == 0xff
}

/// The signature for a structure whose signature is zero so far.
pub(crate) fn sign(bytes: &[u8]) -> u8 {
    !xor(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_structure_is_whole_and_a_changed_one_is_not() {
        let mut bytes: Vec<u8> = (0..77).collect();
        bytes[76] = 0;
        bytes[76] = sign(&bytes);
        assert!(verify(&bytes));
        bytes[3] ^= 0x10;
        assert!(!verify(&bytes));
    }

    #[test]
    fn xor_of_known_bytes() {
        assert_eq!(xor(&[]), 0);
        assert_eq!(xor(&[0x07, 0x10, 0x01]), 0x16);
        assert_eq!(xor(&[0x55; 9]), 0x55);
        assert_eq!(xor(&[0x55; 16]), 0);
    }
}
