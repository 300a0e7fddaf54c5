//! Bytes on their way to a disk, which a thread of its own writes, so that a slow one makes no packet late.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;

/// Chunks that wait for the thread at most.
const WAITING: usize = 64;

/// What the thread does with the bytes.
pub(crate) trait Sink: Send + 'static {
    /// Takes a chunk of about the size that was asked for.
    fn write(&mut self, chunk: &[u8]) -> io::Result<()>;
    /// Ends after the last one.
    fn finish(self) -> io::Result<()>;
}

/// Bytes that are gathered here, and handed over a chunk at a time.
#[derive(Debug)]
pub(crate) struct Chunks {
    /// What is to be handed over next. Only whole messages are in it between two calls of [`Chunks::hand_over`].
    pub(crate) gathered: Vec<u8>,
    size: usize,
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    thread: JoinHandle<io::Result<()>>,
}

impl Chunks {
    /// Starts the thread. It is handed chunks of `size` bytes or a message more.
    pub(crate) fn start(name: &str, size: usize, mut sink: impl Sink) -> io::Result<Self> {
        let (full, chunks) = sync_channel::<Vec<u8>>(WAITING);
        let (give_back, empty) = channel();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            for mut chunk in chunks {
                sink.write(&chunk)?;
                chunk.clear();
                // At the end nobody wants it any more.
                let _ = give_back.send(chunk);
            }
            sink.finish()
        })?;
        Ok(Self { gathered: Vec::with_capacity(2 * size), size, full, empty, thread })
    }

    /// Hands over what is gathered if that is enough. A message has ended.
    #[inline]
    pub(crate) fn hand_over(&mut self) {
        if self.gathered.len() >= self.size {
            self.swap();
        }
    }

    /// Hands over what is left and waits for the end of the thread.
    pub(crate) fn finish(self) -> io::Result<()> {
        // If it fails, the thread has ended with an error, which is the one to tell.
        let _ = self.full.send(self.gathered);
        drop(self.full);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread failed")))
    }

    #[cold]
    fn swap(&mut self) {
        let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(2 * self.size));
        match self.full.try_send(std::mem::replace(&mut self.gathered, next)) {
            // The disk is behind: keep it and try again after the next message.
            Err(TrySendError::Full(chunk)) => self.gathered = chunk,
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        }
    }
}
