//! The bodies with which later replies are compared: the first reply to each request, for each
//! status.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::failure::Failure;

/// The most bytes of all stored bodies.
const MOST_BYTES: usize = 1 << 30;

/// The memory of an entry besides its body.
const OVERHEAD: usize = 128;

/// The bodies of a load, as learned by all its connections.
#[derive(Default)]
pub(super) struct References {
    /// For each request, the status and the body of its first reply.
    first: Box<[OnceLock<First>]>,
    /// The bodies of further statuses.
    others: Mutex<Others>,
    /// The bytes of all bodies.
    bytes: AtomicUsize,
}

/// Bodies by the index of the request and the status.
type Others = BTreeMap<(usize, u16), Arc<[u8]>>;

struct First {
    status: u16,
    body: Arc<[u8]>,
}

impl References {
    /// The table for this many requests.
    pub(super) fn new(requests: usize) -> Self {
        Self { first: (0..requests).map(|_| OnceLock::new()).collect(), ..Self::default() }
    }

    /// The expected body of a reply with this status to a request. `None` before the first reply.
    pub(super) fn of(&self, request: usize, status: u16) -> Option<Arc<[u8]>> {
        match self.first[request].get() {
            Some(first) if first.status == status => Some(first.body.clone()),
            Some(_) => self.others().get(&(request, status)).cloned(),
            None => None,
        }
    }

    /// Compares a body with the expected one, or stores the first one.
    ///
    /// # Errors
    ///
    /// The body differs. Or all bodies together are longer than 1 GiB.
    #[inline]
    pub(super) fn judge(&self, request: usize, status: u16, body: &[u8]) -> Result<(), Failure> {
        match self.first[request].get() {
            Some(first) if first.status == status => compare(&first.body, body),
            _ => self.judge_another(request, status, body),
        }
    }

    fn judge_another(&self, request: usize, status: u16, body: &[u8]) -> Result<(), Failure> {
        if let Some(expected) = self.of(request, status) {
            return compare(&expected, body);
        }
        let kept = self.bytes.fetch_add(body.len() + OVERHEAD, Ordering::Relaxed);
        if kept.saturating_add(body.len()) > MOST_BYTES {
            return Err(Failure::Malformed("the bodies of all requests are longer than 1 GiB"));
        }
        let body: Arc<[u8]> = body.into();
        let first = self.first[request].get_or_init(|| First { status, body: body.clone() });
        if first.status != status {
            self.others().insert((request, status), body);
        }
        Ok(())
    }

    fn others(&self) -> MutexGuard<'_, Others> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[inline]
fn compare(expected: &[u8], body: &[u8]) -> Result<(), Failure> {
    match expected == body {
        true => Ok(()),
        false => Err(Failure::WrongBytes("the body is not the one of the first reply")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_and_status_has_a_body_of_its_own() {
        let references = References::new(2);
        let judge = |request, status, body: &str| {
            references.judge(request, status, body.as_bytes()).is_ok()
        };
        assert!(references.of(0, 200).is_none());
        assert!(judge(0, 200, "a") && judge(0, 404, "b") && judge(1, 200, "c"));
        for (request, status, body) in [(0, 200, "a"), (0, 404, "b"), (1, 200, "c")] {
            assert!(judge(request, status, body));
            assert!(!judge(request, status, "d") && !judge(request, status, ""));
            assert_eq!(&*references.of(request, status).unwrap(), body.as_bytes());
        }
    }
}
