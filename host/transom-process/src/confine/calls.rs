//! Which system calls a confined command is refused (P-53, P-55, P-56): what Landlock cannot say, sockets above all.
//! A list of what is forbidden; everything else is as ever.

use std::{collections::BTreeMap, env::consts::ARCH, io};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use crate::confine::plan::{Plan, Width};

/// The bit by which programs on x86-64 name the same calls a second time.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// Calls newer than the library's list. Since 5.1 all architectures share one numbering.
const SYS_FCHMODAT2: i64 = 452;
const SYS_SETXATTRAT: i64 = 463;
const SYS_REMOVEXATTRAT: i64 = 466;
const SYS_FILE_SETATTR: i64 = 469;

/// Requests that change attributes of a file which is open for reading only.
const FS_IOC_SETFLAGS: u64 = 0x4008_6602;
const FS_IOC_FSSETXATTR: u64 = 0x401c_5820;

/// Without the flags that may be set in the same argument.
const SOCKET_KIND: u64 = 0xf;

/// Mode bits, owner, times and attributes of files.
const METADATA: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SYS_SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Ways round everything else, and of no use to a shell.
const KERNEL: &[i64] = &[
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
];

const IO_URING: &[i64] =
    &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// Installs the filters for good, one per error number.
pub(crate) fn restrict(plan: &Plan) -> io::Result<()> {
    for (error, refusals) in refusals(plan)? {
        if !refusals.is_empty() {
            apply_filter(&compile(error, refusals)?).map_err(io::Error::other)?;
        }
    }
    Ok(())
}

/// Calls with the conditions under which they are refused; without any, always.
type Refusals = BTreeMap<i64, Vec<SeccompRule>>;

fn compile(error: i32, refusals: Refusals) -> io::Result<BpfProgram> {
    let target = TargetArch::try_from(ARCH).map_err(io::Error::other)?;
    let action = SeccompAction::Errno(error.unsigned_abs());
    // Programs of another architecture are killed by what the library puts in front.
    SeccompFilter::new(refusals, SeccompAction::Allow, action, target)
        .and_then(BpfProgram::try_from)
        .map_err(io::Error::other)
}

fn refusals(plan: &Plan) -> io::Result<[(i32, Refusals); 3]> {
    let (mut missing, mut denied, mut unreachable) =
        (Refusals::new(), Refusals::new(), Refusals::new());
    always(&mut missing, IO_URING);
    always(&mut denied, KERNEL);
    // Limits of other processes of the same user, of the host for one: Landlock has no word for them.
    on(&mut denied, libc::SYS_prlimit64, &[(0, SeccompCmpOp::Ne, 0)])?;

    if plan.width == Width::ReadOnly {
        always(&mut denied, METADATA);
        for request in [FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR] {
            on(&mut denied, libc::SYS_ioctl, &[(1, SeccompCmpOp::Eq, request)])?;
        }
    }
    // Read-only mounts refuse this by themselves, and within a root it must go on working.
    if plan.landlock.is_some_and(|abi| abi < 3) && !plan.mounts {
        truncation(&mut missing, &mut denied)?;
    }
    network(plan, &mut denied, &mut unreachable)?;
    Ok([(libc::ENOSYS, missing), (libc::EACCES, denied), (libc::ENETUNREACH, unreachable)])
}

/// Emptying files without the right to write them, which the first Landlocks overlook.
fn truncation(missing: &mut Refusals, denied: &mut Refusals) -> io::Result<()> {
    always(denied, &[libc::SYS_truncate]);
    // Its flags are in memory, where no filter looks; libraries fall back to the older calls.
    always(missing, &[libc::SYS_openat2]);
    let flags = flag(libc::O_ACCMODE | libc::O_TRUNC);
    let emptied = flag(libc::O_RDONLY | libc::O_TRUNC);
    on(denied, libc::SYS_openat, &[(2, SeccompCmpOp::MaskedEq(flags), emptied)])?;
    #[cfg(target_arch = "x86_64")]
    on(denied, libc::SYS_open, &[(1, SeccompCmpOp::MaskedEq(flags), emptied)])?;
    Ok(())
}

fn network(plan: &Plan, denied: &mut Refusals, unreachable: &mut Refusals) -> io::Result<()> {
    use SeccompCmpOp::{Eq, Ne};

    let unix = flag(libc::AF_UNIX);
    let stream = flag(libc::SOCK_STREAM);
    let sequenced = flag(libc::SOCK_SEQPACKET);
    let own_network = plan.join.is_some();

    if plan.offline {
        // Other families know no namespaces: that of virtual machines reaches the machine's own host.
        let inside: &[libc::c_int] = if own_network {
            &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]
        } else {
            &[libc::AF_UNIX]
        };
        let others: Vec<_> = inside.iter().map(|family| (0, Ne, flag(*family))).collect();
        on(unreachable, libc::SYS_socket, &others)?;
    }
    if plan.unix_sockets {
        return Ok(());
    }
    if plan.offline && !own_network {
        // Sockets of these kinds reach others only by connecting.
        for call in [libc::SYS_socket, libc::SYS_socketpair] {
            refuse_other_kinds(denied, call, &[stream, sequenced])?;
        }
        always(denied, &[libc::SYS_connect]);
    } else {
        on(denied, libc::SYS_socket, &[(0, Eq, unix)])?;
        refuse_other_kinds(denied, libc::SYS_socketpair, &[stream])?;
    }
    Ok(())
}

/// An argument, how it is compared, and with what.
type Condition = (u8, SeccompCmpOp, u64);

/// Refuses a call for Unix sockets unless their kind is one of `kept`. "Masked and different" cannot be said, so
/// every other kind stands for itself.
fn refuse_other_kinds(refusals: &mut Refusals, call: i64, kept: &[u64]) -> io::Result<()> {
    let family = (0, SeccompCmpOp::Eq, flag(libc::AF_UNIX));
    for kind in (0..=SOCKET_KIND).filter(|kind| !kept.contains(kind)) {
        on(refusals, call, &[family.clone(), (1, SeccompCmpOp::MaskedEq(SOCKET_KIND), kind)])?;
    }
    Ok(())
}

fn always(refusals: &mut Refusals, calls: &[i64]) {
    for call in calls {
        for number in numbers(*call) {
            refusals.insert(number, Vec::new());
        }
    }
}

/// Refuses a call where all conditions hold.
fn on(refusals: &mut Refusals, call: i64, conditions: &[Condition]) -> io::Result<()> {
    for number in numbers(call) {
        let conditions = conditions.iter().map(|(argument, how, value)| {
            SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, how.clone(), *value)
        });
        let conditions = conditions.collect::<Result<_, _>>().map_err(io::Error::other)?;
        let rule = SeccompRule::new(conditions).map_err(io::Error::other)?;
        refusals.entry(number).or_default().push(rule);
    }
    Ok(())
}

#[cfg(target_arch = "x86_64")]
fn numbers(call: i64) -> [i64; 2] {
    [call, call | X32]
}

#[cfg(not(target_arch = "x86_64"))]
fn numbers(call: i64) -> [i64; 1] {
    [call]
}

/// A constant of the C library as an argument is compared: as 32 bits.
fn flag(value: libc::c_int) -> u64 {
    value.cast_unsigned().into()
}
