//! `make bench`: the operator's speed and weight beside the limit of its control plane, in one run on one machine.
//!
//! Every part has a control plane of its own, so that no part pays for what another has left. Its figures are printed as
//! Markdown, for docs/performance.md. Times depend on the machine and are never tested; the counts are, by the suites.

mod active;
mod audit;
mod etcd;
mod finished;
mod latency;
mod lifecycle;
mod load;
mod observer;
mod operator;
mod queue;
mod schedules;
mod soak;
mod stage;
mod table;
mod takeover;
mod throughput;
mod usage;

use clap::{Args, ValueEnum};

use crate::common::{Outcome, block_on};
use table::percent;
use usage::Host;

/// A row of every part: where it is more than some percent, the times tell of the host and not of the operator.
const TAKEN: &str = "CPU steal";

#[derive(Args)]
pub(crate) struct Options {
    /// Smaller numbers: eleven minutes in all.
    #[arg(long)]
    quick: bool,

    /// Only these parts; all but the soak, if unset. Repeatable.
    #[arg(long, value_enum)]
    part: Vec<Part>,
}

/// A part of the benchmark; each can be run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Runs as fast as the API server takes them, beside a loader that only writes.
    Throughput,
    /// Ten Runs a second.
    Latency,
    /// Many Runs that run for an hour.
    Active,
    /// Many Runs that wait for a slot of their Workspace.
    Queue,
    /// Many schedules of one minute.
    Schedules,
    /// Many Runs that have ended, at a start.
    Finished,
    /// The same, when a standby takes over.
    Takeover,
    /// A hundred thousand Runs in waves: more than an hour, and only if it is asked for.
    Soak,
}

/// Measures the parts one after the other.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    block_on(async {
        for &part in Part::value_variants() {
            let all = options.part.is_empty() && part != Part::Soak;
            if all || options.part.contains(&part) {
                eprintln!("\n--- {part:?}");
                let host = Host::now()?;
                let figures = match part {
                    Part::Throughput => throughput::measure(options.quick).await?,
                    Part::Latency => latency::measure(options.quick).await?,
                    Part::Active => active::measure(options.quick).await?,
                    Part::Queue => queue::measure(options.quick).await?,
                    Part::Schedules => schedules::measure(options.quick).await?,
                    Part::Finished => finished::measure(options.quick).await?,
                    Part::Takeover => takeover::measure(options.quick).await?,
                    Part::Soak => soak::measure(options.quick).await?,
                };
                let taken = percent(Host::now()?.taken_since(&host));
                figures.row(TAKEN, taken).print();
            }
        }
        Ok(())
    })
}
