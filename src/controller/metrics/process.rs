//! Metrics of the process, named as in Prometheus's client libraries. Only available on Linux.

#[cfg(target_os = "linux")]
pub(crate) use linux::Process;

/// Placeholder without values.
#[cfg(not(target_os = "linux"))]
pub(crate) struct Process;

#[cfg(not(target_os = "linux"))]
impl Process {
    pub(crate) fn new(_: &mut prometheus_client::registry::Registry) -> Self {
        Self
    }

    pub(crate) fn measure(&self) {}
}

#[cfg(target_os = "linux")]
mod linux {
    use procfs::WithCurrentSystemInfo;
    use procfs::process::{LimitValue, Process as This};
    use prometheus_client::metrics::gauge::Gauge;

    use super::super::catalogue::{CPU, MAX_FDS, OPEN_FDS, RESIDENT, START_TIME, VIRTUAL};
    use super::super::family::{CountedSeconds, Seconds, single};
    use prometheus_client::registry::Registry;

    /// The kernel's values for this process.
    pub(crate) struct Process {
        cpu: CountedSeconds,
        resident: Gauge,
        virtual_memory: Gauge,
        open_fds: Gauge,
        max_fds: Gauge,
        start_time: Seconds,
    }

    impl Process {
        pub(crate) fn new(registry: &mut Registry) -> Self {
            let process = Self {
                cpu: single(registry, &CPU),
                resident: single(registry, &RESIDENT),
                virtual_memory: single(registry, &VIRTUAL),
                open_fds: single(registry, &OPEN_FDS),
                max_fds: single(registry, &MAX_FDS),
                start_time: single(registry, &START_TIME),
            };
            process.measure();
            process
        }

        /// Updates the values; a value that can't be read stays unchanged.
        pub(crate) fn measure(&self) {
            let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
            let Ok(this) = This::myself() else {
                return;
            };
            if let Ok(stat) = this.stat() {
                let ticks = u32::try_from(stat.utime + stat.stime).unwrap_or(u32::MAX);
                let a_second = u32::try_from(procfs::ticks_per_second()).unwrap_or(100);
                let used = f64::from(ticks) / f64::from(a_second);
                self.cpu.inc_by((used - self.cpu.get()).max(0.0));
                self.resident.set(count(stat.rss_bytes().get()));
                self.virtual_memory.set(count(stat.vsize));
                if let Ok(boot) = procfs::boot_time_secs() {
                    let boot = u32::try_from(boot).unwrap_or_default();
                    let after = u32::try_from(stat.starttime).unwrap_or_default();
                    self.start_time
                        .set(f64::from(boot) + f64::from(after) / f64::from(a_second));
                }
            }
            if let Ok(open) = this.fd_count() {
                self.open_fds.set(i64::try_from(open).unwrap_or(i64::MAX));
            }
            if let Ok(limits) = this.limits()
                && let LimitValue::Value(most) = limits.max_open_files.soft_limit
            {
                self.max_fds.set(count(most));
            }
        }
    }
}
