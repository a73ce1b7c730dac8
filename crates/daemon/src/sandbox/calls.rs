//! The system calls that a server of links needs after its start, as a filter of seccomp(2). Any
//! other call is refused. Calls that could do more than is needed are admitted with some arguments
//! only.

use std::collections::BTreeMap;
use std::io;

use libc::{c_int, c_long};
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule, TargetArch};

use super::{Forbidden, Sandbox};

/// Calls that are admitted with any arguments: on memory, threads, descriptors and sockets of the
/// process itself, and on time.
const ANY: &[c_long] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Threads. `membarrier` is the heavy side of the baton of txweir-handoff.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_membarrier,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    // Time, randomness and identity.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getrandom,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_nanosleep,
    libc::SYS_uname,
    // Files: the configuration that is read again, samples, the removal of the socket.
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_faccessat,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_statx,
    libc::SYS_unlinkat,
    libc::SYS_write,
    libc::SYS_writev,
    // Waiting.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    libc::SYS_signalfd4,
    // Sockets that are there, or to which others connect.
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
];

/// The calls of the same kinds that only older processors have; some C libraries prefer them.
#[cfg(target_arch = "x86_64")]
const OLD: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_lstat,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[c_long] = &[];

/// The calls by which a file is replaced whole, with its mode and owner.
const FILES: &[c_long] =
    &[libc::SYS_openat, libc::SYS_renameat, libc::SYS_renameat2, libc::SYS_fchmod, libc::SYS_fchown];

/// The commands of bpf(2) that make a map, fill it, load a program and put it on an interface.
const BPF: [c_int; 4] = [0, 2, 5, 28];

/// The ioctls of links, of non-blocking sockets, and of the question for a terminal.
const IOCTLS: [libc::Ioctl; 12] = [
    libc::SIOCETHTOOL as libc::Ioctl,
    libc::SIOCGIFFLAGS as libc::Ioctl,
    libc::SIOCGIFHWADDR as libc::Ioctl,
    libc::SIOCGIFINDEX as libc::Ioctl,
    libc::SIOCGIFMTU as libc::Ioctl,
    libc::SIOCGIFNAME as libc::Ioctl,
    libc::TUNSETIFF,
    libc::TUNSETOFFLOAD,
    libc::TUNSETVNETHDRSZ,
    libc::FIONBIO,
    libc::TCGETS,
    libc::TIOCGWINSZ,
];

/// `PR_GET_AUXV` (linux/prctl.h), by which rustix finds the vDSO. libc does not have it.
const GET_AUXV: c_int = 0x4155_5856;

/// The operations of prctl(2): names of threads and of memory, and the precision of timers.
const PRCTLS: [c_int; 5] =
    [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_TIMERSLACK, libc::PR_SET_VMA, GET_AUXV];

/// Flags of clone(2) that make namespaces.
const NAMESPACES: c_int = libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWUTS;

/// A condition on one argument, by its number from 0.
type Condition = Result<SeccompCondition, seccompiler::BackendError>;

/// True for calls whose 32-bit argument has this value.
fn is(argument: u8, value: c_int) -> Condition {
    SeccompCondition::new(argument, Dword, Eq, u64::from(value.cast_unsigned()))
}

/// True for calls of whose 32-bit argument these bits have this value.
fn bits(argument: u8, mask: c_int, value: c_int) -> Condition {
    let mask = u64::from(mask.cast_unsigned());
    SeccompCondition::new(argument, Dword, MaskedEq(mask), u64::from(value.cast_unsigned()))
}

/// The rules of a filter: the calls that match, each with alternatives of conditions.
#[derive(Default)]
struct Rules(BTreeMap<i64, Vec<SeccompRule>>);

impl Rules {
    /// Adds calls with any arguments.
    fn any(&mut self, calls: &[c_long]) {
        self.0.extend(calls.iter().map(|call| (*call, Vec::new())));
    }

    /// Adds a call with arguments that meet all these conditions.
    fn when(
        &mut self,
        call: c_long,
        all: impl IntoIterator<Item = Condition>,
    ) -> Result<(), seccompiler::BackendError> {
        let rule = SeccompRule::new(all.into_iter().collect::<Result<_, _>>()?)?;
        self.0.entry(call).or_default().push(rule);
        Ok(())
    }

    /// Returns the filter.
    fn program(
        self,
        others: SeccompAction,
        these: SeccompAction,
    ) -> Result<BpfProgram, seccompiler::BackendError> {
        SeccompFilter::new(self.0, others, these, ARCH)?.try_into()
    }
}

#[cfg(target_arch = "x86_64")]
const ARCH: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: TargetArch = TargetArch::aarch64;

/// Returns the admitted calls.
fn admitted(sandbox: Sandbox) -> Result<Rules, seccompiler::BackendError> {
    let Sandbox { keep_netns, keep_xdp, keep_files, .. } = sandbox;
    let mut rules = Rules::default();
    rules.any(ANY);
    rules.any(OLD);
    // No memory becomes executable.
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.when(call, [bits(2, libc::PROT_EXEC, 0)])?;
    }
    if keep_files {
        rules.any(FILES);
        #[cfg(target_arch = "x86_64")]
        rules.any(&[libc::SYS_open, libc::SYS_rename]);
    } else {
        // No file is made.
        rules.when(libc::SYS_openat, [bits(2, libc::O_CREAT, 0)])?;
        #[cfg(target_arch = "x86_64")]
        rules.when(libc::SYS_open, [bits(1, libc::O_CREAT, 0)])?;
    }
    // Threads, but no processes and no namespaces. The flags of clone3 lie in memory, where a
    // filter cannot read them; see `filter`.
    rules.when(libc::SYS_clone, [bits(0, libc::CLONE_THREAD | NAMESPACES, libc::CLONE_THREAD)])?;
    rules.any(&[libc::SYS_clone3]);
    if keep_netns {
        rules.when(libc::SYS_setns, [is(1, libc::CLONE_NEWNET)])?;
    }
    if keep_xdp {
        rules.when(libc::SYS_socket, [is(0, libc::AF_XDP)])?;
        for command in BPF {
            rules.when(libc::SYS_bpf, [is(0, command)])?;
        }
    }
    // Signals to threads of this process only: abort(3) and panics.
    rules.when(libc::SYS_tgkill, [is(0, std::process::id().cast_signed())])?;
    // Limits are read and not set.
    rules.when(libc::SYS_prlimit64, [is(0, 0), SeccompCondition::new(2, Qword, Eq, 0)])?;
    for operation in PRCTLS {
        rules.when(libc::SYS_prctl, [is(0, operation)])?;
    }
    for operation in IOCTLS {
        rules.when(libc::SYS_ioctl, [SeccompCondition::new(1, Dword, Eq, u64::from(operation as u32))])?;
    }
    // Packet sockets, the questions about interfaces, and rtnetlink.
    const TYPE: c_int = 0xf; // the bits beside SOCK_CLOEXEC and SOCK_NONBLOCK (socket(2))
    rules.when(libc::SYS_socket, [is(0, libc::AF_PACKET)])?;
    rules.when(libc::SYS_socket, [is(0, libc::AF_NETLINK), is(2, libc::NETLINK_ROUTE)])?;
    for family in [libc::AF_INET, libc::AF_INET6, libc::AF_UNIX] {
        rules.when(libc::SYS_socket, [is(0, family), bits(1, TYPE, libc::SOCK_DGRAM)])?;
    }
    // The socket of a virtual machine's card, to which its monitor connects.
    rules.when(libc::SYS_socket, [is(0, libc::AF_UNIX), bits(1, TYPE, libc::SOCK_STREAM)])?;
    Ok(rules)
}

/// Installs the filter for all threads of the process.
pub(super) fn filter(sandbox: &Sandbox) -> io::Result<()> {
    let other = |error: &dyn std::error::Error| io::Error::other(error.to_string());
    let forbidden = match sandbox.forbidden {
        Forbidden::Fails => SeccompAction::Errno(libc::EPERM.cast_unsigned()),
        Forbidden::Kills => SeccompAction::KillProcess,
    };
    let calls = admitted(*sandbox).and_then(|rules| rules.program(forbidden, SeccompAction::Allow));
    // A C library starts threads by clone where clone3 does not exist.
    let mut newer = Rules::default();
    newer.any(&[libc::SYS_clone3]);
    let newer = newer.program(SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS.cast_unsigned()));
    for program in [newer, calls] {
        let program = program.map_err(|e| other(&e))?;
        seccompiler::apply_filter_all_threads(&program).map_err(|error| match error {
            seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
            error => other(&error),
        })?;
    }
    Ok(())
}
