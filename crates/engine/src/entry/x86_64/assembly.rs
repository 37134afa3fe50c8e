//! From a patched system call into the dispatcher, and from one thread to another: the only
//! assembly.
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
//! If `rsp` is not in the thread's stack, the memory beneath it may be anything of the program's.
//! The frame is then on a stack of the engine (`schedule/aside.rs`), and nothing beneath `rsp`
//! changes.
//!
//! The entry describes itself as a signal handler's frame, so unwinders pass it. The caller of the
//! frame is the instruction after the call in libc.
//!
//! `gs` points to the [`Worker`](crate::schedule::worker::Worker) of the kernel thread; programs on
//! x86_64 Linux do not use it.

use core::arch::global_asm;

/// Saves the registers of a frame at `rsp`, but for those that each entry treats in its own way.
macro_rules! save_registers {
    () => {
        "mov %r15, (%rsp); mov %r14, 8(%rsp); mov %r13, 16(%rsp); mov %r12, 24(%rsp); \
         mov %rbp, 32(%rsp); mov %rbx, 40(%rsp); mov %r9, 48(%rsp); mov %r8, 56(%rsp); \
         mov %r10, 64(%rsp); mov %rdx, 72(%rsp); mov %rsi, 80(%rsp); mov %rdi, 88(%rsp)"
    };
}

/// Restores the registers of the frame at `rsp`, which leaves the frame. `rcx` is the way back.
macro_rules! restore_registers {
    () => {
        "mov (%rsp), %r15; mov 8(%rsp), %r14; mov 16(%rsp), %r13; mov 24(%rsp), %r12; \
         mov 32(%rsp), %rbp; mov 40(%rsp), %rbx; mov 48(%rsp), %r9; mov 56(%rsp), %r8; \
         mov 64(%rsp), %r10; mov 72(%rsp), %rdx; mov 80(%rsp), %rsi; mov 88(%rsp), %rdi; \
         mov 104(%rsp), %rcx; mov 112(%rsp), %rsp"
    };
}

global_asm!(
    ".pushsection .text.duality_entry, \"ax\", @progbits",
    // Keeps the general registers and clobbers the vector registers. A caller with live vector
    // registers enters below.
    ".globl duality_entry", ".hidden duality_entry", ".type duality_entry, @function",
    "duality_entry:",
    ".cfi_startproc", ".cfi_signal_frame",
    // The frame's address is in rsp. CFA = *(rsp + 112); rip at 128; and the registers that a
    // callee saves.
    ".cfi_escape 0x0f, 0x04, 0x77, 0xf0, 0x00, 0x06",
    ".cfi_escape 0x10, 0x10, 0x03, 0x77, 0x80, 0x01",
    ".cfi_escape 0x10, 0x06, 0x02, 0x77, 0x20",
    ".cfi_escape 0x10, 0x03, 0x02, 0x77, 0x28",
    ".cfi_escape 0x10, 0x0c, 0x02, 0x77, 0x18",
    ".cfi_escape 0x10, 0x0d, 0x02, 0x77, 0x10",
    ".cfi_escape 0x10, 0x0e, 0x02, 0x77, 0x08",
    ".cfi_escape 0x10, 0x0f, 0x02, 0x77, 0x00",
    "movl $1, %gs:{in_engine}",
    "mov %gs:{current}, %r11",
    "cmp {stack_low}(%r11), %rsp", "jb 20f",
    "cmp {stack_high}(%r11), %rsp", "ja 20f",
    "21: mov %rsp, %r11",
    "lea -272(%rsp), %rsp",
    "and $-16, %rsp",
    save_registers!(),
    "mov %rax, 96(%rsp)", "mov %rcx, 104(%rsp)", "mov %r11, 112(%rsp)", "mov %rcx, 120(%rsp)",
    "mov -10(%rcx), %r11", "mov %r11, 128(%rsp)",
    "cld",
    "mov %rsp, %rdi",
    "call {dispatch}",
    "duality_exit:",
    restore_registers!(),
    "jmp *%rcx",

    // The stack pointer is not in the thread's stack: see `schedule/aside.rs`. The child of a vfork
    // shares the worker and its thread with the parent, but not their stacks.
    "20: cmpl $0, %gs:{vfork_parent}", "jne 21b",
    "mov {aside_end}(%r11), %r11",
    "test %r11, %r11", "jz 24f",
    "mov %rsp, -144(%r11)",
    "lea -256(%r11), %rsp",
    save_registers!(),
    "mov %rax, 96(%rsp)", "mov %rcx, 104(%rsp)", "mov %rcx, 120(%rsp)",
    "mov -10(%rcx), %r11", "mov %r11, 128(%rsp)",
    "cld",
    "mov %rsp, %rdi",
    "call {dispatch_aside}",
    // rdx: the engine's mark is as the way back needs it. Otherwise the mark stays until the stack
    // of the engine is left. A signal that came before that is handled by another round.
    "23: test %rdx, %rdx", "jnz duality_exit",
    restore_registers!(),
    "movl $0, %gs:{in_engine}",
    "cmpl $0, %gs:{attention}",
    "jne 25f",
    "jmp *%rcx",
    "25: movl $1, %gs:{in_engine}",
    "mov %gs:{current}, %r11",
    "mov {aside_end}(%r11), %r11",
    "mov %rsp, -144(%r11)",
    "lea -256(%r11), %rsp",
    save_registers!(),
    "mov %rax, 96(%rsp)", "mov %rcx, 104(%rsp)", "mov %rcx, 120(%rsp)", "movq $0, 128(%rsp)",
    "mov %rsp, %rdi",
    "call {finish_aside}",
    "jmp 23b",
    // The thread has no such stack yet. The engine makes it on the worker's own stack, which the
    // worker has left.
    "24: mov %gs:{worker_stack}, %r11",
    "and $-16, %r11",
    "mov %rsp, -16(%r11)",
    "lea -128(%r11), %rsp",
    "mov %rax, (%rsp)", "mov %rcx, 8(%rsp)", "mov %rdx, 16(%rsp)", "mov %rsi, 24(%rsp)",
    "mov %rdi, 32(%rsp)", "mov %r8, 40(%rsp)", "mov %r9, 48(%rsp)", "mov %r10, 56(%rsp)",
    "cld",
    "call {make_aside}",
    "mov (%rsp), %rax", "mov 8(%rsp), %rcx", "mov 16(%rsp), %rdx", "mov 24(%rsp), %rsi",
    "mov 32(%rsp), %rdi", "mov 40(%rsp), %r8", "mov 48(%rsp), %r9", "mov 56(%rsp), %r10",
    "mov 112(%rsp), %rsp",
    "jmp duality_entry",
    ".cfi_endproc", ".size duality_entry, . - duality_entry",

    // From the kernel's shared object. The engine calls functions there too, and its own calls go
    // to the kernel. `rcx` is kept beneath the red zone.
    ".globl duality_entry_clock", ".hidden duality_entry_clock",
    "duality_entry_clock:",
    "cmpl $0, %gs:{in_engine}", "je duality_entry",
    "mov %rcx, -136(%rsp)", "syscall", "mov -136(%rsp), %rcx",
    "jmp *%rcx",

    // Keeps the vector registers too, in an area of XSAVE beneath the red zone. The red zone has
    // moved, but what the program keeps there stays where it is.
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
    // For a call that the kernel is to execute with the program's own stack and registers. The
    // registers are restored as above, except for the number of the call. The stub's own `syscall`
    // comes next. A child that shares this memory would overwrite the area. A child with a stack of
    // its own would not find the area.
    ".globl duality_vectors_leave", ".hidden duality_vectors_leave",
    "duality_vectors_leave:",
    "lea 32(%rsp), %r11",
    "mov $0x2e7, %eax", "xor %edx, %edx",
    "xrstor64 (%r11)",
    "mov (%rsp), %rax", "mov 16(%rsp), %rdx", "mov 8(%rsp), %rcx", "mov 24(%rsp), %rsp",
    "sub $2, %rcx",
    "jmp *%rcx",
    ".size duality_entry_vectors, . - duality_entry_vectors",

    // switch(save: *mut usize, load: usize, fs: usize): saves the callee-saved registers on this
    // stack, and goes on where the other stack was left. A zero `fs` leaves the register as it is.
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

    // A thread that was stopped in the middle of its own code comes here. The frame of the signal
    // is on a stack of the engine. When it is the thread's turn again, it returns from that frame.
    ".globl duality_preempted", ".hidden duality_preempted",
    "duality_preempted:",
    "add $8, %rsp",
    // rsp: the frame's context. Before the thread goes on, the engine's work may move the thread to
    // another worker. So the fields that belong to the worker are filled in last. A signal that
    // comes after the look at `attention` finds the thread between the marks. The handler then
    // sends the thread here again.
    ".globl duality_resume", ".hidden duality_resume",
    "duality_resume:",
    "mov %rsp, %rbx",
    "mov %rsp, %rdi",
    // If the context is to enter a handler, the handler's frame may lie beneath the context on the
    // same stack. The engine executes beneath both. A context that links to itself is on a stack of
    // the engine, and shares it with nothing.
    "cmp %rsp, {context_link}(%rsp)",
    "je 7f",
    "mov %rsp, %rax",
    "sub {context_rsp}(%rsp), %rax",
    "cmp ${same_stack}, %rax",
    "ja 7f",
    "mov {context_rsp}(%rsp), %rsp",
    "sub ${red_zone}, %rsp",
    "7: and $-16, %rsp",
    "cld",
    "call {resume}",
    "mov %rbx, %rsp",
    ".globl duality_resume_begin", ".hidden duality_resume_begin",
    "duality_resume_begin:",
    "mov %rax, {context_mask}(%rsp)",
    "mov %rax, %gs:{kernel_mask}",
    "movl $0, %gs:{in_engine}",
    "cmpl $0, %gs:{attention}",
    "jne 6f",
    "mov $15, %eax", "syscall", "ud2",
    // The engine sets its mark before it leaves the marks. Otherwise each signal of a storm would
    // add a frame.
    "6: movl $1, %gs:{in_engine}",
    "movl $1, %gs:{mask_is_stale}",
    "jmp duality_resume",
    ".globl duality_resume_end", ".hidden duality_resume_end",
    "duality_resume_end:",

    // Returns from the kernel's own signal frames, unpatched.
    ".globl duality_restorer", ".hidden duality_restorer",
    "duality_restorer: mov $15, %eax", "syscall", "ud2",

    // clone(flags, stack) -> tid: the child takes a function and its argument from the new stack.
    // When the function returns, the child is a worker, and the loop of that worker begins.
    ".globl duality_clone", ".hidden duality_clone",
    "duality_clone:",
    "mov $56, %eax", "xor %edx, %edx", "xor %r10d, %r10d", "xor %r8d, %r8d", "syscall",
    "test %rax, %rax", "jnz 4f",
    "xor %ebp, %ebp", "pop %rax", "pop %rdi", "call *%rax",
    "call {worker_loop}", "ud2",
    "4: ret",

    // wait(arguments: *const [usize; 6], number) -> result: makes a call that may block. A signal
    // that comes between the marks ends the call: the handler sends the thread to the last label.
    // A signal before the first mark has left its bit in `attention`. The kernel has a call that it
    // would restart begin at its `syscall` again, which lies between the marks too.
    ".globl duality_wait", ".hidden duality_wait",
    "duality_wait:",
    "mov %rdi, %r11", "mov %rsi, %rax",
    "mov (%r11), %rdi", "mov 8(%r11), %rsi", "mov 16(%r11), %rdx", "mov 24(%r11), %r10",
    "mov 32(%r11), %r8", "mov 40(%r11), %r9",
    ".globl duality_wait_begin", ".hidden duality_wait_begin",
    "duality_wait_begin:",
    "cmpl $0, %gs:{attention}",
    "jne duality_wait_interrupted",
    "syscall",
    ".globl duality_wait_end", ".hidden duality_wait_end",
    "duality_wait_end:",
    "ret",
    ".globl duality_wait_interrupted", ".hidden duality_wait_interrupted",
    "duality_wait_interrupted: mov ${restart}, %rax", "ret",

    // The area that glibc has registered for restartable sequences, as an offset from the thread's
    // storage; zero where there is none.
    ".weak __rseq_offset",
    ".globl duality_rseq_offset", ".hidden duality_rseq_offset",
    "duality_rseq_offset:",
    "mov __rseq_offset@GOTPCREL(%rip), %rax",
    "test %rax, %rax", "jz 5f",
    "mov (%rax), %rax",
    "5: ret",

    // Access to the program's memory. A fault between the two marks makes the function return 1.
    ".globl duality_user_begin", ".hidden duality_user_begin",
    "duality_user_begin:",
    ".globl duality_user_copy", ".hidden duality_user_copy",
    "duality_user_copy: mov %rdx, %rcx", "rep movsb", "xor %eax, %eax", "ret",
    ".globl duality_user_load", ".hidden duality_user_load",
    "duality_user_load: mov (%rdi), %eax", "mov %eax, (%rsi)", "xor %eax, %eax", "ret",
    // compare_exchange(word, found: *mut u32, new): `found` holds the expected value, then the
    // value that was there.
    ".globl duality_user_exchange", ".hidden duality_user_exchange",
    "duality_user_exchange: mov (%rsi), %eax", "lock cmpxchg %edx, (%rdi)", "mov %eax, (%rsi)",
    "xor %eax, %eax", "ret",
    ".globl duality_user_end", ".hidden duality_user_end",
    "duality_user_end:",
    ".globl duality_user_fault", ".hidden duality_user_fault",
    "duality_user_fault: mov $1, %eax", "ret",
    ".popsection",
    dispatch = sym crate::entry::dispatch::dispatch,
    dispatch_aside = sym crate::entry::dispatch::dispatch_aside,
    finish_aside = sym crate::entry::dispatch::finish_aside,
    make_aside = sym crate::entry::dispatch::make_aside,
    current = const crate::schedule::worker::CURRENT_OFFSET,
    vfork_parent = const crate::schedule::worker::VFORK_PARENT_OFFSET,
    worker_stack = const crate::schedule::worker::STACK_POINTER_OFFSET,
    stack_low = const crate::schedule::thread::STACK_LOW_OFFSET,
    stack_high = const crate::schedule::thread::STACK_HIGH_OFFSET,
    aside_end = const crate::schedule::thread::ASIDE_END_OFFSET,
    thread_begins = sym crate::entry::dispatch::thread_begins,
    worker_loop = sym crate::workers::pump::worker_loop,
    resume = sym crate::entry::dispatch::resume,
    context_mask = const crate::schedule::context::MASK_OFFSET,
    context_rsp = const crate::schedule::context::STACK_POINTER_OFFSET,
    context_link = const crate::schedule::context::LINK_OFFSET,
    same_stack = const crate::schedule::context::SAME_STACK,
    red_zone = const crate::schedule::context::RED_ZONE,
    in_engine = const crate::schedule::worker::IN_ENGINE_OFFSET,
    kernel_mask = const crate::schedule::worker::KERNEL_MASK_OFFSET,
    attention = const crate::schedule::worker::ATTENTION_OFFSET,
    mask_is_stale = const crate::schedule::worker::MASK_IS_STALE_OFFSET,
    xsave_bytes = sym crate::objects::vectors::XSAVE_BYTES,
    restart = const crate::kernel::sys::RESTART,
    options(att_syntax)
);
