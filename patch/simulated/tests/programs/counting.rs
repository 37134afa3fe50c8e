//! A tonic service with streams.

use duality_simulate::Net;
use duality_tokio_patch_simulated::counting;
use duality_tokio_patch_simulated::counting::Number;
use duality_tokio_patch_simulated::counting::counting_client::CountingClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};

use crate::trouble::{Trouble, ask_often, broken, check, drained, few, tell, trouble};

/// Makes each kind of call over one channel, which connects again by itself.
async fn count(net: Net) -> Result<(), String> {
    let endpoint = Endpoint::from_static("http://server:50051");
    let mut client = CountingClient::new(endpoint.connect_lazy());
    ask_often(&net, async |number| {
        let next = client.next(Number::default()).await.map_err(broken)?.into_inner();
        check(next.value > 0, || format!("{next:?} calls"))?;
        sum(&mut client, number % 40).await?;
        up_to(&mut client, number % 40).await?;
        sums(&mut client, 1 + number % 8).await
    })
    .await
}

/// A stream of the client.
async fn sum(client: &mut CountingClient<Channel>, last: u64) -> Result<(), Trouble> {
    let numbers = tokio_stream::iter((1..=last).map(Number::from));
    let sum = client.sum(numbers).await.map_err(broken)?.into_inner();
    check(sum.value == last * (last + 1) / 2, || format!("the sum to {last} is {sum:?}"))
}

/// A stream of the server.
async fn up_to(client: &mut CountingClient<Channel>, last: u64) -> Result<(), Trouble> {
    let mut numbers = client.up_to(Number::from(last)).await.map_err(broken)?.into_inner();
    let mut expected = 1;
    while let Some(number) = numbers.message().await.map_err(broken)? {
        check(number.value == expected, || format!("{number:?} instead of {expected}"))?;
        expected += 1;
    }
    check(expected == last + 1, || format!("the stream to {last} ends before {expected}"))
}

/// Streams of both, in turn.
async fn sums(client: &mut CountingClient<Channel>, last: u64) -> Result<(), Trouble> {
    let (sender, receiver) = mpsc::channel(1);
    let numbers = ReceiverStream::new(receiver);
    let mut sums = client.sums(numbers).await.map_err(broken)?.into_inner();
    for number in 1..=last {
        sender.send(Number::from(number)).await.map_err(broken)?;
        let sum = sums.message().await.map_err(broken)?;
        let expected = number * (number + 1) / 2;
        let found = sum.map(|sum| sum.value);
        check(found == Some(expected), || format!("{found:?} instead of {expected}"))?;
    }
    drop(sender);
    let after = sums.message().await.map_err(broken)?;
    check(after.is_none(), || format!("{after:?} after the end"))
}

#[test]
fn a_tonic_service_with_streams() {
    let tally = few().in_both_waits().run(|net| async move {
        let server = net.host("server", counting::run);
        let clients = ["ann", "bob"].map(|name| {
            let inner = net.clone();
            net.client(name, move || count(inner.clone()))
        });
        trouble(&net, &server, &clients).await?;
        drained(&server).await
    });
    tell("tonic", &tally);
}
