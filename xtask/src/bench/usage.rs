//! What a process has used, as the kernel counts it.

use std::ops::Sub;
use std::time::Duration;

use procfs::process::Process;
use procfs::{CurrentSI, KernelStats};

use crate::common::Outcome;

/// The usage of a process since its start.
#[derive(Clone, Copy, Default)]
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
    pub(super) fn of(pid: u32) -> Outcome<Self> {
        let process = Process::new(i32::try_from(pid).unwrap_or(i32::MAX))?;
        let (stat, status) = (process.stat()?, process.status()?);
        let ticks = (stat.utime + stat.stime) * 1000 / procfs::ticks_per_second();
        let bytes = |kib: Option<u64>| kib.unwrap_or_default() * 1024;
        Ok(Self {
            cpu: Duration::from_millis(ticks),
            resident: bytes(status.vmrss),
            peak: bytes(status.vmhwm),
            files: process.fd_count()?,
        })
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

/// The time of all cores since the machine's start.
pub(super) struct Host {
    all: u64,
    /// What the host of a virtual machine has given to others.
    taken: u64,
}

impl Host {
    /// Until now.
    pub(super) fn now() -> Outcome<Self> {
        let cpu = KernelStats::current()?.total;
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
