//! What the allocator holds back.

/// Gives the system back what has been freed: tables of many million entries otherwise stay with the
/// process for good, because the allocator keeps small blocks.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the C library's own call")]
pub fn give_back() {
    // SAFETY: it takes no pointer, and locks the allocator itself.
    unsafe { libc::malloc_trim(0) };
}

/// Other C libraries give back by themselves.
#[cfg(not(target_env = "gnu"))]
pub fn give_back() {}
