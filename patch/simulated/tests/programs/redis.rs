//! mini-redis with its client.

use std::time::Duration;

use duality_simulate::{Faults, Net, Waits};
use duality_tokio_patch_simulated::redis;
use mini_redis::blocking_client;
use mini_redis::client::{self, Client, Subscriber};
use tokio::time::sleep;

use crate::trouble::{Trouble, ask_often, broken, check, drained, few, tell, trouble};

/// Sets, gets and publishes by one connection, and hears of it by another.
async fn use_redis(net: Net, name: &'static str) -> Result<(), String> {
    let mut kept: Option<(Client, Subscriber)> = None;
    ask_often(&net, async |number| {
        let (mut client, mut subscriber) = match kept.take() {
            Some(kept) => kept,
            None => connect(name).await?,
        };
        let key = format!("{name}{number}");
        client.set(&key, key.clone().into()).await.map_err(broken)?;
        let got = client.get(&key).await.map_err(broken)?;
        check(got.as_deref() == Some(key.as_bytes()), || format!("{key} is {got:?}"))?;
        publish(&mut client, &mut subscriber, name, &key).await?;
        expire(&mut client, &format!("{key} for a while")).await?;
        kept = Some((client, subscriber));
        Ok(())
    })
    .await
}

async fn connect(name: &str) -> Result<(Client, Subscriber), Trouble> {
    let client = client::connect("server:6379").await.map_err(broken)?;
    let subscriber = client::connect("server:6379").await.map_err(broken)?;
    let subscriber = subscriber.subscribe(vec![name.to_owned()]).await.map_err(broken)?;
    Ok((client, subscriber))
}

async fn publish(
    client: &mut Client,
    subscriber: &mut Subscriber,
    channel: &str,
    text: &str,
) -> Result<(), Trouble> {
    let count = client.publish(channel, text.to_owned().into()).await.map_err(broken)?;
    // A fault has ended the subscriber's connection.
    if count == 0 {
        return Err(Trouble::Broken);
    }
    loop {
        let message = subscriber.next_message().await.map_err(broken)?;
        let message = message.ok_or(Trouble::Broken)?;
        check(message.channel == channel, || format!("{channel} got {message:?}"))?;
        if message.content == text.as_bytes() {
            return Ok(());
        }
    }
}

/// A value that expires is gone some time later.
async fn expire(client: &mut Client, key: &str) -> Result<(), Trouble> {
    let time = Duration::from_millis(300);
    client.set_expires(key, "a value".into(), time).await.map_err(broken)?;
    while client.get(key).await.map_err(broken)?.is_some() {
        sleep(time).await;
    }
    Ok(())
}

async fn redis_in_trouble(net: Net) -> Result<(), String> {
    let server = net.host("server", redis::run);
    let clients = ["ann", "bob"].map(|name| {
        let inner = net.clone();
        net.client(name, move || use_redis(inner.clone(), name))
    });
    trouble(&net, &server, &clients).await?;
    drained(&server).await
}

#[test]
fn mini_redis_with_its_client() {
    tell("mini-redis", &few().in_both_waits().run(redis_in_trouble));
}

/// The client that blocks has a runtime of its own, on a stack. It has no time limits, so a crash
/// may leave it waiting for ever.
#[test]
fn mini_redis_with_its_blocking_client() {
    let tally = few().faults(Faults::LEGAL).waits(Waits::Park).run(|net| async move {
        let server = net.host("server", redis::run);
        let client = net.host("client", || async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut client = blocking_client::connect("server:6379")?;
            for number in 0..20 {
                client.set("key", number.to_string().into())?;
                let value = client.get("key")?;
                assert_eq!(value.as_deref(), Some(number.to_string().as_bytes()));
            }
            mini_redis::Result::Ok(())
        });
        client.ended().await.map_err(|why| why.to_string())?;
        drained(&server).await
    });
    assert!(tally.counts.short > 0, "{}", tally.counts);
}
