//! One sender, and the hosts that have joined a group.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use duality_simulate::{Faults, seeds};
use tokio::net::UdpSocket;
use tokio::time::sleep;

const PORT: u16 = 9000;
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 0, 0, 1);

async fn server() -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).await?;
    socket.join_multicast_v4(GROUP, Ipv4Addr::UNSPECIFIED)?;
    let mut buffer = [0; 1024];
    for _ in 0..3 {
        let (count, _) = socket.recv_from(&mut buffer).await?;
        assert_eq!(buffer[..count], [1, 2, 3]);
    }
    socket.leave_multicast_v4(GROUP, Ipv4Addr::UNSPECIFIED)
}

#[test]
fn each_member_hears_each_datagram() {
    let faults = Faults { datagrams: false, ..Faults::LEGAL };
    seeds(0..3).apart().faults(faults).run(|net| async move {
        let servers = ["server-0", "server-1"].map(|name| net.client(name, server));
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        for _ in 0..3 {
            socket.send_to(&[1, 2, 3], (GROUP, PORT)).await.unwrap();
            sleep(Duration::from_millis(100)).await;
        }
        for server in servers {
            server.ended().await.unwrap();
        }
    });
}
