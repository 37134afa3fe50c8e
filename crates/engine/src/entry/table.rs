//! A table of all system calls of the kernel, with the engine's treatment of each.
//!
//! A call that is passed on and blocks stops the whole program. So each number has a class. A
//! number without a row is of a later kernel: it may block, so it is offloaded.
//!
//! Calls have other numbers on other processors, so a row has a call's name. From 424 on, all
//! processors have the same numbers. Calls of one processor alone are in its folder.
//!
//! Source: `arch/x86/entry/syscalls/syscall_64.tbl` and `scripts/syscall.tbl` of Linux 6.18.

use crate::calls::{
    attempts, attributes, children, clocks, connections, credentials, files, futex, mappings,
    namespaces, polling, positioned, processes, rings, select, signals, task_folder, threads,
    transfer,
};
pub(crate) use crate::entry::row::Class::{self, Direct, Emulated, Offloaded};
use crate::entry::row::{Row, at, row};
use crate::entry::x86_64::table::OLDER;
use crate::kernel::stats::NUMBERS;
use crate::workers::helpers::Interrupted::{Fails, Never, Restarts};

/// The class of each number. Calls with higher numbers are offloaded.
pub(crate) static CLASSES: [Class; NUMBERS] = {
    let mut classes = [Offloaded(Restarts); NUMBERS];
    let lists = [ROWS, OLDER];
    let mut list = 0;
    while list < lists.len() {
        let mut index = 0;
        while index < lists[list].len() {
            let row = &lists[list][index];
            classes[row.number as usize] = row.class;
            index += 1;
        }
        list += 1;
    }
    classes
};

fn rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().chain(OLDER)
}

/// The name of a call.
pub(crate) fn name(number: u32) -> &'static str {
    let row = rows().find(|row| u32::from(row.number) == number);
    row.map_or("?", |row| row.name.strip_prefix("SYS_").unwrap_or(row.name))
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row!(SYS_read, Emulated(transfer::read)),
    row!(SYS_write, Emulated(transfer::write)),
    row!(SYS_close, Emulated(files::close)),
    row!(SYS_fstat, Direct),
    row!(SYS_lseek, Direct),
    row!(SYS_mmap, Emulated(mappings::mmap)),
    row!(SYS_mprotect, Emulated(mappings::mprotect)),
    row!(SYS_munmap, Emulated(mappings::munmap)),
    row!(SYS_brk, Direct),
    row!(SYS_rt_sigaction, Emulated(signals::rt_sigaction)),
    row!(SYS_rt_sigprocmask, Emulated(signals::rt_sigprocmask)),
    row!(SYS_rt_sigreturn, Emulated(signals::rt_sigreturn)),
    row!(SYS_ioctl, Emulated(polling::ioctl)),
    row!(SYS_pread64, Emulated(positioned::at_offset)),
    row!(SYS_pwrite64, Emulated(positioned::at_offset)),
    row!(SYS_readv, Emulated(transfer::readv)),
    row!(SYS_writev, Emulated(transfer::writev)),
    row!(SYS_sched_yield, Emulated(polling::sched_yield)),
    row!(SYS_mremap, Emulated(mappings::mremap)),
    row!(SYS_msync, Offloaded(Never)),
    row!(SYS_mincore, Direct),
    row!(SYS_madvise, Emulated(mappings::madvise)),
    row!(SYS_shmget, Direct),
    row!(SYS_shmat, Emulated(mappings::shmat)),
    row!(SYS_shmctl, Direct),
    row!(SYS_dup, Emulated(files::dup)),
    row!(SYS_nanosleep, Emulated(polling::nanosleep)),
    row!(SYS_getitimer, Direct),
    row!(SYS_setitimer, Direct),
    row!(SYS_getpid, Direct),
    row!(SYS_sendfile, Emulated(connections::sendfile)),
    row!(SYS_socket, Emulated(files::socket)),
    row!(SYS_connect, Emulated(connections::connect)),
    row!(SYS_accept, Emulated(connections::accept)),
    row!(SYS_sendto, Emulated(transfer::sendto)),
    row!(SYS_recvfrom, Emulated(transfer::recvfrom)),
    row!(SYS_sendmsg, Emulated(transfer::sendmsg)),
    row!(SYS_recvmsg, Emulated(transfer::recvmsg)),
    row!(SYS_shutdown, Direct),
    row!(SYS_bind, Direct),
    row!(SYS_listen, Direct),
    row!(SYS_getsockname, Direct),
    row!(SYS_getpeername, Direct),
    row!(SYS_socketpair, Emulated(files::socketpair)),
    row!(SYS_setsockopt, Emulated(files::setsockopt)),
    row!(SYS_getsockopt, Direct),
    row!(SYS_clone, Emulated(processes::clone)),
    row!(SYS_execve, Emulated(processes::execve)),
    row!(SYS_exit, Emulated(processes::exit)),
    row!(SYS_wait4, Emulated(children::wait4)),
    row!(SYS_kill, Emulated(signals::kill)),
    row!(SYS_uname, Direct),
    row!(SYS_semget, Direct),
    row!(SYS_semop, Emulated(attempts::semop)),
    row!(SYS_semctl, Direct),
    row!(SYS_shmdt, Direct),
    row!(SYS_msgget, Direct),
    row!(SYS_msgsnd, Emulated(attempts::msgsnd)),
    row!(SYS_msgrcv, Emulated(attempts::msgrcv)),
    row!(SYS_msgctl, Direct),
    row!(SYS_fcntl, Emulated(files::fcntl)),
    row!(SYS_flock, Emulated(files::flock)),
    row!(SYS_fsync, Offloaded(Never)),
    row!(SYS_fdatasync, Offloaded(Never)),
    row!(SYS_truncate, Direct),
    row!(SYS_ftruncate, Direct),
    row!(SYS_getcwd, Direct),
    row!(SYS_chdir, Direct),
    row!(SYS_fchdir, Direct),
    row!(SYS_fchmod, Direct),
    row!(SYS_fchown, Direct),
    row!(SYS_umask, Direct),
    row!(SYS_gettimeofday, Direct),
    row!(SYS_getrusage, Emulated(clocks::getrusage)),
    row!(SYS_sysinfo, Direct),
    row!(SYS_times, Direct),
    row!(SYS_ptrace, Emulated(threads::ptrace)),
    row!(SYS_getuid, Direct),
    row!(SYS_syslog, Offloaded(Restarts)),
    row!(SYS_getgid, Direct),
    row!(SYS_setuid, Emulated(credentials::credentials)),
    row!(SYS_setgid, Emulated(credentials::credentials)),
    row!(SYS_geteuid, Direct),
    row!(SYS_getegid, Direct),
    row!(SYS_setpgid, Direct),
    row!(SYS_getppid, Direct),
    row!(SYS_setsid, Direct),
    row!(SYS_setreuid, Emulated(credentials::credentials)),
    row!(SYS_setregid, Emulated(credentials::credentials)),
    row!(SYS_getgroups, Direct),
    row!(SYS_setgroups, Emulated(credentials::credentials)),
    row!(SYS_setresuid, Emulated(credentials::credentials)),
    row!(SYS_getresuid, Direct),
    row!(SYS_setresgid, Emulated(credentials::credentials)),
    row!(SYS_getresgid, Direct),
    row!(SYS_getpgid, Emulated(threads::about_thread)),
    row!(SYS_setfsuid, Emulated(credentials::credentials)),
    row!(SYS_setfsgid, Emulated(credentials::credentials)),
    row!(SYS_getsid, Emulated(threads::about_thread)),
    row!(SYS_capget, Direct),
    row!(SYS_capset, Emulated(credentials::credentials)),
    row!(SYS_rt_sigpending, Emulated(signals::rt_sigpending)),
    row!(SYS_rt_sigtimedwait, Emulated(signals::rt_sigtimedwait)),
    row!(SYS_rt_sigqueueinfo, Emulated(signals::rt_sigqueueinfo)),
    row!(SYS_rt_sigsuspend, Emulated(signals::rt_sigsuspend)),
    row!(SYS_sigaltstack, Emulated(signals::sigaltstack)),
    row!(SYS_personality, Emulated(polling::personality)),
    row!(SYS_statfs, Direct),
    row!(SYS_fstatfs, Direct),
    row!(SYS_getpriority, Emulated(attributes::getpriority)),
    row!(SYS_setpriority, Emulated(attributes::setpriority)),
    row!(SYS_sched_setparam, Emulated(attributes::sched_setscheduler)),
    row!(SYS_sched_getparam, Emulated(attributes::sched_getparam)),
    row!(SYS_sched_setscheduler, Emulated(attributes::sched_setscheduler)),
    row!(SYS_sched_getscheduler, Emulated(attributes::sched_getscheduler)),
    row!(SYS_sched_get_priority_max, Direct),
    row!(SYS_sched_get_priority_min, Direct),
    row!(SYS_sched_rr_get_interval, Emulated(threads::about_thread)),
    row!(SYS_mlock, Direct),
    row!(SYS_munlock, Direct),
    row!(SYS_mlockall, Direct),
    row!(SYS_munlockall, Direct),
    row!(SYS_vhangup, Direct),
    row!(SYS_pivot_root, Direct),
    row!(SYS_prctl, Emulated(threads::prctl)),
    row!(SYS_adjtimex, Direct),
    row!(SYS_chroot, Direct),
    row!(SYS_sync, Offloaded(Never)),
    row!(SYS_acct, Direct),
    row!(SYS_settimeofday, Direct),
    row!(SYS_mount, Offloaded(Restarts)),
    row!(SYS_umount2, Offloaded(Restarts)),
    row!(SYS_swapon, Offloaded(Restarts)),
    row!(SYS_swapoff, Offloaded(Restarts)),
    row!(SYS_reboot, Offloaded(Restarts)),
    row!(SYS_sethostname, Direct),
    row!(SYS_setdomainname, Direct),
    row!(SYS_init_module, Offloaded(Restarts)),
    row!(SYS_delete_module, Offloaded(Restarts)),
    row!(SYS_quotactl, Offloaded(Restarts)),
    row!(SYS_nfsservctl, Direct),
    row!(SYS_gettid, Emulated(threads::gettid)),
    row!(SYS_readahead, Direct),
    row!(SYS_setxattr, Direct),
    row!(SYS_lsetxattr, Direct),
    row!(SYS_fsetxattr, Direct),
    row!(SYS_getxattr, Direct),
    row!(SYS_lgetxattr, Direct),
    row!(SYS_fgetxattr, Direct),
    row!(SYS_listxattr, Direct),
    row!(SYS_llistxattr, Direct),
    row!(SYS_flistxattr, Direct),
    row!(SYS_removexattr, Direct),
    row!(SYS_lremovexattr, Direct),
    row!(SYS_fremovexattr, Direct),
    row!(SYS_tkill, Emulated(signals::tkill)),
    row!(SYS_futex, Emulated(futex::futex)),
    row!(SYS_sched_setaffinity, Emulated(threads::sched_setaffinity)),
    row!(SYS_sched_getaffinity, Emulated(threads::sched_getaffinity)),
    row!(SYS_io_setup, Direct),
    row!(SYS_io_destroy, Direct),
    row!(SYS_io_getevents, Offloaded(Fails)),
    row!(SYS_io_submit, Direct),
    row!(SYS_io_cancel, Direct),
    row!(SYS_lookup_dcookie, Direct),
    row!(SYS_remap_file_pages, Direct),
    row!(SYS_getdents64, Emulated(task_folder::getdents64)),
    row!(SYS_set_tid_address, Emulated(threads::set_tid_address)),
    row!(SYS_restart_syscall, Direct),
    row!(SYS_semtimedop, Emulated(attempts::semop)),
    row!(SYS_fadvise64, Direct),
    row!(SYS_timer_create, Emulated(signals::timer_create)),
    row!(SYS_timer_settime, Direct),
    row!(SYS_timer_gettime, Direct),
    row!(SYS_timer_getoverrun, Direct),
    row!(SYS_timer_delete, Direct),
    row!(SYS_clock_settime, Direct),
    row!(SYS_clock_gettime, Emulated(clocks::clock_gettime)),
    row!(SYS_clock_getres, Emulated(clocks::clock_getres)),
    row!(SYS_clock_nanosleep, Emulated(polling::clock_nanosleep)),
    row!(SYS_exit_group, Emulated(processes::exit_group)),
    row!(SYS_epoll_ctl, Direct),
    row!(SYS_tgkill, Emulated(signals::tgkill)),
    row!(SYS_mbind, Direct),
    row!(SYS_set_mempolicy, Direct),
    row!(SYS_get_mempolicy, Direct),
    row!(SYS_mq_open, Emulated(files::opens)),
    row!(SYS_mq_unlink, Direct),
    row!(SYS_mq_timedsend, Emulated(attempts::message_queue)),
    row!(SYS_mq_timedreceive, Emulated(attempts::message_queue)),
    row!(SYS_mq_notify, Direct),
    row!(SYS_mq_getsetattr, Direct),
    row!(SYS_kexec_load, Offloaded(Restarts)),
    row!(SYS_waitid, Emulated(children::waitid)),
    row!(SYS_add_key, Direct),
    row!(SYS_request_key, Offloaded(Restarts)),
    row!(SYS_keyctl, Emulated(namespaces::keyctl)),
    row!(SYS_ioprio_set, Emulated(attributes::ioprio_set)),
    row!(SYS_ioprio_get, Emulated(attributes::ioprio_get)),
    row!(SYS_inotify_add_watch, Direct),
    row!(SYS_inotify_rm_watch, Direct),
    row!(SYS_migrate_pages, Offloaded(Restarts)),
    row!(SYS_openat, Emulated(files::open)),
    row!(SYS_mkdirat, Direct),
    row!(SYS_mknodat, Direct),
    row!(SYS_fchownat, Direct),
    row!(SYS_newfstatat, Direct),
    row!(SYS_unlinkat, Direct),
    row!(SYS_linkat, Direct),
    row!(SYS_symlinkat, Direct),
    row!(SYS_readlinkat, Direct),
    row!(SYS_fchmodat, Direct),
    row!(SYS_faccessat, Direct),
    row!(SYS_pselect6, Emulated(select::pselect)),
    row!(SYS_ppoll, Emulated(polling::ppoll)),
    row!(SYS_unshare, Emulated(namespaces::change)),
    row!(SYS_set_robust_list, Emulated(threads::set_robust_list)),
    row!(SYS_get_robust_list, Emulated(threads::get_robust_list)),
    row!(SYS_splice, Emulated(attempts::splice)),
    row!(SYS_tee, Emulated(attempts::tee)),
    row!(SYS_vmsplice, Emulated(attempts::tee)),
    row!(SYS_move_pages, Offloaded(Restarts)),
    row!(SYS_utimensat, Direct),
    row!(SYS_epoll_pwait, Emulated(polling::epoll_pwait)),
    row!(SYS_timerfd_create, Emulated(files::opens)),
    row!(SYS_fallocate, Offloaded(Restarts)),
    row!(SYS_timerfd_settime, Direct),
    row!(SYS_timerfd_gettime, Direct),
    row!(SYS_accept4, Emulated(connections::accept)),
    row!(SYS_signalfd4, Emulated(signals::signalfd)),
    row!(SYS_eventfd2, Emulated(files::opens)),
    row!(SYS_epoll_create1, Emulated(files::opens)),
    row!(SYS_dup3, Emulated(files::dup)),
    row!(SYS_pipe2, Emulated(files::pipe)),
    row!(SYS_inotify_init1, Emulated(files::opens)),
    row!(SYS_preadv, Emulated(positioned::at_offset)),
    row!(SYS_pwritev, Emulated(positioned::at_offset)),
    row!(SYS_rt_tgsigqueueinfo, Emulated(signals::rt_tgsigqueueinfo)),
    row!(SYS_perf_event_open, Emulated(files::opens)),
    row!(SYS_recvmmsg, Emulated(transfer::recvmmsg)),
    row!(SYS_fanotify_init, Emulated(files::opens)),
    row!(SYS_fanotify_mark, Direct),
    row!(SYS_prlimit64, Emulated(threads::about_thread)),
    row!(SYS_name_to_handle_at, Direct),
    row!(SYS_open_by_handle_at, Emulated(files::opens)),
    row!(SYS_clock_adjtime, Direct),
    row!(SYS_syncfs, Offloaded(Never)),
    row!(SYS_sendmmsg, Emulated(transfer::sendmmsg)),
    row!(SYS_setns, Emulated(namespaces::change)),
    row!(SYS_getcpu, Direct),
    row!(SYS_process_vm_readv, Emulated(threads::about_process)),
    row!(SYS_process_vm_writev, Emulated(threads::about_process)),
    row!(SYS_kcmp, Direct),
    row!(SYS_finit_module, Offloaded(Restarts)),
    row!(SYS_sched_setattr, Emulated(attributes::sched_setattr)),
    row!(SYS_sched_getattr, Emulated(attributes::sched_getattr)),
    row!(SYS_renameat2, Direct),
    row!(SYS_seccomp, Emulated(threads::seccomp)),
    row!(SYS_getrandom, Direct),
    row!(SYS_memfd_create, Emulated(files::opens)),
    row!(SYS_kexec_file_load, Offloaded(Restarts)),
    row!(SYS_bpf, Emulated(files::opens)),
    row!(SYS_execveat, Emulated(processes::execve)),
    row!(SYS_userfaultfd, Emulated(files::opens)),
    row!(SYS_membarrier, Direct),
    row!(SYS_mlock2, Direct),
    row!(SYS_copy_file_range, Offloaded(Restarts)),
    row!(SYS_preadv2, Emulated(positioned::with_flags)),
    row!(SYS_pwritev2, Emulated(positioned::with_flags)),
    row!(SYS_pkey_mprotect, Direct),
    row!(SYS_pkey_alloc, Direct),
    row!(SYS_pkey_free, Direct),
    row!(SYS_statx, Direct),
    row!(SYS_rseq, Emulated(threads::rseq)),
    at(424, "pidfd_send_signal", Direct),
    at(425, "io_uring_setup", Emulated(rings::io_uring_setup)),
    at(426, "io_uring_enter", Emulated(rings::io_uring_enter)),
    at(427, "io_uring_register", Emulated(rings::io_uring_register)),
    at(428, "open_tree", Emulated(files::opens)),
    at(429, "move_mount", Direct),
    at(430, "fsopen", Emulated(files::opens)),
    at(431, "fsconfig", Offloaded(Restarts)),
    at(432, "fsmount", Emulated(files::opens)),
    at(433, "fspick", Emulated(files::opens)),
    at(434, "pidfd_open", Emulated(files::opens)),
    at(435, "clone3", Emulated(processes::clone3)),
    at(436, "close_range", Emulated(files::close_range)),
    at(437, "openat2", Emulated(files::opens)),
    at(438, "pidfd_getfd", Emulated(files::opens)),
    at(439, "faccessat2", Direct),
    at(440, "process_madvise", Offloaded(Restarts)),
    at(441, "epoll_pwait2", Emulated(polling::epoll_pwait2)),
    at(442, "mount_setattr", Direct),
    at(443, "quotactl_fd", Offloaded(Restarts)),
    at(444, "landlock_create_ruleset", Direct),
    at(445, "landlock_add_rule", Direct),
    at(446, "landlock_restrict_self", Direct),
    at(447, "memfd_secret", Emulated(files::opens)),
    at(448, "process_mrelease", Offloaded(Restarts)),
    at(449, "futex_waitv", Emulated(futex::wait_in_kernel)),
    at(450, "set_mempolicy_home_node", Direct),
    at(451, "cachestat", Direct),
    at(452, "fchmodat2", Direct),
    at(453, "map_shadow_stack", Direct),
    at(454, "futex_wake", Direct),
    at(455, "futex_wait", Emulated(futex::wait_in_kernel)),
    at(456, "futex_requeue", Direct),
    at(457, "statmount", Direct),
    at(458, "listmount", Direct),
    at(459, "lsm_get_self_attr", Direct),
    at(460, "lsm_set_self_attr", Direct),
    at(461, "lsm_list_modules", Direct),
    at(462, "mseal", Direct),
    at(463, "setxattrat", Direct),
    at(464, "getxattrat", Direct),
    at(465, "listxattrat", Direct),
    at(466, "removexattrat", Direct),
    at(467, "open_tree_attr", Direct),
    at(468, "file_getattr", Direct),
    at(469, "file_setattr", Direct),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_the_kernel_has_a_class() {
        let header = std::fs::read_to_string("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
            .expect("the kernel's header, which comes with every C compiler");
        let mut checked = 0;
        for line in header.lines() {
            let Some(rest) = line.strip_prefix("#define __NR_") else { continue };
            let mut words = rest.split_whitespace();
            let (Some(name), Some(number)) = (words.next(), words.next()) else { continue };
            let number: u32 = number.parse().expect("a number");
            assert_eq!(super::name(number), name, "{number} has no row, or another name");
            checked += 1;
        }
        assert!(checked > 300, "only {checked} numbers in the header");
    }

    #[test]
    fn no_call_has_two_rows() {
        let mut numbers: Vec<u16> = rows().map(|row| row.number).collect();
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn unknown_numbers_are_offloaded() {
        assert!(matches!(CLASSES[NUMBERS - 1], Offloaded(_)));
    }
}
