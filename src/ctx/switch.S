/* switch.S - the context switch (ctx.h has the contract; init.c makes the first frame). */

#if defined(__x86_64__)

/* With -fcf-protection: indirect branches land on endbr64 (IBT).  The second stack of return addresses (SHSTK) is not
 * switched, so this file must not be marked as fit for it: that is why <cet.h>, which marks both, is not used. */
#if defined(__CET__) && (__CET__ & 1)
#define ENDBR endbr64
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4, 16, 5                /* sizes of name and contents, NT_GNU_PROPERTY_TYPE_0 */
        .asciz  "GNU"
        .long   0xc0000002, 4, 1, 0     /* GNU_PROPERTY_X86_FEATURE_1_AND: IBT */
#else
#define ENDBR
#endif

/* rdi: from, rsi: to, rdx: pass.  The control words are loaded only when they differ: loading them costs more than all the
 * rest.  They are stored first of all: stmxcsr is slow, and before the pushes nothing waits for it.
 * The return is a `ret`: most switches go from a call of one function to a call of the same, as deep in the same chain of calls, so that
 * the processor's stack of return addresses is right; a jump would leave it off by one for all of them. */
        .text
        .p2align 4
        .globl  wefti_ctx_switch
        .hidden wefti_ctx_switch
        .type   wefti_ctx_switch, @function
wefti_ctx_switch:
        .cfi_startproc
        ENDBR
        subq    $8, %rsp
        .cfi_def_cfa_offset 16
        stmxcsr (%rsp)
        fnstcw  4(%rsp)
        pushq   %rbp
        .cfi_def_cfa_offset 24
        .cfi_offset %rbp, -24
        pushq   %rbx
        .cfi_def_cfa_offset 32
        .cfi_offset %rbx, -32
        pushq   %r12
        .cfi_def_cfa_offset 40
        .cfi_offset %r12, -40
        pushq   %r13
        .cfi_def_cfa_offset 48
        .cfi_offset %r13, -48
        pushq   %r14
        .cfi_def_cfa_offset 56
        .cfi_offset %r14, -56
        pushq   %r15
        .cfi_def_cfa_offset 64
        .cfi_offset %r15, -64
        movl    48(%rsp), %ecx
        movzwl  52(%rsp), %r8d
        movq    %rsp, (%rdi)
        movq    (%rsi), %rsp            /* from here on the other context, with the same layout */
        xorl    48(%rsp), %ecx
        testl   $0xffc0, %ecx           /* modes, not the sticky exception flags */
        jne     .Lload_mxcsr
.Lmxcsr_done:
        cmpw    52(%rsp), %r8w
        jne     .Lload_x87
.Lx87_done:
        popq    %r15
        .cfi_def_cfa_offset 56
        .cfi_same_value %r15
        popq    %r14
        .cfi_def_cfa_offset 48
        .cfi_same_value %r14
        popq    %r13
        .cfi_def_cfa_offset 40
        .cfi_same_value %r13
        popq    %r12
        .cfi_def_cfa_offset 32
        .cfi_same_value %r12
        popq    %rbx
        .cfi_def_cfa_offset 24
        .cfi_same_value %rbx
        popq    %rbp
        .cfi_def_cfa_offset 16
        .cfi_same_value %rbp
        addq    $8, %rsp                /* the control words; a pop would load over two stores, and wait for both */
        .cfi_def_cfa_offset 8
        movq    %rdx, %rax
        ret
.Lload_mxcsr:
        .cfi_def_cfa_offset 64
        .cfi_offset %rip, -8
        .cfi_offset %rbp, -24
        .cfi_offset %rbx, -32
        .cfi_offset %r12, -40
        .cfi_offset %r13, -48
        .cfi_offset %r14, -56
        .cfi_offset %r15, -64
        ldmxcsr 48(%rsp)
        jmp     .Lmxcsr_done
.Lload_x87:
        fnclex                          /* flags that the other side raised would trap here if this side asks for traps */
        fldcw   52(%rsp)
        jmp     .Lx87_done
        .cfi_endproc
        .size   wefti_ctx_switch, . - wefti_ctx_switch

/* The first frame: r12 is the entry, rax what was passed.  It ends every backtrace.  Entered behind the nop, since an
 * unwinder looks for the caller one byte before the return address. */
        .p2align 4
        .globl  wefti_ctx_trampoline
        .hidden wefti_ctx_trampoline
        .type   wefti_ctx_trampoline, @function
wefti_ctx_trampoline:
        .cfi_startproc
        .cfi_undefined %rip
        nop
        movq    %rax, %rdi
        subq    $8, %rsp
        .cfi_def_cfa_offset 16
        callq   *%r12
        ud2                             /* entry does not return */
        .cfi_endproc
        .size   wefti_ctx_trampoline, . - wefti_ctx_trampoline

#elif defined(__aarch64__)

/* x0: from, x1: to, x2: pass.  Return addresses may be signed (PAC): they are signed with the stack pointer of their own
 * function, which has not changed when that function returns, so x30 is saved as it is. */
        .text
        .p2align 4
        .globl  wefti_ctx_switch
        .hidden wefti_ctx_switch
        .type   wefti_ctx_switch, %function
wefti_ctx_switch:
        .cfi_startproc
        hint    #34                     /* bti c */
        sub     sp, sp, #176
        .cfi_def_cfa_offset 176
        stp     d8, d9, [sp, #0]
        stp     d10, d11, [sp, #16]
        stp     d12, d13, [sp, #32]
        stp     d14, d15, [sp, #48]
        stp     x19, x20, [sp, #64]
        stp     x21, x22, [sp, #80]
        stp     x23, x24, [sp, #96]
        stp     x25, x26, [sp, #112]
        stp     x27, x28, [sp, #128]
        stp     x29, x30, [sp, #144]
        .cfi_offset x19, -112
        .cfi_offset x20, -104
        .cfi_offset x21, -96
        .cfi_offset x22, -88
        .cfi_offset x23, -80
        .cfi_offset x24, -72
        .cfi_offset x25, -64
        .cfi_offset x26, -56
        .cfi_offset x27, -48
        .cfi_offset x28, -40
        .cfi_offset x29, -32
        .cfi_offset x30, -24
        .cfi_offset d8, -176
        .cfi_offset d9, -168
        .cfi_offset d10, -160
        .cfi_offset d11, -152
        .cfi_offset d12, -144
        .cfi_offset d13, -136
        .cfi_offset d14, -128
        .cfi_offset d15, -120
        mrs     x9, fpcr
        str     x9, [sp, #160]
        mov     x10, sp
        str     x10, [x0]
        ldr     x10, [x1]
        mov     sp, x10
        ldr     x11, [sp, #160]
        cmp     x9, x11
        b.eq    1f
        msr     fpcr, x11
1:      ldp     d8, d9, [sp, #0]
        ldp     d10, d11, [sp, #16]
        ldp     d12, d13, [sp, #32]
        ldp     d14, d15, [sp, #48]
        ldp     x19, x20, [sp, #64]
        ldp     x21, x22, [sp, #80]
        ldp     x23, x24, [sp, #96]
        ldp     x25, x26, [sp, #112]
        ldp     x27, x28, [sp, #128]
        ldp     x29, x30, [sp, #144]
        add     sp, sp, #176
        .cfi_def_cfa_offset 0
        .cfi_same_value x19
        .cfi_same_value x20
        .cfi_same_value x21
        .cfi_same_value x22
        .cfi_same_value x23
        .cfi_same_value x24
        .cfi_same_value x25
        .cfi_same_value x26
        .cfi_same_value x27
        .cfi_same_value x28
        .cfi_same_value x29
        .cfi_same_value x30
        .cfi_same_value d8
        .cfi_same_value d9
        .cfi_same_value d10
        .cfi_same_value d11
        .cfi_same_value d12
        .cfi_same_value d13
        .cfi_same_value d14
        .cfi_same_value d15
        mov     x0, x2
        ret
        .cfi_endproc
        .size   wefti_ctx_switch, . - wefti_ctx_switch

/* x19 is the entry, x0 what was passed.  Entered behind the nop (see above); a return needs no bti. */
        .p2align 4
        .globl  wefti_ctx_trampoline
        .hidden wefti_ctx_trampoline
        .type   wefti_ctx_trampoline, %function
wefti_ctx_trampoline:
        .cfi_startproc
        .cfi_undefined x30
        nop
        blr     x19
        brk     #1
        .cfi_endproc
        .size   wefti_ctx_trampoline, . - wefti_ctx_trampoline

#elif defined(__riscv) && __riscv_xlen == 64

/* a0: from, a1: to, a2: pass. */
        .text
        .p2align 4
        .globl  wefti_ctx_switch
        .hidden wefti_ctx_switch
        .type   wefti_ctx_switch, @function
wefti_ctx_switch:
        .cfi_startproc
        addi    sp, sp, -208
        .cfi_def_cfa_offset 208
        sd      ra, 0(sp)
        .cfi_offset ra, -208
        sd      s0, 8(sp)
        .cfi_offset s0, -200
        sd      s1, 16(sp)
        .cfi_offset s1, -192
        sd      s2, 24(sp)
        sd      s3, 32(sp)
        sd      s4, 40(sp)
        sd      s5, 48(sp)
        sd      s6, 56(sp)
        sd      s7, 64(sp)
        sd      s8, 72(sp)
        sd      s9, 80(sp)
        sd      s10, 88(sp)
        sd      s11, 96(sp)
        .cfi_offset s2, -184
        .cfi_offset s3, -176
        .cfi_offset s4, -168
        .cfi_offset s5, -160
        .cfi_offset s6, -152
        .cfi_offset s7, -144
        .cfi_offset s8, -136
        .cfi_offset s9, -128
        .cfi_offset s10, -120
        .cfi_offset s11, -112
        fsd     fs0, 104(sp)
        fsd     fs1, 112(sp)
        fsd     fs2, 120(sp)
        fsd     fs3, 128(sp)
        fsd     fs4, 136(sp)
        fsd     fs5, 144(sp)
        fsd     fs6, 152(sp)
        fsd     fs7, 160(sp)
        fsd     fs8, 168(sp)
        fsd     fs9, 176(sp)
        fsd     fs10, 184(sp)
        fsd     fs11, 192(sp)
        .cfi_offset fs0, -104
        .cfi_offset fs1, -96
        .cfi_offset fs2, -88
        .cfi_offset fs3, -80
        .cfi_offset fs4, -72
        .cfi_offset fs5, -64
        .cfi_offset fs6, -56
        .cfi_offset fs7, -48
        .cfi_offset fs8, -40
        .cfi_offset fs9, -32
        .cfi_offset fs10, -24
        .cfi_offset fs11, -16
        frrm    t0
        sd      t0, 200(sp)
        sd      sp, 0(a0)
        ld      sp, 0(a1)
        ld      t0, 200(sp)
        fsrm    t0
        ld      ra, 0(sp)
        ld      s0, 8(sp)
        ld      s1, 16(sp)
        ld      s2, 24(sp)
        ld      s3, 32(sp)
        ld      s4, 40(sp)
        ld      s5, 48(sp)
        ld      s6, 56(sp)
        ld      s7, 64(sp)
        ld      s8, 72(sp)
        ld      s9, 80(sp)
        ld      s10, 88(sp)
        ld      s11, 96(sp)
        fld     fs0, 104(sp)
        fld     fs1, 112(sp)
        fld     fs2, 120(sp)
        fld     fs3, 128(sp)
        fld     fs4, 136(sp)
        fld     fs5, 144(sp)
        fld     fs6, 152(sp)
        fld     fs7, 160(sp)
        fld     fs8, 168(sp)
        fld     fs9, 176(sp)
        fld     fs10, 184(sp)
        fld     fs11, 192(sp)
        addi    sp, sp, 208
        .cfi_def_cfa_offset 0
        .cfi_restore ra
        .cfi_restore s0
        .cfi_restore s1
        .cfi_restore s2
        .cfi_restore s3
        .cfi_restore s4
        .cfi_restore s5
        .cfi_restore s6
        .cfi_restore s7
        .cfi_restore s8
        .cfi_restore s9
        .cfi_restore s10
        .cfi_restore s11
        .cfi_restore fs0
        .cfi_restore fs1
        .cfi_restore fs2
        .cfi_restore fs3
        .cfi_restore fs4
        .cfi_restore fs5
        .cfi_restore fs6
        .cfi_restore fs7
        .cfi_restore fs8
        .cfi_restore fs9
        .cfi_restore fs10
        .cfi_restore fs11
        mv      a0, a2
        ret
        .cfi_endproc
        .size   wefti_ctx_switch, . - wefti_ctx_switch

/* s1 is the entry, a0 what was passed.  Entered behind the nop (see above), which takes four bytes. */
        .p2align 4
        .globl  wefti_ctx_trampoline
        .hidden wefti_ctx_trampoline
        .type   wefti_ctx_trampoline, @function
wefti_ctx_trampoline:
        .cfi_startproc
        .cfi_undefined ra
        .option push
        .option norvc
        nop
        .option pop
        jalr    s1
        unimp
        .cfi_endproc
        .size   wefti_ctx_trampoline, . - wefti_ctx_trampoline

#endif

        .section .note.GNU-stack, "", %progbits
