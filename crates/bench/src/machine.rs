//! The machine, the day and the sources that a table of figures belongs to.

use std::ffi::OsString;
use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The cargo that runs us, else the one on the path.
pub(crate) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Cargo's name of the profile that this program was built with: the folder below `target` in which it lies.
pub(crate) fn profile() -> String {
    let program = std::env::current_exe().ok();
    let folder = program.as_deref().and_then(std::path::Path::parent).and_then(std::path::Path::file_name);
    match folder.and_then(std::ffi::OsStr::to_str) {
        Some("debug") | None => "dev".to_owned(),
        Some(name) => name.to_owned(),
    }
}

/// Two lines: day, processors, memory and kernel; compiler, profile and revision of the sources.
pub(crate) fn facts() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let processor = fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            Some(text.lines().find(|line| line.starts_with("model name"))?.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| "unknown processor".to_owned());
    let memory = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok())
        .map_or_else(String::new, |kib| format!(", {} GiB", (kib + (1 << 19)) >> 20));
    let kernel = fs::read_to_string("/proc/sys/kernel/ostype").unwrap_or_default().trim().to_owned();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim().split('-').next().unwrap_or_default().to_owned();
    let compiler = output("rustc", &["--version"]).unwrap_or_else(|| "unknown compiler".to_owned());
    let sources = output("git", &["rev-parse", "--short=10", "HEAD"])
        .map_or_else(String::new, |revision| format!(", sources {revision}"));
    format!(
        "{} · {cores} × {processor}{memory} · {kernel} {release}\n{compiler}, profile `{}`{sources}",
        today(),
        profile()
    )
}

pub(crate) fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil_date(seconds / 86_400);
    format!("{year}-{month:02}-{day:02}")
}

/// Year, month and day of a number of days since 1970-01-01, by walking the calendar.
fn civil_date(mut days: u64) -> (u64, usize, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    lengths[1] += u64::from(leap(year));
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil_date(0), (1970, 1, 1));
        assert_eq!(civil_date(59), (1970, 3, 1));
        assert_eq!(civil_date(11_016), (2000, 2, 29));
        assert_eq!(civil_date(20_454), (2026, 1, 1));
        assert_eq!(civil_date(20_453), (2025, 12, 31));
    }
}
