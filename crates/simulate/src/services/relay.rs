//! relay: pages of two upstreams come whole, while upstreams crash and are cut off too.

use duality_services::Setup;

use super::http::{Http, Pages};
use super::{PORT, Simulation};

pub(super) const SIMULATION: Simulation = Simulation {
    name: "relay",
    checks: "each page comes whole, whatever happens to the relay and its two upstreams",
    begin: |days| {
        Box::pin(async move {
            let upstreams =
                ["upstream1", "upstream2"].map(|host| days.server(host, "http", &Setup::default()));
            let addresses = upstreams.iter().map(|host| host.port(PORT).to_string()).collect();
            let setup = Setup { upstreams: addresses, ..Setup::default() };
            let servers = days.servers(&setup);
            let pages = Pages::default();
            days.trouble_behind(&["upstream1", "upstream2"])?;
            days.pass(servers, move |days, number| Http::new(&days, number, &pages)).await
        })
    },
};
