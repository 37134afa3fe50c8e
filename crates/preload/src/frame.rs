//! From a patched system call into the dispatcher, and from one thread to another: the only assembly.
//!
//! ```text
//!   the program's stack                     what a stub gives the entry
//!   ┌───────────────────────┐               rax                 the number of the call
//!   │ the caller in libc    │               rdi rsi rdx r10     its arguments
//!   ├───────────────────────┤ ◀ rsp         r8  r9
//!   │ 128 bytes: red zone   │               rcx                 the stub's `after`
//!   ├───────────────────────┤
//!   │ Frame: all general    │
//!   │ registers             │
//!   ├───────────────────────┤ ◀ a multiple of 16
//!   │ dispatch …            │
//! ```
//!
//! Unwinders find their way: the entry describes itself as the frame of a signal handler, whose caller is
//! the instruction after the call in libc.
//!
//! `gs` points to the [`Worker`](crate::worker::Worker) of the kernel thread; programs on x86_64 Linux do
//! not use it.

use core::arch::global_asm;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::sys::Arguments;

/// The registers of a thread inside a system call.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Frame {
    pub(crate) r15: usize,
    pub(crate) r14: usize,
    pub(crate) r13: usize,
    pub(crate) r12: usize,
    pub(crate) rbp: usize,
    pub(crate) rbx: usize,
    pub(crate) r9: usize,
    pub(crate) r8: usize,
    pub(crate) r10: usize,
    pub(crate) rdx: usize,
    pub(crate) rsi: usize,
    pub(crate) rdi: usize,
    pub(crate) rax: usize,
    /// Where to go on.
    pub(crate) rip: usize,
    pub(crate) rsp: usize,
    /// The stub's `after`, whatever `rip` becomes.
    pub(crate) after: usize,
    /// The address in the text that follows the call: for unwinders.
    pub(crate) caller: usize,
    _padding: usize,
}

impl Frame {
    pub(crate) fn number(&self) -> i64 {
        self.rax as i64
    }

    pub(crate) fn arguments(&self) -> Arguments {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9]
    }

    /// A copy that asks for another call.
    pub(crate) fn with(&self, number: i64, arguments: Arguments) -> Self {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        Self { rax: number as usize, rdi, rsi, rdx, r10, r8, r9, ..*self }
    }

    /// Has the kernel execute the call with the program's own registers and stack, once the dispatcher is left.
    pub(crate) fn leave_to_kernel(&mut self) -> isize {
        self.rip = self.after - 2;
        self.rax as isize
    }

    /// Where the call can be executed again: its address in the text, or in the stub.
    pub(crate) fn restart_address(&self) -> usize {
        if self.keeps_vectors() {
            return duality_vectors_again as *const () as usize;
        }
        // SAFETY: every stub has the two addresses before its `syscall`, see `duality_patcher`.
        unsafe { ((self.after - 18) as *const usize).read_unaligned() }
    }

    /// The call came through the entry that keeps vector registers.
    pub(crate) fn keeps_vectors(&self) -> bool {
        self.after == duality_vectors_after as *const () as usize
    }

    /// What follows the call in the text, or in the stub where that has moved.
    pub(crate) fn return_address(&self) -> usize {
        if self.caller != 0 { self.caller } else { self.after }
    }

    /// A restart at the address of the text, where unwinders know their way.
    pub(crate) fn restarts_in_text(&self) -> bool {
        self.restart_address() + 2 == self.caller
    }
}

/// The bytes that XSAVE takes for the components kept here: x87, SSE, AVX, AVX-512 and protection keys.
pub(crate) static XSAVE_BYTES: AtomicUsize = AtomicUsize::new(512 + 64);

/// Finds out how large the area for the vector registers is on this processor: once, and only if it is needed,
/// for the instruction is slow on a virtual machine.
pub(crate) fn measure_vector_state() {
    static MEASURED: AtomicBool = AtomicBool::new(false);
    if MEASURED.swap(true, Ordering::Relaxed) {
        return;
    }
    // Components above SSE, in the standard format: AVX, three of AVX-512, protection keys.
    let bytes = [2u32, 5, 6, 7, 9].map(|component| {
        let leaf = core::arch::x86_64::__cpuid_count(0xd, component);
        leaf.ebx + leaf.eax
    });
    let largest = bytes.into_iter().max().unwrap_or(0).max(512 + 64);
    XSAVE_BYTES.store(largest as usize, Ordering::Relaxed);
}

global_asm!(
    ".pushsection .text.duality_entry, \"ax\", @progbits",
    // Keeps the general registers. The engine clobbers vector registers: a caller that has one alive
    // across the call enters below.
    ".globl duality_entry", ".hidden duality_entry", ".type duality_entry, @function",
    "duality_entry:",
    ".cfi_startproc", ".cfi_signal_frame",
    // The frame's address is in rsp. CFA = *(rsp + 112); rip at 128; and the registers that a callee saves.
    ".cfi_escape 0x0f, 0x04, 0x77, 0xf0, 0x00, 0x06",
    ".cfi_escape 0x10, 0x10, 0x03, 0x77, 0x80, 0x01",
    ".cfi_escape 0x10, 0x06, 0x02, 0x77, 0x20",
    ".cfi_escape 0x10, 0x03, 0x02, 0x77, 0x28",
    ".cfi_escape 0x10, 0x0c, 0x02, 0x77, 0x18",
    ".cfi_escape 0x10, 0x0d, 0x02, 0x77, 0x10",
    ".cfi_escape 0x10, 0x0e, 0x02, 0x77, 0x08",
    ".cfi_escape 0x10, 0x0f, 0x02, 0x77, 0x00",
    "movl $1, %gs:8",
    "mov %rsp, %r11",
    "lea -272(%rsp), %rsp",
    "and $-16, %rsp",
    "mov %r15, (%rsp)", "mov %r14, 8(%rsp)", "mov %r13, 16(%rsp)", "mov %r12, 24(%rsp)",
    "mov %rbp, 32(%rsp)", "mov %rbx, 40(%rsp)", "mov %r9, 48(%rsp)", "mov %r8, 56(%rsp)",
    "mov %r10, 64(%rsp)", "mov %rdx, 72(%rsp)", "mov %rsi, 80(%rsp)", "mov %rdi, 88(%rsp)",
    "mov %rax, 96(%rsp)", "mov %rcx, 104(%rsp)", "mov %r11, 112(%rsp)", "mov %rcx, 120(%rsp)",
    "mov -10(%rcx), %r11", "mov %r11, 128(%rsp)",
    "cld",
    "mov %rsp, %rdi",
    "call {dispatch}",
    "duality_exit:",
    "mov (%rsp), %r15", "mov 8(%rsp), %r14", "mov 16(%rsp), %r13", "mov 24(%rsp), %r12",
    "mov 32(%rsp), %rbp", "mov 40(%rsp), %rbx", "mov 48(%rsp), %r9", "mov 56(%rsp), %r8",
    "mov 64(%rsp), %r10", "mov 72(%rsp), %rdx", "mov 80(%rsp), %rsi", "mov 88(%rsp), %rdi",
    "mov 104(%rsp), %rcx", "mov 112(%rsp), %rsp",
    "jmp *%rcx",
    ".cfi_endproc", ".size duality_entry, . - duality_entry",

    // Keeps the vector registers too, in an area of XSAVE beneath the red zone; the red zone has moved, but
    // what the program keeps there stays where it is.
    ".globl duality_entry_vectors", ".hidden duality_entry_vectors",
    ".type duality_entry_vectors, @function",
    "duality_entry_vectors:",
    "lea -128(%rsp), %r11",
    "sub {xsave_bytes}(%rip), %r11",
    "and $-64, %r11",
    // The stack of the call below: the stub's rsp, rax, rdx and rcx.
    "mov %rsp, -8(%r11)", "mov %rdx, -16(%r11)", "mov %rcx, -24(%r11)", "mov %rax, -32(%r11)",
    "lea -32(%r11), %rsp",
    "xor %eax, %eax",
    "mov %rax, 512(%r11)", "mov %rax, 520(%r11)", "mov %rax, 528(%r11)", "mov %rax, 536(%r11)",
    "mov %rax, 544(%r11)", "mov %rax, 552(%r11)", "mov %rax, 560(%r11)", "mov %rax, 568(%r11)",
    "mov $0x2e7, %eax", "xor %edx, %edx",
    "xsave64 (%r11)",
    // Enters the dispatcher by a stub of its own, so that it has addresses to return to.
    "mov (%rsp), %rax", "mov 16(%rsp), %rdx",
    ".globl duality_vectors_again", ".hidden duality_vectors_again",
    "duality_vectors_again:",
    "lea duality_vectors_after(%rip), %rcx",
    "jmp duality_entry",
    ".balign 8",
    // Where a stub has its two addresses: see `restart_address`.
    ".quad 0, 0",
    "syscall",
    ".globl duality_vectors_after", ".hidden duality_vectors_after",
    "duality_vectors_after:",
    "lea 32(%rsp), %r11",
    "mov %rax, (%rsp)", "mov %rdx, 16(%rsp)",
    "mov $0x2e7, %eax", "xor %edx, %edx",
    "xrstor64 (%r11)",
    "mov (%rsp), %rax", "mov 16(%rsp), %rdx", "mov 8(%rsp), %rcx", "mov 24(%rsp), %rsp",
    "jmp *%rcx",
    ".size duality_entry_vectors, . - duality_entry_vectors",

    // switch(save: *mut usize, load: usize, fs: usize): keeps what a callee saves on this stack, and goes on
    // where the other stack was left. A zero `fs` leaves the register as it is.
    ".globl duality_switch", ".hidden duality_switch", ".type duality_switch, @function",
    "duality_switch:",
    "push %rbp", "push %rbx", "push %r12", "push %r13", "push %r14", "push %r15",
    "sub $8, %rsp", "stmxcsr (%rsp)", "fnstcw 4(%rsp)",
    "mov %rsp, (%rdi)",
    "mov %rsi, %rsp",
    "test %rdx, %rdx", "jz 3f", "wrfsbase %rdx",
    "3: ldmxcsr (%rsp)", "fldcw 4(%rsp)", "add $8, %rsp",
    "pop %r15", "pop %r14", "pop %r13", "pop %r12", "pop %rbx", "pop %rbp",
    "ret",
    ".size duality_switch, . - duality_switch",

    // A new thread's first instruction; its Frame is at the top of its stack.
    ".globl duality_thread_start", ".hidden duality_thread_start",
    "duality_thread_start:",
    "mov %rsp, %rdi", "call {thread_begins}", "jmp duality_exit",

    // A worker's own stack begins here.
    ".globl duality_worker_start", ".hidden duality_worker_start",
    "duality_worker_start:", "xor %ebp, %ebp", "call {worker_loop}", "ud2",

    // A thread that was stopped in the middle of its own code comes here on the frame of a signal; when it
    // is its turn again, the frame is returned from.
    ".globl duality_preempted", ".hidden duality_preempted",
    "duality_preempted:",
    "mov %rsp, %rdi",
    "mov %rsp, %rbx",
    "and $-16, %rsp",
    "cld",
    "call {preemption}",
    "lea 8(%rbx), %rsp",
    "movl $0, %gs:8",
    "mov $15, %eax", "syscall", "ud2",

    // Returns from the kernel's own signal frames, unpatched.
    ".globl duality_restorer", ".hidden duality_restorer",
    "duality_restorer: mov $15, %eax", "syscall", "ud2",

    // clone_helper(flags, stack) -> tid: the child calls duality_helper on the new stack.
    ".globl duality_clone_helper", ".hidden duality_clone_helper",
    "duality_clone_helper:",
    "mov $56, %eax", "xor %edx, %edx", "xor %r10d, %r10d", "xor %r8d, %r8d", "syscall",
    "test %rax, %rax", "jnz 4f",
    "xor %ebp, %ebp", "call {helper}", "ud2",
    "4: ret",

    // Access to the program's memory. A fault between the two marks makes the function return 1.
    ".globl duality_user_begin", ".hidden duality_user_begin",
    "duality_user_begin:",
    ".globl duality_user_copy", ".hidden duality_user_copy",
    "duality_user_copy: mov %rdx, %rcx", "rep movsb", "xor %eax, %eax", "ret",
    ".globl duality_user_load", ".hidden duality_user_load",
    "duality_user_load: mov (%rdi), %eax", "mov %eax, (%rsi)", "xor %eax, %eax", "ret",
    // compare_exchange(word, found: *mut u32, new): found is what is expected, then what was there.
    ".globl duality_user_exchange", ".hidden duality_user_exchange",
    "duality_user_exchange: mov (%rsi), %eax", "lock cmpxchg %edx, (%rdi)", "mov %eax, (%rsi)",
    "xor %eax, %eax", "ret",
    ".globl duality_user_end", ".hidden duality_user_end",
    "duality_user_end:",
    ".globl duality_user_fault", ".hidden duality_user_fault",
    "duality_user_fault: mov $1, %eax", "ret",
    ".popsection",
    dispatch = sym crate::dispatch::dispatch,
    thread_begins = sym crate::dispatch::thread_begins,
    worker_loop = sym crate::scheduler::worker_loop,
    preemption = sym crate::preemption::preempted,
    helper = sym crate::helpers::helper,
    xsave_bytes = sym XSAVE_BYTES,
    options(att_syntax)
);

unsafe extern "C" {
    pub(crate) fn duality_entry();
    pub(crate) fn duality_entry_vectors();
    fn duality_vectors_after();
    fn duality_vectors_again();
    pub(crate) fn duality_switch(save: *mut usize, load: usize, fs: usize);
    pub(crate) fn duality_thread_start();
    pub(crate) fn duality_worker_start();
    pub(crate) fn duality_preempted();
    pub(crate) fn duality_restorer();
    pub(crate) fn duality_clone_helper(flags: usize, stack: usize) -> isize;
    pub(crate) fn duality_user_begin();
    pub(crate) fn duality_user_copy(to: *mut u8, from: *const u8, length: usize) -> usize;
    pub(crate) fn duality_user_load(from: *const u32, to: *mut u32) -> usize;
    pub(crate) fn duality_user_exchange(word: *mut u32, found: *mut u32, new: u32) -> usize;
    pub(crate) fn duality_user_end();
    pub(crate) fn duality_user_fault();
}

/// The initial stack of a context that starts at `start` with `stack` (a multiple of 16) as its stack pointer.
///
/// # Safety
///
/// The 64 bytes below `stack` are writable and free.
pub(crate) unsafe fn initial_context(stack: usize, start: unsafe extern "C" fn()) -> usize {
    const MXCSR_AND_CONTROL_WORD: usize = 0x037f_0000_1f80;
    let words: [usize; 8] =
        [MXCSR_AND_CONTROL_WORD, 0, 0, 0, 0, 0, 0, start as *const () as usize];
    let at = stack - size_of_val(&words);
    // SAFETY: promised by the caller.
    unsafe { (at as *mut [usize; 8]).write(words) };
    at
}
