//! What a scraper asks for: the first line of its request, and whom it believes to talk to. A page that a browser shows can
//! have its own name point to this machine; the name it asks for gives it away.

use std::net::{Ipv4Addr, Ipv6Addr};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Figures,
    /// Another page.
    Elsewhere,
    OtherMethod,
    /// Something of another machine, by its name or address.
    OfAnother,
}

/// Reads the head of a request.
pub(super) fn read(head: &[u8]) -> Asked {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let hosts = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then_some(value.trim())
    });
    // Old clients name none; browsers always do.
    if !hosts.map(name_of).all(|name| name.is_some_and(is_here)) {
        return Asked::OfAnother;
    }
    match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics")) => Asked::Figures,
        (Some("GET"), _) => Asked::Elsewhere,
        _ => Asked::OtherMethod,
    }
}

/// The name or address of a `Host` header, without its port.
fn name_of(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            (address, port.strip_prefix(':').or(port.is_empty().then_some("")))
        }
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, Some("")),
        },
    };
    port?.bytes().all(|byte| byte.is_ascii_digit()).then_some(name)
}

/// Whether a name or an address can only be that of the machine that asks.
fn is_here(name: &str) -> bool {
    let address = name.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
        || name.parse().is_ok_and(|address: Ipv6Addr| address.is_loopback());
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    address || name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::{Asked, read};

    #[test]
    fn only_those_who_ask_this_machine_for_figures_have_them() {
        let ask = |host: &str| format!("GET /metrics HTTP/1.1\r\n{host}Accept: */*\r\n\r\n");
        for (host, expected) in [
            ("", Asked::Figures),
            ("Host: localhost\r\n", Asked::Figures),
            ("host:LOCALHOST.:9464\r\n", Asked::Figures),
            ("Host: here.localhost\r\n", Asked::Figures),
            ("Host: 127.0.0.1:9464\r\n", Asked::Figures),
            ("Host: 127.8.9.10\r\n", Asked::Figures),
            ("Host: [::1]:9464\r\n", Asked::Figures),
            ("Host: [::1]\r\n", Asked::Figures),
            ("Host: rebound.example:9464\r\n", Asked::OfAnother),
            ("Host: localhost.example\r\n", Asked::OfAnother),
            ("Host: notlocalhost\r\n", Asked::OfAnother),
            ("Host: 127.0.0.1.example\r\n", Asked::OfAnother),
            ("Host: 10.0.0.1\r\n", Asked::OfAnother),
            ("Host: [::2]\r\n", Asked::OfAnother),
            ("Host: [::1\r\n", Asked::OfAnother),
            ("Host: localhost:9464@rebound.example\r\n", Asked::OfAnother),
            ("Host:\r\n", Asked::OfAnother),
            ("Host: localhost\r\nHost: rebound.example\r\n", Asked::OfAnother),
        ] {
            assert_eq!(read(ask(host).as_bytes()), expected, "{host:?}");
        }
        assert_eq!(read(b"GET / HTTP/1.1\r\n\r\n"), Asked::Elsewhere);
        assert_eq!(read(b"POST /metrics HTTP/1.1\r\n\r\n"), Asked::OtherMethod);
        assert_eq!(read(b"\x16\x03\x01\r\n\r\n"), Asked::OtherMethod);
    }
}
