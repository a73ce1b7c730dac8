//! The filter of system calls (seccomp(2)): those about sockets that may be rtnetlink's are told to
//! the supervisor, all others are left alone.

use libc::{c_long, sock_filter};

/// `AF_NETLINK`, `NETLINK_ROUTE`, `SOL_NETLINK` (netlink(7)), `SOL_SOCKET`.
const NETLINK: u32 = 16;
const ROUTE: u32 = 0;
pub(crate) const SOL_NETLINK: u32 = 270;
pub(crate) const SOL_SOCKET: u32 = 1;

/// The instruction set that the filter is for (`linux/audit.h`); calls of others are left alone.
#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

/// Offsets in `struct seccomp_data`: the number of the call, the instruction set, and the low half
/// of an argument, which these processors have first.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn argument(n: u32) -> u32 {
    16 + 8 * n
}

/// Calls that are always told.
const TOLD: [c_long; 6] = [
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_bind,
    libc::SYS_connect,
];

/// Loads 32 bits.
const fn load(at: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, jt: 0, jf: 0, k: at }
}
/// Skips `other` instructions unless the number is the loaded one.
const fn is(number: u32, other: u8) -> sock_filter {
    sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt: 0, jf: other, k: number }
}
/// Ends with an answer.
const fn end(answer: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: answer }
}
const TELL: sock_filter = end(libc::SECCOMP_RET_USER_NOTIF);
const ALLOW: sock_filter = end(libc::SECCOMP_RET_ALLOW);

/// The instructions for calls that are told by their arguments.
const SOCKET: [sock_filter; 6] =
    [load(argument(0)), is(NETLINK, 3), load(argument(2)), is(ROUTE, 1), TELL, ALLOW];
const SETSOCKOPT: [sock_filter; 4] = [load(argument(1)), is(SOL_NETLINK, 1), TELL, ALLOW];
const GETSOCKOPT: [sock_filter; 6] =
    [load(argument(1)), is(SOL_NETLINK, 1), TELL, is(SOL_SOCKET, 1), TELL, ALLOW];

/// Returns the filter.
pub(crate) fn program() -> Vec<sock_filter> {
    let number = |call: c_long| u32::try_from(call).unwrap_or(u32::MAX);
    let mut all = vec![load(ARCHITECTURE), is(ARCH, 1), load(NUMBER)];
    // A call of another instruction set has skipped the load, and has no number below: those of
    // instruction sets are larger. Calls of x32 have a bit in their number.
    for call in TOLD {
        all.extend([is(number(call), 1), TELL]);
    }
    let some: [(c_long, &[sock_filter]); 3] = [
        (libc::SYS_socket, &SOCKET),
        (libc::SYS_setsockopt, &SETSOCKOPT),
        (libc::SYS_getsockopt, &GETSOCKOPT),
    ];
    for (call, then) in some {
        all.push(is(number(call), u8::try_from(then.len()).unwrap_or(u8::MAX)));
        all.extend(then);
    }
    all.push(ALLOW);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter on a call.
    fn answer(arch: u32, call: c_long, arguments: [u32; 3]) -> u32 {
        let program = program();
        let (mut at, mut loaded) = (0, 0);
        for _ in 0..program.len() {
            let sock_filter { code, jf, k, .. } = program[at];
            at += 1;
            match u32::from(code) {
                c if c == libc::BPF_RET => return k,
                c if c == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    loaded = match k {
                        NUMBER => u32::try_from(call).unwrap(),
                        ARCHITECTURE => arch,
                        k => arguments[(k as usize - 16) / 8],
                    };
                }
                _ if loaded != k => at += usize::from(jf),
                _ => {}
            }
        }
        panic!("no answer");
    }

    #[test]
    fn only_sockets_that_may_be_of_rtnetlink_are_told() {
        let (tell, allow) = (libc::SECCOMP_RET_USER_NOTIF, libc::SECCOMP_RET_ALLOW);
        for (call, arguments, expected) in [
            (libc::SYS_socket, [16, 3, 0], tell),
            (libc::SYS_socket, [16, 3, 16], allow),
            (libc::SYS_socket, [2, 1, 0], allow),
            (libc::SYS_recvmsg, [3, 0, 0], tell),
            (libc::SYS_bind, [3, 0, 0], tell),
            (libc::SYS_setsockopt, [3, 270, 11], tell),
            (libc::SYS_setsockopt, [3, 1, 7], allow),
            (libc::SYS_getsockopt, [3, 1, 39], tell),
            (libc::SYS_getsockopt, [3, 270, 9], tell),
            (libc::SYS_getsockopt, [3, 6, 1], allow),
            (libc::SYS_read, [3, 0, 0], allow),
            (libc::SYS_sendmsg, [3, 0, 0], allow),
        ] {
            assert_eq!(answer(ARCH, call, arguments), expected, "{call} {arguments:?}");
            assert_eq!(answer(0x4000_0003, call, arguments), allow, "another instruction set");
        }
        assert_eq!(answer(ARCH, libc::SYS_socket | 0x4000_0000, [16, 3, 0]), allow);
    }
}
