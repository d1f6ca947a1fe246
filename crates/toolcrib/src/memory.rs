//! What the program asks of the system for its memory: two of the three calls that are `unsafe` (decision records 7, 10 and 13).

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

/// Lets go of the pages of the program's own file. A start runs code from all over the file once, and the system maps 64
/// KiB around each place; a gateway at rest needs a tenth of that. What is needed again is mapped again from the system's
/// cache. Reads a file of the kernel: not for the threads of the runtime.
pub(crate) fn release_program_pages() {
    #[cfg(target_os = "linux")]
    for range in linux::own_unchanged_mappings() {
        #[allow(unsafe_code, reason = "there is no safe way to say it")]
        // SAFETY: the range is a mapping of the program's file that cannot be written to and of which no page differs
        // from the file, so `MADV_DONTNEED` changes no byte that anyone can read: the next access maps the page again.
        // The program's file is mapped for as long as the process lives.
        let _ =
            unsafe { libc::madvise(std::ptr::without_provenance_mut(range.start), range.len(), libc::MADV_DONTNEED) };
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ops::Range;

    /// The mappings of the program's file that are the file's bytes and nothing else.
    pub(super) fn own_unchanged_mappings() -> Vec<Range<usize>> {
        let program = std::fs::read_link("/proc/self/exe").ok();
        let program = program.as_deref().and_then(|path| path.to_str());
        let maps = std::fs::read_to_string("/proc/self/smaps").ok();
        program.zip(maps).map(|(program, maps)| unchanged_mappings(&maps, program)).unwrap_or_default()
    }

    /// Those of `program` in the text of `smaps` (proc_pid_smaps(5)). A page that differs from the file is anonymous:
    /// one that was relocated, one with a breakpoint, one with the probe of a tracer.
    pub(super) fn unchanged_mappings(maps: &str, program: &str) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        let mut current = None;
        for line in maps.lines() {
            let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
            if let Some((from, to)) = first.split_once('-') {
                let is_ours = rest.split_once('/').is_some_and(|(_, path)| Some(path) == program.strip_prefix('/'));
                let is_fixed = rest.starts_with("r-");
                let range = || Some(usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?);
                current = if is_ours && is_fixed { range() } else { None };
            } else if first == "Anonymous:" && rest.trim() == "0 kB" {
                ranges.extend(current.take());
            }
        }
        ranges
    }

    #[cfg(test)]
    mod tests {
        use super::super::release_program_pages;
        use super::*;

        #[test]
        fn only_what_is_the_files_own_bytes_is_named() {
            let maps = "\
1000-3000 r--p 00000000 fe:00 7 /opt/toolcrib
Rss:                   8 kB
Anonymous:             0 kB
3000-4000 r-xp 00002000 fe:00 7                  /opt/toolcrib
Anonymous:             0 kB
4000-5000 r-xp 00003000 fe:00 7                  /opt/toolcrib
Anonymous:             4 kB
5000-6000 rw-p 00004000 fe:00 7                  /opt/toolcrib
Anonymous:             0 kB
6000-7000 r-xp 00000000 fe:00 8                  /lib/other
Anonymous:             0 kB
7000-8000 r-xp 00000000 fe:00 8                  /opt/toolcrib.old
Anonymous:             0 kB
8000-9000 rw-p 00000000 00:00 0
Anonymous:             0 kB
";
            let expected: [Range<usize>; 2] = [0x1000..0x3000, 0x3000..0x4000];
            assert_eq!(unchanged_mappings(maps, "/opt/toolcrib"), expected);
            assert!(unchanged_mappings("", "/opt/toolcrib").is_empty());
        }

        /// The resident part of the mappings that are let go of, in KiB.
        fn resident() -> usize {
            let ranges = own_unchanged_mappings();
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let mut is_counted = false;
            let mut sum = 0;
            for line in maps.lines() {
                let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
                if let Some((from, _)) = first.split_once('-') {
                    let start = usize::from_str_radix(from, 16).unwrap();
                    is_counted = ranges.iter().any(|range| range.start == start);
                } else if first == "Rss:" && is_counted {
                    sum += rest.trim().trim_end_matches(" kB").parse::<usize>().unwrap();
                }
            }
            sum
        }

        #[test]
        fn pages_of_the_program_are_let_go_and_come_back() {
            assert!(!own_unchanged_mappings().is_empty());
            let before = resident();
            release_program_pages();
            let after = resident();
            assert!(after < before, "{before} KiB, then {after} KiB");
        }
    }
}
