//! Unmodified programs in a simulated world: a store in memory, after mini-redis, and a shop by
//! axum with reqwest as its client. Each seed has a partition and a crash.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use duality_outside as _;
use duality_simulate::{Faults, Host, Net, Violation, Waits, seeds};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, broadcast};
use tokio::time::{Instant, interval, sleep, timeout};

type Values = Arc<Mutex<HashMap<String, String>>>;

/// The store, as its author would write it for tokio.
#[tokio::main]
async fn store() -> io::Result<()> {
    serve_store().await
}

async fn serve_store() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:6379").await?;
    let (ends, _) = broadcast::channel::<()>(1);
    let room = Arc::new(Semaphore::new(8));
    let values = Values::default();
    let accepting = async {
        loop {
            let permit = room.clone().acquire_owned().await.map_err(io::Error::other)?;
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(_) => {
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let (values, mut ended) = (values.clone(), ends.subscribe());
            tokio::spawn(async move {
                let _ = converse(stream, &values, &mut ended).await;
                drop(permit);
            });
        }
    };
    let ended: io::Result<()> = tokio::select! {
        ended = accepting => ended,
        _ = tokio::signal::ctrl_c() => Ok(()),
    };
    drop(ends);
    // The connections hold what is left of the room.
    let _ = room.acquire_many(8).await;
    ended
}

async fn converse(
    mut stream: TcpStream,
    values: &Values,
    ended: &mut broadcast::Receiver<()>,
) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader);
    let mut line = String::new();
    loop {
        line.clear();
        let count = tokio::select! {
            count = reader.read_line(&mut line) => count?,
            _ = ended.recv() => return Ok(()),
        };
        if count == 0 {
            return Ok(());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let reply = match words[..] {
            ["SET", key, value] => {
                values.lock().unwrap().insert(key.to_owned(), value.to_owned());
                "OK\n".to_owned()
            }
            ["GET", key] => match values.lock().unwrap().get(key) {
                Some(value) => format!("VALUE {value}\n"),
                None => "NONE\n".to_owned(),
            },
            _ => "ERROR\n".to_owned(),
        };
        writer.write_all(reply.as_bytes()).await?;
    }
}

/// A client that sets and gets a value of its own, over connections that break.
async fn use_store(net: Net, name: &'static str) -> Result<(), String> {
    let begin = Instant::now();
    let mut connection: Option<BufReader<TcpStream>> = None;
    let (mut number, mut served) = (0_u64, 0_u64);
    // Values of requests that broke. Each may be set later, when its packet comes through.
    let mut in_doubt = BTreeSet::new();
    while begin.elapsed() < Duration::from_secs(120) || served < 3 {
        number += 1;
        let asked = timeout(Duration::from_secs(10), async {
            let mut wire = match connection.take() {
                Some(wire) => wire,
                None => BufReader::new(TcpStream::connect("store:6379").await?),
            };
            let set = ask(&mut wire, &format!("SET {name} {name}{number}\n")).await?;
            let value = ask(&mut wire, &format!("GET {name}\n")).await?;
            io::Result::Ok((wire, set, value))
        });
        match asked.await {
            // No other client sets this value, and the store lives between the two requests.
            Ok(Ok((wire, set, value))) => {
                let found = value.strip_prefix(&format!("VALUE {name}")).map(str::trim_end);
                let found = found.and_then(|found| found.parse().ok()).unwrap_or(0);
                if set != "OK\n" || (found != number && !in_doubt.contains(&found)) {
                    return Err(format!("{name} got {set:?} and {value:?} at {number}"));
                }
                served += 1;
                connection = Some(wire);
            }
            _ => {
                in_doubt.insert(number);
                served = 0;
            }
        }
        sleep(Duration::from_millis(500) + net.draw_time(Duration::from_secs(3))).await;
    }
    Ok(())
}

async fn ask(wire: &mut BufReader<TcpStream>, request: &str) -> io::Result<String> {
    wire.write_all(request.as_bytes()).await?;
    let mut reply = String::new();
    match wire.read_line(&mut reply).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(reply),
    }
}

/// A partition and a crash. Afterwards faults end, clients are served, and a drain ends the server.
async fn trouble(net: Net, server: Host, clients: Vec<Host>) -> Result<(), Violation> {
    sleep(net.draw_time(Duration::from_secs(30))).await;
    net.partition("ann", "store").for_(net.draw_time(Duration::from_secs(20)));
    sleep(net.draw_time(Duration::from_secs(30))).await;
    server.crash().restart_after(net.draw_time(Duration::from_secs(5)));
    sleep(Duration::from_secs(60)).await;
    net.calm();
    if server.has_ended() {
        server.crash();
    }
    server.restart_if_down();
    for client in clients {
        client.ended().await?;
    }
    server.drain();
    timeout(Duration::from_secs(60), server.ended()).await.map_err(|_| "a drain ends nothing")?
}

async fn store_in_trouble(net: Net, server: Host) -> Result<(), Violation> {
    let clients = ["ann", "bob"].map(|name| {
        let inner = net.clone();
        net.client(name, move || use_store(inner.clone(), name))
    });
    trouble(net, server, clients.into()).await
}

#[test]
fn a_main_with_its_runtime_is_a_host() {
    let tally = seeds(0..10).apart().waits(Waits::Park).run(|net| async move {
        // Blocks, as any main does.
        let server = net.host("store", || async { store() });
        store_in_trouble(net, server).await
    });
    assert!(tally.counts.crashes > 0 && tally.counts.partitions > 0, "{}", tally.counts);
}

#[test]
fn state_machines_and_stacks_take_the_same_decisions() {
    seeds(0..10).apart().in_both_waits().run(|net| async move {
        let server = net.host("store", serve_store);
        store_in_trouble(net, server).await
    });
}

#[test]
fn a_main_without_a_stack_is_refused_in_one_line() {
    let found = seeds(0..1)
        .apart()
        .unshrunk()
        .try_run(|net: Net| async move { net.host("store", || async { store() }).ended().await });
    let why = found.expect_err("a state machine cannot wait in a call").why;
    assert!(why.contains("use seeds(…).waits(Waits::Park)"), "{why}");
}

/// A shop, as its author would write it for axum.
async fn shop() -> io::Result<()> {
    let sold = Arc::new(Mutex::new(HashMap::<String, u64>::new()));
    let app = Router::new()
        .route("/count/{item}", get(count))
        .route("/buy/{item}", post(buy))
        .with_state(sold);
    let listener = TcpListener::bind("0.0.0.0:80").await?;
    tokio::spawn(async {
        let mut hours = interval(Duration::from_secs(3600));
        loop {
            hours.tick().await;
        }
    });
    let ends = async { _ = tokio::signal::ctrl_c().await };
    axum::serve(listener, app).with_graceful_shutdown(ends).await
}

type Sold = State<Arc<Mutex<HashMap<String, u64>>>>;

async fn count(State(sold): Sold, Path(item): Path<String>) -> Json<u64> {
    Json(sold.lock().unwrap().get(&item).copied().unwrap_or(0))
}

async fn buy(State(sold): Sold, Path(item): Path<String>) -> Json<u64> {
    let now = tokio::task::spawn_blocking(move || {
        let mut sold = sold.lock().unwrap();
        let count = sold.entry(item).or_default();
        *count += 1;
        *count
    });
    Json(now.await.unwrap_or(0))
}

/// Buys with a client of reqwest's. If connections last, each purchase must count once.
async fn buy_often(net: Net, shop: String, name: &'static str) -> Result<(), String> {
    let lasts = !net.faults().break_connections();
    let client = reqwest::Client::builder().timeout(Duration::from_secs(10)).build();
    let client = client.map_err(|error| error.to_string())?;
    let begin = Instant::now();
    let mut served = 0;
    while begin.elapsed() < Duration::from_secs(120) || served < 3 {
        let asked = async {
            let before = client.get(format!("http://{shop}/count/{name}")).send().await?;
            let before: u64 = before.error_for_status()?.json().await?;
            let after = client.post(format!("http://{shop}/buy/{name}")).send().await?;
            let after: u64 = after.error_for_status()?.json().await?;
            Ok::<_, reqwest::Error>((before, after))
        };
        match asked.await {
            // A crash forgets all, and a purchase that broke may still come through.
            Ok((before, after)) if after == 0 || (lasts && after != before + 1) => {
                return Err(format!("{name} had {before}, and then {after}"));
            }
            Ok(_) => served += 1,
            Err(error) if lasts => return Err(error.to_string()),
            Err(_) => served = 0,
        }
        sleep(Duration::from_millis(500) + net.draw_time(Duration::from_secs(3))).await;
    }
    Ok(())
}

#[test]
fn an_axum_application_and_reqwest_are_hosts() {
    let tally = seeds(0..10).apart().in_both_waits().run(|net| async move {
        let server = net.host("store", shop);
        let address = server.port(80).to_string();
        let clients = ["ann", "bob"].map(|name| {
            let (inner, address) = (net.clone(), address.clone());
            net.client(name, move || buy_often(inner.clone(), address.clone(), name))
        });
        trouble(net, server, clients.into()).await
    });
    assert!(tally.counts.crashes > 0 && tally.counts.partitions > 0, "{}", tally.counts);
}

/// The program is right without faults too, in each order of its tasks.
#[test]
fn legal_trouble_breaks_no_connection() {
    seeds(0..10).apart().faults(Faults::LEGAL).run(|net| async move {
        let address = net.host("shop", shop).port(80).to_string();
        let inner = net.clone();
        let buyer = net.client("bob", move || {
            let (net, address) = (inner.clone(), address.clone());
            async move {
                sleep(Duration::from_secs(1)).await;
                buy_often(net, address, "bob").await
            }
        });
        buyer.ended().await?;
        net.host("store", serve_store);
        let client = net.client("ann", || async {
            sleep(Duration::from_secs(1)).await;
            let mut wire = BufReader::new(TcpStream::connect(("store", 6379)).await?);
            for number in 0..20 {
                assert_eq!(ask(&mut wire, &format!("SET a {number}\n")).await?, "OK\n");
                assert_eq!(ask(&mut wire, "GET a\n").await?, format!("VALUE {number}\n"));
            }
            io::Result::Ok(())
        });
        client.ended().await
    });
}
