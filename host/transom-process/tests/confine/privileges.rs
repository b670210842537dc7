//! What is left of root (row 21, P-50).

use std::{fs, os::unix::fs::FileTypeExt};

use transom_process::{Exit, Width};

use crate::House;

use Width::{ReadOnly, WorkspaceWrite};

#[tokio::test]
async fn all_capabilities_are_gone_and_do_not_come_back() {
    let house = House::new().await;
    // The bounding set of a user without privileges is the system's, and no way to gain any.
    let names = if house.confiner.report().root {
        "CapInh|CapPrm|CapEff|CapBnd|CapAmb"
    } else {
        "CapInh|CapPrm|CapEff|CapAmb"
    };
    for width in [ReadOnly, WorkspaceWrite] {
        let script = format!(
            "grep -E '^({names})' /proc/self/status | cut -f 2 | sort -u; grep NoNewPrivs /proc/self/status"
        );
        assert_eq!(house.allowed(width, &script).await, "0000000000000000\nNoNewPrivs:\t1\n");
        for script in ["mount -t tmpfs none $W", "chown 1 $O/file"] {
            assert_ne!(house.run(width, script).await.exit, Exit::Code(0), "{script}");
        }
    }
}

#[tokio::test]
async fn devices_and_processes_of_others_stay_closed() {
    let house = House::new().await;
    let host = std::process::id();
    let devices = fs::read_dir("/dev").unwrap().flatten().filter(|entry| {
        entry.file_type().is_ok_and(|kind| kind.is_block_device() || kind.is_char_device())
    });
    let open = ["null", "zero", "full", "random", "urandom"];
    let closed: Vec<_> = devices
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| !open.contains(&name.as_str()))
        .collect();
    for width in [ReadOnly, WorkspaceWrite] {
        let tried =
            "for d in $devices; do exec 3< /dev/$d && echo opened $d; done 2> /dev/null; true";
        let script = format!("devices='{}'; {tried}", closed.join(" "));
        assert_eq!(house.allowed(width, &script).await, "");
        let script = format!(
            "for d in {}; do exec 3< /dev/$d || exit 1; done; echo x > /dev/null",
            open.join(" ")
        );
        house.allowed(width, &script).await;
        house.denied(width, &format!("cat /proc/{host}/environ")).await;
        house.denied(width, &format!("cat /proc/{host}/root/etc/passwd")).await;
    }
    // Signals to others, from Landlock 6 on.
    let ran = house.run(WorkspaceWrite, &format!("kill -0 {host}")).await;
    assert_eq!(ran.exit == Exit::Code(0), house.has_gap("signals"), "{ran:?}");
    assert_eq!(
        house.run(WorkspaceWrite, "sleep 1000 & kill $!; wait $!").await.exit,
        Exit::Code(143)
    );
}
