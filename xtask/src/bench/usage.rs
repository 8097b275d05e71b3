//! What a process has used, as the kernel counts it.

use std::ops::Sub;
use std::time::Duration;

use procfs::process::Process;
use procfs::{CurrentSI, KernelStats, ProcError};

use super::error::BenchError;

/// The usage of a process since its start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Time on a core, its own and the kernel's for it. The kernel counts in steps of 10 ms.
    pub(super) cpu: Duration,
    /// Resident memory now, in bytes.
    pub(super) resident: u64,
    /// The most that was ever resident, in bytes.
    pub(super) peak: u64,
    /// Open files now.
    pub(super) files: usize,
}

impl Usage {
    /// The usage of this process.
    pub(super) fn of(pid: u32) -> Result<Self, BenchError> {
        read(pid).map_err(|source| BenchError::ReadUsage { pid, source })
    }
}

/// What was used between two readings; memory and files are those of the later one.
impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            ..self
        }
    }
}

fn read(pid: u32) -> Result<Usage, ProcError> {
    let process = Process::new(i32::try_from(pid).unwrap_or(i32::MAX))?;
    let stat = process.stat()?;
    let status = process.status()?;
    let ticks = (stat.utime + stat.stime) * 1000 / procfs::ticks_per_second();
    let bytes = |kib: Option<u64>| kib.unwrap_or_default() * 1024;
    Ok(Usage {
        cpu: Duration::from_millis(ticks),
        resident: bytes(status.vmrss),
        peak: bytes(status.vmhwm),
        files: process.fd_count()?,
    })
}

/// The time of all cores since the machine's start.
pub(super) struct Host {
    all: u64,
    /// What the host of a virtual machine has given to others.
    taken: u64,
}

impl Host {
    /// Until now.
    pub(super) fn now() -> Result<Self, BenchError> {
        let cpu = KernelStats::current().map_err(BenchError::ReadHost)?.total;
        let taken = cpu.steal.unwrap_or_default();
        let own = [cpu.user, cpu.nice, cpu.system, cpu.idle];
        let rest = [cpu.iowait, cpu.irq, cpu.softirq].map(Option::unwrap_or_default);
        Ok(Self {
            all: own.iter().chain(&rest).sum::<u64>() + taken,
            taken,
        })
    }

    /// The share that was taken in between.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(super) fn taken_since(&self, earlier: &Self) -> f64 {
        let all = self.all.saturating_sub(earlier.all).max(1);
        self.taken.saturating_sub(earlier.taken) as f64 / all as f64
    }
}

/// The share of one core, for a table.
pub(super) fn of_a_core(cpu: Duration, of: Duration) -> String {
    percent(cpu.as_secs_f64() / of.as_secs_f64())
}

/// A share, for a table.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Time on a core for each of so many, in milliseconds, for a table.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(super) fn millis_each(cpu: Duration, count: usize) -> String {
    format!("{:.2}", cpu.as_secs_f64() * 1000.0 / count.max(1) as f64)
}

/// Bytes as MiB, for a table.
#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
pub(super) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
