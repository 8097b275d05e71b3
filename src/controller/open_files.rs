//! The limit of open files, and the event streams that it allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Minimum number of files for other uses than streams: the API server, the Lease, scrapes, checks and calls.
const RESERVE: u64 = 96;

/// The limit of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// `None` means no limit.
    limit: Option<u64>,
}

impl OpenFiles {
    /// Raises the soft limit to the hard one, and logs the result. If that fails the soft limit stays.
    pub fn raise() -> Self {
        let before = getrlimit(Resource::Nofile);
        let hard = Rlimit {
            current: before.maximum,
            maximum: before.maximum,
        };
        let raised = before.current != before.maximum && setrlimit(Resource::Nofile, hard).is_ok();
        let limit = if raised {
            before.maximum
        } else {
            before.current
        };
        tracing::info!(before = before.current, limit, "limit of open files");
        Self { limit }
    }

    /// Number of event streams that may be open, at most `wanted`. Each takes one file. A quarter of the files, at
    /// least 96, stays for other uses: each Workspace has up to 32 calls in flight. At least one stream is allowed, if
    /// any is wanted.
    pub fn streams(self, wanted: usize) -> usize {
        let Some(limit) = self.limit else {
            return wanted;
        };
        let left = limit.saturating_sub(RESERVE.max(limit / 4));
        let left = usize::try_from(left).unwrap_or(usize::MAX).max(1);
        if left < wanted {
            tracing::warn!(
                wanted,
                streams = left,
                limit,
                "the limit of open files leaves fewer event streams than --max-streams; the other Runs are polled"
            );
        }
        wanted.min(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: P-files
    #[test]
    fn streams_leave_a_quarter_of_the_files_and_96_at_least() {
        let streams = |limit, wanted| OpenFiles { limit }.streams(wanted);
        assert_eq!(streams(None, 5000), 5000);
        assert_eq!(streams(Some(1_048_576), 1000), 1000);
        assert_eq!(streams(Some(1024), 1000), 768);
        assert_eq!(streams(Some(256), 1000), 160);
        assert_eq!(streams(Some(100), 1000), 4);
        assert_eq!(streams(Some(64), 1000), 1);
        assert_eq!(streams(Some(64), 0), 0, "none are wanted");
    }
}
