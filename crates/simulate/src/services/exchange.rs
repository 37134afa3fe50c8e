//! A service of a user's own, of which only one exchange of bytes is known.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use duality_architectures::Served;

use super::wire::{Kept, patiently};
use super::{Client, Days, Size, Trouble, wrong};
use crate::Net;
use crate::violation::Violation;

/// One simulation of a service that answers `request` by `reply`, byte for byte.
///
/// The service was made once, so what it keeps in memory survives a crash of its host.
pub fn exchange(
    served: Served,
    request: Vec<u8>,
    reply: Vec<u8>,
    size: Size,
) -> impl Fn(Net) -> Pin<Box<dyn Future<Output = Result<(), Violation>>>> + Send + Sync + 'static {
    let bytes = Arc::new((request, reply));
    move |net| {
        let (served, bytes) = (served.clone(), bytes.clone());
        Box::pin(async move {
            let days = Days::new(net, "", size).secured()?;
            let servers = (1..=size.servers)
                .map(|number| {
                    let served = served.clone();
                    let (host, architecture) = (format!("server{number}"), size.architecture);
                    let is_crowded = served.needs().concurrent_connections;
                    let tls = days.tls.clone();
                    days.serve(&host, architecture, is_crowded, move || match &tls {
                        Some(tls) => tls.put_before(served.clone()),
                        None => Ok(served.clone()),
                    })
                })
                .collect();
            let client = move |days: Days, number| Exchange {
                kept: Kept::new(&days, number),
                bytes: bytes.clone(),
            };
            days.pass(servers, client).await
        })
    }
}

struct Exchange {
    kept: Kept,
    bytes: Arc<(Vec<u8>, Vec<u8>)>,
}

impl Client for Exchange {
    async fn request(&mut self) -> Result<(), Trouble> {
        let (request, reply) = &*self.bytes;
        let mut wire = self.kept.take().await?;
        patiently(wire.send(request)).await?;
        if patiently(wire.exactly(reply.len())).await? != *reply {
            return wrong("other bytes than those of the exchange");
        }
        if wire.has_rest() {
            return wrong("more bytes than those of the exchange");
        }
        self.kept.keep(wire);
        Ok(())
    }
}
