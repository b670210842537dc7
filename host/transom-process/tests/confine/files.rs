//! Which files a confined command reads and changes (rows 5, 16 to 19).

use std::{fs, os::unix::fs::symlink};

use transom_process::{Exit, Network, Width, denial};

use crate::House;

use Width::{ReadOnly, WorkspaceWrite};

#[tokio::test]
async fn a_write_outside_the_roots_is_denied_and_told_with_both_lines() {
    // Row 5.
    let house = House::new().await;
    let ran = house.run(WorkspaceWrite, "echo x > $O/new").await;
    assert_eq!(ran.exit, Exit::Code(1));
    assert_eq!(
        denial("workspace-write", ran.exit, &ran.stderr, Network::Deny, true).as_deref(),
        Some(
            "[sandbox: file access denied under workspace-write mode]\n\
             [sandbox: escalation available — retry this exact command once with sandbox_permissions (the narrowest \
             wider mode that suffices) + justification; the approval prompt asks the user]"
        )
    );
    assert!(!house.path("outside/new").exists());
}

#[tokio::test]
async fn read_only_changes_nothing_and_reads_everything_else() {
    // Row 16, and P-53 `metadata`.
    let house = House::new().await;
    let before = fs::metadata(house.path("workspace/file")).unwrap();
    for script in [
        "echo x > $W/new",
        "echo x >> $W/file",
        ": > $W/file",
        "chmod 600 $W/file",
        "chmod 600 $O/file",
        "touch -d yesterday $W/file",
        "rm $W/file",
        "mv $W/file $W/other",
        "mkdir $W/new",
        "ln -s file $W/new",
        "echo x > /dev/shm/transom-test",
    ] {
        house.denied(ReadOnly, script).await;
    }
    let after = fs::metadata(house.path("workspace/file")).unwrap();
    assert_eq!(after.permissions(), before.permissions());
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert_eq!(house.text("workspace/file"), "before\n");
    assert!(!house.path("workspace/new").exists());

    assert_eq!(house.allowed(ReadOnly, "cat $W/file $O/file").await, "before\nbefore\n");
    let script = "head -n 1 /etc/passwd > /dev/null && cat <<< here && cat < <(echo there) && head -c 1 /dev/urandom > /dev/null";
    assert_eq!(house.allowed(ReadOnly, script).await, "here\nthere\n");
}

#[tokio::test]
async fn workspace_write_changes_what_is_below_the_roots() {
    // Row 17, the shell's part.
    let house = House::new().await;
    let outside = house.path("outside");
    symlink(&outside, house.path("workspace/out")).unwrap();
    symlink(house.path("workspace/file"), house.path("workspace/absolute")).unwrap();

    house
        .allowed(
            WorkspaceWrite,
            "echo x > $W/a && mkdir $W/d && mv $W/a $W/d/a && chmod 600 $W/d/a && touch -d yesterday $W/d/a && \
             echo y >> $W/absolute && echo x > /dev/shm/transom-$$ && rm /dev/shm/transom-$$",
        )
        .await;
    assert_eq!(house.text("workspace/d/a"), "x\n");
    assert_eq!(house.text("workspace/file"), "before\ny\n");

    for script in [
        "echo x > $W/out/x",
        "echo x > $O/file",
        "rm $O/file",
        "mv $W/d $O/d",
        "cp $W/file $O/../new",
    ] {
        house.denied(WorkspaceWrite, script).await;
    }
    // A hard link to a file outside.
    let linked = house.run(WorkspaceWrite, "ln $O/file $W/hard").await;
    assert_eq!(linked.exit, Exit::Code(1), "{linked:?}");
    assert_eq!(house.text("outside/file"), "before\n");
    assert_eq!(fs::read_dir(outside).unwrap().count(), 1);

    // Metadata outside the roots is held by the mounts; without them the report says that nobody does.
    if house.confiner.report().mounts {
        house.denied(WorkspaceWrite, "chmod 600 $O/file").await;
    } else {
        assert!(house.has_gap("metadata"));
    }
}

#[tokio::test]
async fn the_temporary_directory_is_shared_unless_it_is_private() {
    let house = House::with(|settings| settings.shared_temp = true).await;
    house.allowed(WorkspaceWrite, "f=$(mktemp /tmp/transom-XXXXXX) && echo x > $f && rm $f").await;
    let house = House::new().await;
    house.denied(WorkspaceWrite, "mktemp /tmp/transom-XXXXXX").await;
}

#[tokio::test]
async fn a_link_swapped_in_under_way_leads_nowhere() {
    // Row 17, last part: whatever the timing, nothing outside changes.
    let house = House::new().await;
    house
        .run(
            WorkspaceWrite,
            "mkdir $W/d; (for i in {1..300}; do rm -rf $W/d; ln -s $O $W/d; rm -f $W/d; mkdir $W/d; done) & \
             for i in {1..3000}; do echo x > $W/d/file; done 2> /dev/null; wait",
        )
        .await;
    assert_eq!(house.text("outside/file"), "before\n");
    assert_eq!(fs::read_dir(house.path("outside")).unwrap().count(), 1);
}

#[tokio::test]
async fn hidden_files_are_not_read_by_any_means() {
    // Row 18, the shell's part.
    let house = House::new().await;
    let host = std::process::id();
    symlink(house.path("home"), house.path("workspace/home")).unwrap();
    for width in [ReadOnly, WorkspaceWrite] {
        for script in [
            "cat $H/credentials",
            "cat $H/store/log",
            "cat $W/home/credentials",
            "cat /proc/self/root$H/credentials",
            "echo x > $H/new",
            &format!("cat /proc/{host}/environ"),
        ] {
            house.denied(width, script).await;
        }
        // Its neighbours stay visible, and its name.
        let listed = house.allowed(width, "ls $D && cat $O/file").await;
        assert_eq!(listed, "home\noutside\nworkspace\nbefore\n");
    }
    assert_eq!(fs::read_dir(house.path("home")).unwrap().count(), 2);
}

#[tokio::test]
async fn secrets_below_a_root_are_covered_or_reported() {
    // P-53 `secrets`.
    let house = House::with(|settings| settings.hide.push("/nowhere/at/all".into())).await;
    fs::create_dir(house.path("workspace/.ssh")).unwrap();
    fs::write(house.path("workspace/.ssh/id"), "secret\n").unwrap();
    fs::write(house.path("workspace/.netrc"), "secret\n").unwrap();
    let mut profile = house.profile(WorkspaceWrite);
    let secrets = [".netrc", ".ssh"]
        .map(|name| fs::canonicalize(house.path("workspace")).unwrap().join(name));
    profile.places.secrets = secrets.to_vec();
    let script = "cat .ssh/id .netrc; mv .ssh .other; rm -rf .ssh .netrc; cat .ssh/id .netrc .other/id; echo x > new";
    let process = house.start(house.bash(script), &profile).await.unwrap();
    let ran = crate::ran(process).await;
    assert_eq!(ran.exit, Exit::Code(0), "{ran:?}");
    if house.confiner.report().mounts {
        assert_eq!(ran.stdout, "");
        assert_eq!(house.text("workspace/.ssh/id"), "secret\n");
        assert_eq!(house.text("workspace/.netrc"), "secret\n");
    } else {
        assert!(house.has_gap("secrets"));
    }
    assert_eq!(house.text("workspace/new"), "x\n");
}

#[tokio::test]
async fn a_link_that_takes_a_place_after_the_look_at_it_leads_nowhere() {
    // P-47, P-48: another command may still run while this one is started.
    let house = House::new().await;
    let yard = fs::canonicalize(house.path("workspace")).unwrap();
    let outside = fs::canonicalize(house.path("outside")).unwrap();
    for name in ["workspace/yard/root", "outside/root"] {
        fs::create_dir_all(house.path(name)).unwrap();
    }
    // The directory itself, then the one above it.
    for (moved, target) in [("yard/root", outside.join("root")), ("yard", outside)] {
        let mut profile = house.profile(WorkspaceWrite);
        profile.places =
            house.settings.places("session", &house.path("workspace/yard/root")).unwrap();
        fs::rename(yard.join(moved), yard.join("aside")).unwrap();
        symlink(target, yard.join(moved)).unwrap();
        let command = house.bash("echo x > $W/yard/root/new; echo x > $O/root/new");
        // The launcher may notice.
        if let Ok(process) = house.start(command, &profile).await {
            let ran = crate::ran(process).await;
            assert_ne!(ran.exit, Exit::Code(0), "{moved}: {ran:?}");
        }
        assert!(!house.path("outside/root/new").exists(), "{moved}");
        fs::remove_file(yard.join(moved)).unwrap();
        fs::rename(yard.join("aside"), yard.join(moved)).unwrap();
    }
}

#[tokio::test]
async fn the_sessions_own_directory_is_shown_within_the_hidden_home() {
    // P-44, P-45 (a).
    let house = House::with(|settings| {
        let home = settings.private.first().unwrap().clone();
        settings.run = Some(home.join("run"));
    })
    .await;
    let own = house.settings.make_own("session").unwrap().unwrap();
    fs::write(own.join("spill"), "spilled\n").unwrap();
    let own = own.display();
    house.allowed(WorkspaceWrite, &format!("echo x > {own}/new && rm {own}/new")).await;
    assert_eq!(house.allowed(ReadOnly, &format!("cat {own}/spill")).await, "spilled\n");
    house.denied(ReadOnly, &format!("echo x > {own}/new")).await;
    for script in ["cat $H/credentials", "ls $H", "echo x > $H/run/new", "mkdir $H/run/other"] {
        let ran = house.run(WorkspaceWrite, script).await;
        assert_ne!(ran.exit, Exit::Code(0), "{script}: {ran:?}");
    }
    assert_eq!(fs::read_dir(house.path("home/run")).unwrap().count(), 1);
}

#[tokio::test]
async fn git_works_and_its_programs_are_guarded() {
    // Row 19.
    let house = House::new().await;
    let identity = "-c user.name=N -c user.email=e@example.org";
    house.allowed(WorkspaceWrite, "git init -q && git add file").await;
    house.allowed(WorkspaceWrite, &format!("git {identity} commit -q -m first")).await;
    house
        .allowed(
            WorkspaceWrite,
            &format!(
                "echo x > other && git add . && git {identity} commit -q -m second && git gc -q"
            ),
        )
        .await;
    assert_eq!(house.allowed(ReadOnly, "git log --format=%s").await, "second\nfirst\n");
    if house.confiner.report().mounts {
        for script in ["echo x > .git/hooks/pre-commit", "echo x >> .git/config"] {
            house.denied(WorkspaceWrite, script).await;
        }
        // Nor can it be put aside and another put in its place.
        let moved = house
            .run(
                WorkspaceWrite,
                "mv .git other.git && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
            )
            .await;
        assert_ne!(moved.exit, Exit::Code(0), "{moved:?}");
        assert!(!house.path("workspace/.git/hooks/pre-commit").exists());
    } else {
        assert!(house.has_gap("guarded"));
    }
}

#[tokio::test]
async fn what_the_operator_guards_is_read_and_not_changed() {
    // P-46, with a root that lies in another one.
    let house = House::with(|settings| {
        settings.guard = vec!["inner/manifest.toml".into()];
        settings.write = vec!["inner".into()];
        settings.guard_git = false;
    })
    .await;
    fs::create_dir_all(house.path("workspace/inner/.git/hooks")).unwrap();
    fs::write(house.path("workspace/inner/manifest.toml"), "before\n").unwrap();
    assert_eq!(
        house
            .allowed(WorkspaceWrite, "cat inner/manifest.toml && echo x > inner/.git/hooks/x")
            .await,
        "before\n"
    );
    if house.confiner.report().mounts {
        house.denied(WorkspaceWrite, "echo x > inner/manifest.toml").await;
        house
            .run(
                WorkspaceWrite,
                "rm inner/manifest.toml; mv inner other; mkdir inner; echo x > inner/manifest.toml",
            )
            .await;
        assert_eq!(house.text("workspace/inner/manifest.toml"), "before\n");
    } else {
        assert!(house.has_gap("guarded"));
    }
}
