//! Guards that the operator depends on outside of `decide`: the preconditions of its writes, its reads, the
//! token of its calls. Each can be removed.

macro_rules! fences {
    ($($(#[doc = $says:literal])+ $name:ident,)+) => {
        /// A guard of the controller or of the API server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Fence { $($(#[doc = $says])+ $name,)+ }

        impl Fence {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name,)+];

            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            pub(crate) const fn says(self) -> &'static str {
                match self { $(Self::$name => concat!($($says,)+).trim_ascii(),)+ }
            }
        }
    };
}

fences! {
    /// A status is written over the version alone that was read.
    StatusVersion,
    /// So is an intent.
    IntentVersion,
    /// So is the finalizer taken off.
    ReleaseVersion,
    /// A write is for this uid at this version, and not for whatever has the name.
    Uid,
    /// A process reads its own writes.
    OwnWrites,
    /// A call is made with the token that was verified, not with the one in the Secret.
    Session,
}

/// The guards in force.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fences(pub(crate) Option<Fence>);

impl Fences {
    pub(crate) fn holds(self, fence: Fence) -> bool {
        self.0 != Some(fence)
    }
}
