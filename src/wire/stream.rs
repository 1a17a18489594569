//! A connection, whatever it runs over.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// One side's connection.
#[derive(Debug)]
pub enum Stream {
    /// TCP in the clear.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
}

macro_rules! each {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Self::Tcp($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
            Self::Unix($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
            Self::Tls($stream) => {
                let $stream = Pin::new(&mut **$stream);
                $call
            }
        }
    };
}

/// What is known of the other side without reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// It is connected, as far as one can tell.
    There,
    /// It will send nothing after what is here already; it may still read.
    SendsNoMore,
    /// It is gone.
    Gone,
}

impl Stream {
    /// Looks whether the other side is still there (poll(2)).
    pub fn peer(&self) -> Peer {
        let fd = match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.get_ref().0.as_fd(),
        };
        let mut fds = [PollFd::new(&fd, PollFlags::RDHUP)];
        // An error of poll itself tells nothing about the peer.
        if poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_err() {
            return Peer::There;
        }
        let events = fds[0].revents();
        if events.intersects(PollFlags::HUP | PollFlags::ERR) {
            Peer::Gone
        } else if events.contains(PollFlags::RDHUP) {
            Peer::SendsNoMore
        } else {
            Peer::There
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => stream.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_shutdown(cx))
    }
}
