//! The rules on which the promise depends, each with its sentence of the design (docs/design.md).
//!
//! Each rule is asked in one predicate, next to the data it reads and named after its meaning; [`holds`] is called only
//! there. Without the feature `proofs` every rule is in force, [`holds`] is a constant, and nothing of this is left in
//! the program. With it one rule at a time can be disabled ([`without`]), to see that a test fails: a rule that no test
//! misses is untested, or not needed.

macro_rules! rules {
    ($($(#[doc = $says:literal])+ $name:ident,)+) => {
        /// The rules on which the promise depends.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Rule {
            $($(#[doc = $says])+ $name,)+
        }

        #[cfg(feature = "proofs")]
        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }

            /// Its sentence.
            pub fn says(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($says,)+).trim_ascii(),)+
                }
            }
        }
    };
}

rules! {
    // The intent.
    /// No POST without an intent in the object.
    IntentFirst,
    /// An intent is written with its finalizer: no object is deleted while a POST for it may be sent.
    FinalizerFirst,
    /// Only the intent's owner POSTs; another process takes it over first.
    OwnerPosts,
    /// An intent whose write was never answered is not this process's to use.
    AnsweredWrite,
    /// Taking over withdraws the proof: what was known of an epoch proves nothing of the next.
    TakeoverWithdraws,
    /// A retry withdraws the proof: it begins an epoch of its own, which no earlier refusal answers.
    RetryWithdraws,
    /// A retry is acted on once.
    RetryOnce,
    /// An intent of another uid never leads to a POST automatically.
    ForeignWaits,
    /// An intent of another uid deletes freely: it is no reason for doubt.
    ForeignFrees,
    /// A status that came with another object's intent is not of this object.
    ForeignStatus,
    /// An intent that can't be read is neither followed nor replaced.
    UnreadableWaits,
    /// An intent that was stripped is remembered by the process that wrote it.
    IntentRemembered,
    /// An edit of the intent makes no key younger.
    AgeAsWritten,
    /// An edit of the intent moves no submission.
    PlaceAsWritten,
    /// Of the live Runs with one key only one is submitted; the others wait.
    KeyInUse,
    /// A Run of a namespace that is not allowed is not submitted; an intent grants nothing.
    NamespaceAllowed,

    // What is sent, and where.
    /// The body is that of the intent, byte for byte.
    SameBytes,
    /// The key is that of the intent.
    SameKey,
    /// A Run is served by the Workspace, by kind and name, that it is pinned to.
    SameWorkspace,
    /// A Run is served at the base URL that it is pinned to.
    SameBaseUrl,
    /// A Run is served under the identity that it is pinned to.
    SameIdentity,
    /// No call is made while the Workspace is not Ready: a token is used only after it was verified.
    VerifiedToken,
    /// After a 401 a call waits for another session.
    NewSession,
    /// After `keyRetention` no POST is sent again.
    KeyRetention,

    // Proof and doubt.
    /// A proof counts only from the intent's only owner.
    SoleOwner,
    /// An attempt without an answer proves nothing.
    AnswerProves,
    /// A 5xx proves nothing.
    RefusalProves,
    /// A refusal without a problem body proves nothing.
    ProblemProves,
    /// An idempotency conflict proves nothing.
    ConflictProvesNothing,
    /// An attempt that was given up in the middle proves nothing.
    GivenUpProvesNothing,
    /// A 2xx without a readable `runId` is no success, and no proof.
    UnreadableProvesNothing,
    /// A refusal that the contract file counts as final, of exactly the pinned bytes, is proof.
    BytesRefused,
    /// The proof is kept with the refusal in the status.
    RefusalKept,
    /// A refusal answers only for its own epoch.
    RefusalOfEpoch,
    /// While in doubt a refusal answers only its own request, and the same POST is sent again.
    DoubtAsksAgain,
    /// A lone idempotency conflict, the first answer of all or to its retry, is final.
    LoneConflict,
    /// A 5xx with `retryable: false` is repeated only for a deletion or a retry.
    HopelessIsFinal,
    /// A 2xx that can't be read is retried a few times; then the Run stalls for a person.
    ViolationStalls,

    // What a person asked for.
    /// From the intent on `suspend` is ignored.
    SuspendTooLate,
    /// `cancel: true` on a Run proved unsubmitted makes no call.
    CancelUnsubmitted,
    /// First submissions are blocked by an unaccepted version, by the Workspace's `suspend` and by its deletion.
    HoldsFirst,
    /// The obstacles of first submissions block nothing else.
    HoldsOnlyFirst,
    /// A Workspace that is being deleted doesn't block the Runs that it waits for.
    AwaitedGoOn,
    /// A Workspace outlives the Runs that need it.
    WorkspaceOutlives,

    // At the service.
    /// `runId` and workspace are written to the status at once, before any other call.
    RunIdAtOnce,
    /// An answer whose `runId` differs from a known one stalls the Run, and neither is cancelled.
    RunIdConflict,
    /// A replace that strips finalizer and intent from an active Run is repaired.
    Mended,
    /// The cursor is never ahead of what was mirrored: an event that may change the state waits for a GET.
    CursorWaits,
    /// Replayed events are shown and counted once.
    ReplayOnce,
    /// A reading of this process doesn't overwrite a status that another writer mirrored since.
    Overtaken,
    /// Not found counts after three answers.
    NotFoundThrice,
    /// Not-found answers count at least a minute apart.
    NotFoundApart,
    /// A run that the service denies keeps its finalizer.
    DeniedKept,

    // The end.
    /// A deadline that the status shows as passed stays passed: its cancellation may have been sent.
    DeadlineStays,
    /// Terminal is absorbing: no call ever after.
    Terminal,
    /// A status lost after the end is rebuilt from the intent, without a call.
    EndKept,
    /// An end in an intent that would lead to a call is not believed.
    EndDoubted,

    // Deletion.
    /// In doubt the finalizer stays.
    DoubtHolds,
    /// `Orphan` removes the finalizer at once, and cancels nothing.
    Orphan,
    /// After a cancel comes a GET, before another cancel or the release.
    LookAfterCancel,
    /// A run that is plainly active after its cancellation is cancelled again.
    CancelAgain,
    /// A cancellation that is in progress is not repeated.
    CancelOnce,
    /// A Run is released without an end only if its run is seen cancelling.
    SeenCancelling,
    /// That GET is five minutes after the later of deletion and accepted cancel.
    Patience,
    /// The five minutes begin with the deletion if that is later than the cancel.
    PatienceFromDeletion,
    /// Not found allows the release if the cancel is answered so.
    CancelDenies,
    /// Not found allows the release if a GET after the cancel is answered so, too.
    GetDenies,
    /// The known run of an object that was deleted without a release is cancelled.
    VanishedCancelled,
}

/// Whether a rule is in force.
#[cfg(not(feature = "proofs"))]
#[inline]
pub(crate) const fn holds(_: Rule) -> bool {
    true
}

#[cfg(feature = "proofs")]
pub use switch::{holds, without};

#[cfg(feature = "proofs")]
mod switch {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::decide::invariants::Rule;

    /// Stands for no rule.
    const NONE: usize = usize::MAX;
    static AWAY: AtomicUsize = AtomicUsize::new(NONE);

    /// Whether a rule is in force.
    pub fn holds(rule: Rule) -> bool {
        AWAY.load(Ordering::Relaxed) != rule as usize
    }

    /// Disables this rule, and no other, in the whole process.
    pub fn without(rule: Option<Rule>) {
        AWAY.store(rule.map_or(NONE, |rule| rule as usize), Ordering::Relaxed);
    }
}
