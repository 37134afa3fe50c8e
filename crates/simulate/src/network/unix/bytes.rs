//! The bytes of connections between Unix sockets.

use std::io;
use std::net::Shutdown;

use super::Unix;
use crate::network::{Network, refused};

impl Network {
    pub(in crate::network) fn receive_unix(
        &mut self,
        number: u64,
        room: usize,
        mut take: impl FnMut(usize, u8),
    ) -> io::Result<usize> {
        self.interrupt()?;
        let own = self.unix_mut(number)?;
        let Some(peer) = own.peer_number() else { return Err(refused(libc::EINVAL)) };
        if own.bytes.is_empty() {
            return end_of(own);
        }
        let most = room.min(own.bytes.len());
        let count = self.moved(most);
        if count < most {
            let host = self.host_of(number);
            self.tell(|net| format!("! {} reads {count} of {most} bytes", net.name(host)));
        }
        let own = self.unix_mut(number)?;
        own.bytes.drain(..count).enumerate().for_each(|(index, byte)| take(index, byte));
        if let Ok(peer) = self.unix_mut(peer) {
            peer.outstanding = peer.outstanding.saturating_sub(count);
        }
        self.look(peer);
        Ok(count)
    }

    pub(in crate::network) fn peek_unix(
        &mut self,
        number: u64,
        room: usize,
        mut take: impl FnMut(usize, u8),
    ) -> io::Result<usize> {
        let own = self.unix_mut(number)?;
        if own.bytes.is_empty() {
            return self.receive_unix(number, room, take);
        }
        let most = room.min(own.bytes.len());
        own.bytes.iter().take(most).enumerate().for_each(|(index, byte)| take(index, *byte));
        Ok(most)
    }

    pub(in crate::network) fn send_unix(&mut self, number: u64, bytes: &[u8]) -> io::Result<usize> {
        self.interrupt()?;
        let window = self.profile.window;
        let own = self.unix_mut(number)?;
        let Some(peer) = own.peer_number() else { return Err(refused(libc::ENOTCONN)) };
        if own.sends_no_more {
            return Err(refused(libc::EPIPE));
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        if let Some(error) = own.error.take() {
            return Err(refused(error));
        }
        let most = bytes.len().min(window.saturating_sub(own.outstanding));
        if most == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = self.moved(most);
        let (host, all) = (self.host_of(number), bytes.len());
        if count < all {
            self.tell(|net| format!("! {} writes {count} of {all} bytes", net.name(host)));
        }
        self.unix_mut(number)?.outstanding += count;
        self.unix_mut(peer)?.bytes.extend(&bytes[..count]);
        self.decisions.note(peer);
        self.decisions.note_bytes(&bytes[..count]);
        self.tell(|net| {
            let text = String::from_utf8_lossy(&bytes[..count.min(60)]).into_owned();
            format!("{}  {count} bytes by a Unix socket  {text:?}", net.name(host))
        });
        self.look(peer);
        Ok(count)
    }

    pub(in crate::network) fn shut_down_unix(
        &mut self,
        number: u64,
        how: Shutdown,
    ) -> io::Result<()> {
        let own = self.unix_mut(number)?;
        own.reads_no_more |= how != Shutdown::Write;
        own.sends_no_more |= how != Shutdown::Read;
        let peer = own.peer_number().filter(|_| own.is_stream());
        if let Some(peer) = peer
            && let Ok(end) = self.unix_mut(peer)
        {
            end.sends_no_more |= how != Shutdown::Write;
            end.reads_no_more |= how != Shutdown::Read;
            self.look(peer);
        }
        self.look(number);
        Ok(())
    }
}

/// What a read without bytes returns.
fn end_of(own: &mut Unix) -> io::Result<usize> {
    match own.error.take() {
        Some(error) => Err(refused(error)),
        None if own.reads_no_more => Ok(0),
        None => Err(io::ErrorKind::WouldBlock.into()),
    }
}
