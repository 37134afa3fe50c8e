//! Addresses and host names.

use std::future::{Future, ready};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::pin::Pin;

use duality_runtime::net::SimulatedSockets;
use rustix::net::SocketAddrAny;

use self::sealed::{Found, Sealed};
use crate::task::spawn_blocking;

/// What can be turned into addresses. A host name is looked up by the C library's resolver, on a
/// thread that may block.
pub trait ToSocketAddrs: Sealed {}

mod sealed {
    use super::*;

    pub(super) type Found =
        Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + Sync>>;

    pub trait Sealed {
        fn find(&self) -> Result<Vec<SocketAddr>, Found>;
    }
}

/// The addresses of `host`, such as `"db.example:5432"`.
///
/// # Errors
///
/// The errors of the resolver. `InvalidInput` if the port is missing.
pub async fn lookup_host<T: ToSocketAddrs>(
    host: T,
) -> io::Result<impl Iterator<Item = SocketAddr>> {
    addresses(&host).await.map(Vec::into_iter)
}

/// The addresses, which take a wait only for a host name.
pub(super) fn addresses<T: ToSocketAddrs + ?Sized>(
    host: &T,
) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send + Sync + use<T> {
    let found = host.find();
    async {
        match found {
            Ok(addresses) => Ok(addresses),
            Err(search) => search.await,
        }
    }
}

/// Calls `attempt` with the addresses of `host`, until one succeeds.
pub(super) async fn first<T, F: Future<Output = io::Result<T>>>(
    host: impl ToSocketAddrs,
    mut attempt: impl FnMut(SocketAddr) -> F,
) -> io::Result<T> {
    let addresses = addresses(&host);
    drop(host);
    let mut refused = None;
    for address in addresses.await? {
        match attempt(address).await {
            Ok(value) => return Ok(value),
            Err(error) => refused = Some(error),
        }
    }
    let none = || io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any address");
    Err(refused.unwrap_or_else(none))
}

/// The address in `std`'s form.
pub(super) fn internet_address(address: Option<SocketAddrAny>) -> io::Result<SocketAddr> {
    let address = address.ok_or(io::ErrorKind::NotConnected)?;
    SocketAddr::try_from(address).map_err(|_| io::Error::other("not an internet address"))
}

fn resolve(host: (String, u16)) -> Found {
    if let Some(sockets) = SimulatedSockets::here() {
        let found = sockets.look_up(&format!("{}:{}", host.0, host.1));
        return Box::pin(async { found });
    }
    resolve_by(move || {
        std::net::ToSocketAddrs::to_socket_addrs(&(&*host.0, host.1)).map(Vec::from_iter)
    })
}

fn resolve_by(search: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static) -> Found {
    let search = spawn_blocking(search);
    Box::pin(async { search.await.map_err(io::Error::from)? })
}

macro_rules! known {
    ($($type:ty: |$this:ident| $address:expr;)+) => {$(
        impl ToSocketAddrs for $type {}
        impl Sealed for $type {
            fn find(&self) -> Result<Vec<SocketAddr>, Found> {
                let $this = self;
                Ok($address)
            }
        }
    )+};
}

known! {
    SocketAddr: |address| vec![*address];
    SocketAddrV4: |address| vec![SocketAddr::V4(*address)];
    SocketAddrV6: |address| vec![SocketAddr::V6(*address)];
    (IpAddr, u16): |address| vec![SocketAddr::from(*address)];
    (Ipv4Addr, u16): |address| vec![SocketAddr::from(*address)];
    (Ipv6Addr, u16): |address| vec![SocketAddr::from(*address)];
    &[SocketAddr]: |addresses| addresses.to_vec();
}

impl ToSocketAddrs for str {}
impl Sealed for str {
    fn find(&self) -> Result<Vec<SocketAddr>, Found> {
        if let Ok(address) = self.parse() {
            return Ok(vec![address]);
        }
        if let Some(sockets) = SimulatedSockets::here() {
            let found = sockets.look_up(self);
            return Err(Box::pin(async { found }));
        }
        let host = self.to_owned();
        Err(resolve_by(move || {
            std::net::ToSocketAddrs::to_socket_addrs(&*host).map(Vec::from_iter)
        }))
    }
}

impl ToSocketAddrs for String {}
impl Sealed for String {
    fn find(&self) -> Result<Vec<SocketAddr>, Found> {
        Sealed::find(self.as_str())
    }
}

impl ToSocketAddrs for (&str, u16) {}
impl Sealed for (&str, u16) {
    fn find(&self) -> Result<Vec<SocketAddr>, Found> {
        match self.0.parse::<IpAddr>() {
            Ok(address) => Ok(vec![SocketAddr::new(address, self.1)]),
            Err(_) => Err(resolve((self.0.to_owned(), self.1))),
        }
    }
}

impl ToSocketAddrs for (String, u16) {}
impl Sealed for (String, u16) {
    fn find(&self) -> Result<Vec<SocketAddr>, Found> {
        Sealed::find(&(self.0.as_str(), self.1))
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {}
impl<T: Sealed + ?Sized> Sealed for &T {
    fn find(&self) -> Result<Vec<SocketAddr>, Found> {
        Sealed::find(&**self)
    }
}

/// A future that is ready, for attempts that do not wait.
pub(super) fn at_once<T>(value: io::Result<T>) -> impl Future<Output = io::Result<T>> {
    ready(value)
}
