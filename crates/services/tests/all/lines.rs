//! Tests the services made of lines over real sockets. Each test runs in every world, and its name
//! says which.

use std::{
    future::Future,
    io,
    net::{Shutdown, SocketAddr},
};

use duality_kit::in_every_world;
use duality_runtime::{
    net::{ListenOptions, TcpListener, TcpStream},
    sync::channel::bounded,
    task,
    time::{Duration, timeout},
};
use duality_services::{chat::Chat, game::Game, quote};
use rustix::net::sockopt;

in_every_world! {
    quotes_are_as_specified
    pipelined_quotes_come_back_in_order
    a_long_symbol_ends_the_connection
    players_are_paired_and_hear_each_other
    every_player_has_one_other
    one_who_leaves_takes_the_other_along
    one_who_leaves_early_is_paired_with_nobody
    one_who_speaks_early_is_paired_with_nobody
    a_long_move_ends_the_game
    members_hear_the_others_and_not_themselves
    everybody_hears_the_same_in_the_same_order
    who_joins_hears_what_is_said_from_then_on
    who_closes_its_side_still_hears_what_was_said_before
    a_long_line_is_not_said
    a_slow_member_is_parted_with_and_slows_nobody
    one_that_takes_nothing_is_parted_with
}

/// Serves each connection for as long as the world lasts, and returns the address.
fn server<S, F>(serve: S) -> SocketAddr
where
    S: Fn(TcpStream) -> F + Send + 'static,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut listener = TcpListener::bind(any, &ListenOptions::default()).unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            task::spawn(serve(stream)).unwrap();
        }
    };
    task::spawn(accepting).unwrap();
    address
}

/// A client that speaks in lines.
struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // A working test never reaches this limit.
        let ever = Some(Duration::from_secs(25));
        stream.set_read_timeout(ever).unwrap();
        stream.set_write_timeout(ever).unwrap();
        Self { stream, received: Vec::new() }
    }

    async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// The next line, its end included. If the connection ends earlier, the part that has come.
    async fn line(&mut self) -> String {
        loop {
            if let Some(feed) = self.received.iter().position(|&byte| byte == b'\n') {
                return String::from_utf8(self.received.drain(..=feed).collect()).unwrap();
            }
            if self.receive().await == 0 {
                return String::from_utf8(std::mem::take(&mut self.received)).unwrap();
            }
        }
    }

    async fn receive(&mut self) -> usize {
        let mut bytes = [0; 4096];
        let count = self.stream.read(&mut bytes).await.unwrap();
        self.received.extend_from_slice(&bytes[..count]);
        count
    }

    async fn expect(&mut self, line: &str) {
        assert_eq!(self.line().await, line);
    }

    async fn expect_end(&mut self) {
        self.expect("").await;
    }
}

async fn quotes_are_as_specified() {
    let mut client = Client::connect(server(quote::serve)).await;
    client.send("A\nACME\r\n").await;
    // Computed by hand: 0xc40bf6cc and 0x4adf3eef modulo 99,900, plus 100.
    client.expect("A 109.12\n").await;
    client.expect("ACME 21.23\n").await;
    client.send("acme\n\n").await;
    client.expect("ERROR a symbol is 1 to 8 letters A to Z\n").await;
    client.expect("ERROR a symbol is 1 to 8 letters A to Z\n").await;
    // A line may come in pieces. An incomplete line at the end gets no reply.
    client.send("AC").await;
    client.send("ME\nACME").await;
    client.expect("ACME 21.23\n").await;
    client.stream.shutdown(Shutdown::Write).await.unwrap();
    client.expect_end().await;
}

async fn pipelined_quotes_come_back_in_order() {
    let address = server(quote::serve);
    let (mut client, mut other) = (Client::connect(address).await, Client::connect(address).await);
    let symbols: Vec<String> = (0..3000u32)
        .map(|number| number.to_string().bytes().map(|digit| char::from(digit + 17)).collect())
        .collect();
    let mut requests = symbols.join("\n");
    requests.push('\n');
    client.send(&requests).await;
    let mut replies = Vec::new();
    for symbol in &symbols {
        let reply = client.line().await;
        let price = reply.strip_prefix(symbol.as_str()).unwrap().trim();
        assert!((1.0..1000.0).contains(&price.parse::<f64>().unwrap()), "{reply}");
        replies.push(reply);
    }
    // If the requests come one by one, the replies are the same.
    for (symbol, reply) in symbols.iter().zip(&replies).step_by(100) {
        other.send(&format!("{symbol}\n")).await;
        other.expect(reply).await;
    }
}

async fn a_long_symbol_ends_the_connection() {
    let address = server(quote::serve);
    for (sent, answered) in [(64, "a symbol is"), (65, "a line is")] {
        let mut client = Client::connect(address).await;
        client.send(&format!("ACME\n{}\n", "X".repeat(sent))).await;
        client.expect("ACME 21.23\n").await;
        let error = client.line().await;
        assert!(error.starts_with(&format!("ERROR {answered}")), "{error}");
        client.send("ACME\n").await;
        client.expect(if sent == 64 { "ACME 21.23\n" } else { "" }).await;
    }
    // The service does not wait for the end of a line that never ends.
    let mut client = Client::connect(address).await;
    client.send(&"X".repeat(100_000)).await;
    client.expect("ERROR a line is at most 64 bytes\n").await;
    client.expect_end().await;
}

/// The address of a game service.
fn game() -> SocketAddr {
    let game = Game::new();
    server(move |stream| {
        let game = game.clone();
        async move { game.serve(stream).await }
    })
}

/// Two players that have got PLAY. The first player comes first.
async fn players(address: SocketAddr) -> [Client; 2] {
    let (mut one, mut other) = (Client::connect(address).await, Client::connect(address).await);
    // Tasks that are kernel threads may overtake each other.
    let (word, another) = (one.line().await, other.line().await);
    match (word.as_str(), another.as_str()) {
        ("PLAY first\n", "PLAY second\n") => [one, other],
        ("PLAY second\n", "PLAY first\n") => [other, one],
        words => panic!("{words:?}"),
    }
}

async fn players_are_paired_and_hear_each_other() {
    let [mut first, mut second] = players(game()).await;
    for round in 0..100 {
        first.send(&format!("ping {round}\n")).await;
        second.expect(&format!("ping {round}\n")).await;
        second.send(&format!("pong {round}\n")).await;
        first.expect(&format!("pong {round}\n")).await;
    }
    // Lines arrive unchanged, except for a CR before the LF, in one piece or one by one.
    let longest = "\u{00e9}".repeat(512);
    first.send(&format!("\n PLAY first\t\r \r\n{longest}\r\nla")).await;
    first.send("st\n").await;
    for line in ["", " PLAY first\t\r ", &longest, "last"] {
        second.expect(&format!("{line}\n")).await;
    }
    let many: Vec<String> = (0..10_000).map(|number| format!("{number}\n")).collect();
    second.send(&many.concat()).await;
    for line in &many {
        first.expect(line).await;
    }
}

async fn every_player_has_one_other() {
    const PLAYERS: usize = 40;
    let address = game();
    let mut players = Vec::new();
    for _ in 0..PLAYERS {
        players.push(Client::connect(address).await);
    }
    let mut firsts = 0;
    for (number, player) in players.iter_mut().enumerate() {
        firsts += usize::from(player.line().await == "PLAY first\n");
        player.send(&format!("{number}\n")).await;
    }
    assert_eq!(firsts, PLAYERS / 2);
    let mut others = Vec::new();
    for player in &mut players {
        others.push(player.line().await.trim().parse::<usize>().unwrap());
    }
    for (number, &other) in others.iter().enumerate() {
        assert!(others[other] == number && other != number, "{others:?}");
    }
}

async fn one_who_leaves_takes_the_other_along() {
    let address = game();
    for (leaver, closes_one_side) in [(0, false), (1, false), (0, true), (1, true)] {
        let mut pair = players(address).await;
        pair.rotate_left(leaver);
        let [mut leaver, mut other] = pair;
        leaver.send("last move\n").await;
        if closes_one_side {
            leaver.stream.shutdown(Shutdown::Write).await.unwrap();
            leaver.expect_end().await;
        } else {
            drop(leaver);
        }
        other.expect("last move\n").await;
        other.expect("* the other has left\n").await;
        other.expect_end().await;
    }
    // Both players leave at once, with a move under way. Neither waits for the other.
    let [mut first, mut second] = players(address).await;
    for player in [&mut first, &mut second] {
        player.send("last move\n").await;
        player.stream.shutdown(Shutdown::Write).await.unwrap();
    }
    for player in [&mut first, &mut second] {
        while !player.line().await.is_empty() {}
    }
}

async fn one_who_leaves_early_is_paired_with_nobody() {
    let address = game();
    for _ in 0..3 {
        let mut leaver = Client::connect(address).await;
        leaver.stream.shutdown(Shutdown::Write).await.unwrap();
        leaver.expect_end().await;
    }
    let [mut first, mut second] = players(address).await;
    first.send("alive\n").await;
    second.expect("alive\n").await;
}

async fn one_who_speaks_early_is_paired_with_nobody() {
    let address = game();
    let mut hasty = Client::connect(address).await;
    hasty.send("anybody there?\n").await;
    hasty.expect("ERROR wait for PLAY\n").await;
    hasty.expect_end().await;
    let [mut first, mut second] = players(address).await;
    second.send("alive\n").await;
    first.expect("alive\n").await;
}

async fn a_long_move_ends_the_game() {
    let [mut first, mut second] = players(game()).await;
    first.send(&format!("e4\n{}\n", "x".repeat(1025))).await;
    first.expect("ERROR a line is at most 1024 bytes\n").await;
    first.expect_end().await;
    second.expect("e4\n").await;
    second.expect("* the other has left\n").await;
    second.expect_end().await;
}

/// The address of a chat service with this backlog for its members.
fn chat(backlog: usize) -> SocketAddr {
    let chat = Chat::with_backlog(backlog);
    server(move |stream| {
        let chat = chat.clone();
        // Bytes that the kernel holds for a member also count.
        sockopt::set_socket_send_buffer_size(&stream, 16 << 10).unwrap();
        async move { chat.serve(stream).await }
    })
}

/// Adds so many members to a chat without members. Returns them in the order of their numbers.
async fn members(address: SocketAddr, count: usize) -> Vec<Client> {
    let mut members = Vec::new();
    for number in 1..=count {
        let mut member = Client::connect(address).await;
        member.expect(&format!("* you are {number}\n")).await;
        members.push(member);
    }
    members
}

async fn members_hear_the_others_and_not_themselves() {
    let mut members = members(chat(1 << 20), 3).await;
    let longest = "\u{00e9}".repeat(512);
    let texts = ["hello", "", "1> not me", "\r ", &longest];
    for text in texts {
        members[0].send(&format!("{text}\r\n")).await;
        for other in &mut members[1..] {
            other.expect(&format!("1> {text}\n")).await;
        }
    }
    // If the chat had sent the first member its own lines, they would come before this.
    members[2].send("half a line").await;
    members[2].send(", and the rest\n").await;
    members[0].expect("3> half a line, and the rest\n").await;
    members[1].expect("3> half a line, and the rest\n").await;
    drop(members.pop());
    members[1].send("still here\n").await;
    members[0].expect("2> still here\n").await;
}

async fn everybody_hears_the_same_in_the_same_order() {
    const MEMBERS: usize = 12;
    const LINES: usize = 300;
    let mut members = members(chat(1 << 20), MEMBERS + 1).await;
    let mut witness = members.pop().unwrap();
    let talking: Vec<_> = members
        .into_iter()
        .map(|mut member| {
            let talk = async move {
                for line in 0..LINES {
                    member.send(&format!("{line}\n")).await;
                }
                let mut heard = Vec::new();
                while heard.len() < (MEMBERS - 1) * LINES {
                    heard.push(member.line().await);
                }
                // No member leaves before all have heard everything.
                (member, heard)
            };
            task::spawn(talk).unwrap()
        })
        .collect();
    let mut order = Vec::new();
    while order.len() < MEMBERS * LINES {
        order.push(witness.line().await);
    }
    let mut stayed = Vec::new();
    for (index, member) in talking.into_iter().enumerate() {
        let (member, heard) = member.await.unwrap();
        stayed.push(member);
        let prefix = format!("{}> ", index + 1);
        let (own, others): (Vec<_>, Vec<_>) =
            order.iter().cloned().partition(|line| line.starts_with(&prefix));
        assert!(heard == others, "member {}", index + 1);
        let said: Vec<_> = (0..LINES).map(|line| format!("{prefix}{line}\n")).collect();
        assert!(own == said, "member {}", index + 1);
    }
}

async fn who_joins_hears_what_is_said_from_then_on() {
    let address = chat(1 << 20);
    let mut members = members(address, 2).await;
    members[0].send("before\n").await;
    members[1].expect("1> before\n").await;
    let mut late = Client::connect(address).await;
    late.expect("* you are 3\n").await;
    members[0].send("after\n").await;
    late.expect("1> after\n").await;
    // The chat does not reuse numbers.
    drop(late);
    let mut later = Client::connect(address).await;
    later.expect("* you are 4\n").await;
}

async fn who_closes_its_side_still_hears_what_was_said_before() {
    let mut members = members(chat(1 << 20), 3).await;
    let lines: Vec<_> = (0..1000).map(|line| format!("line {line}\n")).collect();
    members[0].send(&lines.concat()).await;
    for line in &lines {
        members[1].expect(&format!("1> {line}")).await;
    }
    members[2].send("and from me\nno line").await;
    members[2].stream.shutdown(Shutdown::Write).await.unwrap();
    for line in &lines {
        members[2].expect(&format!("1> {line}")).await;
    }
    members[2].expect_end().await;
    members[1].expect("3> and from me\n").await;
    members[0].send("alone now\n").await;
    members[1].expect("1> alone now\n").await;
}

async fn a_long_line_is_not_said() {
    let mut members = members(chat(1 << 20), 2).await;
    members[0].send(&format!("short\n{}\nshort\n", "x".repeat(1025))).await;
    members[0].expect("ERROR a line is at most 1024 bytes\n").await;
    members[0].expect_end().await;
    members[1].expect("1> short\n").await;
    members[1].stream.shutdown(Shutdown::Write).await.unwrap();
    members[1].expect_end().await;
}

async fn a_slow_member_is_parted_with_and_slows_nobody() {
    let mut members = members(chat(64 << 10), 3).await;
    let mut slow = members.pop().unwrap();
    sockopt::set_socket_recv_buffer_size(&slow.stream, 16 << 10).unwrap();
    // Lines go in blocks, and the quick member reads each block before the next.
    let blocks: Vec<Vec<String>> = (0..200)
        .map(|block| (0..100).map(|line| format!("{block} {line} {:90}\n", "")).collect())
        .collect();
    for block in &blocks {
        members[0].send(&block.concat()).await;
        for line in block {
            members[1].expect(&format!("1> {line}")).await;
        }
    }
    let mut lines = blocks.iter().flatten();
    loop {
        let heard = slow.line().await;
        if heard == "* too slow\n" {
            break slow.expect_end().await;
        }
        assert_eq!(heard, format!("1> {}", lines.next().unwrap()));
    }
    assert!(lines.next().is_some());
    members[1].send("who was that?\n").await;
    members[0].expect("2> who was that?\n").await;
}

/// The limit does not begin anew with each byte of room in the kernel's buffer.
async fn one_that_takes_nothing_is_parted_with() {
    const LIMIT: Duration = Duration::from_secs(3);
    let chat = Chat::with_backlog(16 << 20).with_patience(LIMIT);
    let (ended, mut endings) = bounded(2);
    let address = server(move |stream| {
        let (chat, ended) = (chat.clone(), ended.clone());
        async move {
            let outcome = chat.serve(stream).await;
            let _ = ended.try_send(outcome.is_err());
            Ok(())
        }
    });
    let mut members = members(address, 2).await;
    let parted = timeout(LIMIT * 7 / 4, async {
        // The lines are longer than the other member's socket buffers, and shorter than the
        // backlog.
        let lines = format!("{:999}\n", "").repeat(80);
        for _ in 0..100 {
            members[0].send(&lines).await;
        }
        endings.recv().await
    });
    assert_eq!(parted.await, Ok(Some(true)));
}
