//! Simulations of the services that ship with Duality: the service as it ships, clients that check
//! every byte, and bad days.
//!
//! ```text
//!   bad days (drawn)                        liveness                     the end
//!   partitions, crashes, drains, resets …   faults end, each client      clients leave: slots and tasks
//!   a reply may be missing, never wrong     must be served again         are back, and a drain ends
//! ```
//!
//! To add a service, write a file with a `SIMULATION`, and add it to [`ALL`].

mod blocks;
mod chat;
mod echo;
mod exchange;
mod game;
mod guestbook;
mod http;
mod phone;
mod quote;
mod redis;
mod relay;
mod served;
mod time;
#[cfg_attr(not(feature = "rustls"), path = "tls/absent.rs")]
mod tls;
mod wire;

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duality_runtime::time::{sleep, timeout};
use duality_services::Setup;

pub use self::exchange::exchange;
pub use self::served::{unfit, unsimulated, without_tls};
use self::tls::Tls;
use crate::violation::Violation;
use crate::{Host, Net};

/// All of them, in the order of the registry of services.
pub const ALL: &[&Simulation] = &[
    &echo::SIMULATION,
    &time::SIMULATION,
    &quote::SIMULATION,
    &http::SIMULATION,
    &guestbook::SIMULATION,
    &phone::SIMULATION,
    &chat::SIMULATION,
    &game::SIMULATION,
    &blocks::SIMULATION,
    &relay::SIMULATION,
];

/// A guestbook that acknowledges remarks before they are synced. Some seed must find it.
#[doc(hidden)]
pub const PLANTED: &Simulation = &guestbook::PLANTED;

/// The simulation of one service.
pub struct Simulation {
    /// The name of the service.
    pub name: &'static str,
    /// What its clients check, in one line.
    pub checks: &'static str,
    begin: fn(Days) -> Running,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Simulation").field("name", &self.name).finish_non_exhaustive()
    }
}

type Running = Pin<Box<dyn Future<Output = Result<(), Violation>>>>;

/// How large a simulation is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of servers. Clients are spread over them.
    pub servers: usize,
    /// The number of clients.
    pub clients: usize,
    /// The virtual time of the bad days.
    pub days: Duration,
    /// The architecture of the servers. Without one, they are the loops of their hosts.
    pub architecture: Option<&'static str>,
    /// Whether clients and servers speak by TLS (feature `rustls`).
    pub tls: bool,
}

impl Default for Size {
    fn default() -> Self {
        Self {
            servers: 1,
            clients: 4,
            days: Duration::from_secs(60),
            architecture: None,
            tls: false,
        }
    }
}

impl Simulation {
    /// One simulation of the service, for [`Seeds::run`](crate::Seeds::run).
    pub fn run(
        &'static self,
        size: Size,
    ) -> impl Fn(Net) -> Pin<Box<dyn Future<Output = Result<(), Violation>>>> + Send + Sync + 'static
    {
        move |net| match Days::new(net, self.name, size).secured() {
            Ok(days) => (self.begin)(days),
            Err(why) => Box::pin(async { Err(why) }),
        }
    }
}

/// The simulation of a service by its name.
#[must_use]
pub fn simulation(name: &str) -> Option<&'static Simulation> {
    ALL.iter().copied().find(|simulation| simulation.name == name)
}

/// The option of a store in SQLite of which acknowledged writes survive a crash of the machine.
const DURABLE: &str = "?synchronous=full";
/// The port of servers.
const PORT: u16 = 80;
/// How long a client waits for a reply.
const PATIENCE: Duration = Duration::from_secs(30);
/// What servers say before they end a connection.
const FULL: &str = "* the server is full";
const UNAVAILABLE: &str = "* the store is unavailable";
/// How long everything has to recover after the bad days.
const RECOVERY: Duration = Duration::from_secs(900);
/// The least time between two requests of a client, so that a tame seed has few turns.
const LEAST_PAUSE: Duration = Duration::from_millis(50);
/// How many requests in a row must succeed then.
const IN_A_ROW: usize = 3;

/// What the hosts of a simulation share.
#[derive(Clone)]
struct Days {
    net: Net,
    name: &'static str,
    size: Size,
    tls: Option<Tls>,
    shared: Arc<Shared>,
}

struct Shared {
    are_over: AtomicBool,
    /// How often a Redis has begun without data.
    losses: AtomicUsize,
    files: Mutex<Vec<PathBuf>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        for path in self.files.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A directory of ours. What cannot be removed stays in the temporary directory.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// One client of a service, with what it keeps between requests.
trait Client: 'static {
    /// Makes a request, and checks the reply. After trouble, the next one begins anew.
    fn request(&mut self) -> impl Future<Output = Result<(), Trouble>>;
}

/// What a client may meet: a broken connection is no failure on bad days, a wrong answer always is.
enum Trouble {
    Broken(String),
    Wrong(String),
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

fn wrong<T>(why: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Wrong(why.into()))
}

impl Days {
    fn new(net: Net, name: &'static str, size: Size) -> Self {
        let (are_over, losses) = (AtomicBool::new(false), AtomicUsize::new(0));
        let shared = Shared { are_over, losses, files: Mutex::default() };
        Self { net, name, size, tls: None, shared: Arc::new(shared) }
    }

    /// With TLS, if the simulation is to have it.
    fn secured(self) -> Result<Self, Violation> {
        let tls = self.size.tls.then(|| Tls::new(&self)).transpose()?;
        Ok(Self { tls, ..self })
    }

    fn are_over(&self) -> bool {
        self.shared.are_over.load(Ordering::Relaxed)
    }

    /// How often a Redis has begun without data. A client that sees another number than before its
    /// request was kept knows that the store may have lost what it acknowledged.
    fn losses(&self) -> usize {
        self.shared.losses.load(Ordering::Relaxed)
    }

    /// A directory that ends with the simulation.
    fn directory(&self) -> Result<PathBuf, Violation> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("duality-simulate-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let problem = |error| format!("{}: {error}; set TMPDIR", path.display());
        std::fs::create_dir(&path).map_err(problem)?;
        let mut files = self.shared.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.push(path.clone());
        Ok(path)
    }

    /// Adds the servers, `server1` and so on, each with the service as it ships.
    fn servers(&self, setup: &Setup) -> Vec<Host> {
        (1..=self.size.servers)
            .map(|number| self.server(&format!("server{number}"), self.name, setup))
            .collect()
    }

    /// Adds the servers. One keeps its store in SQLite on its disk, with the `options` of it.
    /// Several keep it in Redis.
    fn servers_with_store(&self, options: &str) -> Result<Vec<Host>, Violation> {
        if self.size.servers > 1 {
            return self.servers_joined();
        }
        let folder = self.directory()?;
        let store = format!("sqlite:{}{options}", folder.join("store").display());
        let location = store.parse().map_err(|error| format!("{store}: {error}"))?;
        let servers = self.servers(&Setup { store: Some(location), ..Setup::default() });
        for server in &servers {
            server.keeps(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        Ok(servers)
    }

    /// Adds the servers. Several are joined by a Redis, which crashes and is cut off too.
    fn servers_joined(&self) -> Result<Vec<Host>, Violation> {
        if self.size.servers == 1 {
            return Ok(self.servers(&Setup::default()));
        }
        let servers = self.servers(&self.redis()?);
        self.trouble_behind(&["redis"])?;
        Ok(servers)
    }

    /// The hosts of these names, which serve the servers, crash and are cut off from them now and
    /// then, until the bad days are over.
    fn trouble_behind(&self, names: &'static [&'static str]) -> Result<(), Violation> {
        let days = self.clone();
        let trouble = duality_runtime::task::spawn(async move {
            let (net, faults) = (&days.net, days.net.faults());
            let has = [faults.crashes, faults.partitions].map(|is_on| is_on && net.draw(2) == 1);
            loop {
                sleep(Duration::from_secs(5) + net.draw_time(Duration::from_secs(30))).await;
                if days.are_over() {
                    return;
                }
                let kind = net.draw(2) as usize;
                if !has[kind] {
                    continue;
                }
                let name = names[net.draw(names.len() as u64) as usize];
                let server = format!("server{}", net.draw(days.size.servers as u64) + 1);
                let time = net.draw_time(Duration::from_secs(10));
                match kind {
                    0 => net.named(name).crash().restart_after(time),
                    _ => match net.draw(3) {
                        0 => net.partition(name, &server).for_(time),
                        1 => net.partition_one_way(name, &server).for_(time),
                        _ => net.partition_one_way(&server, name).for_(time),
                    },
                }
            }
        });
        trouble.map(drop).map_err(|error| error.to_string().into())
    }

    /// Runs the simulation, with the clients that `client` makes.
    async fn pass<C: Client>(
        self,
        servers: Vec<Host>,
        client: impl Fn(Days, usize) -> C + Send + Sync + Clone + 'static,
    ) -> Result<(), Violation> {
        let clients: Vec<Host> = (0..self.size.clients)
            .map(|number| {
                let (days, client) = (self.clone(), client.clone());
                self.net.client(&format!("client{}", number + 1), move || {
                    let (days, client) = (days.clone(), client.clone());
                    async move {
                        let client = client(days.clone(), number);
                        days.ask(number, client).await
                    }
                })
            })
            .collect();
        self.bad_days(&servers).await;
        self.liveness(&servers, &clients).await?;
        self.end(&servers).await
    }

    /// A client: asks again and again, and after the bad days until all is well.
    async fn ask(&self, number: usize, mut client: impl Client) -> Result<(), Violation> {
        let may_break = self.net.faults().break_connections();
        let pause = [10, 1_000, 10_000][self.net.draw(3) as usize];
        let mut in_a_row = 0;
        loop {
            let is_over = self.are_over();
            match client.request().await {
                Ok(()) if is_over && in_a_row + 1 == IN_A_ROW => return Ok(()),
                Ok(()) => in_a_row = if is_over { in_a_row + 1 } else { 0 },
                Err(Trouble::Wrong(why)) => {
                    let why = format!("client{} got a wrong answer: {why}", number + 1);
                    self.net.fail(why);
                    std::future::pending::<()>().await;
                }
                Err(Trouble::Broken(why)) if !may_break => {
                    self.net.fail(format!("client{} without faults: {why}", number + 1));
                    std::future::pending::<()>().await;
                }
                Err(Trouble::Broken(why)) => {
                    in_a_row = 0;
                    self.net.tell(format!("client{} has trouble: {why}", number + 1));
                    sleep(Duration::from_millis(500)).await;
                }
            }
            sleep(LEAST_PAUSE + self.net.draw_time(Duration::from_millis(pause))).await;
        }
    }

    /// Partitions, crashes and drains at drawn times, as this seed has them.
    async fn bad_days(&self, servers: &[Host]) {
        let (net, faults) = (&self.net, self.net.faults());
        let kinds = [faults.partitions, faults.partitions, faults.crashes, faults.drains];
        let has: Vec<bool> = kinds.into_iter().map(|is_on| is_on && net.draw(2) == 1).collect();
        let mut left = self.size.days;
        let mut troubles = 0;
        while !left.is_zero() {
            let pause = Duration::from_secs(1) + net.draw_time(Duration::from_secs(20));
            sleep(pause.min(left)).await;
            left = left.saturating_sub(pause);
            let kind = net.draw(5) as usize;
            if kind == 0 || !has[kind - 1] || troubles == 20 {
                continue;
            }
            troubles += 1;
            let server = net.draw(servers.len() as u64) as usize;
            let client = net.draw(self.size.clients as u64) as usize;
            let (server, name) = (&servers[server], format!("server{}", server + 1));
            let client = format!("client{}", client + 1);
            let time = net.draw_time(Duration::from_secs(40));
            match kind {
                1 => net.partition(&name, &client).for_(time),
                2 if net.draw(2) == 0 => net.partition_one_way(&name, &client).for_(time),
                2 => net.partition_one_way(&client, &name).for_(time),
                3 => server.crash().restart_after(time / 4),
                _ => {
                    // A new server takes the place of one that has drained, as in a deployment.
                    server.drain();
                    sleep(Duration::from_secs(90)).await;
                    server.crash().restart_after(time / 4);
                }
            }
        }
    }

    /// Faults end. Then each client must be served again.
    async fn liveness(&self, servers: &[Host], clients: &[Host]) -> Result<(), Violation> {
        self.net.calm();
        for server in servers {
            // Servers that are down start, and those that drain are replaced.
            if server.has_ended() {
                server.crash();
            }
            server.restart_if_down();
        }
        self.shared.are_over.store(true, Ordering::Relaxed);
        for (index, client) in clients.iter().enumerate() {
            match timeout(RECOVERY, client.ended()).await {
                Ok(ended) => ended?,
                Err(_) => {
                    let mut what =
                        format!("after the faults, client{} is not served again", index + 1);
                    if let Some(server) = servers.iter().find(|server| server.has_ended())
                        && let Err(why) = server.ended().await
                    {
                        what += &format!(": {why}");
                    }
                    return Err(what.into());
                }
            }
        }
        Ok(())
    }

    /// All clients have gone: nothing of theirs is left, and a drain ends the servers.
    async fn end(&self, servers: &[Host]) -> Result<(), Violation> {
        // Connections that a partition has cut off end by their time limits.
        for _ in 0..80 {
            if servers.iter().all(|server| server.connections() == 0) {
                break;
            }
            sleep(Duration::from_secs(60)).await;
        }
        for (index, server) in servers.iter().enumerate() {
            let (sockets, tasks, number) = (server.connections(), server.tasks(), index + 1);
            if sockets > 0 {
                return Err(format!("server{number} keeps {sockets} connections").into());
            }
            server.drain();
            match timeout(Duration::from_secs(120), server.ended()).await {
                Ok(ended) => ended?,
                Err(_) => {
                    return Err(
                        format!("server{number} does not end at a drain ({tasks} tasks)").into()
                    );
                }
            }
        }
        Ok(())
    }
}
