//! What Linux tells of a process.

/// A number from a file of `/proc/PID`, such as `VmRSS` of `status`, in the file's unit; `None` where it has none.
pub fn number(pid: u32, file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let of_name = |line: &str| {
        let rest = line.strip_prefix(name)?.strip_prefix(':')?;
        rest.split_whitespace().next()?.parse().ok()
    };
    text.lines().find_map(of_name)
}
