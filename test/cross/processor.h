/* processor.h - what the tests of the context switch must know about each processor.  Its code is compiled where PROCESSOR_CODE is defined.
 *
 * REGISTERS         those that a call keeps, with their names; test_regs_switch fills them, switches, and reads them back
 * MODES             the control bits of floating point that a call keeps, in one word; modes, modes_set, round_to
 * trap_flag, stop_  how to stop at every instruction: the processor's own way, or breakpoints
 */
#ifndef WEFT_TEST_PROCESSOR_H
#define WEFT_TEST_PROCESSOR_H

#include "ctx/ctx.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

/* -- Registers ------------------------------------------------------------------------------------------- */

/* (index, name, number in debug information) */
/* clang-format off */
#if defined(__x86_64__)
#define INTEGERS(X) X(0, rbx, 3) X(1, rbp, 6) X(2, r12, 12) X(3, r13, 13) X(4, r14, 14) X(5, r15, 15)
#define FLOATS(X)
#define PUSHED 8 /* bytes that a call puts on the stack */
#elif defined(__aarch64__)
#define INTEGERS(X) X(0, x19, 19) X(1, x20, 20) X(2, x21, 21) X(3, x22, 22) X(4, x23, 23) X(5, x24, 24) \
                    X(6, x25, 25) X(7, x26, 26) X(8, x27, 27) X(9, x28, 28) X(10, x29, 29)
#define FLOATS(X)   X(11, d8, 72) X(12, d9, 73) X(13, d10, 74) X(14, d11, 75) \
                    X(15, d12, 76) X(16, d13, 77) X(17, d14, 78) X(18, d15, 79)
#define PUSHED 0
#elif defined(__riscv)
#define INTEGERS(X) X(0, s0, 8) X(1, s1, 9) X(2, s2, 18) X(3, s3, 19) X(4, s4, 20) X(5, s5, 21) X(6, s6, 22) \
                    X(7, s7, 23) X(8, s8, 24) X(9, s9, 25) X(10, s10, 26) X(11, s11, 27)
#define FLOATS(X)   X(12, fs0, 40) X(13, fs1, 41) X(14, fs2, 50) X(15, fs3, 51) X(16, fs4, 52) X(17, fs5, 53) \
                    X(18, fs6, 54) X(19, fs7, 55) X(20, fs8, 56) X(21, fs9, 57) X(22, fs10, 58) X(23, fs11, 59)
#define PUSHED 0
#endif
/* clang-format on */
#define REGISTER_NAME(index, name, dwarf) #name,
#define REGISTER_DWARF(index, name, dwarf) dwarf,
__attribute__((unused)) static const char *const register_name[] = {INTEGERS(REGISTER_NAME) FLOATS(REGISTER_NAME)};
__attribute__((unused)) static const int register_dwarf[] = {INTEGERS(REGISTER_DWARF) FLOATS(REGISTER_DWARF)};
enum { REGISTERS = sizeof register_name / sizeof *register_name, REGISTERS_MAX = 24 };

struct regs {
    uint64_t in[REGISTERS_MAX], out[REGISTERS_MAX]; /* before and after the switch */
    uint64_t sp_in, sp_out;
};
static_assert(offsetof(struct regs, out) == 192 && offsetof(struct regs, sp_in) == 384, "as in the assembly");

/* wefti_ctx_switch, called with regs->in in the registers; what they hold when it returns is left in regs->out. */
void *test_regs_switch(struct wefti_ctx *from, const struct wefti_ctx *to, void *pass, struct regs *regs);
/* The same with one vector register that a call does not keep: put in, and what it holds afterwards. */
uint64_t test_vector_switch(struct wefti_ctx *from, const struct wefti_ctx *to, void *pass, uint64_t value);
/* An entry that looks at the machine before any compiled code does; continues in test_probe_body, which the test has. */
struct probe {
    uint64_t sp, arg, frame; /* stack pointer, argument, frame pointer */
};
void test_probe_entry(void *probe);
__attribute__((used)) void test_probe_body(void *probe); /* only the assembly calls it */

#ifdef PROCESSOR_CODE
/* clang-format off */
#define FUNCTION(name) ".text\n .p2align 4\n .globl " #name "\n .hidden " #name "\n .type " #name ", %function\n" \
                       #name ":\n .cfi_startproc\n"
#define END(name)      ".cfi_endproc\n .size " #name ", . - " #name "\n"

#if defined(__x86_64__)
#define SAVE(index, name, dwarf)    "movq %" #name ", 8*" #index "(%rsp)\n .cfi_offset " #dwarf ", 8*" #index "-64\n"
#define LOAD(index, name, dwarf)    "movq 8*" #index "(%rcx), %" #name "\n"
#define STORE(index, name, dwarf)   "movq %" #name ", 192+8*" #index "(%rcx)\n"
#define RESTORE(index, name, dwarf) "movq 8*" #index "(%rsp), %" #name "\n"
__asm__(FUNCTION(test_regs_switch)
        "subq $56, %rsp\n .cfi_def_cfa_offset 64\n"
        INTEGERS(SAVE)
        "movq %rcx, 48(%rsp)\n"
        "movq %rsp, 384(%rcx)\n"
        INTEGERS(LOAD)
        "call wefti_ctx_switch\n"
        "movq 48(%rsp), %rcx\n"
        INTEGERS(STORE)
        "movq %rsp, 392(%rcx)\n"
        INTEGERS(RESTORE)
        "addq $56, %rsp\n .cfi_def_cfa_offset 8\n"
        "ret\n"
        END(test_regs_switch));
__asm__(FUNCTION(test_vector_switch)
        "subq $8, %rsp\n .cfi_def_cfa_offset 16\n"
        "movq %rcx, %xmm15\n"
        "call wefti_ctx_switch\n"
        "movq %xmm15, %rax\n"
        "addq $8, %rsp\n .cfi_def_cfa_offset 8\n"
        "ret\n"
        END(test_vector_switch));
__asm__(FUNCTION(test_probe_entry)
        "movq %rsp, (%rdi)\n"
        "movq %rdi, 8(%rdi)\n"
        "movq %rbp, 16(%rdi)\n"
        "jmp test_probe_body\n"
        END(test_probe_entry));

#elif defined(__aarch64__)
#define SAVE(index, name, dwarf)    "str " #name ", [sp, 8*" #index "]\n .cfi_offset " #dwarf ", 8*" #index "-176\n"
#define LOAD(index, name, dwarf)    "ldr " #name ", [x3, 8*" #index "]\n"
#define STORE(index, name, dwarf)   "str " #name ", [x3, 192+8*" #index "]\n"
#define RESTORE(index, name, dwarf) "ldr " #name ", [sp, 8*" #index "]\n"
__asm__(FUNCTION(test_regs_switch)
        "hint 34\n" /* bti c */
        "sub sp, sp, 176\n .cfi_def_cfa_offset 176\n"
        INTEGERS(SAVE) FLOATS(SAVE)
        "str x30, [sp, 152]\n .cfi_offset 30, -24\n"
        "str x3, [sp, 160]\n"
        "mov x9, sp\n str x9, [x3, 384]\n"
        INTEGERS(LOAD) FLOATS(LOAD)
        "bl wefti_ctx_switch\n"
        "ldr x3, [sp, 160]\n"
        INTEGERS(STORE) FLOATS(STORE)
        "mov x9, sp\n str x9, [x3, 392]\n"
        INTEGERS(RESTORE) FLOATS(RESTORE)
        "ldr x30, [sp, 152]\n"
        "add sp, sp, 176\n .cfi_def_cfa_offset 0\n"
        "ret\n"
        END(test_regs_switch));
__asm__(FUNCTION(test_vector_switch)
        "hint 34\n"
        "str x30, [sp, -16]!\n .cfi_def_cfa_offset 16\n .cfi_offset 30, -16\n"
        "fmov d16, x3\n"
        "bl wefti_ctx_switch\n"
        "fmov x0, d16\n"
        "ldr x30, [sp], 16\n .cfi_def_cfa_offset 0\n"
        "ret\n"
        END(test_vector_switch));
__asm__(FUNCTION(test_probe_entry)
        "hint 34\n"
        "mov x9, sp\n str x9, [x0]\n"
        "str x0, [x0, 8]\n"
        "str x29, [x0, 16]\n"
        "b test_probe_body\n"
        END(test_probe_entry));

#elif defined(__riscv)
#define SLOT(op, name, offset, index) op " " name ", " offset "+8*" index
#define SAVE(index, name, dwarf)     SLOT("sd", #name, "0", #index) "(sp)\n .cfi_offset " #dwarf ", 8*" #index "-208\n"
#define FSAVE(index, name, dwarf)    SLOT("fsd", #name, "0", #index) "(sp)\n .cfi_offset " #dwarf ", 8*" #index "-208\n"
#define LOAD(index, name, dwarf)     SLOT("ld", #name, "0", #index) "(a3)\n"
#define FLOAD(index, name, dwarf)    SLOT("fld", #name, "0", #index) "(a3)\n"
#define STORE(index, name, dwarf)    SLOT("sd", #name, "192", #index) "(a3)\n"
#define FSTORE(index, name, dwarf)   SLOT("fsd", #name, "192", #index) "(a3)\n"
#define RESTORE(index, name, dwarf)  SLOT("ld", #name, "0", #index) "(sp)\n"
#define FRESTORE(index, name, dwarf) SLOT("fld", #name, "0", #index) "(sp)\n"
__asm__(FUNCTION(test_regs_switch)
        "addi sp, sp, -208\n .cfi_def_cfa_offset 208\n"
        INTEGERS(SAVE) FLOATS(FSAVE)
        "sd ra, 192(sp)\n .cfi_offset 1, -16\n"
        "sd a3, 200(sp)\n"
        "sd sp, 384(a3)\n"
        INTEGERS(LOAD) FLOATS(FLOAD)
        "call wefti_ctx_switch\n"
        "ld a3, 200(sp)\n"
        INTEGERS(STORE) FLOATS(FSTORE)
        "sd sp, 392(a3)\n"
        INTEGERS(RESTORE) FLOATS(FRESTORE)
        "ld ra, 192(sp)\n"
        "addi sp, sp, 208\n .cfi_def_cfa_offset 0\n"
        "ret\n"
        END(test_regs_switch));
__asm__(FUNCTION(test_vector_switch)
        "addi sp, sp, -16\n .cfi_def_cfa_offset 16\n"
        "sd ra, 0(sp)\n .cfi_offset 1, -16\n"
        "fmv.d.x ft11, a3\n"
        "call wefti_ctx_switch\n"
        "fmv.x.d a0, ft11\n"
        "ld ra, 0(sp)\n"
        "addi sp, sp, 16\n .cfi_def_cfa_offset 0\n"
        "ret\n"
        END(test_vector_switch));
__asm__(FUNCTION(test_probe_entry)
        "sd sp, 0(a0)\n"
        "sd a0, 8(a0)\n"
        "sd s0, 16(a0)\n"
        "tail test_probe_body\n"
        END(test_probe_entry));
#endif
/* clang-format on */
#endif

/* Every register that a call may change gets another value; the compiler saves the rest around it. */
static inline void scramble(void) {
#if defined(__x86_64__)
    __asm__ volatile("movq $-1, %%rax\n movq %%rax, %%rcx\n movq %%rax, %%rdx\n movq %%rax, %%rsi\n movq %%rax, %%rdi\n"
                     "movq %%rax, %%r8\n movq %%rax, %%r9\n movq %%rax, %%r10\n movq %%rax, %%r11\n movq %%rax, %%rbx\n"
                     "movq %%rax, %%r12\n movq %%rax, %%r13\n movq %%rax, %%r14\n movq %%rax, %%r15\n"
                     "pcmpeqd %%xmm0, %%xmm0\n pcmpeqd %%xmm1, %%xmm1\n pcmpeqd %%xmm6, %%xmm6\n"
                     "pcmpeqd %%xmm7, %%xmm7\n pcmpeqd %%xmm8, %%xmm8\n pcmpeqd %%xmm15, %%xmm15\n" ::
                         : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "rbx", "r12", "r13", "r14",
                           "r15", "xmm0", "xmm1", "xmm6", "xmm7", "xmm8", "xmm15", "cc");
#elif defined(__aarch64__)
    __asm__ volatile(
        "mov x0, -1\n mov x1, x0\n mov x2, x0\n mov x8, x0\n mov x9, x0\n mov x16, x0\n mov x17, x0\n"
        "mov x19, x0\n mov x20, x0\n mov x27, x0\n mov x28, x0\n fmov d0, x0\n fmov d8, x0\n fmov d15, x0\n"
        "fmov d16, x0\n fmov d31, x0\n" ::
            : "x0", "x1", "x2", "x8", "x9", "x16", "x17", "x19", "x20", "x27", "x28", "v0", "v8", "v15", "v16", "v31");
#elif defined(__riscv)
    __asm__ volatile("li a0, -1\n mv a1, a0\n mv a2, a0\n mv t0, a0\n mv t6, a0\n mv s1, a0\n mv s2, a0\n mv s11, a0\n"
                     "fmv.d.x fa0, a0\n fmv.d.x fs0, a0\n fmv.d.x fs11, a0\n fmv.d.x ft11, a0\n" ::
                         : "a0", "a1", "a2", "t0", "t6", "s1", "s2", "s11", "fa0", "fs0", "fs11", "ft11");
#endif
}

/* -- Modes of floating point ----------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define MODES (UINT64_C(0xffc0) | UINT64_C(0xf3f) << 32) /* MXCSR without its flags, x87 control word */
#elif defined(__aarch64__)
#define MODES UINT64_C(0x07f79f00)
#elif defined(__riscv)
#define MODES UINT64_C(7)
#endif
static inline uint64_t modes(void) {
#if defined(__x86_64__)
    uint32_t mxcsr;
    uint16_t x87;
    __asm__ volatile("stmxcsr %0\n fnstcw %1" : "=m"(mxcsr), "=m"(x87));
    return ((uint64_t)x87 << 32 | mxcsr) & MODES;
#elif defined(__aarch64__)
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr & MODES;
#elif defined(__riscv)
    uint64_t frm;
    __asm__ volatile("frrm %0" : "=r"(frm));
    return frm & MODES;
#endif
}
static inline void modes_set(uint64_t value) {
#if defined(__x86_64__)
    uint32_t mxcsr = (uint32_t)(value & 0xffc0);
    uint16_t x87 = (uint16_t)(value >> 32 | 0x40);
    __asm__ volatile("ldmxcsr %0\n fnclex\n fldcw %1" : : "m"(mxcsr), "m"(x87) : "memory");
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(value) : "memory");
#elif defined(__riscv)
    __asm__ volatile("fsrm %0" : : "r"(value) : "memory");
#endif
}

enum rounding { NEAREST, DOWN, UP, ZERO };
static inline void round_to(enum rounding mode) {
#if defined(__x86_64__)
    uint64_t both = UINT64_C(3) << 13 | UINT64_C(3) << 42;
    modes_set((modes() & ~both) | (uint64_t)mode << 13 | (uint64_t)mode << 42);
#elif defined(__aarch64__)
    static const uint64_t code[] = {0, 2, 1, 3};
    modes_set((modes() & ~(UINT64_C(3) << 22)) | code[mode] << 22);
#elif defined(__riscv)
    static const uint64_t code[] = {0, 2, 3, 1};
    modes_set(code[mode]);
#endif
}

/* -- Stopping at every instruction ----------------------------------------------------------------------- */

/* The stack pointer where a signal came. */
static inline uintptr_t stopped_sp(const ucontext_t *context) {
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    return context->uc_mcontext.sp;
#elif defined(__riscv)
    return context->uc_mcontext.__gregs[REG_SP];
#endif
}

#if defined(__x86_64__)
/* While the flag is set, the processor raises SIGTRAP after each instruction.  A switch does not change it. */
static inline __attribute__((always_inline)) void trap_flag(uint64_t on) {
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n pushfq\n andq $~0x100, (%%rsp)\n orq %0, (%%rsp)\n popfq\n"
                     "leaq 128(%%rsp), %%rsp"
                     :
                     : "r"(on << 8)
                     : "memory", "cc");
}
#else
/* A breakpoint over the instruction at `at`: its bytes, and how many. */
static inline unsigned stop_width(const unsigned char *at) {
#if defined(__riscv)
    if ((*at & 3) != 3)
        return 2;
#endif
    (void)at;
    return 4;
}
static inline const void *stop_bytes(unsigned width) {
#if defined(__riscv)
    static const uint16_t stop_short = 0x9002;
    static const uint32_t stop_long = 0x00100073;
    return width == 2 ? (const void *)&stop_short : &stop_long;
#else
    static const uint32_t stop = 0xd4200000;
    (void)width;
    return &stop;
#endif
}
#endif

#endif
