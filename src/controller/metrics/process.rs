//! Metrics of the process, named as in Prometheus's client libraries. Only available on Linux.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};

/// The kernel's values for this process at the time of a scrape; none if they can't be read.
#[derive(Debug)]
pub(super) struct Process;

#[cfg(not(target_os = "linux"))]
impl Collector for Process {
    fn encode(&self, _: DescriptorEncoder<'_>) -> fmt::Result {
        Ok(())
    }
}

#[cfg(target_os = "linux")]
impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        use std::time::Duration;

        use procfs::process::{LimitValue, Process as This};
        use procfs::{WithCurrentSystemInfo, boot_time_secs, ticks_per_second};
        use prometheus_client::metrics::{counter::ConstCounter, gauge::ConstGauge};

        let read = || {
            let this = This::myself()?;
            let limits = this.limits()?;
            procfs::ProcResult::Ok((this.stat()?, this.fd_count()?, limits, boot_time_secs()?))
        };
        let Ok((stat, open, limits, boot)) = read() else {
            return Ok(());
        };
        let most = match limits.max_open_files.soft_limit {
            LimitValue::Value(most) => most,
            LimitValue::Unlimited => u64::MAX,
        };
        let time = |ticks: u64| Duration::from_millis(ticks * 1000 / ticks_per_second());
        let used = time(stat.utime + stat.stime).as_secs_f64();
        let started = boot + time(stat.starttime).as_secs();
        let open = u64::try_from(open).unwrap_or(u64::MAX);
        let mut show = |name: &str, help: &str, value: &dyn EncodeMetric| {
            value.encode(encoder.encode_descriptor(name, help, None, value.metric_type())?)
        };
        let help = "Processor time used, user and system.";
        show("process_cpu_seconds", help, &ConstCounter::new(used))?;
        let resident = stat.rss_bytes().get();
        for (name, value, help) in [
            ("resident_memory_bytes", resident, "Resident memory."),
            ("virtual_memory_bytes", stat.vsize, "Virtual memory."),
            ("open_fds", open, "Open file descriptors."),
            ("max_fds", most, "File descriptors that may be open."),
            (
                "start_time_seconds",
                started,
                "Start time, in seconds since 1970.",
            ),
        ] {
            show(&format!("process_{name}"), help, &ConstGauge::new(value))?;
        }
        Ok(())
    }
}
