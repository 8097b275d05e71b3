//! The demo's output: plain lines, one after the other, that read the same in a terminal and in a log.

use std::io::IsTerminal;
use std::sync::LazyLock;
use std::time::Instant;

use crate::common::print;

/// Start of the demo: every line of the table begins with the time since then.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A command that is longer is broken into lines.
const WIDTH: usize = 90;

/// Starts the clock.
pub(crate) fn start() {
    LazyLock::force(&STARTED);
}

/// Time since the start of the demo.
pub(crate) fn elapsed() -> String {
    format!("{:.1} s", STARTED.elapsed().as_secs_f32())
}

/// A heading, with a blank line before it; bold in a terminal, unless `NO_COLOR` is set.
pub(crate) fn heading(text: &str) {
    blank();
    if std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        print(&format!("\x1b[1m{text}\x1b[0m"));
    } else {
        print(text);
    }
}

/// A blank line.
pub(crate) fn blank() {
    print("");
}

/// A sentence or more, one line each.
pub(crate) fn note(text: &str) {
    for line in text.lines() {
        print(&format!("   {line}"));
    }
}

/// A command that is run now, as a user would type it.
pub(crate) fn command(line: &str) {
    print(&format!("   $ {line}"));
}

/// The same for kubectl, with a file a line where there are many.
pub(crate) fn kubectl(args: &[&str]) {
    let line = format!("kubectl {}", args.join(" "));
    if line.len() <= WIDTH {
        command(&line);
    } else {
        command(&line.replace(" -f ", " \\\n       -f "));
    }
}

/// A line of the table: an object, and its phase, state, Synced, Ready and reason.
pub(crate) fn row(time: &str, object: &str, [phase, state, synced, ready, reason]: [&str; 5]) {
    let line = format!(
        "   {time:>7}  {object:<18}  {phase:<10}  {state:<12}  {synced:<6}  {ready:<5}  {reason}"
    );
    print(line.trim_end());
}
