//! The frames of signal handlers, in the kernel's own format. The engine also builds frames.
//!
//! Source: `struct rt_sigframe` and `struct ucontext` of the kernel for x86_64; signal(7),
//! sigreturn(2).

use core::arch::asm;

use crate::kernel::disposition::{Action, SA_ONSTACK};
use crate::kernel::frame::{Frame, duality_resume};

use crate::kernel::assertions::check;
use crate::kernel::plain::{Plain, zeroed};
use crate::kernel::sys::{EFAULT, ENOMEM};
use crate::kernel::user;
use crate::schedule::thread::Thread;

/// `struct ucontext`: the state that `sigreturn` restores.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Context {
    flags: u64,
    link: u64,
    pub(crate) stack: libc::stack_t,
    r8: u64,
    r9: u64,
    r10: u64,
    r11: u64,
    r12: u64,
    r13: u64,
    r14: u64,
    r15: u64,
    rdi: u64,
    rsi: u64,
    rbp: u64,
    rbx: u64,
    rdx: u64,
    rax: u64,
    rcx: u64,
    pub(crate) rsp: u64,
    pub(crate) rip: u64,
    rflags: u64,
    cs: u16,
    gs: u16,
    fs: u16,
    ss: u16,
    error: u64,
    trap: u64,
    old_mask: u64,
    pub(crate) fault_address: u64,
    vectors: u64,
    reserved: [u64; 8],
    pub(crate) mask: u64,
}

// SAFETY: integers, and a `stack_t` of them.
unsafe impl Plain for Context {}

/// Offsets that the entry knows.
pub(crate) const MASK_OFFSET: usize = core::mem::offset_of!(Context, mask);
pub(crate) const STACK_POINTER_OFFSET: usize = core::mem::offset_of!(Context, rsp);
pub(crate) const LINK_OFFSET: usize = core::mem::offset_of!(Context, link);
/// A stack pointer that lies at most this many bytes beneath a context is on the same stack.
pub(crate) const SAME_STACK: usize = 64 << 10;

/// `struct rt_sigframe`: a context, and the signal's fields.
#[repr(C)]
struct SignalFrame {
    restorer: u64,
    context: Context,
    info: libc::siginfo_t,
}

/// Where a frame has its context.
const CONTEXT_OFFSET: u64 = core::mem::offset_of!(SignalFrame, context) as u64;

/// A handler and its arguments.
pub(crate) struct Delivery<'a> {
    pub(crate) number: i32,
    pub(crate) info: &'a libc::siginfo_t,
    pub(crate) action: &'a Action,
    /// The mask that the program has when the handler returns.
    pub(crate) mask: u64,
}

/// The legacy area of FXSAVE, and the place where the kernel notes that an XSAVE area follows.
const LEGACY_BYTES: usize = 512;
const NOTE_OFFSET: usize = 464;
const NOTE_MAGIC: u32 = 0x4650_5853;
pub(crate) const RED_ZONE: u64 = 128;
/// Room for the engine's functions, which use the stack beneath while they build a frame.
const MARGIN: u64 = 1024;

const USER_CODE: u16 = 0x33;
const USER_DATA: u16 = 0x2b;
const INTERRUPTS_ENABLED: u64 = 0x202;
/// `UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS`
const SEGMENTS_ARE_VALID: u64 = 6;

/// The stack pointer here.
#[inline(always)]
pub(crate) fn stack_pointer() -> u64 {
    let here: u64;
    // SAFETY: the instruction reads a register, and touches neither memory nor flags.
    unsafe { asm!("mov {}, rsp", out(reg) here, options(nomem, nostack, preserves_flags)) };
    here
}

/// Whether `address` lies on the thread's alternate stack.
pub(crate) fn on_alternate(stack: &libc::stack_t, address: u64) -> bool {
    let base = stack.ss_sp as u64;
    stack.ss_flags & libc::SS_DISABLE == 0
        && address > base
        && address - base <= stack.ss_size as u64
}

/// The bytes that are left of a thread's stack, if the end of the stack is known.
pub(crate) fn room(thread: &Thread, rsp: u64) -> u64 {
    let alternate = thread.alternate_stack.get();
    let end = thread.stack_end.get() as u64;
    if on_alternate(&alternate, rsp) {
        rsp - alternate.ss_sp as u64
    } else if end != 0 && rsp >= end {
        rsp - end
    } else {
        u64::MAX
    }
}

/// Whether the handler begins on the alternate stack, and the thread is elsewhere.
fn enters_alternate(thread: &Thread, action: &Action, rsp: u64) -> bool {
    let stack = thread.alternate_stack.get();
    let wanted = action.flags & SA_ONSTACK != 0 && stack.ss_flags & libc::SS_DISABLE == 0;
    wanted && !on_alternate(&stack, rsp)
}

/// The address beneath which a handler's frame is put.
fn top(thread: &Thread, action: &Action, rsp: u64) -> u64 {
    if enters_alternate(thread, action, rsp) {
        let stack = thread.alternate_stack.get();
        stack.ss_sp as u64 + stack.ss_size as u64
    } else {
        rsp - RED_ZONE
    }
}

/// The use of the memory around a context, while the context is made to enter a handler.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beneath {
    /// The engine executes on another stack.
    Nothing,
    /// The engine executes on the stack of the context, for a call that has not returned.
    Call,
    /// The context is part of a frame on a stack of the program, and the engine executes beneath
    /// that frame.
    Frame,
}

impl Context {
    /// Changes the context so that it enters a handler. The handler returns to the former context.
    ///
    /// # Errors
    ///
    /// There is no memory for the frame: the stack has overflowed or does not exist. The context is
    /// as it was.
    pub(crate) fn enter_handler(
        &mut self,
        thread: &Thread,
        delivery: &Delivery<'_>,
        beneath: Beneath,
    ) -> Result<(), isize> {
        let mut top = top(thread, delivery.action, self.rsp);
        let here = stack_pointer();
        let alternate = thread.alternate_stack.get();
        let enters = enters_alternate(thread, delivery.action, self.rsp);
        // An alternate stack may lie just above the stack that the engine executes on.
        let apart = enters && !on_alternate(&alternate, here);
        let beneath = if apart { Beneath::Nothing } else { beneath };
        let own = (&raw const *self as u64) - CONTEXT_OFFSET;
        let own_end = own + size_of::<SignalFrame>() as u64;
        let bytes = self.vector_bytes()?;
        let mut vectors_stay = false;
        if beneath == Beneath::Frame && place_of_vectors(top, bytes) == self.vectors {
            // The vector registers are in their place already, and stay: small stacks have no room
            // for two copies.
            vectors_stay = true;
            top = self.vectors;
            if frame_below(top) < own_end {
                top = here - MARGIN;
            }
        } else if beneath == Beneath::Frame {
            let place = frame_below(place_of_vectors(top, bytes));
            // A frame above this one lies in memory that the program has left. Reuse that frame's
            // place, because handlers that follow each other without a pause would otherwise go
            // down the stack.
            let end = own_end.max(self.vectors + bytes);
            if place < end && top > here - MARGIN && top < here + (1 << 20) {
                top = here - MARGIN;
            }
        }
        if beneath == Beneath::Call && top > here - MARGIN && top < here + (1 << 20) {
            top = here - MARGIN;
        }
        let copied = self.vectors != 0 && !vectors_stay;
        let place = frame_below(if copied { place_of_vectors(top, bytes) } else { top });
        if enters && !on_alternate(&alternate, place) {
            // As in the kernel, what lies beneath the alternate stack is not written.
            return Err(EFAULT);
        }
        let vectors = if copied { self.copy_vectors(top, bytes)? } else { self.vectors };
        let mut saved = *self;
        saved.link = 0;
        saved.vectors = vectors;
        saved.mask = delivery.mask;
        saved.stack = alternate;
        let frame = SignalFrame {
            restorer: delivery.action.restorer,
            context: saved,
            info: *delivery.info,
        };
        // The frame lies beneath the thread's stack pointer and its red zone, or on its alternate
        // stack.
        user::write_bytes(place as usize, (&raw const frame).cast(), size_of::<SignalFrame>())?;
        assert!(place % 16 == 8, "a handler begins with an odd stack");
        assert!(vectors.is_multiple_of(64), "vector registers are at an odd address");
        let below = place < saved.rsp || on_alternate(&saved.stack, place);
        check!(below, "a frame of a handler is above its stack");
        self.begin_handler(delivery, place);
        Ok(())
    }

    /// The registers with which a handler begins, above its frame at `place`.
    fn begin_handler(&mut self, delivery: &Delivery<'_>, place: u64) {
        self.rip = delivery.action.handler;
        self.rsp = place;
        self.rax = 0;
        self.rdi = delivery.number as u64;
        self.rsi = place + core::mem::offset_of!(SignalFrame, info) as u64;
        self.rdx = place + CONTEXT_OFFSET;
        // Handlers expect the direction flag clear, and no single step.
        self.rflags &= !0x500;
    }

    /// Has the system call that was interrupted fail with this error.
    pub(crate) fn fail(&mut self, error: isize) {
        self.rax = error as u64;
    }

    /// The general registers and the address, in the order of DWARF's numbers.
    pub(crate) fn by_number(&self) -> [u64; 17] {
        [
            self.rax, self.rdx, self.rcx, self.rbx, self.rsi, self.rdi, self.rbp, self.rsp,
            self.r8, self.r9, self.r10, self.r11, self.r12, self.r13, self.r14, self.r15, self.rip,
        ]
    }

    /// How many bytes the vector registers of the context take. The kernel or the program that made
    /// the context noted this number in it.
    fn vector_bytes(&self) -> Result<u64, isize> {
        if self.vectors == 0 {
            return Ok(0);
        }
        let [magic, extended]: [u32; 2] = user::read(self.vectors as usize + NOTE_OFFSET)?;
        Ok(if magic == NOTE_MAGIC { u64::from(extended) } else { LEGACY_BYTES as u64 })
    }

    /// Copies `bytes` of the context's vector registers to beneath `top`. Returns the address of
    /// the copy.
    fn copy_vectors(&self, top: u64, bytes: u64) -> Result<u64, isize> {
        if self.vectors == 0 {
            return Ok(0);
        }
        let place = place_of_vectors(top, bytes);
        user::copy(place as usize, self.vectors as usize, bytes as usize)?;
        Ok(place)
    }

    /// Moves the context to the thread's stack for this purpose, in a form that `sigreturn` goes on
    /// with. Makes this context go on at `entry`, with the new frame on top of that stack. The
    /// handler of signals calls this function, for a context that the kernel has made.
    ///
    /// # Errors
    ///
    /// There is no memory, and the context is as it was.
    pub(crate) fn set_aside(
        &mut self,
        thread: &Thread,
        entry: unsafe extern "C" fn(),
    ) -> Result<(), isize> {
        let bytes = self.vector_bytes()?;
        let top = thread.aside.top(bytes as usize).ok_or(ENOMEM)? as u64;
        let vectors = self.copy_vectors(top, bytes)?;
        let place = frame_below(if vectors == 0 { top } else { vectors });
        let to = place + CONTEXT_OFFSET;
        let saved = Self { vectors, link: to, ..*self };
        user::write_bytes(to as usize, (&raw const saved).cast(), size_of::<Self>())?;
        self.rip = entry as *const () as u64;
        self.rsp = place;
        self.rflags &= !0x500;
        Ok(())
    }

    /// Whether the context was set aside. It links to itself: a copy of it on a stack of the
    /// program does not.
    pub(crate) fn is_aside(&self) -> bool {
        self.link == &raw const *self as u64
    }
}

/// The address of `bytes` of vector registers, of a frame beneath `top`.
fn place_of_vectors(top: u64, bytes: u64) -> u64 {
    (top - bytes) & !63
}

/// The address of a frame. A handler starts with a stack as after a call.
fn frame_below(address: u64) -> u64 {
    ((address - size_of::<SignalFrame>() as u64) & !15) - 8
}

impl Frame {
    /// The context of a thread that goes on at `rip` with `result`, as if a signal had interrupted
    /// it after its call. The vector registers of the thread are still in place.
    fn interrupted(&self, rip: usize, result: usize) -> Context {
        let zeros: Context = zeroed();
        Context {
            flags: SEGMENTS_ARE_VALID,
            r8: self.r8 as u64,
            r9: self.r9 as u64,
            r10: self.r10 as u64,
            r11: INTERRUPTS_ENABLED,
            r12: self.r12 as u64,
            r13: self.r13 as u64,
            r14: self.r14 as u64,
            r15: self.r15 as u64,
            rdi: self.rdi as u64,
            rsi: self.rsi as u64,
            rbp: self.rbp as u64,
            rbx: self.rbx as u64,
            rdx: self.rdx as u64,
            rax: result as u64,
            rcx: rip as u64,
            rsp: self.rsp as u64,
            rip: rip as u64,
            rflags: INTERRUPTS_ENABLED,
            cs: USER_CODE,
            ss: USER_DATA,
            ..zeros
        }
    }
}

/// The context of a thread after its call. The context lies on the thread's stack, beneath the
/// thread's vector registers.
#[repr(C)]
pub(crate) struct AfterCall {
    context: Context,
    vectors: Legacy,
}

#[repr(C, align(64))]
struct Legacy([u8; LEGACY_BYTES]);

impl AfterCall {
    /// A thread that goes on at `rip` with `result`. The vector registers that live across a call
    /// are kept.
    #[inline(always)]
    pub(crate) fn new(frame: &Frame, rip: usize, result: usize) -> Self {
        let mut area = Legacy([0; LEGACY_BYTES]);
        // SAFETY: the area is large enough, and aligned.
        unsafe { asm!("fxsave64 [{}]", in(reg) &raw mut area, options(nostack)) };
        area.0[NOTE_OFFSET..].fill(0);
        Self { context: frame.interrupted(rip, result), vectors: area }
    }

    pub(crate) fn context(&mut self) -> &mut Context {
        self.context.vectors = &raw const self.vectors as u64;
        &mut self.context
    }

    /// Notes that this is on a stack of the engine: see [`Context::is_aside`].
    pub(crate) fn is_now_aside(&mut self) {
        self.context.link = &raw const self.context as u64;
    }

    /// Goes on as the context says.
    pub(crate) fn go_on(&mut self) -> ! {
        let context = &raw const *self.context();
        // SAFETY: what the engine has on this stack beneath the context is used no more.
        unsafe {
            asm!("mov rsp, {}", "jmp {}", in(reg) context, sym duality_resume, options(noreturn))
        }
    }
}
