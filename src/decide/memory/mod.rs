//! Memory of one process about one object, beyond the object. It is lost with the process: everything that must survive
//! a restart is stored in the object.
//!
//! Imports go downward in this list: results of effects (`learning`), the memory (`state`), its parts.

mod learning;
mod remote;
mod state;
mod submission;

pub use learning::{Learned, Learning};
pub use remote::{CONFIRM_APART, Cancel, NotFound, Seen};
pub use state::Memory;
pub use submission::Submission;
