//! Crash points: the places at which a proof stops, loses, doubles, delays or cuts an external effect.
//! Compiled in by the feature `proofs` alone.
//!
//! # Flow
//! Every effect passes one of two places, [`kubernetes`] (a layer of the Kubernetes client, nearest to the wire)
//! or [`calls`] (where the service's client sends), and every event of a stream passes [`stream`]. There it gets
//! a stable name, such as `kube.run.intent` or `service.create`, and its number among those of this name in this
//! process, from 1. `RUN_OPERATOR_FAULT=NAME:NUMBER:FAULT` has one [`Fault`] happen at one of them;
//! `RUN_OPERATOR_POINTS=FILE` has every one appended to a file as it is passed.
//!
//! Beside the effects, [`clock`] has the wall clock moved: `RUN_OPERATOR_CLOCK=FILE`, which holds seconds.
//!
//! # Guarantees
//! - Names are read off what is about to be sent, so that no writer or caller has to name itself, and a write
//!   that nobody thought of has a name all the same.
//! - Killing is SIGKILL; what is doubled is sent twice; what is lost with its answer has been carried out.
//!
//! # Caveats
//! A lost call to the service needs a base URL of plain http: the error that is seen comes from a socket of our
//! own that closes without an answer.

pub mod calls;
pub mod clock;
pub mod kubernetes;
mod plan;
pub mod stream;

use std::time::Duration;

pub use plan::{Fault, check};

/// A delayed effect waits for so many others, so that they overtake it …
const OVERTAKERS: u64 = 3;
/// … but no longer than this: nothing else may be about to happen.
const DELAY: Duration = Duration::from_secs(2);

/// An external effect that can be had more than once.
trait Effect: Clone + Send + 'static {
    /// What the other side says to it.
    type Answer: Send;
    /// Why there is no answer.
    type Error: Send;

    /// Has it.
    fn send(self) -> impl Future<Output = Result<Self::Answer, Self::Error>> + Send;

    /// What is seen where nothing arrives and nothing comes back.
    fn lost(self) -> impl Future<Output = Result<Self::Answer, Self::Error>> + Send;

    /// The answer with the second half of its body missing.
    fn cut(answer: Self::Answer) -> impl Future<Output = Result<Self::Answer, Self::Error>> + Send;
}

/// Has an effect, with what the plan says for it.
async fn pass<E: Effect>(name: &str, effect: E) -> Result<E::Answer, E::Error> {
    let passing = plan::pass(name);
    let Some(fault) = passing.fault else {
        return effect.send().await;
    };
    // Who has an effect may give it up before it was had.
    if fault != Fault::KillAfter {
        passing.happens();
    }
    match fault {
        Fault::KillBefore => kill(),
        Fault::KillAfter => {
            let _ = effect.send().await;
            passing.happens();
            kill()
        }
        Fault::LoseRequest => effect.lost().await,
        Fault::LoseAnswer => {
            drop(effect.clone().send().await?);
            effect.lost().await
        }
        Fault::Double => {
            drop(effect.clone().send().await?);
            effect.send().await
        }
        Fault::DoubleLate => {
            let answer = effect.clone().send().await;
            tokio::spawn(async move {
                overtaken().await;
                drop(effect.send().await);
                passing.over();
            });
            answer
        }
        Fault::Delay => {
            overtaken().await;
            effect.send().await
        }
        Fault::Cut => E::cut(effect.send().await?).await,
    }
}

/// Waits until others have overtaken, or for a bounded while.
async fn overtaken() {
    let mut passed = plan::passed();
    let wanted = passed.borrow_and_update().saturating_add(OVERTAKERS);
    // Whether it was overtaken or the time is over makes no difference.
    let _ = tokio::time::timeout(DELAY, passed.wait_for(|passed| *passed >= wanted)).await;
}

/// Ends this process as `kill -9` does: nothing is cleaned up, no answer is read.
fn kill() -> ! {
    let own = rustix::process::getpid();
    if let Err(error) = rustix::process::kill_process(own, rustix::process::Signal::KILL) {
        eprintln!("run-operator: failed to kill itself: {error}");
    }
    loop {
        std::thread::park();
    }
}
