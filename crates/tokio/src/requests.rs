//! Counts the requests of a connection, around an application. A request is under way until its
//! reply has been handed to hyper to its end.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};

use duality_runtime::visibility::{Timing, note_failed_request, time_request};
use http_body::{Body, Frame, SizeHint};
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

/// The number of requests of a connection that are under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnderWay(Arc<AtomicU32>);

impl UnderWay {
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    fn begin(&self) -> Way {
        self.0.fetch_add(1, Ordering::Relaxed);
        Way(self.clone())
    }
}

/// A request under way, until this is dropped.
#[derive(Debug)]
struct Way(UnderWay);

impl Drop for Way {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The service of a connection, with its requests counted. An answer counts once its head is ready,
/// since hyper sends the rest.
#[derive(Debug)]
pub(crate) struct Requests<S> {
    service: S,
    client: Client,
    begun: Begun,
    under_way: UnderWay,
}

impl<S> Requests<S> {
    pub(crate) fn new(service: S, client: Client) -> Self {
        let (begun, under_way) = Default::default();
        Self { service, client, begun, under_way }
    }

    /// Whether the connection has carried a request.
    pub(crate) fn begun(&self) -> &Begun {
        &self.begun
    }

    /// The requests under way.
    pub(crate) fn under_way(&self) -> &UnderWay {
        &self.under_way
    }
}

impl<S, I, B> Service<Request<I>> for Requests<S>
where
    S: Service<Request<I>, Response = Response<B>>,
{
    type Response = Response<Reply<B>>;
    type Error = S::Error;
    type Future = Answer<S::Future>;

    fn call(&self, mut request: Request<I>) -> Self::Future {
        self.client.extend(request.extensions_mut());
        self.begun.0.store(true, Ordering::Relaxed);
        let way = Some(self.under_way.begin());
        Answer { timing: time_request(), way, future: self.service.call(request) }
    }
}

pin_project! {
    /// An answer that is being made.
    pub(crate) struct Answer<F> {
        timing: Timing,
        // Goes along with the reply.
        way: Option<Way>,
        #[pin]
        future: F,
    }
}

impl<F: Future<Output = Result<Response<B>, E>>, B, E> Future for Answer<F> {
    type Output = Result<Response<Reply<B>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.project();
        let output = ready!(answer.future.poll(context));
        answer.timing.ends();
        if output.as_ref().is_ok_and(|response| is_a_failure(response.status())) {
            note_failed_request();
        }
        let way = answer.way.take();
        Poll::Ready(output.map(|response| response.map(|body| Reply { body, way })))
    }
}

pin_project! {
    /// The body of a reply. hyper drops it at its end.
    pub(crate) struct Reply<B> {
        #[pin]
        body: B,
        way: Option<Way>,
    }
}

impl<B: Body> Body for Reply<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().body.poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Whether a status means that the application has failed.
fn is_a_failure(status: StatusCode) -> bool {
    let not_known = [StatusCode::NOT_IMPLEMENTED, StatusCode::HTTP_VERSION_NOT_SUPPORTED];
    status.is_server_error() && !not_known.contains(&status)
}
