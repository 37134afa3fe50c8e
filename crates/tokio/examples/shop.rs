//! A shop in the usual style of axum: state, JSON, middleware, a timer, a background task, and an
//! outgoing request.
//!
//! ```sh
//! cargo run --release -p duality-tokio --example shop -- compare
//! cargo run --release -p duality-tokio --example shop -- serve -a tokio-per-core --cores 8
//! ```

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The state that all connections share.
struct Shop {
    /// The background task keeps this number up to date.
    stock: AtomicU64,
    sold: AtomicU64,
}

#[derive(Deserialize)]
struct Order {
    article: String,
    count: u64,
}

#[derive(Serialize)]
struct Receipt {
    article: String,
    count: u64,
    sold: u64,
}

#[derive(Serialize)]
struct Article {
    name: &'static str,
    price_cents: u32,
}

/// Every article of the shop.
async fn catalogue() -> Json<[Article; 3]> {
    Json([
        Article { name: "apple", price_cents: 40 },
        Article { name: "bread", price_cents: 320 },
        Article { name: "cheese", price_cents: 780 },
    ])
}

async fn buy(State(shop): State<Arc<Shop>>, Json(order): Json<Order>) -> Json<Receipt> {
    let sold = shop.sold.fetch_add(order.count, Ordering::Relaxed) + order.count;
    Json(Receipt { article: order.article, count: order.count, sold })
}

async fn stock(State(shop): State<Arc<Shop>>) -> String {
    shop.stock.load(Ordering::Relaxed).to_string()
}

/// Takes a while, as a payment does.
async fn pay() -> &'static str {
    tokio::time::sleep(Duration::from_millis(2)).await;
    "paid"
}

/// Asks a server for the catalogue: itself, in this example.
async fn partner(headers: HeaderMap) -> Result<String, (StatusCode, String)> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    ask(host).await.map_err(|error| (StatusCode::BAD_GATEWAY, error.to_string()))
}

async fn ask(host: &str) -> io::Result<String> {
    let mut server = TcpStream::connect(host).await?;
    let request = format!("GET /catalogue HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    server.write_all(request.as_bytes()).await?;
    let mut reply = String::new();
    server.read_to_string(&mut reply).await?;
    let (_, body) = reply.split_once("\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
    Ok(body.to_owned())
}

/// Middleware: every reply names the shop.
async fn signed(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let signature = (HeaderName::from_static("x-shop"), HeaderValue::from_static("corner"));
    response.headers_mut().insert(signature.0, signature.1);
    response
}

/// The application, made once for each runtime.
async fn router(shop: Arc<Shop>) -> io::Result<Router> {
    let counted = Arc::downgrade(&shop);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(100));
        while let Some(shop) = counted.upgrade() {
            shop.stock.store(
                1000_u64.saturating_sub(shop.sold.load(Ordering::Relaxed)),
                Ordering::Relaxed,
            );
            drop(shop);
            ticks.tick().await;
        }
    });
    Ok(Router::new()
        .route("/catalogue", get(catalogue))
        .route("/buy", post(buy))
        .route("/stock", get(stock))
        .route("/pay", get(pay))
        .route("/partner", get(partner))
        .layer(from_fn(signed))
        .with_state(shop))
}

fn main() -> ExitCode {
    let shop = Arc::new(Shop { stock: AtomicU64::new(1000), sold: AtomicU64::new(0) });
    duality_tokio::App::axum("shop", move || router(shop.clone())).request("GET /catalogue").main()
}
