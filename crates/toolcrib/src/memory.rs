//! One setting of the allocator of glibc, and the only `unsafe` of the program (decision record 7).

/// From how many bytes on a buffer is its own mapping, which goes back to the system when it is freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: i32 = 1024 * 1024;

/// Has large buffers go back to the system when they are freed. Without this, glibc raises the size from which it does
/// so with each large buffer that it frees, and a process that once held many bodies stays as large as it was then.
pub(crate) fn return_large_buffers() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code, reason = "there is no safe way to set it")]
    // SAFETY: `mallopt` takes two numbers by value and keeps no pointer. It is called before a second thread exists,
    // and it answers a value that it does not know with 0 and leaves everything as it was.
    let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}
