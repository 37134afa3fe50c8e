//! relay: pages of two upstreams come whole, while upstreams crash and are cut off too.

use duality_services::Setup;

use super::http::{Http, Pages};
use super::{Days, PORT, Simulation};

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
            let of_upstreams = worse(days.clone(), upstreams.to_vec());
            let hosts = duality_runtime::task::spawn(of_upstreams);
            let hosts = hosts.map_err(|error| error.to_string())?;
            days.pass(servers, move |days, number| Http::new(&days, number, &pages)).await?;
            drop(hosts);
            Ok(())
        })
    },
};

/// One upstream crashes now and then, until the bad days are over.
async fn worse(days: Days, upstreams: Vec<crate::Host>) {
    use duality_runtime::time::{Duration, sleep};
    if !days.net.faults().crashes || days.net.draw(2) == 0 {
        return;
    }
    while !days.are_over() {
        sleep(Duration::from_secs(5) + days.net.draw_time(Duration::from_secs(30))).await;
        if days.are_over() {
            break;
        }
        let upstream = &upstreams[days.net.draw(2) as usize];
        upstream.crash().restart_after(days.net.draw_time(Duration::from_secs(10)));
    }
}
