//! Reads into the memory that tokio's and bytes' buffers lend, which need not be initialised.

use std::io;
use std::mem::MaybeUninit;

use bytes::BufMut;
use bytes::buf::UninitSlice;
use real::io::ReadBuf;

/// Has `receive` write into the free part of a buffer. `receive` returns the slice that it has
/// initialised, from the beginning of its argument, and a value.
pub(crate) fn fill<T>(
    buffer: &mut ReadBuf<'_>,
    receive: impl FnOnce(&mut [MaybeUninit<u8>]) -> io::Result<(usize, T)>,
) -> io::Result<T> {
    // SAFETY: `receive` is safe code, which cannot make initialised bytes uninitialised: the
    // functions that it can call, those of rustix, only write bytes.
    let room = unsafe { buffer.unfilled_mut() };
    let (count, value) = receive(room)?;
    assert!(count <= buffer.remaining(), "a read returns at most its room");
    // SAFETY: the kernel has written this many bytes.
    unsafe { buffer.assume_init(count) };
    buffer.advance(count);
    Ok(value)
}

/// The same for a buffer of the crate bytes.
pub(crate) fn fill_bytes<B: BufMut, T>(
    buffer: &mut B,
    receive: impl FnOnce(&mut [MaybeUninit<u8>]) -> io::Result<(usize, T)>,
) -> io::Result<(usize, T)> {
    // SAFETY: as in `fill`.
    let room = unsafe { UninitSlice::as_uninit_slice_mut(buffer.chunk_mut()) };
    let most = room.len();
    let (count, value) = receive(room)?;
    assert!(count <= most, "a read returns at most its room");
    // SAFETY: the kernel has written this many bytes, and they fit into the chunk.
    unsafe { buffer.advance_mut(count) };
    Ok((count, value))
}
