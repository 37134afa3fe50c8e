//! Slow senders: requests a byte at a time, like slowloris, but complete requests.

use std::io;
use std::time::Instant;

use duality_runtime::net::TcpStream;
use duality_runtime::time;

use super::Shared;
use super::fate::Gone;
use crate::failure::Failure;

pub(super) async fn enter(shared: &Shared) -> Result<TcpStream, Failure> {
    shared.route.connect(shared.limit).await
}

pub(super) async fn stay(mut stream: TcpStream, shared: &Shared) -> Gone {
    loop {
        let since = Instant::now();
        let answered = async {
            let heard = send(&mut stream, shared).await?;
            Box::pin(shared.question.hear(&mut stream, heard)).await
        };
        match answered.await {
            Ok(reply) => {
                shared.ledger.answered(1);
                if !reply.open {
                    return Gone::Cut(since.elapsed());
                }
            }
            Err(failure) => return Gone::by(&failure, since),
        }
    }
}

/// Sends one request slowly, and reads meanwhile. Returns the bytes of the reply so far.
async fn send(stream: &mut TcpStream, shared: &Shared) -> Result<Vec<u8>, Failure> {
    let mut heard = Vec::new();
    for (index, byte) in shared.question.request.iter().enumerate() {
        if index > 0 {
            match time::timeout(shared.rest, listen(stream, shared, &mut heard)).await {
                Err(time::Elapsed) => {}
                Ok(failure) => return Err(failure),
            }
        }
        let sent = stream.write_all(&[*byte]).await;
        sent.map_err(|error| Failure::from_transfer(error, 0))?;
    }
    Ok(heard)
}

/// Listens until the server has broken off.
async fn listen(stream: &mut TcpStream, shared: &Shared, heard: &mut Vec<u8>) -> Failure {
    let mut words = [0; 64];
    loop {
        match stream.read(&mut words).await {
            // A rest may be longer than the wait for a reply.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            Err(error) => return Failure::from_transfer(error, heard.len() as u64),
            Ok(count) => {
                heard.extend_from_slice(&words[..count]);
                let heard = if count == 0 { &[] } else { heard.as_slice() };
                if let Err(failure) = shared.question.hear_early(heard) {
                    return failure;
                }
            }
        }
    }
}
