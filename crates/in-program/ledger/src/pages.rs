//! Large pages for large buffers. Without them, a list of a million entries spends most of its time in 18,000 page faults.

/// Minimum bytes that justify the system call.
const WORTH: usize = 4 << 20;
const PAGE: usize = 4096;

/// Returns a vector with this capacity, on large pages if the kernel provides them. It touches no page yet.
pub fn vec_with_capacity<T>(capacity: usize) -> Vec<T> {
    let vector: Vec<T> = Vec::with_capacity(capacity);
    let start = vector.as_ptr().addr().next_multiple_of(PAGE);
    let end = (vector.as_ptr().addr() + vector.capacity() * size_of::<T>()) / PAGE * PAGE;
    if size_of::<T>() != 0 && end.saturating_sub(start) >= WORTH {
        let room = vector.as_ptr().cast::<libc::c_void>().with_addr(start).cast_mut();
        // SAFETY: `start .. end` are whole pages inside the allocation that `vector` owns, so no other memory is affected. The advice
        // changes neither their contents nor their mapping. It has no effect if the kernel refuses it, and it ends with the mapping.
        // JUSTIFICATION: a list of 2^20 entries takes half the time, and no safe call requests large pages.
        unsafe { libc::madvise(room, end - start, libc::MADV_HUGEPAGE) };
    }
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_as_large_as_asked_for() {
        for capacity in [0, 1, 1000, WORTH, WORTH + 1] {
            let mut vector: Vec<u64> = vec_with_capacity(capacity);
            assert!(vector.is_empty() && vector.capacity() >= capacity);
            vector.resize(capacity, 7);
            assert_eq!(vector.iter().filter(|&&number| number == 7).count(), capacity);
        }
        assert_eq!(vec_with_capacity::<()>(5).len(), 0);
    }
}
