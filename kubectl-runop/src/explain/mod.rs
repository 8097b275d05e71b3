//! What a stored Run means to a person: how urgent it is, why it is where it is, and what to do. Pure, as all policy;
//! the commands of `kubectl runs` print it.

pub mod causes;
pub mod duration;
pub mod links;
pub mod looks;
pub mod remedy;
pub mod retry;
pub mod standing;
mod stored;
pub mod summary;
pub mod verdict;

#[cfg(test)]
mod fixtures;

pub use stored::Stored;
