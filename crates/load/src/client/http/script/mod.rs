//! The requests of a load of http with their frequencies, the values for placeholders, and the
//! correct replies.
//!
//! ```text
//!   urls, flags ──▶ Request ──▶ Draft (placeholders found, all values checked)
//!                                 │         when the load begins
//!   values ──▶ rows ──────────────┴──▶ Sheet: the bytes of each request, for each row
//! ```
//!
//! All requests are turned into bytes before the first connection opens. While the load runs,
//! nothing is formatted.

mod request;
mod template;
mod urls;
mod values;

use std::sync::Arc;

pub use self::request::{Header, Method, Request};
pub use self::urls::Listed;
pub use self::values::Values;

use duality_trace::Mistake;

use self::request::Draft;
use super::Page;
use super::expectation::Expectation;
use super::head::Asked;
use crate::random::SplitMix64;

/// The most bytes of all requests of all rows that a load uses.
const MOST_BYTES: usize = 256 << 20;

/// The requests of a load of http, and the correct replies.
#[derive(Clone, Debug)]
pub struct Script {
    drafts: Vec<Draft>,
    /// For each request, the sum of its weight and the weights before it.
    bounds: Arc<[u64]>,
    values: Option<Values>,
    expectation: Expectation,
}

impl Script {
    /// A script of these requests, each with a weight, its relative frequency. Each connection has
    /// a row of `values`, in turn.
    ///
    /// # Errors
    ///
    /// There is no request, or a weight is 0. Or a request or the values have a mistake, which the
    /// message names. The number is the index of the request.
    pub fn new(
        requests: &[(u32, Request)],
        values: Option<Values>,
        expectation: Expectation,
    ) -> Result<Self, (usize, Mistake)> {
        if requests.is_empty() {
            return Err((0, "there is no request".into()));
        }
        let (mut drafts, mut bounds, mut sum) = (Vec::new(), Vec::new(), 0);
        for (index, (weight, request)) in requests.iter().enumerate() {
            if *weight == 0 {
                return Err((index, "a request of weight 0 is never made".into()));
            }
            sum += u64::from(*weight);
            bounds.push(sum);
            drafts.push(Draft::new(request, values.as_ref()).map_err(|problem| (index, problem))?);
        }
        Ok(Self { drafts, bounds: bounds.into(), values, expectation })
    }

    /// A GET of a page. Each reply must have the status 200 and the same body.
    pub(super) fn of_page(page: &Page) -> Self {
        let draft = Draft::plain_get(&page.path);
        let expectation = Expectation::default();
        Self { drafts: vec![draft], bounds: [1].into(), values: None, expectation }
    }

    /// The criteria for correct replies.
    pub(super) fn expectation(&self) -> &Expectation {
        &self.expectation
    }

    /// The reason why `connections` connections cannot have all their requests in memory, if they
    /// cannot.
    pub(super) fn problem(&self, connections: usize) -> Option<&'static str> {
        let rows = self.rows().take(connections);
        let of_row = |row: &[Box<[u8]>]| self.drafts.iter().map(|draft| draft.length(row)).sum();
        let bytes = rows.map(of_row).fold(0, usize::saturating_add);
        (bytes > MOST_BYTES).then_some(
            "the requests of all rows are longer than 256 MiB together: use fewer URLs, fewer rows \
             of values, or fewer connections",
        )
    }

    /// The bytes of all requests to the server of `page`, a sheet for each row that `connections`
    /// connections use.
    pub(super) fn write(
        &self,
        page: &Page,
        connections: usize,
        closing: Closing,
    ) -> Vec<Arc<Sheet>> {
        let sheet = |row| Arc::new(self.sheet(page, row, closing));
        self.rows().take(connections.max(1)).map(sheet).collect()
    }

    /// The first request of the first row, on a connection that stays open.
    pub(super) fn first(&self, page: &Page) -> Written {
        let row = self.rows().next().expect("there is a row");
        self.drafts[0].written(page, row, Closing::Never)
    }

    /// The bytes of the first request, for the fuzz target.
    #[cfg(fuzzing)]
    pub(crate) fn first_bytes(&self, page: &Page) -> Vec<u8> {
        self.first(page).bytes.into_vec()
    }

    fn sheet(&self, page: &Page, row: &[Box<[u8]>], closing: Closing) -> Sheet {
        self.drafts.iter().map(|draft| draft.written(page, row, closing)).collect()
    }

    /// The rows of values. Without values, a single empty row.
    fn rows(&self) -> impl Iterator<Item = &[Box<[u8]>]> {
        const NOTHING: &[Box<[u8]>] = &[];
        let rows = self.values.as_ref().map_or(&[][..], |values| values.rows.as_slice());
        let nothing = rows.is_empty().then_some(NOTHING);
        rows.iter().map(|row| &*row.cells).chain(nothing)
    }

    /// The choice among the requests of a connection. `None` if there is only one request.
    pub(super) fn choice(&self, seed: u64, connection: usize) -> Option<Choice> {
        if self.drafts.len() == 1 {
            return None;
        }
        // Similar seeds give similar sequences, so the seed is mixed.
        let seed = SplitMix64::new(seed.wrapping_add(connection as u64)).next();
        Some(Choice { random: SplitMix64::new(seed), bounds: self.bounds.clone() })
    }

    /// The number of requests to choose from.
    pub(super) fn len(&self) -> usize {
        self.drafts.len()
    }
}

/// The requests with which a client announces the end of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    Never,
    Always,
    /// After a number of requests.
    Last,
}

/// The requests of one row.
pub(super) type Sheet = Box<[Written]>;

/// The bytes of a request.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) bytes: Box<[u8]>,
    /// The bytes of the request as the last of its connection, if they differ.
    last: Option<Box<[u8]>>,
    pub(super) asked: Asked,
}

impl Written {
    /// The bytes of the request if it is the last of its connection.
    pub(super) fn last(&self) -> &[u8] {
        self.last.as_deref().unwrap_or(&self.bytes)
    }
}

impl Draft {
    fn written(&self, page: &Page, row: &[Box<[u8]>], closing: Closing) -> Written {
        let write = |is_last| self.write(page, row, is_last).into_boxed_slice();
        Written {
            bytes: write(closing == Closing::Always),
            last: (closing == Closing::Last).then(|| write(true)),
            asked: self.asked(),
        }
    }
}

/// Chooses requests at random by their weights.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    random: SplitMix64,
    bounds: Arc<[u64]>,
}

impl Choice {
    /// The number of the next request.
    pub(super) fn next(&mut self) -> usize {
        let sum = self.bounds.last().copied().unwrap_or(1);
        // The high half of the product: a number from 0 up to, but not including, the sum.
        let drawn = ((u128::from(self.random.next()) * u128::from(sum)) >> 64) as u64;
        self.bounds.partition_point(|bound| *bound <= drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        Page { host: "h".to_owned(), path: "/".to_owned() }
    }

    fn script(requests: &[(u32, &str)], values: Option<&str>) -> Script {
        let requests: Vec<_> =
            requests.iter().map(|(weight, path)| (*weight, Request::get(*path))).collect();
        let values = values.map(|text| Values::parse(text.as_bytes()).unwrap());
        Script::new(&requests, values, Expectation::default()).unwrap()
    }

    #[test]
    fn requests_are_chosen_by_their_weights_and_alike_for_a_seed() {
        let script = script(&[(1, "/a"), (7, "/b"), (2, "/c")], None);
        let draw = |seed, connection| {
            let mut choice = script.choice(seed, connection).unwrap();
            (0..100_000).map(|_| choice.next()).collect::<Vec<_>>()
        };
        let drawn = draw(1, 0);
        for (request, expected) in [(0, 0.1), (1, 0.7), (2, 0.2)] {
            let count = drawn.iter().filter(|drawn| **drawn == request).count();
            assert!((count as f64 / 100_000.0 - expected).abs() < 0.01, "{request}: {count}");
        }
        assert_eq!(drawn, draw(1, 0));
        assert_ne!(drawn, draw(2, 0));
        assert_ne!(drawn, draw(1, 1));
        assert!(super::tests::script(&[(3, "/")], None).choice(1, 0).is_none());
    }

    #[test]
    fn each_row_has_its_bytes_and_no_more_rows_than_connections() {
        let script = script(&[(1, "/{{id}}"), (1, "/")], Some("id\n1\n2\n3\n"));
        let first = |sheet: &Sheet| String::from_utf8(sheet[0].bytes.to_vec()).unwrap();
        let sheets = script.write(&page(), 2, Closing::Never);
        let begins: Vec<_> = sheets.iter().map(|sheet| first(sheet)[..6].to_owned()).collect();
        assert_eq!(begins, ["GET /1", "GET /2"]);
        assert_eq!(script.write(&page(), 100, Closing::Never).len(), 3);
        assert_eq!(script.first(&page()).bytes, sheets[0][0].bytes);
    }

    #[test]
    fn the_last_request_of_a_connection_says_so() {
        let script = script(&[(1, "/")], None);
        let written = |closing| script.write(&page(), 1, closing).remove(0);
        let says = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("Connection: close");
        let never = written(Closing::Never);
        assert!(!says(&never[0].bytes) && !says(never[0].last()));
        let always = written(Closing::Always);
        assert!(says(&always[0].bytes) && says(always[0].last()));
        let last = written(Closing::Last);
        assert!(!says(&last[0].bytes) && says(last[0].last()));
    }

    #[test]
    fn what_is_too_much_for_memory_is_refused() {
        let body = Some(vec![0; Request::LONGEST_BODY]);
        let request = Request { body, ..Request::get("/{{id}}") };
        let values = Values::parse(b"id\n1\n2\n3\n4\n5\n").unwrap();
        let script = Script::new(&[(1, request)], Some(values), Expectation::default()).unwrap();
        assert_eq!(script.problem(3), None);
        assert!(script.problem(5).unwrap().contains("256 MiB"));
    }

    #[test]
    fn a_mistake_names_its_request() {
        let wrong = [(1, Request::get("/")), (1, Request::get("/a b"))];
        let (index, problem) = Script::new(&wrong, None, Expectation::default()).unwrap_err();
        assert!(index == 1 && problem.to_string().contains("percent-encoded"), "{problem}");
        let never = [(0, Request::get("/"))];
        assert!(Script::new(&never, None, Expectation::default()).is_err());
        assert!(Script::new(&[], None, Expectation::default()).is_err());
    }
}
