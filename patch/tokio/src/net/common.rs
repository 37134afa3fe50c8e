//! What several kinds of sockets share, by macros. Each kind has a field `socket`.

/// Conversions between `$socket` and the socket `$std` of `std`, and the traits of descriptors.
macro_rules! of_std {
    ($socket:ident, $std:ty) => {
        impl $socket {
            /// Takes a socket of `std`, in non-blocking mode.
            ///
            /// # Errors
            ///
            /// The errors of `ioctl(2)`. On a simulated host, `Unsupported`.
            #[track_caller]
            pub fn from_std(socket: $std) -> ::std::io::Result<Self> {
                let descriptor = ::std::os::fd::OwnedFd::from(socket);
                $crate::net::calls::refuse_foreign(::std::os::fd::AsFd::as_fd(&descriptor))?;
                Ok(Self { socket: $crate::net::socket::Socket::new(descriptor)? })
            }
        }

        $crate::net::common::as_std!($socket, $std);
    };
}

/// As [`of_std`], for a `$socket` with a `from_std` of its own.
macro_rules! as_std {
    ($socket:ident, $std:ty) => {
        impl $socket {
            /// The socket of `std`, which stays in non-blocking mode.
            ///
            /// # Errors
            ///
            /// If no descriptor is left.
            pub fn into_std(self) -> ::std::io::Result<$std> {
                Ok(self.socket.into_descriptor()?.into())
            }
        }

        impl TryFrom<$std> for $socket {
            type Error = ::std::io::Error;

            fn try_from(socket: $std) -> ::std::io::Result<Self> {
                Self::from_std(socket)
            }
        }

        impl ::std::os::fd::AsFd for $socket {
            fn as_fd(&self) -> ::std::os::fd::BorrowedFd<'_> {
                ::std::os::fd::AsFd::as_fd(&self.socket)
            }
        }

        impl ::std::os::fd::AsRawFd for $socket {
            fn as_raw_fd(&self) -> ::std::os::fd::RawFd {
                ::std::os::fd::AsRawFd::as_raw_fd(&self.socket)
            }
        }
    };
}

/// Waits for readiness, and operations of the program's own.
macro_rules! readiness {
    ($socket:ident) => {
        impl $socket {
            /// The error that the socket has kept, if it has one.
            ///
            /// # Errors
            ///
            /// The errors of `getsockopt(2)`.
            pub fn take_error(&self) -> ::std::io::Result<Option<::std::io::Error>> {
                self.socket.take_error()
            }

            /// Waits until one of the interests comes true.
            ///
            /// # Errors
            ///
            /// The errors of `poll(2)`.
            pub async fn ready(
                &self,
                interest: $crate::io::Interest,
            ) -> ::std::io::Result<$crate::io::Ready> {
                self.socket.ready(interest).await
            }

            /// Waits until the socket has something to be received.
            ///
            /// # Errors
            ///
            /// The errors of `poll(2)`.
            pub async fn readable(&self) -> ::std::io::Result<()> {
                self.socket.readable().await
            }

            /// Waits until the socket has room to send.
            ///
            /// # Errors
            ///
            /// The errors of `poll(2)`.
            pub async fn writable(&self) -> ::std::io::Result<()> {
                self.socket.writable().await
            }

            /// Calls `operation` once, if the socket is ready for it.
            ///
            /// # Errors
            ///
            /// `WouldBlock`, and the errors of `operation`.
            pub fn try_io<R>(
                &self,
                interest: $crate::io::Interest,
                operation: impl FnOnce() -> ::std::io::Result<R>,
            ) -> ::std::io::Result<R> {
                self.socket.try_io(interest, operation)
            }

            /// Calls `operation` until it does not return `WouldBlock`. Waits for the interest
            /// before each further call.
            ///
            /// # Errors
            ///
            /// The errors of `operation`.
            pub async fn async_io<R>(
                &self,
                interest: $crate::io::Interest,
                operation: impl FnMut() -> ::std::io::Result<R>,
            ) -> ::std::io::Result<R> {
                self.socket.async_io(interest, operation).await
            }
        }
    };
}

/// Datagrams: sends to the connected peer, and receives. `$of_sender` makes the `$address` of the
/// sender.
macro_rules! datagrams {
    ($socket:ident, $address:ty, $of_sender:path) => {
        impl $socket {
            /// Like [`writable`](Self::writable), for a future of one's own.
            pub fn poll_send_ready(
                &self,
                context: &mut ::std::task::Context<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                self.socket.poll_ready(context, ::duality_poller::Direction::Write)
            }

            /// Like [`readable`](Self::readable), for a future of one's own.
            pub fn poll_recv_ready(
                &self,
                context: &mut ::std::task::Context<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                self.socket.poll_ready(context, ::duality_poller::Direction::Read)
            }

            /// Sends a datagram to the peer of [`connect`](Self::connect).
            ///
            /// # Errors
            ///
            /// The errors of `send(2)`.
            pub async fn send(&self, datagram: &[u8]) -> ::std::io::Result<usize> {
                ::std::future::poll_fn(|context| self.poll_send(context, datagram)).await
            }

            /// Like [`send`](Self::send), for a future of one's own.
            pub fn poll_send(
                &self,
                context: &mut ::std::task::Context<'_>,
                datagram: &[u8],
            ) -> ::std::task::Poll<::std::io::Result<usize>> {
                let direction = ::duality_poller::Direction::Write;
                self.socket.poll(context, direction, |_| self.try_send(datagram))
            }

            /// Sends a datagram without waiting.
            ///
            /// # Errors
            ///
            /// `WouldBlock`, and the errors of `send(2)`.
            pub fn try_send(&self, datagram: &[u8]) -> ::std::io::Result<usize> {
                self.socket.try_write(datagram)
            }

            /// Waits for a datagram, and returns its length.
            ///
            /// # Errors
            ///
            /// The errors of `recv(2)`.
            pub async fn recv(&self, buffer: &mut [u8]) -> ::std::io::Result<usize> {
                let direction = ::duality_poller::Direction::Read;
                self.socket.wait(direction, |_| self.try_recv(buffer)).await
            }

            /// Like [`recv`](Self::recv), for a future of one's own.
            pub fn poll_recv(
                &self,
                context: &mut ::std::task::Context<'_>,
                buffer: &mut ::real::io::ReadBuf<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                let flags = ::rustix::net::RecvFlags::empty();
                self.poll_from(context, buffer, flags).map_ok(drop)
            }

            /// Receives a datagram without waiting.
            ///
            /// # Errors
            ///
            /// `WouldBlock`, and the errors of `recv(2)`.
            pub fn try_recv(&self, buffer: &mut [u8]) -> ::std::io::Result<usize> {
                self.socket.try_read(buffer)
            }

            /// Waits for a datagram, in a buffer of the crate bytes.
            ///
            /// # Errors
            ///
            /// The errors of `recv(2)`.
            pub async fn recv_buf<B: ::bytes::BufMut>(
                &self,
                buffer: &mut B,
            ) -> ::std::io::Result<usize> {
                let direction = ::duality_poller::Direction::Read;
                self.socket.wait(direction, |_| self.try_recv_buf(buffer)).await
            }

            /// Receives a datagram into a buffer of the crate bytes without waiting.
            ///
            /// # Errors
            ///
            /// `WouldBlock`, and the errors of `recv(2)`.
            pub fn try_recv_buf<B: ::bytes::BufMut>(
                &self,
                buffer: &mut B,
            ) -> ::std::io::Result<usize> {
                self.socket.try_read_buf(buffer)
            }

            /// Waits for a datagram and its sender, in a buffer of the crate bytes.
            ///
            /// # Errors
            ///
            /// The errors of `recvfrom(2)`.
            pub async fn recv_buf_from<B: ::bytes::BufMut>(
                &self,
                buffer: &mut B,
            ) -> ::std::io::Result<(usize, $address)> {
                let direction = ::duality_poller::Direction::Read;
                self.socket.wait(direction, |_| self.try_recv_buf_from(buffer)).await
            }

            /// Receives a datagram and its sender into a buffer of the crate bytes without waiting.
            ///
            /// # Errors
            ///
            /// `WouldBlock`, and the errors of `recvfrom(2)`.
            pub fn try_recv_buf_from<B: ::bytes::BufMut>(
                &self,
                buffer: &mut B,
            ) -> ::std::io::Result<(usize, $address)> {
                let flags = ::rustix::net::RecvFlags::empty();
                let receive = |room: &mut [_]| self.socket.try_receive(room, flags);
                let (count, sender) = $crate::buffer::fill_bytes(buffer, receive)?;
                Ok((count, $of_sender(sender)?))
            }

            /// Waits for a datagram. Returns its length and its sender.
            ///
            /// # Errors
            ///
            /// The errors of `recvfrom(2)`.
            pub async fn recv_from(
                &self,
                buffer: &mut [u8],
            ) -> ::std::io::Result<(usize, $address)> {
                let direction = ::duality_poller::Direction::Read;
                self.socket.wait(direction, |_| self.try_recv_from(buffer)).await
            }

            /// Like [`recv_from`](Self::recv_from), for a future of one's own.
            pub fn poll_recv_from(
                &self,
                context: &mut ::std::task::Context<'_>,
                buffer: &mut ::real::io::ReadBuf<'_>,
            ) -> ::std::task::Poll<::std::io::Result<$address>> {
                let sender = self.poll_from(context, buffer, ::rustix::net::RecvFlags::empty());
                sender.map(|sender| $of_sender(sender?))
            }

            /// Receives a datagram and its sender without waiting.
            ///
            /// # Errors
            ///
            /// `WouldBlock`, and the errors of `recvfrom(2)`.
            pub fn try_recv_from(&self, buffer: &mut [u8]) -> ::std::io::Result<(usize, $address)> {
                let flags = ::rustix::net::RecvFlags::empty();
                let direction = ::duality_poller::Direction::Read;
                let socket = ::std::os::fd::AsFd::as_fd(&self.socket);
                let received =
                    $crate::net::datagram_calls::receive_from_into(socket, buffer, flags);
                let (count, sender) = self.socket.noted(direction, received)?;
                Ok((count, $of_sender(sender)?))
            }

            fn poll_from(
                &self,
                context: &mut ::std::task::Context<'_>,
                buffer: &mut ::real::io::ReadBuf<'_>,
                flags: ::rustix::net::RecvFlags,
            ) -> ::std::task::Poll<::std::io::Result<Option<::rustix::net::SocketAddrAny>>> {
                self.socket.poll(context, ::duality_poller::Direction::Read, |_| {
                    $crate::buffer::fill(buffer, |room| self.socket.try_receive(room, flags))
                })
            }
        }
    };
}

pub(crate) use {as_std, datagrams, of_std, readiness};
