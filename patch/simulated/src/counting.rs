//! A service of tonic's with each kind of call: unary, streams of the client, of the server, and of
//! both.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::signal;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

include!(concat!(env!("OUT_DIR"), "/counting.Counting.rs"));

use counting_server::{Counting, CountingServer};

/// The message of all calls.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Number {
    /// The number.
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self { value }
    }
}

#[derive(Default)]
struct Counter {
    calls: AtomicU64,
}

type Numbers = Pin<Box<dyn Stream<Item = Result<Number, Status>> + Send>>;

#[tonic::async_trait]
impl Counting for Counter {
    /// How often it was called: a number that no other call gets.
    async fn next(&self, _request: Request<Number>) -> Result<Response<Number>, Status> {
        let next = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Response::new(next.into()))
    }

    async fn sum(&self, request: Request<Streaming<Number>>) -> Result<Response<Number>, Status> {
        let mut numbers = request.into_inner();
        let mut sum = 0_u64;
        while let Some(number) = numbers.message().await? {
            sum += number.value;
        }
        Ok(Response::new(sum.into()))
    }

    type UpToStream = ReceiverStream<Result<Number, Status>>;

    async fn up_to(&self, request: Request<Number>) -> Result<Response<Self::UpToStream>, Status> {
        let last = request.into_inner().value;
        let (sender, receiver) = mpsc::channel(4);
        tokio::spawn(async move {
            for value in 1..=last {
                if sender.send(Ok(value.into())).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    type SumsStream = Numbers;

    /// After each number, the sum of all numbers so far.
    async fn sums(
        &self,
        request: Request<Streaming<Number>>,
    ) -> Result<Response<Self::SumsStream>, Status> {
        let mut sum = 0;
        let sums = request.into_inner().map(move |number| {
            sum += number?.value;
            Ok(sum.into())
        });
        Ok(Response::new(Box::pin(sums)))
    }
}

/// Serves until ctrl-c.
///
/// # Errors
///
/// If the port is taken.
pub async fn run() -> Result<(), tonic::transport::Error> {
    let address = ([0, 0, 0, 0], 50051).into();
    let ends = async { _ = signal::ctrl_c().await };
    Server::builder()
        .add_service(CountingServer::new(Counter::default()))
        .serve_with_shutdown(address, ends)
        .await
}
