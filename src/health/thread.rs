//! A thread with a runtime of its own.

/// Starts the thread `name`, which ends with the future.
///
/// # Errors
/// The thread or its runtime could not be made.
pub(super) fn start<F: Future<Output = ()>>(
    name: &str,
    serve: impl FnOnce() -> F + Send + 'static,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || runtime.block_on(serve()))
        .map(drop)
}
