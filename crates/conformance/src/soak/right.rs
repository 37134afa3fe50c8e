//! Right requests, in each way that a client may send them. The replies must be right for any
//! behaviour of other clients.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use super::chat;
use super::client::{Client, connect, unsent};
use super::question::Question;
use super::rounds::Protocol;
use super::wire::Wire;
use super::{Result, wrong};

/// The number of connections of a burst.
const BURST: usize = 200;

/// Sends a few requests on one connection, each after the reply to the last request.
pub(super) fn kept_alive(client: &mut Client<'_>) -> Result {
    if client.scene.service == Protocol::Chat {
        return chat::talk(client, |wire, lines, _| wire.send(lines));
    }
    let mut wire = connect(client)?;
    for _ in 0..=client.below(6) {
        let question = client.question(false);
        wire.send(&question.bytes).map_err(unsent)?;
        question.check(&mut wire, &client.scene.heads)?;
    }
    // The side that closes first must wait for late segments. Let either side be the first.
    if client.one_in(2) {
        wire.half_close().map_err(unsent)?;
        ends(wire)?;
    }
    Ok(())
}

/// Sends a request and ends the client's side. Then expects the reply, and the end of the
/// connection.
pub(super) fn half_closed(client: &mut Client<'_>) -> Result {
    if client.scene.service == Protocol::Chat {
        return chat::leave(client);
    }
    let mut wire = connect(client)?;
    let question = client.question(false);
    wire.send(&question.bytes).map_err(unsent)?;
    wire.half_close().map_err(unsent)?;
    question.check(&mut wire, &client.scene.heads)?;
    ends(wire)
}

/// Sends many requests at once. Then expects the replies, in order.
pub(super) fn pipelined(client: &mut Client<'_>) -> Result {
    if client.scene.service == Protocol::Chat {
        return chat::talk(client, |wire, lines, _| wire.send(lines));
    }
    let mut wire = connect(client)?;
    let questions: Vec<_> = (0..=client.below(30)).map(|_| client.question(true)).collect();
    let bytes: Vec<u8> = questions.iter().flat_map(|question| &question.bytes).copied().collect();
    wire.send(&bytes).map_err(unsent)?;
    for question in &questions {
        question.check(&mut wire, &client.scene.heads)?;
    }
    Ok(())
}

/// Sends requests in pieces that are cut anywhere, with pauses between them.
pub(super) fn in_pieces(client: &mut Client<'_>) -> Result {
    if client.scene.service == Protocol::Chat {
        return chat::talk(client, send_in_pieces);
    }
    let mut wire = connect(client)?;
    for _ in 0..=client.below(2) {
        let question = client.question(true);
        send_in_pieces(&mut wire, &question.bytes, client).map_err(unsent)?;
        question.check(&mut wire, &client.scene.heads)?;
    }
    Ok(())
}

/// Opens many connections at once, each with a request. Resets some, and expects the replies of the
/// others.
pub(super) fn burst(client: &mut Client<'_>) -> Result {
    let Ok(_alone) = client.scene.burst.try_lock() else { return Ok(()) };
    let mut asked: Vec<(Wire, Question)> = Vec::new();
    for _ in 0..BURST {
        asked.push((connect(client)?, client.question(true)));
    }
    let checked = client.scene.service != Protocol::Chat;
    for (wire, question) in &mut asked {
        wire.send(&question.bytes).map_err(unsent)?;
    }
    for (mut wire, question) in asked {
        if !checked || client.one_in(4) {
            let _ = wire.reset();
        } else {
            question.check(&mut wire, &client.scene.heads)?;
        }
    }
    Ok(())
}

fn send_in_pieces(wire: &mut Wire, bytes: &[u8], client: &mut Client<'_>) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(1 + client.below(rest.len().min(60)));
        wire.send(piece)?;
        rest = after;
        if client.one_in(2) {
            sleep(Duration::from_micros(client.random.below(2000)));
        }
    }
    Ok(())
}

/// Expects the end of the connection, without more bytes.
fn ends(wire: Wire) -> Result {
    let ended = match wire.into_rest(1 << 10) {
        Ok(rest) if rest.is_empty() => Ok(()),
        Ok(rest) => Err(wrong(format_args!("{:?}", String::from_utf8_lossy(&rest)))),
        Err(error) => Err(wrong(error).at("instead of the end")),
    };
    ended.map_err(|failure| failure.at("after the last reply"))
}
