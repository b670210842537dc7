//! What a confined command reaches (row 20, P-55, P-56).

use std::os::unix::net::UnixListener;

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
};
use transom_process::{Exit, Network, Reach, Width, denial};

use crate::House;

use Width::{ReadOnly, WorkspaceWrite};

/// Reserved for examples, and nowhere.
const NOWHERE: &str = "192.0.2.1:9";

#[tokio::test]
async fn denied_means_that_nothing_outside_is_reached() {
    let house = House::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let socket = house.path("outside/socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    for width in [ReadOnly, WorkspaceWrite] {
        let refused = [
            format!("exec 3<> /dev/tcp/127.0.0.1/{port}"),
            format!("$T udp {NOWHERE}"),
            format!("$T connect {}", socket.display()),
            "$T io-uring".to_owned(),
            format!("$T socket {}", libc::AF_VSOCK),
            format!("$T socket {}", libc::AF_PACKET),
        ];
        for script in refused {
            let ran = house.run(width, &script).await;
            assert_eq!(ran.exit, Exit::Code(1), "{script}: {ran:?}");
        }
        house.allowed(width, "$T pair").await;
    }
}

#[tokio::test]
async fn a_name_that_cannot_be_looked_up_is_told_as_a_network_denial() {
    // P-22.
    let house = House::new().await;
    for script in [
        "exec 3<> /dev/tcp/example.invalid/80",
        &format!("$T udp {NOWHERE} 2> >(sed s/ENETUNREACH/'Network is unreachable'/ >&2)"),
    ] {
        let ran = house.run(ReadOnly, script).await;
        assert_eq!(
            denial("read-only", ran.exit, &ran.stderr, Network::Deny, false).as_deref(),
            Some("[sandbox: network access denied under read-only mode]"),
            "{script}: {ran:?}"
        );
    }
}

#[tokio::test]
async fn a_server_in_the_background_answers_the_next_command_exactly_if_the_report_says_loopback() {
    let house = House::new().await;
    let profile = house.profile(WorkspaceWrite);
    let mut server = house.start(house.bash("exec $T serve"), &profile).await.unwrap();
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).await.unwrap();
    let call = format!("cat < /dev/tcp/127.0.0.1/{}", port.trim());
    match house.confiner.report().network {
        Reach::Loopback => {
            assert_eq!(house.allowed(WorkspaceWrite, &call).await, "served\n");
            // Another session has another network.
            let mut stranger = house.profile(WorkspaceWrite);
            stranger.network = house.confiner.network().await.unwrap();
            let process = house.start(house.bash(&call), &stranger).await.unwrap();
            assert_eq!(crate::ran(process).await.exit, Exit::Code(1));
        }
        Reach::None => assert_eq!(port, "", "nobody can listen"),
        Reach::Open => panic!("the network is denied"),
    }
}

#[tokio::test]
async fn without_a_network_of_its_own_a_session_has_none() {
    let house = House::new().await;
    let mut profile = house.profile(WorkspaceWrite);
    profile.network = None;
    for script in [
        "$T serve",
        &format!("$T udp {NOWHERE}"),
        "$T connect /nowhere",
        &format!("$T socket {}", libc::AF_NETLINK),
    ] {
        let ran = crate::ran(house.start(house.bash(script), &profile).await.unwrap()).await;
        assert_eq!(ran.exit, Exit::Code(1), "{script}: {ran:?}");
        let expected = if script.contains("connect") { "EACCES" } else { "ENETUNREACH" };
        assert!(ran.stderr.contains(expected), "{script}: {ran:?}");
    }
    let process = house.start(house.bash("$T pair"), &profile).await.unwrap();
    assert_eq!(crate::ran(process).await.exit, Exit::Code(0));
}

#[tokio::test]
async fn allowed_means_networks_and_not_yet_sockets_in_the_file_system() {
    let house = House::with(|settings| settings.network = Network::Allow).await;
    assert_eq!(house.confiner.report().network, Reach::Open);
    assert!(house.network.is_none());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    house.allowed(ReadOnly, &format!("exec 3<> /dev/tcp/127.0.0.1/{port}")).await;
    let socket = house.path("outside/socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let connect = format!("$T connect {}", socket.display());
    house.run(ReadOnly, &connect).await;
    assert_eq!(house.run(ReadOnly, &connect).await.exit, Exit::Code(1));

    let house = House::with(|settings| {
        settings.network = Network::Allow;
        settings.unix_sockets = Network::Allow;
    })
    .await;
    house.allowed(ReadOnly, &connect).await;
}
