//! One direction of a session: a buffer between a reader and a writer.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::wire::Stream;

/// How much one direction holds at most.
pub const BUFFER: usize = 32 * 1024;
/// How many buffers a thread keeps for the next session that has something to say.
const SPARE: usize = 32;

thread_local! {
    static POOL: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// Bytes on their way. `start..ready` may be sent; `side` goes out after it; then come `skip` bytes
/// that go nowhere, and the rest up to `end` is not looked at yet. An idle direction holds no
/// buffer.
#[derive(Debug, Default)]
pub struct Pipe {
    buffer: Option<Box<[u8]>>,
    start: usize,
    ready: usize,
    end: usize,
    /// Bytes after `ready` that were taken out while something before them was still to be sent.
    skip: usize,
    side: Vec<u8>,
    side_sent: usize,
    /// Bytes of the current message's body that pass unread.
    pub body_left: usize,
    /// Bytes of the current message's body that are thrown away.
    pub drop_left: usize,
    unflushed: bool,
    /// The writer is gone: what is ready is thrown away.
    pub dead: bool,
    /// Bytes that were forwarded.
    pub total: u64,
}

impl Pipe {
    /// What was read and not yet looked at.
    pub fn unread(&self) -> &[u8] {
        self.buffer.as_deref().map_or(&[], |buffer| &buffer[self.ready + self.skip..self.end])
    }

    /// Lets the next `n` unread bytes go. Not after something was taken out or put in: that must be
    /// sent first.
    pub fn pass(&mut self, n: usize) {
        debug_assert!(self.ready + n <= self.end && self.skip == 0 && self.side.is_empty());
        self.ready += n;
    }

    /// Lets as much of the current body go as is here. Is the whole of it through?
    pub fn pass_body(&mut self) -> bool {
        let n = self.body_left.min(self.end - self.ready);
        self.ready += n;
        self.body_left -= n;
        self.body_left == 0
    }

    /// Is everything that may be sent sent?
    pub fn is_sent(&self) -> bool {
        self.start == self.ready && self.side.is_empty()
    }

    /// Takes the next `n` unread bytes out.
    pub fn drop_unread(&mut self, n: usize) {
        debug_assert!(self.ready + self.skip + n <= self.end);
        self.skip += n;
        if self.is_sent() {
            self.forget_skipped();
        }
    }

    /// Was something taken out or put in that nothing may pass before it is sent?
    pub fn has_gap(&self) -> bool {
        self.skip > 0 || !self.side.is_empty()
    }

    /// Throws away as much of the current body as is here. Is the whole of it gone?
    pub fn drop_body(&mut self) -> bool {
        let n = self.drop_left.min(self.unread().len());
        self.drop_left -= n;
        self.drop_unread(n);
        self.drop_left == 0
    }

    fn forget_skipped(&mut self) {
        self.ready += self.skip;
        self.start = self.ready;
        self.skip = 0;
    }

    /// Puts bytes of ours in, after what is ready.
    pub fn insert(&mut self) -> &mut Vec<u8> {
        &mut self.side
    }

    /// Throws away all that is not yet sent.
    pub fn clear(&mut self) {
        self.start = 0;
        self.ready = 0;
        self.end = 0;
        self.skip = 0;
        self.body_left = 0;
        self.drop_left = 0;
        self.side = Vec::new();
        self.side_sent = 0;
        self.release();
    }

    /// Starts with bytes that were read before; false when they are more than fit.
    #[must_use]
    pub fn seed(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > BUFFER {
            return false;
        }
        let buffer = self.buffer.get_or_insert_with(take_buffer);
        buffer[..bytes.len()].copy_from_slice(bytes);
        self.end = bytes.len();
        true
    }

    /// The bytes that may be sent, and nothing else: what is not looked at yet is thrown away.
    pub fn drop_all_unread(&mut self) {
        self.end = self.ready + self.skip;
    }

    /// Reads once. Makes room before; only to be called when all that is ready is sent.
    pub fn poll_read(
        &mut self,
        reader: &mut Stream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let buffer = self.buffer.get_or_insert_with(take_buffer);
        if self.start == self.end {
            self.start = 0;
            self.ready = 0;
            self.end = 0;
        } else if self.end == buffer.len() {
            buffer.copy_within(self.start..self.end, 0);
            self.ready -= self.start;
            self.end -= self.start;
            self.start = 0;
        }
        let mut into = ReadBuf::new(&mut buffer[self.end..]);
        match Pin::new(reader).poll_read(cx, &mut into) {
            Poll::Ready(Ok(())) => {
                let n = into.filled().len();
                self.end += n;
                Poll::Ready(Ok(n))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                if self.end == 0 {
                    self.release();
                }
                Poll::Pending
            }
        }
    }

    /// Sends what may be sent.
    pub fn poll_send(&mut self, writer: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.dead {
            self.start = self.ready;
            self.side.clear();
            self.side_sent = 0;
            self.forget_skipped();
            return Poll::Ready(Ok(()));
        }
        while self.start < self.ready {
            let Some(buffer) = self.buffer.as_deref() else { break };
            let n = ready!(Pin::new(&mut *writer).poll_write(cx, &buffer[self.start..self.ready]))?;
            self.sent(n)?;
            self.start += n;
        }
        while self.side_sent < self.side.len() {
            let n = ready!(Pin::new(&mut *writer).poll_write(cx, &self.side[self.side_sent..]))?;
            self.sent(n)?;
            self.side_sent += n;
        }
        if !self.side.is_empty() {
            self.side = Vec::new();
            self.side_sent = 0;
        }
        self.forget_skipped();
        if self.unflushed {
            ready!(Pin::new(writer).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn sent(&mut self, n: usize) -> io::Result<()> {
        if n == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.unflushed = true;
        self.total += n as u64;
        Ok(())
    }

    fn release(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            POOL.with_borrow_mut(|pool| {
                if pool.len() < SPARE {
                    pool.push(buffer);
                }
            });
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.release();
    }
}

fn take_buffer() -> Box<[u8]> {
    let spare = POOL.with_borrow_mut(Vec::pop);
    spare.unwrap_or_else(|| vec![0; BUFFER].into_boxed_slice())
}
