//! A channel between the servers of one service: all of them hear every message, in one order.
//!
//! The channel is a channel of Redis (PUBLISH, SUBSCRIBE), with a counter and an offer that Redis
//! keeps. Like a [`Store`](super::Store), a channel is made before the architecture starts its
//! processes, threads and loops. It uses connections in the same way.
//!
//! **Epochs.** A Redis that starts again may have lost data, and then gives numbers again that it
//! has given before. So a number is unique only in its epoch: the time of one process of Redis. The
//! epoch is in the channel's name. So a server with a subscription of an earlier epoch cannot send
//! anything to servers with a later one.

use std::sync::Arc;

use duality_runtime::block_on;

use super::redis::{self, Epoch, Redis};
use super::{InvalidStore, Location, Options, Shared, Unavailable};

/// A channel between servers; clones are the same channel.
#[derive(Clone)]
pub struct Channel {
    shared: Arc<Shared<Redis>>,
    /// The beginning of the channel's name.
    name: Arc<str>,
    /// The keys of the counter and of the offer.
    counter: Arc<str>,
    offer: Arc<str>,
}

/// The messages published since the subscription, in order and without a gap.
pub struct Subscription {
    heard: redis::Subscription,
    shared: Arc<Shared<Redis>>,
}

impl Channel {
    /// The channel called `name` in the Redis at `location`, which need not run yet. Each database
    /// of a Redis has its own channels.
    ///
    /// # Errors
    ///
    /// [`InvalidStore`] if `location` is not a Redis, or if its host is not found.
    pub fn new(location: &Location, name: &str, options: Options) -> Result<Self, InvalidStore> {
        let Location::Redis { host, port, database, user, password } = location else {
            let why = "only Redis has channels: give redis://HOST:PORT".to_owned();
            return Err(InvalidStore { place: location.to_string(), why });
        };
        let credentials = (user.as_deref(), password.as_deref());
        let redis = Redis::new((host, *port), *database, credentials, options);
        Ok(Self {
            shared: Arc::new(Shared::new(location.to_string(), redis)?),
            // Redis has one set of channels for all of its databases.
            name: format!("duality:{name}:{database}").into(),
            counter: format!("duality:{name}:members").into(),
            offer: format!("duality:{name}:offer").into(),
        })
    }

    /// Does the same as [`Store::reach`](super::Store::reach).
    ///
    /// # Errors
    ///
    /// [`Unavailable`], after telling the operator.
    pub fn reach(&self) -> Result<(), Unavailable> {
        self.shared.reporting(block_on(self.shared.kind.reach()))
    }

    /// The next number, and its epoch. Numbers begin at 1. Redis gives no number twice in an epoch.
    ///
    /// # Errors
    ///
    /// [`Unavailable`].
    pub async fn number(&self) -> Result<(Epoch, u64), Unavailable> {
        self.shared.reporting(self.shared.kind.count(self.counter.as_bytes()).await)
    }

    /// The name of the channel in an epoch. Several channels are told apart by a `number`.
    fn name_in(&self, epoch: &Epoch, number: Option<u64>) -> String {
        let name = format!("{}:{}", self.name, epoch.as_str());
        number.map_or(name.clone(), |number| format!("{name}:{number}"))
    }

    /// Makes an offer, unless there is one. Returns whether it made the offer.
    ///
    /// # Errors
    ///
    /// [`Unavailable`]; the offer may be there nevertheless.
    pub async fn offer(&self, offer: &str) -> Result<bool, Unavailable> {
        self.shared.reporting(self.shared.kind.offer(self.offer.as_bytes(), offer.as_bytes()).await)
    }

    /// Takes the offer, if there is one. No other caller gets the same offer.
    ///
    /// # Errors
    ///
    /// [`Unavailable`]; the offer may be gone nevertheless.
    pub async fn take_offer(&self) -> Result<Option<String>, Unavailable> {
        self.shared.reporting(self.shared.kind.take_offer(self.offer.as_bytes()).await)
    }

    /// Sends a message to all subscribers of an epoch, at the channel with this number if there is
    /// one. Returns how many there are.
    ///
    /// # Errors
    ///
    /// [`Unavailable`]; all subscribers may get the message once nevertheless.
    pub async fn publish(
        &self,
        epoch: &Epoch,
        number: Option<u64>,
        message: &[u8],
    ) -> Result<u64, Unavailable> {
        let name = self.name_in(epoch, number);
        self.shared.reporting(self.shared.kind.publish(name.as_bytes(), message).await)
    }

    /// Subscribes to the channel of the present epoch, or to the one with this number.
    ///
    /// # Errors
    ///
    /// [`Unavailable`].
    pub async fn subscribe(
        &self,
        number: Option<u64>,
    ) -> Result<(Epoch, Subscription), Unavailable> {
        let name = |epoch: &Epoch| self.name_in(epoch, number);
        let (epoch, heard) = self.shared.reporting(self.shared.kind.subscribe(&name).await)?;
        Ok((epoch, Subscription { heard, shared: self.shared.clone() }))
    }
}

impl Subscription {
    /// Waits for the next message. `None` if there was none for about a second.
    ///
    /// # Errors
    ///
    /// [`Unavailable`]: the subscription has ended, and later messages do not come.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Unavailable> {
        let next = self.heard.next().await;
        self.shared.reporting(next.map_err(|fault| fault.to_string()))
    }

    /// Whether `next` may return a message without a wait.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.heard.has_more()
    }
}
