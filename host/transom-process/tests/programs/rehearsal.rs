//! The program that the tests of confinement run: a launcher as the real one is, a host in reduced circumstances, and
//! things for a confined command to try. Each is one word on the command line.

use std::{
    env,
    error::Error,
    fs,
    io::{self, Write},
    net::{Ipv4Addr, TcpListener, UdpSocket},
    os::unix::net::UnixStream,
    path::Path,
    process::ExitCode,
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::prctl,
    unistd::{Gid, Uid, setgid, setgroups, setuid},
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};
use serde_json::json;
use tokio::io::AsyncReadExt;
use transom_process::{
    Command, Confined, Confinement, Confiner, Launcher, Leftovers, Profile, SUBCOMMAND, Spawner,
    Width, adopt_orphans, end_descendants, launch, protect_host,
};

/// The user that owns nothing.
const NOBODY: u32 = 65_534;

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let word = arguments.next().unwrap_or_default();
    if word == SUBCOMMAND {
        return ExitCode::from(launch(arguments));
    }
    let rest: Vec<String> =
        arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    match play(&word.to_string_lossy(), &rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "rehearsal: {error}");
            ExitCode::FAILURE
        }
    }
}

fn play(word: &str, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    match (word, arguments) {
        ("host", [user, refused, directory, width, scripts @ ..]) => {
            host(user, refused, directory, width, scripts)
        }
        ("adopting-host", [script, others @ ..]) => adopting_host(script, others),
        ("ending-host", [script]) => {
            adopting_host(script, &[])?;
            end_descendants(Duration::from_secs(60));
            Ok(())
        }
        ("doomed-host", [home, run, script]) => doomed_host(home, run, script),
        ("udp", [address]) => {
            let socket =
                UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(|error| said(&error))?;
            Ok(socket.send_to(b"x", address).map(drop).map_err(|error| said(&error))?)
        }
        ("connect", [path]) => {
            Ok(UnixStream::connect(path).map(drop).map_err(|error| said(&error))?)
        }
        ("pair", []) => Ok(UnixStream::pair().map(drop).map_err(|error| said(&error))?),
        ("serve", []) => serve(),
        ("io-uring", []) => Ok(io_uring().map_err(|error| said(&error))?),
        ("socket", [family]) => Ok(socket(family.parse()?).map_err(|error| said(&error))?),
        ("death-signal", []) => {
            writeln!(io::stdout(), "{:?}", prctl::get_pdeathsig()?)?;
            Ok(())
        }
        (word, _) => Err(format!("nothing is called {word:?} with these arguments").into()),
    }
}

/// The error by its name, which is the same in every language.
fn said(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => format!("{:?}", Errno::from_raw(number)),
        None => error.to_string(),
    }
}

/// Serves one word to one caller on the loopback, and says where.
fn serve() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| said(&error))?;
    writeln!(io::stdout(), "{}", listener.local_addr()?.port())?;
    let (mut caller, _) = listener.accept()?;
    Ok(caller.write_all(b"served\n")?)
}

#[expect(unsafe_code, reason = "the library has no safe face for this call")]
fn io_uring() -> io::Result<()> {
    // SAFETY: without parameters the call does nothing but fail.
    let result = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[expect(unsafe_code, reason = "the library knows internet and Unix sockets only")]
fn socket(family: libc::c_int) -> io::Result<()> {
    // SAFETY: opens a descriptor, which this process keeps until it ends.
    let result = unsafe { libc::socket(family, libc::SOCK_STREAM, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Probes and runs scripts as this user, on a machine that refuses some system calls, and prints what came of it as
/// one JSON document.
fn host(
    user: &str,
    refused: &str,
    directory: &str,
    width: &str,
    scripts: &[&str],
) -> Result<(), Box<dyn Error>> {
    let launcher = Launcher::own()?;
    if user == "nobody" {
        setgroups(&[])?;
        setgid(Gid::from_raw(NOBODY))?;
        setuid(Uid::from_raw(NOBODY))?;
    }
    refuse(refused)?;
    let width =
        if width == Width::ReadOnly.name() { Width::ReadOnly } else { Width::WorkspaceWrite };
    let directory = Path::new(directory);
    let settings = Confinement {
        shared_temp: false,
        temp: Some(directory.to_owned()),
        private: vec![directory.join("private")],
        hide: vec![directory.join("workspace/secret")],
        guard: vec![directory.join("workspace/guarded")],
        ..Confinement::default()
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let outcome = runtime.block_on(async {
        let spawner = Spawner::new(runtime.handle().clone())?;
        let confiner = Confiner::probe(&settings, launcher, &spawner).await;
        let mut places = settings.places("rehearsal", &directory.join("workspace"))?;
        // Where the probe may try things is no root of the session.
        places.roots.retain(|root| root != directory);
        let network = confiner.network().await?;
        let profile = Profile { width, places, network };
        let mut results = Vec::new();
        for script in scripts {
            results.push(match run(&confiner, &spawner, &profile, script).await {
                Ok(result) => result,
                Err(error) => json!({"error": error.to_string()}),
            });
        }
        Ok::<_, Box<dyn Error>>(json!({"report": confiner.report(), "results": results}))
    })?;
    writeln!(io::stdout(), "{outcome}")?;
    Ok(())
}

async fn run(
    confiner: &Confiner,
    spawner: &Spawner,
    profile: &Profile,
    script: &str,
) -> Result<serde_json::Value, Box<dyn Error>> {
    let command = Command { directory: Some(profile.places.workspace.clone()), ..bash(script) };
    let Confined { command, verdict } = confiner.confine(command, profile)?;
    let mut process = spawner.spawn(command).await?;
    verdict.read().await??;
    let (stdout, stderr) = (all(process.stdout.take()).await?, all(process.stderr.take()).await?);
    Ok(json!({"exit": format!("{:?}", process.wait().await?), "stdout": stdout, "stderr": stderr}))
}

fn bash(script: &str) -> Command {
    Command {
        arguments: vec!["-c".to_owned(), script.to_owned()],
        environment: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
        ..Command::new("bash")
    }
}

async fn all(pipe: Option<impl AsyncReadExt + Unpin>) -> io::Result<String> {
    let mut text = String::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_string(&mut text).await?;
    }
    Ok(text)
}

/// From now on this process is on a machine without these.
fn refuse(refused: &str) -> Result<(), Box<dyn Error>> {
    let calls: &[i64] = match refused {
        "nothing" => return Ok(()),
        "namespaces" | "networks" => &[libc::SYS_unshare, libc::SYS_setns],
        "landlock" => &[libc::SYS_landlock_create_ruleset],
        "seccomp" => &[libc::SYS_seccomp],
        "everything" => &[libc::SYS_unshare, libc::SYS_setns, libc::SYS_landlock_create_ruleset],
        other => return Err(format!("{other:?} cannot be refused").into()),
    };
    // Of namespaces, only those for networks.
    let network = || {
        let flag = libc::CLONE_NEWNET.cast_unsigned().into();
        let how = SeccompCmpOp::MaskedEq(flag);
        SeccompRule::new(vec![SeccompCondition::new(0, SeccompCmpArgLen::Dword, how, flag)?])
    };
    let conditions = if refused == "networks" { vec![network()?] } else { Vec::new() };
    let rules = calls.iter().map(|call| (*call, conditions.clone())).collect();
    let action = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let target = TargetArch::try_from(env::consts::ARCH)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, target)?;
    Ok(apply_filter(&BpfProgram::try_from(filter)?)?)
}

/// A host that adopts what its commands leave behind: prints what the first script says, then how the others ended,
/// and waits until input ends.
fn adopting_host(script: &str, others: &[&str]) -> Result<(), Box<dyn Error>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        protect_host()?;
        adopt_orphans(runtime.handle())?;
        let spawner = Spawner::new(runtime.handle().clone())?;
        let mut process = spawner.spawn(bash(script)).await?;
        write!(io::stdout(), "{}", all(process.stdout.take()).await?)?;
        process.wait().await?;
        let mut ends = Vec::new();
        for other in others {
            let mut process = spawner.spawn(bash(other)).await?;
            ends.push(tokio::spawn(async move { process.wait().await }));
        }
        for end in ends {
            writeln!(io::stdout(), "{:?}", end.await??)?;
        }
        until_input_ends().await
    })
}

/// Whoever plays with a host lets it go at the latest by ending.
async fn until_input_ends() -> Result<(), Box<dyn Error>> {
    tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink())).await??;
    Ok(())
}

/// A host that notes what it starts, says when the script has begun, and waits to be killed.
fn doomed_host(home: &str, run: &str, script: &str) -> Result<(), Box<dyn Error>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        fs::create_dir_all(home)?;
        let leftovers = Leftovers::open(Path::new(home), run)?;
        let spawner = Spawner::noting(runtime.handle().clone(), leftovers)?;
        let mut process = spawner.spawn(bash(script)).await?;
        let stdout = all(process.stdout.take()).await?;
        write!(io::stdout(), "{stdout}")?;
        io::stdout().flush()?;
        until_input_ends().await
    })
}
