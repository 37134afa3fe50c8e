//! turmoil's example cluster: clients of many servers, of which most are killed.

use std::io;
use std::time::Duration;

use duality_simulate::{Net, seeds};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use super::SECOND;

const SERVERS: u64 = 10;
const KILLED: u64 = 8;
const DURATION: Duration = Duration::from_secs(10);

async fn echo() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:8080").await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let mut buffer = vec![0; 1024];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                if stream.write_all(&buffer[..count]).await.is_err() {
                    break;
                }
            }
        });
    }
}

/// Asks one server after the other until a time is over and one has answered.
async fn ask(net: Net) {
    let began = Instant::now();
    let mut served = false;
    while began.elapsed() < DURATION || !served {
        let server = format!("server {}:8080", net.draw(SERVERS));
        let asked = timeout(SECOND, async {
            let mut stream = TcpStream::connect(server).await?;
            stream.write_all(b"hello world").await?;
            let mut reply = [0; 11];
            stream.read_exact(&mut reply).await?;
            assert_eq!(&reply, b"hello world");
            io::Result::Ok(())
        });
        served = matches!(asked.await, Ok(Ok(())));
        sleep(net.draw_time(SECOND)).await;
    }
}

#[test]
fn clients_find_the_servers_that_are_left() {
    let tally = seeds(0..3).apart().run(|net| async move {
        let mut servers: Vec<_> =
            (0..SERVERS).map(|number| net.host(&format!("server {number}"), echo)).collect();
        let clients = (0..5).map(|number| {
            let inner = net.clone();
            net.client(&format!("client {number}"), move || ask(inner.clone()))
        });
        let clients: Vec<_> = clients.collect();
        for _ in 0..KILLED {
            sleep(net.draw_time(DURATION / KILLED as u32)).await;
            servers.swap_remove(net.draw(servers.len() as u64) as usize).crash();
        }
        sleep(DURATION).await;
        net.calm();
        for server in servers.iter().filter(|server| server.has_ended()) {
            server.restart_if_down();
        }
        for client in clients {
            client.ended().await.unwrap();
        }
    });
    // A server that the kernel has refused a connection may have ended before.
    assert!(tally.counts.crashes > KILLED, "{}", tally.counts);
}
