//! One request to the API server: bounded, and with a message if there is no answer.

use std::time::Duration;

/// Reason why the other requests are not made.
pub(super) const NO_ANSWER: &str = "there was no answer";

/// Remedy where the API server gave no usable answer.
pub(super) const CHECK_ACCESS: &str = "Check the kubeconfig, or the Pod's network.";

/// A person waits for the command.
const LONGEST_CALL: Duration = Duration::from_secs(30);

/// The message for a missing or refused answer, and the API server's code.
pub(crate) struct Refused {
    pub(crate) why: String,
    pub(crate) code: Option<u16>,
}

/// Waits for an answer, for 30 s at most.
pub(crate) async fn bounded<T>(
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Refused> {
    let (why, code) = match tokio::time::timeout(LONGEST_CALL, call).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(kube::Error::Api(status))) => (sentence(&status.message), Some(status.code)),
        Ok(Err(error)) => (sentence(&run_operator::util::error_chain(&error)), None),
        Err(_) => (
            format!("No answer within {} s.", LONGEST_CALL.as_secs()),
            None,
        ),
    };
    Err(Refused { why, code })
}

fn sentence(text: &str) -> String {
    match text.trim().trim_end_matches('.') {
        "" => "The API server gave no reason.".to_owned(),
        text => format!("{text}."),
    }
}
