//! A shop by axum, as its author would write it for tokio. It has state, JSON, middleware, an
//! interval, a background task, an abort and blocking work. It also has a time-out, `select!`, a
//! request to another server, and a graceful shutdown.
//!
//! It prints `listening on ADDRESS`, and ends at Ctrl-C or SIGTERM.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::{RwLock, mpsc, oneshot};
use tokio::time::{interval, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tower_http::limit::RequestBodyLimitLayer;

/// The state of the shop.
#[derive(Clone)]
struct Shop {
    stock: Arc<RwLock<Vec<Item>>>,
    ticks: Arc<AtomicU64>,
    orders: mpsc::Sender<(Order, oneshot::Sender<Receipt>)>,
    client: reqwest::Client,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Item {
    name: String,
    price: u32,
}

#[derive(Debug, Deserialize, Serialize)]
struct Order {
    item: String,
    count: u32,
}

#[derive(Debug, Deserialize, Serialize)]
struct Receipt {
    total: u32,
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let (orders, mut ordered) = mpsc::channel::<(Order, oneshot::Sender<Receipt>)>(16);
    let shop = Shop {
        stock: Arc::new(RwLock::new(vec![Item { name: "tea".into(), price: 3 }])),
        ticks: Arc::default(),
        orders,
        client: reqwest::Client::new(),
    };
    let stock = shop.stock.clone();
    tokio::spawn(async move {
        while let Some((order, reply)) = ordered.recv().await {
            let stock = stock.read().await;
            let price =
                stock.iter().find(|item| item.name == order.item).map_or(0, |item| item.price);
            let _ = reply.send(Receipt { total: price * order.count });
        }
    });
    let ticks = shop.ticks.clone();
    let ticking = tokio::spawn(async move {
        let mut every = interval(Duration::from_millis(5));
        loop {
            every.tick().await;
            ticks.fetch_add(1, Ordering::Relaxed);
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, router(shop)).with_graceful_shutdown(told_to_end()).await?;
    ticking.abort();
    assert!(ticking.await.unwrap_err().is_cancelled());
    println!("ended");
    Ok(())
}

fn router(shop: Shop) -> Router {
    Router::new()
        .route("/", get(|| async { "a shop\n" }))
        .route("/stock", get(stock).post(add))
        .route("/order", post(order))
        .route("/ticks", get(ticks))
        .route("/count/{number}", get(count))
        .route("/slow/{millis}", get(slow))
        .route("/stream/{millis}", get(stream))
        .route("/never", get(never))
        .route("/ask/{port}", get(ask))
        .route("/echo", post(|body: Bytes| async { body }))
        .layer(middleware::from_fn(stamp))
        .layer(RequestBodyLimitLayer::new(4 << 20))
        .with_state(shop)
}

async fn told_to_end() {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .expect("a handler of SIGTERM");
    tokio::select! {
        ended = tokio::signal::ctrl_c() => ended.expect("a handler of SIGINT"),
        _ = terminate.recv() => {}
    }
}

async fn stamp(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert("x-shop", HeaderValue::from_static("open"));
    response
}

async fn stock(State(shop): State<Shop>) -> Json<Vec<Item>> {
    Json(shop.stock.read().await.clone())
}

async fn add(State(shop): State<Shop>, Json(item): Json<Item>) -> StatusCode {
    shop.stock.write().await.push(item);
    StatusCode::CREATED
}

async fn order(State(shop): State<Shop>, Json(order): Json<Order>) -> Json<Receipt> {
    let (reply, receipt) = oneshot::channel();
    shop.orders.send((order, reply)).await.expect("orders are taken");
    Json(receipt.await.expect("orders are answered"))
}

/// Whether the interval goes on while this waits.
async fn ticks(State(shop): State<Shop>) -> String {
    let before = shop.ticks.load(Ordering::Relaxed);
    let more = async {
        while shop.ticks.load(Ordering::Relaxed) < before + 2 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let came = timeout(Duration::from_secs(30), more).await.is_ok();
    format!("{came}\n")
}

async fn count(Path(number): Path<u64>) -> String {
    let sum = tokio::task::spawn_blocking(move || (0..=number).sum::<u64>()).await;
    format!("{}\n", sum.expect("it does not panic"))
}

async fn slow(Path(millis): Path<u64>) -> &'static str {
    sleep(Duration::from_millis(millis)).await;
    "slow\n"
}

/// A reply of two parts, with a wait between them.
async fn stream(Path(millis): Path<u64>) -> Body {
    let (parts, body) = mpsc::channel(1);
    tokio::spawn(async move {
        let _ = parts.send(Ok::<_, std::io::Error>("begun\n")).await;
        sleep(Duration::from_millis(millis)).await;
        let _ = parts.send(Ok("done\n")).await;
    });
    Body::from_stream(ReceiverStream::new(body))
}

async fn never() -> (StatusCode, &'static str) {
    match timeout(Duration::from_millis(5), std::future::pending::<()>()).await {
        Ok(()) => unreachable!("it is pending for ever"),
        Err(_) => (StatusCode::GATEWAY_TIMEOUT, "too late\n"),
    }
}

/// A request to a server on this machine, such as the shop itself.
async fn ask(State(shop): State<Shop>, Path(port): Path<u16>) -> Result<String, StatusCode> {
    let asked = shop.client.get(format!("http://127.0.0.1:{port}/stock")).send();
    let bad = |_| StatusCode::BAD_GATEWAY;
    let items: Vec<Item> = asked.await.map_err(bad)?.json().await.map_err(bad)?;
    Ok(format!("{} items\n", items.len()))
}
