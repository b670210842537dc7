//! Scrapers that ask, and peers that only take up room.

use std::{net::Ipv4Addr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
    task::JoinHandle,
    time::timeout,
};

use super::{Metrics, SCRAPERS_MAX};

/// Longer than any machine needs; only a failure lasts so long.
const LONG: Duration = Duration::from_secs(60);

struct Served {
    address: std::net::SocketAddr,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

/// Figures of nothing, for peers that may take this long to ask.
async fn serve(asking_max: Duration) -> Served {
    let mut metrics = Metrics::bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
    metrics.asking_max = asking_max;
    let address = metrics.address().unwrap();
    let (stop, stopping) = watch::channel(false);
    Served { address, stop, serving: tokio::spawn(metrics.serve(Vec::new(), stopping)) }
}

impl Served {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

/// What a peer is told until it is let go.
async fn told(peer: &mut TcpStream) -> String {
    let mut text = String::new();
    // Whoever is let go may find the connection reset.
    let _ = timeout(LONG, peer.read_to_string(&mut text)).await.unwrap();
    text
}

async fn ask(peer: &mut TcpStream, host: &str) -> String {
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {host}\r\n\r\n");
    peer.write_all(request.as_bytes()).await.unwrap();
    told(peer).await
}

#[tokio::test]
async fn a_scrape_does_not_wait_behind_peers_that_ask_nothing() {
    // They could stay for an hour.
    let served = serve(Duration::from_secs(3_600)).await;
    let mut idle = Vec::new();
    for _ in 0..24 {
        idle.push(served.connect().await);
    }
    let mut scraper = served.connect().await;
    assert!(ask(&mut scraper, "localhost").await.starts_with("HTTP/1.0 200 OK\r\n"));
    // It took the place of the one that had been silent longest; those that came last have theirs.
    let first_kept = idle.len() + 1 - SCRAPERS_MAX;
    for peer in &mut idle[..first_kept] {
        assert_eq!(told(peer).await, "");
    }
    for peer in &mut idle[first_kept..] {
        assert!(ask(peer, "127.0.0.1").await.starts_with("HTTP/1.0 200 OK\r\n"));
    }
    served.stop.send(true).unwrap();
    timeout(LONG, served.serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_peer_that_asks_nothing_is_let_go() {
    let served = serve(Duration::from_millis(20)).await;
    assert_eq!(told(&mut served.connect().await).await, "");
}

#[tokio::test]
async fn a_page_that_has_its_name_point_here_is_told_nothing() {
    let served = serve(LONG).await;
    let answer = ask(&mut served.connect().await, "rebound.example:9464").await;
    assert!(answer.starts_with("HTTP/1.0 421 Misdirected Request\r\n"), "{answer}");
    assert!(!answer.contains("transom_"), "{answer}");
}
