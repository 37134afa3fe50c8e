//! Addresses to listen at, in the form of flags.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

use duality_lab::Mistake;

/// The address in `ADDRESS:PORT`, in which the address may be a name. Without an address, it is
/// 127.0.0.1.
pub(in crate::cli) fn listen_address(text: &str) -> Result<SocketAddr, Mistake> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    // A colon within the brackets of an IPv6 address does not begin the port.
    let remedy = "write ADDRESS:PORT, such as 127.0.0.1:8080, localhost:8080 or 8080";
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = if is_number { Some(("", text)) } else { text.rsplit_once(':') };
    let Some((host, port)) = parts.filter(|(_, port)| !port.contains(']')) else {
        return Err(format!("the port is missing: {remedy}").into());
    };
    if port.parse::<u16>().is_err() {
        return Err(format!("{port:?} is not a port: {remedy}").into());
    }
    let found: Vec<SocketAddr> = text
        .to_socket_addrs()
        .map_err(|error| format!("no address found for {host:?} ({error}): {remedy}"))?
        .collect();
    let first_choice = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first_choice.copied().ok_or_else(|| format!("{host:?} has no address: {remedy}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        for (text, address) in [
            ("8080", "127.0.0.1:8080"),
            (":8080", "127.0.0.1:8080"),
            ("0", "127.0.0.1:0"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(listen_address(text), Ok(address.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_told_the_remedy() {
        for (text, problem) in [
            ("localhost", "the port is missing"),
            ("", "the port is missing"),
            ("[::1]", "the port is missing"),
            ("localhost:http", "not a port"),
            ("70000", "not a port"),
            (":70000", "not a port"),
            ("127.0.0.1:", "not a port"),
            ("no.such.host.invalid:80", "no address found"),
        ] {
            let message = listen_address(text).unwrap_err().to_string();
            assert!(
                message.contains(problem) && message.contains("write ADDRESS:PORT"),
                "{text}: {message}"
            );
        }
    }
}
