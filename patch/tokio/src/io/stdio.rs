//! Standard streams. A thread that may block reads and writes for a task.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use real::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::task::{JoinHandle, spawn_blocking};

/// The most bytes of one read or write.
const MOST: usize = 64 << 10;

/// Standard input.
#[derive(Debug)]
pub struct Stdin(Reading);

#[derive(Debug)]
enum Reading {
    /// What was read and not yet taken, from a position on.
    Idle(Vec<u8>, usize),
    Busy(JoinHandle<io::Result<Vec<u8>>>),
}

/// Standard input. While a read waits for input, the runtime cannot end, as with tokio's.
#[must_use]
pub fn stdin() -> Stdin {
    Stdin(Reading::Idle(Vec::new(), 0))
}

impl AsyncRead for Stdin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match &mut self.0 {
                Reading::Idle(bytes, from) if *from < bytes.len() => {
                    let count = buffer.remaining().min(bytes.len() - *from);
                    buffer.put_slice(&bytes[*from..*from + count]);
                    *from += count;
                    return Poll::Ready(Ok(()));
                }
                Reading::Idle(..) => {
                    let most = buffer.remaining().min(MOST);
                    self.0 = Reading::Busy(spawn_blocking(move || {
                        let mut bytes = vec![0; most];
                        let count = io::stdin().read(&mut bytes)?;
                        bytes.truncate(count);
                        Ok(bytes)
                    }));
                }
                Reading::Busy(reading) => {
                    let read = ready!(Pin::new(reading).poll(context));
                    self.0 = Reading::Idle(Vec::new(), 0);
                    let bytes = read.map_err(io::Error::from)??;
                    if bytes.is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                    self.0 = Reading::Idle(bytes, 0);
                }
            }
        }
    }
}

/// One write under way.
#[derive(Debug, Default)]
struct Writing(Option<JoinHandle<io::Result<()>>>);

impl Writing {
    fn poll_idle(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(writing) = &mut self.0 {
            let written = ready!(Pin::new(writing).poll(context));
            self.0 = None;
            written.map_err(io::Error::from)??;
        }
        Poll::Ready(Ok(()))
    }
}

macro_rules! output {
    ($type:ident, $function:ident, $about:literal) => {
        #[doc = $about]
        #[derive(Debug)]
        pub struct $type(Writing);

        #[doc = concat!($about, " A write that was accepted is out after a flush.")]
        #[must_use]
        pub fn $function() -> $type {
            $type(Writing::default())
        }

        impl AsyncWrite for $type {
            fn poll_write(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                ready!(self.0.poll_idle(context))?;
                let bytes = bytes[..bytes.len().min(MOST)].to_vec();
                let count = bytes.len();
                self.0.0 = Some(spawn_blocking(move || {
                    let mut stream = io::$function().lock();
                    stream.write_all(&bytes)?;
                    stream.flush()
                }));
                Poll::Ready(Ok(count))
            }

            fn poll_flush(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                self.0.poll_idle(context)
            }

            fn poll_shutdown(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                self.poll_flush(context)
            }
        }
    };
}

output!(Stdout, stdout, "Standard output.");
output!(Stderr, stderr, "Standard error.");
