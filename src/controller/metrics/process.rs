//! Metrics of the process, named as in Prometheus's client libraries. Only available on Linux.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};

/// The kernel's values for this process at the time of a scrape; a value that can't be read is left out.
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

        use procfs::WithCurrentSystemInfo;
        use procfs::process::{LimitValue, Process as This};
        use prometheus_client::metrics::counter::ConstCounter;
        use prometheus_client::metrics::gauge::ConstGauge;

        let mut show = |name: &str, help: &str, value: &dyn EncodeMetric| {
            value.encode(encoder.encode_descriptor(name, help, None, value.metric_type())?)
        };
        let Ok(this) = This::myself() else {
            return Ok(());
        };
        if let Ok(stat) = this.stat() {
            let a_second = procfs::ticks_per_second();
            let seconds = |ticks: u64| Duration::from_millis(ticks.saturating_mul(1000) / a_second);
            let used = ConstCounter::new(seconds(stat.utime + stat.stime).as_secs_f64());
            show(
                "process_cpu_seconds",
                "Processor time used, user and system.",
                &used,
            )?;
            let resident = ConstGauge::new(stat.rss_bytes().get());
            show(
                "process_resident_memory_bytes",
                "Resident memory.",
                &resident,
            )?;
            let size = ConstGauge::new(stat.vsize);
            show("process_virtual_memory_bytes", "Virtual memory.", &size)?;
            if let Ok(boot) = procfs::boot_time_secs() {
                let start = Duration::from_secs(boot) + seconds(stat.starttime);
                let help = "Start time of the process, in seconds since 1970.";
                show(
                    "process_start_time_seconds",
                    help,
                    &ConstGauge::new(start.as_secs_f64()),
                )?;
            }
        }
        if let Ok(open) = this.fd_count() {
            show(
                "process_open_fds",
                "Open file descriptors.",
                &ConstGauge::new(open),
            )?;
        }
        if let Ok(limits) = this.limits()
            && let LimitValue::Value(most) = limits.max_open_files.soft_limit
        {
            let help = "File descriptors that may be open.";
            show("process_max_fds", help, &ConstGauge::new(most))?;
        }
        Ok(())
    }
}
