//! Event streams: replay, then live events, with comments in between (rule 2).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream};
use tokio::sync::mpsc;

use crate::app::{App, OpenGuard};
use crate::plan::is_terminal;
use crate::run::Event;
use crate::stream_script::{StreamScript, Then};

/// A piece of a body; an error closes the connection in the middle of it.
pub(crate) type Piece = io::Result<Bytes>;

const HEARTBEAT: Bytes = Bytes::from_static(b": heartbeat\n\n");

/// An event as its lines.
pub(crate) fn encode(event: &Event) -> Bytes {
    let mut lines = vec![format!("id: {}\nevent: {}\n", event.id, event.kind)];
    lines.extend(event.data.split('\n').map(|line| format!("data: {line}\n")));
    lines.push("\n".to_owned());
    Bytes::from(lines.concat())
}

/// A body that is written piece by piece into the sender.
pub(crate) fn body_of(pieces: mpsc::Receiver<Piece>) -> impl Stream<Item = Piece> {
    stream::unfold(pieces, |mut pieces| async move {
        let piece = pieces.recv().await?;
        if piece.is_err() {
            // Lets the connection flush what came before; else the cut would swallow it.
            tokio::task::yield_now().await;
        }
        Some((piece, pieces))
    })
}

/// The error that cuts a connection.
pub(crate) fn cut() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionAborted,
        "failed to go on: cut on request",
    )
}

/// Reason for which a stream ends before its run does.
#[derive(Debug)]
enum Stop {
    /// The client has disconnected, or the script has ended the stream.
    Ended,
    Cut,
}

/// Writes events and breaks at the script's position.
struct Writer {
    pieces: mpsc::Sender<Piece>,
    script: Option<StreamScript>,
    events: u64,
}

impl Writer {
    async fn send(&mut self, bytes: Bytes) -> Result<(), Stop> {
        self.pieces.send(Ok(bytes)).await.map_err(|_| Stop::Ended)
    }

    /// The script, if the stream is at its break.
    fn due(&self) -> Option<&StreamScript> {
        let script = self.script.as_ref()?;
        (self.events >= script.after_events).then_some(script)
    }

    /// A break between two events; called before the first event and after each.
    async fn between(&mut self) -> Result<(), Stop> {
        match self.due() {
            Some(script) if !script.inside => self.break_here().await,
            _ => Ok(()),
        }
    }

    async fn event(&mut self, mut block: Bytes) -> Result<(), Stop> {
        if self.due().is_some_and(|script| script.inside) {
            let half = block.split_to(block.len() / 2);
            self.send(half).await?;
            self.break_here().await?;
        }
        self.send(block).await?;
        self.events += 1;
        self.between().await
    }

    async fn break_here(&mut self) -> Result<(), Stop> {
        let Some(script) = self.script.take() else {
            return Ok(());
        };
        // Checked when the fault was added.
        let raw = script.pieces().unwrap_or_default();
        for _ in 0..script.repeat.unwrap_or(1) {
            for piece in &raw {
                self.send(piece.clone()).await?;
                if script.gap_ms > 0 {
                    tokio::time::sleep(Duration::from_millis(script.gap_ms)).await;
                }
            }
        }
        match script.then {
            Then::Continue => Ok(()),
            Then::End => Err(Stop::Ended),
            Then::Cut => Err(Stop::Cut),
            Then::Hang => {
                self.pieces.closed().await;
                Err(Stop::Cut)
            }
        }
    }
}

/// Serves one stream until its run ends, the client disconnects, or a fault ends it.
pub(crate) async fn serve(
    app: Arc<App>,
    run_id: String,
    position: usize,
    script: Option<StreamScript>,
    pieces: mpsc::Sender<Piece>,
) {
    let _open = OpenGuard::new(&app.gauges.open_streams);
    let mut cutter = app.watch_cutter();
    let mut writer = Writer {
        pieces: pieces.clone(),
        script,
        events: 0,
    };
    let stop = tokio::select! {
        stopped = follow(&app, &run_id, position, &mut writer) => stopped.err().unwrap_or(Stop::Ended),
        _ = cutter.changed() => Stop::Cut,
        () = pieces.closed() => Stop::Ended,
    };
    if let Stop::Cut = stop {
        // Fails when the client has already disconnected.
        let _ = pieces.send(Err(cut())).await;
    }
}

async fn follow(
    app: &App,
    run_id: &str,
    mut position: usize,
    writer: &mut Writer,
) -> Result<(), Stop> {
    let mut changes = app.watch_run(run_id);
    writer.between().await?;
    loop {
        let next = app.with(|inner, _| {
            let run = inner.table.get(run_id)?;
            let fresh: Vec<_> = run.events.iter().skip(position).map(encode).collect();
            Some((fresh, is_terminal(&run.state)))
        });
        let Some((fresh, over)) = next else {
            return Ok(());
        };
        position += fresh.len();
        for block in fresh {
            writer.event(block).await?;
        }
        if over {
            return Ok(());
        }
        match tokio::time::timeout(app.settings.heartbeat, changes.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => changes = app.watch_run(run_id),
            Err(_) => writer.send(HEARTBEAT).await?,
        }
    }
}
