//! The frames that signal handlers run on, in the kernel's own format: the engine builds them too.
//!
//! Source: `struct rt_sigframe` and `struct ucontext` of the kernel for x86_64; signal(7), sigreturn(2).

use core::arch::asm;

use crate::action::{Action, SA_ONSTACK};
use crate::frame::Frame;

use crate::thread::Thread;
use crate::user;

/// `struct ucontext`: what `sigreturn` restores.
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

/// Offset that the entry knows.
pub(crate) const MASK_OFFSET: usize = core::mem::offset_of!(Context, mask);

/// `struct rt_sigframe`: a context, and what the signal says.
#[repr(C)]
struct SignalFrame {
    restorer: u64,
    context: Context,
    info: libc::siginfo_t,
}

/// Where a frame has its context.
const CONTEXT_OFFSET: u64 = core::mem::offset_of!(SignalFrame, context) as u64;

/// A handler, and what it is told.
pub(crate) struct Delivery<'a> {
    pub(crate) number: i32,
    pub(crate) info: &'a libc::siginfo_t,
    pub(crate) action: &'a Action,
    /// What the program's mask becomes when the handler returns.
    pub(crate) mask: u64,
}

/// The legacy area of FXSAVE, and where the kernel notes that an XSAVE area follows.
const LEGACY_BYTES: usize = 512;
const NOTE_OFFSET: usize = 464;
const NOTE_MAGIC: u32 = 0x4650_5853;
const RED_ZONE: u64 = 128;
/// Room for what the engine's functions still use beneath, while a frame is built.
const MARGIN: u64 = 3072;

const USER_CODE: u16 = 0x33;
const USER_DATA: u16 = 0x2b;
const INTERRUPTS_ENABLED: u64 = 0x202;
/// `UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS`
const SEGMENTS_ARE_VALID: u64 = 6;

/// The stack pointer here.
#[inline(always)]
fn stack_pointer() -> u64 {
    let here: u64;
    // SAFETY: reads a register.
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

/// The address beneath which a handler's frame is put.
fn top(thread: &Thread, action: &Action, rsp: u64) -> u64 {
    let stack = thread.alternate_stack.get();
    let wanted = action.flags & SA_ONSTACK != 0 && stack.ss_flags & libc::SS_DISABLE == 0;
    if wanted && !on_alternate(&stack, rsp) {
        stack.ss_sp as u64 + stack.ss_size as u64
    } else {
        rsp - RED_ZONE
    }
}

/// What the memory around a context is used for, while the context is made to enter a handler.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beneath {
    /// The engine executes on another stack.
    Nothing,
    /// The engine executes on the stack of the context, for a call that has not returned.
    Call,
    /// The context is part of a frame on a stack of the program, and the engine executes beneath that frame.
    Frame,
}

impl Context {
    /// Makes the context one that enters a handler, which returns to what the context was.
    ///
    /// # Errors
    ///
    /// There is no memory for the frame, on a stack that ran over or is not there. The context is as it was.
    pub(crate) fn enter_handler(
        &mut self,
        thread: &Thread,
        delivery: &Delivery<'_>,
        beneath: Beneath,
    ) -> Result<(), isize> {
        let mut top = top(thread, delivery.action, self.rsp);
        let here = stack_pointer();
        let own = (&raw const *self as u64) - CONTEXT_OFFSET;
        if beneath == Beneath::Frame {
            let place = frame_below(self.place_of_vectors(top));
            // A frame above this one is in memory that the program has left. Without it, handlers that follow each
            // other without a pause would go down the stack.
            let end = (own + size_of::<SignalFrame>() as u64)
                .max(self.vectors + self.vector_bytes() as u64);
            if place < end && top > here - MARGIN && top < here + (1 << 20) {
                top = here - MARGIN;
            }
        }
        if beneath == Beneath::Call && top > here - MARGIN && top < here + (1 << 20) {
            top = here - MARGIN;
        }
        let vectors = self.copy_vectors(top)?;
        let place = frame_below(vectors);
        let mut saved = *self;
        saved.vectors = vectors;
        saved.mask = delivery.mask;
        saved.stack = thread.alternate_stack.get();
        let frame = SignalFrame {
            restorer: delivery.action.restorer,
            context: saved,
            info: *delivery.info,
        };
        // Beneath the thread's stack pointer and its red zone, or on its alternate stack.
        user::write_bytes(place as usize, (&raw const frame).cast(), size_of::<SignalFrame>())?;
        self.rip = delivery.action.handler;
        self.rsp = place;
        self.rax = 0;
        self.rdi = delivery.number as u64;
        self.rsi = place + core::mem::offset_of!(SignalFrame, info) as u64;
        self.rdx = place + CONTEXT_OFFSET;
        // Handlers expect the direction flag clear, and no single step.
        self.rflags &= !0x500;
        Ok(())
    }

    /// The general registers and the address, by the numbers that DWARF gives them.
    pub(crate) fn by_number(&self) -> [u64; 17] {
        [
            self.rax, self.rdx, self.rcx, self.rbx, self.rsi, self.rdi, self.rbp, self.rsp,
            self.r8, self.r9, self.r10, self.r11, self.r12, self.r13, self.r14, self.r15, self.rip,
        ]
    }

    /// How many bytes the vector registers of the context take.
    fn vector_bytes(&self) -> usize {
        if self.vectors == 0 {
            return 0;
        }
        // SAFETY: the kernel, or the engine, left at least the legacy area there.
        let (magic, extended) = unsafe {
            let note = (self.vectors as *const u8).add(NOTE_OFFSET).cast::<u32>();
            (note.read(), note.add(1).read())
        };
        if magic == NOTE_MAGIC { extended as usize } else { LEGACY_BYTES }
    }

    /// Where a frame beneath `top` has its vector registers.
    fn place_of_vectors(&self, top: u64) -> u64 {
        (top - self.vector_bytes() as u64) & !63
    }

    /// Copies the vector registers of the context to beneath `top`; returns where.
    fn copy_vectors(&self, top: u64) -> Result<u64, isize> {
        if self.vectors == 0 {
            return Ok(0);
        }
        let place = self.place_of_vectors(top);
        user::write_bytes(place as usize, self.vectors as *const u8, self.vector_bytes())?;
        Ok(place)
    }

    /// Moves the context to the stack that it belongs to, as one that `sigreturn` goes on with, and makes
    /// this one go on at `entry` with the new frame on top of its stack.
    pub(crate) fn set_aside(&mut self, entry: unsafe extern "C" fn()) {
        // Where the stack has run over, what follows faults, and the program dies as it would natively.
        let vectors = self.copy_vectors(self.rsp - RED_ZONE).unwrap_or(0);
        let place = frame_below(if vectors == 0 { self.rsp - RED_ZONE } else { vectors });
        let mut saved = *self;
        saved.vectors = vectors;
        // SAFETY: as in `enter_handler`.
        unsafe { (&raw mut (*(place as *mut SignalFrame)).context).write(saved) };
        self.rip = entry as *const () as u64;
        self.rsp = place;
        self.rflags &= !0x500;
    }
}

/// The place of a frame: a handler starts with a stack as after a call.
fn frame_below(address: u64) -> u64 {
    ((address - size_of::<SignalFrame>() as u64) & !15) - 8
}

impl Frame {
    /// Makes a call return into a handler, which returns to `rip` with `result`.
    ///
    /// # Errors
    ///
    /// See [`Context::enter_handler`].
    pub(crate) fn enter_handler(
        &mut self,
        thread: &Thread,
        delivery: &Delivery<'_>,
        rip: usize,
        result: usize,
    ) -> Result<(), isize> {
        let mut area = Legacy([0; LEGACY_BYTES]);
        // SAFETY: the area is large enough, and aligned.
        unsafe { asm!("fxsave64 [{}]", in(reg) &raw mut area, options(nostack)) };
        area.0[NOTE_OFFSET..].fill(0);
        let mut context = self.context(rip, result);
        context.vectors = &raw const area as u64;
        context.enter_handler(thread, delivery, Beneath::Call)?;
        self.rip = context.rip as usize;
        self.rsp = context.rsp as usize;
        self.rdi = context.rdi as usize;
        self.rsi = context.rsi as usize;
        self.rdx = context.rdx as usize;
        Ok(())
    }

    fn context(&self, rip: usize, result: usize) -> Context {
        // SAFETY: all zeros are a context.
        let zeros: Context = unsafe { core::mem::zeroed() };
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

#[repr(C, align(64))]
struct Legacy([u8; LEGACY_BYTES]);
