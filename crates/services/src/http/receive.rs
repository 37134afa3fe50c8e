//! Reads the body of a request from its connection.

use std::io;

use duality_runtime::{net::Input, task};

use super::{
    body::{Body, Progress},
    fields::Framing,
    limits::Limits,
    status::{self, Status},
    wire::{Deadline, Filled, Wire},
};

/// The result of receiving a request's body.
pub(super) enum Taken {
    /// The body is complete. The value holds the kept bytes. The next request follows.
    Whole(Vec<u8>),
    /// The body is bad. The reply has this status, and nothing can be read after it.
    Bad(&'static Status),
    /// The connection has ended.
    End,
}

/// Reads a body, and keeps it if there is `room` for it.
pub(super) async fn take_body(
    framing: Framing,
    room: Option<usize>,
    wire: &mut Wire<'_>,
    input: &mut Input,
    limits: &Limits,
) -> io::Result<Taken> {
    task::stage("http: body").await;
    let mut body = Body::new(framing, limits.body, room);
    let mut deadline = Deadline::new(limits.body_time);
    // A drain answers the requests that have come, and this one has begun.
    wire.set_outlives_drain(true);
    let taken = loop {
        match body.take(input.unused()) {
            Progress::Finished(length) => {
                input.consume(length);
                break Taken::Whole(body.into_kept());
            }
            Progress::Malformed => break Taken::Bad(&status::BAD_REQUEST),
            Progress::TooLong => break Taken::Bad(&status::CONTENT_TOO_LARGE),
            Progress::Unfinished => input.consume(input.unused().len()),
        }
        let filled = match deadline.left() {
            Some(left) => wire.fill(input, left).await?,
            None => Filled::TimedOut,
        };
        match filled {
            Filled::Some => {}
            Filled::TimedOut => break Taken::Bad(&status::REQUEST_TIMEOUT),
            Filled::End => break Taken::End,
        }
    };
    wire.set_outlives_drain(false);
    Ok(taken)
}
