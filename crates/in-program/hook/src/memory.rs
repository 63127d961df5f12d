//! Reads memory that may be unmapped, to check whether an object has a known layout.

/// Reads `N` words at an address; `None` if not all of them are readable.
pub(crate) fn words<const N: usize>(at: usize) -> Option<[usize; N]> {
    let mut words = [[0; size_of::<usize>()]; N];
    ttmon_pystack::read_memory(at, words.as_flattened_mut())?;
    Some(words.map(usize::from_ne_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::{errno, set_errno};

    #[test]
    fn unmapped_memory_is_not_read() {
        let known = [1_usize, 2, 3];
        assert_eq!(words::<3>(known.as_ptr() as usize), Some(known));
        assert_eq!(words::<0>(0), Some([]));
        set_errno(77);
        for nowhere in [0, 8, 0x1000, usize::MAX - 7, 0x8000_0000_0000_0000] {
            assert_eq!(words::<1>(nowhere), None, "{nowhere:#x}");
        }
        assert_eq!(errno(), 77);
    }
}
