//! Writing of byte streams by a separate thread, so that a slow disk does not delay packets.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;

/// Largest number of chunks that wait for the writing thread.
const MAX_QUEUED: usize = 64;

/// Destination to which the writing thread writes the chunks.
pub(crate) trait Sink: Send + 'static {
    /// Writes a chunk of about the requested size.
    fn write(&mut self, chunk: &[u8]) -> io::Result<()>;
    /// Completes the output after the last chunk.
    fn finish(self) -> io::Result<()>;
}

/// Buffer of bytes that are passed to a writing thread in chunks.
#[derive(Debug)]
pub(crate) struct Chunks {
    /// Bytes of the next chunk. The last message must be complete at each call of [`Chunks::flush_if_full`].
    pub(crate) buffer: Vec<u8>,
    size: usize,
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    thread: JoinHandle<io::Result<()>>,
}

impl Chunks {
    /// Starts the writing thread. A chunk is passed to the thread at the end of the message that makes it `size` bytes or longer.
    pub(crate) fn start(name: &str, size: usize, mut sink: impl Sink) -> io::Result<Self> {
        let (full, chunks) = sync_channel::<Vec<u8>>(MAX_QUEUED);
        let (recycle, empty) = channel();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            for mut chunk in chunks {
                sink.write(&chunk)?;
                chunk.clear();
                // A failure means that no further chunks will be gathered, so the buffer is not needed.
                let _ = recycle.send(chunk);
            }
            sink.finish()
        })?;
        Ok(Self { buffer: Vec::with_capacity(2 * size), size, full, empty, thread })
    }

    /// Passes the buffered bytes to the writing thread if they fill a chunk. Must be called at the end of each message.
    #[inline]
    pub(crate) fn flush_if_full(&mut self) {
        if self.buffer.len() >= self.size {
            self.flush();
        }
    }

    /// Passes the remaining bytes to the writing thread and waits until the thread has written them.
    pub(crate) fn finish(self) -> io::Result<()> {
        // A failure means that the thread has ended with an error, which is returned below.
        let _ = self.full.send(self.buffer);
        drop(self.full);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread failed")))
    }

    #[cold]
    fn flush(&mut self) {
        let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(2 * self.size));
        match self.full.try_send(std::mem::replace(&mut self.buffer, next)) {
            // The queue is full because the disk is too slow: the chunk is kept for a retry after the next message.
            Err(TrySendError::Full(chunk)) => self.buffer = chunk,
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        }
    }
}
