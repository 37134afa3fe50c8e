//! Counts the requests of a connection, around an application.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use duality_runtime::visibility::{Timing, note_failed_request, time_request};
use hyper::service::Service;
use hyper::{Request, Response, StatusCode};
use pin_project_lite::pin_project;

use crate::client::Client;

/// Whether a connection has carried a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Begun(Arc<AtomicBool>);

impl Begun {
    pub(crate) fn is_true(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The service of a connection, with its requests counted. An answer counts once its head is ready,
/// since hyper sends the rest.
#[derive(Debug)]
pub(crate) struct Requests<S> {
    service: S,
    client: Client,
    begun: Begun,
}

impl<S> Requests<S> {
    pub(crate) fn new(service: S, client: Client) -> Self {
        Self { service, client, begun: Begun::default() }
    }

    /// Whether the connection has carried a request.
    pub(crate) fn begun(&self) -> &Begun {
        &self.begun
    }
}

impl<S, I, B> Service<Request<I>> for Requests<S>
where
    S: Service<Request<I>, Response = Response<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Answer<S::Future>;

    fn call(&self, mut request: Request<I>) -> Self::Future {
        self.client.extend(request.extensions_mut());
        self.begun.0.store(true, Ordering::Relaxed);
        Answer { timing: time_request(), future: self.service.call(request) }
    }
}

pin_project! {
    /// An answer that is being made.
    pub(crate) struct Answer<F> {
        timing: Timing,
        #[pin]
        future: F,
    }
}

impl<F: Future<Output = Result<Response<B>, E>>, B, E> Future for Answer<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let answer = self.project();
        let output = ready!(answer.future.poll(context));
        answer.timing.ends();
        if output.as_ref().is_ok_and(|response| is_a_failure(response.status())) {
            note_failed_request();
        }
        Poll::Ready(output)
    }
}

/// Whether a status means that the application has failed.
fn is_a_failure(status: StatusCode) -> bool {
    let not_known = [StatusCode::NOT_IMPLEMENTED, StatusCode::HTTP_VERSION_NOT_SUPPORTED];
    status.is_server_error() && !not_known.contains(&status)
}
