//! Tests a drain while requests are being answered: in every world, the replies say that the
//! connection ends. There is one test, because a drain applies to the whole process and cannot be
//! undone.

#[path = "all/http_client/mod.rs"]
mod http_client;

use std::sync::{Arc, Barrier};

use duality_runtime::drain;
use duality_services::http::{Answer, Asked, Config, Http, Limits, Offer, Pages, Reply, status};

use http_client::{Client, World, get, serve_in};

/// A page that all worlds wait for until the drain has been requested.
struct Gate(Arc<Barrier>);

impl Pages for Gate {
    fn offer(&self, path: &str) -> Option<Offer> {
        (path == "gate").then_some(Offer { post: None })
    }

    fn answer<'p>(&'p self, _: Asked<'p>) -> Answer<'p> {
        self.0.wait();
        self.0.wait();
        Box::pin(async { Some(Reply::html(&status::OK, "open".to_owned())) })
    }
}

#[test]
fn replies_during_a_drain_say_that_the_connection_ends() {
    let barrier = Arc::new(Barrier::new(World::all().count() + 1));
    let mut clients: Vec<_> = World::all()
        .map(|world| {
            let config = Config { root: Some("/".into()), limits: Limits::default() };
            let http = Http::with_pages(config, Gate(barrier.clone())).unwrap();
            (world, Client::connect(serve_in(world, http)))
        })
        .collect();
    for (_, client) in &mut clients {
        // The second request is not answered, because the reply to the first says that it is the
        // last.
        client.send(get("/gate") + &get("/missing"));
    }
    barrier.wait();
    drain::request();
    barrier.wait();
    for (world, client) in &mut clients {
        let reply = client.receive(false);
        assert_eq!((reply.code, reply.field("Connection")), (200, Some("close")), "{world:?}");
        client.expect_end();
    }
}
