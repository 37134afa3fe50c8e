/* long engine(enum engine_call, ...): enters the engine as a patched system call does.
 *
 * A stub of the engine has two addresses before its `after`, at -18 and -10. Both are zero here: no
 * system call is there to restart, and no address to return to. */
    .section duality_runtime, "ax", @progbits
    .globl engine
    .hidden engine
    .type engine, @function
engine:
    .cfi_startproc
    mov %edi, %eax
    mov %rsi, %rdi
    mov %rdx, %rsi
    mov %rcx, %rdx
    mov %r8, %r10
    mov %r9, %r8
    xor %r9d, %r9d
    lea .Lafter(%rip), %rcx
    jmp *engine_entry(%rip)
    .balign 8
    .quad 0, 0
    ud2
.Lafter:
    ret
    .cfi_endproc
    .size engine, . - engine

    .section .note.GNU-stack, "", @progbits
