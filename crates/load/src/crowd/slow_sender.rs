//! Slow senders: requests a byte at a time, as slowloris does, but whole ones.

use std::time::Instant;

use duality_runtime::net::TcpStream;
use duality_runtime::time;

use super::Place;
use super::fate::Gone;
use super::question::early;
use crate::failure::Failure;

pub(super) async fn enter(place: &Place) -> Result<TcpStream, Failure> {
    place.route.connect(place.limit).await
}

pub(super) async fn stay(mut stream: TcpStream, place: &Place) -> Gone {
    loop {
        let since = Instant::now();
        let answered = async {
            send(&mut stream, place).await?;
            Box::pin(place.question.hear(&mut stream)).await
        };
        match answered.await {
            Ok(reply) => {
                place.ledger.answered(1);
                if !reply.open {
                    return Gone::Cut(since.elapsed());
                }
            }
            Err(failure) => return Gone::by(&failure, since),
        }
    }
}

/// Sends one request slowly; that the server says anything meanwhile is a failure.
async fn send(stream: &mut TcpStream, place: &Place) -> Result<(), Failure> {
    let mut words = [0; 64];
    for (index, byte) in place.question.request.iter().enumerate() {
        if index > 0 {
            match time::timeout(place.rest, stream.read(&mut words)).await {
                Err(time::Elapsed) => {}
                Ok(Ok(count)) => return Err(early(&words[..count])),
                Ok(Err(error)) => return Err(Failure::from_transfer(error, 0)),
            }
        }
        let sent = stream.write_all(&[*byte]).await;
        sent.map_err(|error| Failure::from_transfer(error, 0))?;
    }
    Ok(())
}
