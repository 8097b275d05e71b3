//! One question to the API server: bounded, and with a sentence where there is no answer.

use std::time::Duration;

/// Somebody waits for the command.
const LONGEST_CALL: Duration = Duration::from_secs(30);

/// Why there is no answer, or none that helps: a sentence, and the API server's code.
pub(super) struct Refused {
    pub(super) why: String,
    pub(super) code: Option<u16>,
}

/// Waits for an answer, for 30 s at most.
pub(super) async fn bounded<T>(
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Refused> {
    let (why, code) = match tokio::time::timeout(LONGEST_CALL, call).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(kube::Error::Api(status))) => (sentence(&status.message), Some(status.code)),
        Ok(Err(error)) => (sentence(&run_operator::controller::chain(&error)), None),
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
