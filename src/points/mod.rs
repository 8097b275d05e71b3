//! Crash points: the places at which a proof stops, loses, duplicates, delays or cuts an external effect. Compiled in
//! only by the feature `proofs`.
//!
//! # Flow
//! Every effect passes one of two places, [`kubernetes`] (a layer of the Kubernetes client, nearest to the wire) or
//! [`calls`] (where the service's client sends), and every event of a stream passes [`stream`]. There it gets a stable
//! name, such as `kube.run.intent` or `service.create`, and its number among those of this name in this process,
//! counted from one. `RUN_OPERATOR_FAULT=NAME:NUMBER:FAULT` triggers one [`Fault`] at one of them;
//! `RUN_OPERATOR_POINTS=FILE` appends every point to a file as it is passed.
//!
//! In addition, [`clock`] moves the wall clock: `RUN_OPERATOR_CLOCK=FILE`, which contains seconds.
//!
//! # Guarantees
//! - Names are derived from the request that is about to be sent, so that no writer or caller has to name itself, and
//!   an unforeseen write has a name, too.
//! - Killing is SIGKILL; a duplicated effect is sent twice; an effect whose answer is lost has been carried out.
//!
//! # Caveats
//! A lost call to the service needs a base URL of plain http: the error comes from a local socket that closes without
//! an answer.

pub mod calls;
pub mod clock;
pub mod kubernetes;
mod plan;
pub mod stream;

use std::time::Duration;

pub use plan::{Fault, check};

/// A delayed effect waits for so many others, so that they overtake it …
const OVERTAKERS: u64 = 3;
/// … but no longer than this: there may be no other effects.
const DELAY: Duration = Duration::from_secs(2);

/// Panics in a reconcile, if that is planned: `RUN_OPERATOR_FAULT=reconcile.run:2:panic` is the second of a Run.
///
/// # Panics
/// If it is.
pub fn reconcile(name: &str) {
    assert!(!plan::panics(name), "planned in {name}");
}

/// An external effect that can be carried out more than once.
trait Effect: Clone + Send + 'static {
    /// The other side's answer.
    type Answer: Send;
    /// The error if there is no answer.
    type Error: Send;

    /// Carries it out.
    fn send(self) -> impl Future<Output = Result<Self::Answer, Self::Error>> + Send;

    /// The result if neither request nor answer arrives.
    fn lost(self) -> impl Future<Output = Result<Self::Answer, Self::Error>> + Send;

    /// The answer with the second half of its body missing.
    fn cut(answer: Self::Answer) -> impl Future<Output = Result<Self::Answer, Self::Error>> + Send;
}

/// Carries out an effect, with the planned fault.
async fn pass<E: Effect>(name: &str, effect: E) -> Result<E::Answer, E::Error> {
    let passing = plan::pass(name);
    let Some(fault) = passing.fault else {
        return effect.send().await;
    };
    // The caller may drop the effect before it is carried out.
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
        // Only a reconcile panics.
        Fault::Panic => effect.send().await,
    }
}

/// Waits until others have overtaken, or for a bounded time.
async fn overtaken() {
    let mut passed = plan::passed();
    let wanted = passed.borrow_and_update().saturating_add(OVERTAKERS);
    // An overtaken effect and a timeout count the same.
    let _ = tokio::time::timeout(DELAY, passed.wait_for(|passed| *passed >= wanted)).await;
}

/// Ends this process like `kill -9`: nothing is cleaned up, no answer is read.
fn kill() -> ! {
    let own = rustix::process::getpid();
    if let Err(error) = rustix::process::kill_process(own, rustix::process::Signal::KILL) {
        eprintln!("run-operator: failed to kill itself: {error}");
    }
    loop {
        std::thread::park();
    }
}
