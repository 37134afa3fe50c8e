//! The registers of a thread inside a system call, and the assembly's functions: see
//! `entry/x86_64/assembly.rs`.

use crate::kernel::plain::Plain;
use crate::kernel::sys::{self, Arguments};

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
    /// The address at which the thread goes on.
    pub(crate) rip: usize,
    pub(crate) rsp: usize,
    /// The stub's `after`, whatever `rip` becomes.
    pub(crate) after: usize,
    /// The address in the text that follows the call: for unwinders.
    pub(crate) caller: usize,
    _padding: usize,
}

// SAFETY: a frame has integers alone and no padding, so any bytes are one.
unsafe impl Plain for Frame {}

impl Frame {
    pub(crate) fn number(&self) -> i64 {
        self.rax as i64
    }

    pub(crate) fn arguments(&self) -> Arguments {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9]
    }

    /// An argument of the call, from 0 on.
    #[inline(always)]
    pub(crate) fn argument(&self, index: usize) -> usize {
        self.arguments()[index]
    }

    #[inline(always)]
    pub(crate) fn set_argument(&mut self, index: usize, value: usize) {
        let registers = [
            &mut self.rdi,
            &mut self.rsi,
            &mut self.rdx,
            &mut self.r10,
            &mut self.r8,
            &mut self.r9,
        ];
        *registers[index] = value;
    }

    /// The register that the call's result is to be in.
    pub(crate) fn value(&self) -> usize {
        self.rax
    }

    /// The thread's stack pointer.
    pub(crate) fn stack(&self) -> usize {
        self.rsp
    }

    pub(crate) fn set_stack(&mut self, address: usize) {
        self.rsp = address;
    }

    /// The address at which the thread goes on.
    pub(crate) fn goes_on_at(&self) -> usize {
        self.rip
    }

    pub(crate) fn go_on_at(&mut self, address: usize) {
        self.rip = address;
    }

    /// Whether the thread goes on after its call. Otherwise it goes on in the kernel, or at the
    /// place to which a handler's frame returns.
    pub(crate) fn goes_on_after(&self) -> bool {
        self.rip == self.after
    }

    /// The registers that outlive a call, by their numbers in DWARF, for unwinders.
    pub(crate) fn kept(&self) -> [(usize, usize); 7] {
        [
            (3, self.rbx),
            (6, self.rbp),
            (7, self.rsp),
            (12, self.r12),
            (13, self.r13),
            (14, self.r14),
            (15, self.r15),
        ]
    }

    /// Has the kernel execute the call that the program asked for, here and now.
    #[inline(always)]
    pub(crate) fn pass(&self) -> isize {
        // SAFETY: the program's own call. Calls that would harm the engine have a class of their
        // own.
        unsafe { sys::call(self.number(), self.arguments()) }
    }

    /// A copy that asks for another call.
    pub(crate) fn with(&self, number: i64, arguments: Arguments) -> Self {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        Self { rax: number as usize, rdi, rsi, rdx, r10, r8, r9, ..*self }
    }

    /// Has the kernel execute the call with the program's own registers and stack, once the
    /// dispatcher has returned.
    pub(crate) fn leave_to_kernel(&mut self) -> isize {
        self.rip = match self.keeps_vectors() {
            true => duality_vectors_leave as *const () as usize,
            false => self.after - 2,
        };
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

    /// The address of the instruction after the call, in the text or in the stub that the
    /// instruction was moved to.
    pub(crate) fn return_address(&self) -> usize {
        if self.caller != 0 { self.caller } else { self.after }
    }

    /// Whether a restart begins at the call's address in the text, where unwinders find their way.
    pub(crate) fn restarts_in_text(&self) -> bool {
        self.restart_address() + 2 == self.caller
    }
}

unsafe extern "C" {
    pub(crate) fn duality_entry();
    pub(crate) fn duality_entry_vectors();
    pub(crate) fn duality_entry_clock();
    fn duality_vectors_after();
    fn duality_vectors_again();
    fn duality_vectors_leave();
    pub(crate) fn duality_switch(save: *mut usize, load: usize, fs: usize);
    pub(crate) fn duality_thread_start();
    pub(crate) fn duality_worker_start();
    pub(crate) fn duality_preempted();
    pub(crate) fn duality_restorer();
    pub(crate) fn duality_resume();
    fn duality_resume_begin();
    fn duality_resume_end();
    pub(crate) fn duality_clone(flags: usize, stack: usize) -> isize;
    pub(crate) fn duality_wait(arguments: *const Arguments, number: i64) -> isize;
    fn duality_wait_begin();
    fn duality_wait_end();
    fn duality_wait_interrupted();
    pub(crate) fn duality_rseq_offset() -> isize;
    pub(crate) fn duality_user_begin();
    pub(crate) fn duality_user_copy(to: *mut u8, from: *const u8, length: usize) -> usize;
    pub(crate) fn duality_user_load(from: *const u32, to: *mut u32) -> usize;
    pub(crate) fn duality_user_exchange(word: *mut u32, found: *mut u32, new: u32) -> usize;
    pub(crate) fn duality_user_end();
    pub(crate) fn duality_user_fault();
}

/// Whether a thread that was interrupted at `address` was about to go on from a frame: see the
/// entry.
pub(crate) fn is_resuming(address: usize) -> bool {
    (duality_resume_begin as *const () as usize..duality_resume_end as *const () as usize)
        .contains(&address)
}

/// Where a thread goes on that a signal has interrupted in `duality_wait`, unless the call is over.
pub(crate) fn after_wait(address: usize) -> Option<usize> {
    let before = duality_wait_begin as *const () as usize..duality_wait_end as *const () as usize;
    before.contains(&address).then_some(duality_wait_interrupted as *const () as usize)
}

/// The initial stack of a context that starts at `start` with `stack` (a multiple of 16) as its
/// stack pointer.
///
/// # Safety
///
/// The 64 bytes below `stack` are writable and free.
pub(crate) unsafe fn initial_context(stack: usize, start: unsafe extern "C" fn()) -> usize {
    const MXCSR_AND_CONTROL_WORD: usize = 0x037f_0000_1f80;
    assert!(stack.is_multiple_of(16), "a stack begins at an odd address");
    let words: [usize; 8] = [MXCSR_AND_CONTROL_WORD, 0, 0, 0, 0, 0, 0, start as *const () as usize];
    let at = stack - size_of_val(&words);
    // SAFETY: the caller keeps the promises above.
    unsafe { (at as *mut [usize; 8]).write(words) };
    at
}

/// Whether what lies at `stack_pointer` looks as `duality_switch` and [`initial_context`] leave it:
/// the control registers, six general ones, and an address to return to.
///
/// # Safety
///
/// The caller is about to switch to this stack, so 64 bytes at `stack_pointer` may be read.
pub(crate) unsafe fn is_left_by_switch(stack_pointer: usize) -> bool {
    const MXCSR_RESERVED: usize = 0xffff_0000;
    if !stack_pointer.is_multiple_of(16) {
        return false;
    }
    // SAFETY: the caller's promise; the address is a multiple of 16.
    let words = unsafe { *(stack_pointer as *const [usize; 8]) };
    words[0] & MXCSR_RESERVED == 0 && words[7] != 0
}
