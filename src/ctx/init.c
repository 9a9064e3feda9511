/* init.c - the first frame of a new context: what wefti_ctx_switch will restore, then the trampoline. */
#include "ctx/ctx.h"

#include <stdint.h>
#include <string.h>

/* In switch.S: calls the entry, whose address it finds in a saved register, with `pass`.  Begins with a nop, which is
 * jumped over: an unwinder looks for the caller one byte before the return address. */
void wefti_ctx_trampoline(void);
#if defined(__x86_64__)
enum { NOP_SIZE = 1 };
#else
enum { NOP_SIZE = 4 };
#endif

uint64_t wefti_ctx_modes(void) {
#if defined(__x86_64__)
    uint32_t mxcsr;
    uint16_t x87;
    __asm__ volatile("stmxcsr %0" : "=m"(mxcsr)); /* volatile: not always the same */
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (uint64_t)x87 << 32 | (mxcsr & ~UINT32_C(0x3f)); /* no pending exceptions */
#elif defined(__aarch64__)
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr)); /* volatile: not always the same */
    return fpcr;
#else
    uint64_t frm;
    __asm__ volatile("frrm %0" : "=r"(frm)); /* volatile: not always the same */
    return frm;
#endif
}

void wefti_ctx_init(struct wefti_ctx *ctx, void *base, size_t size, void (*entry)(void *pass), uint64_t modes) {
    uintptr_t top = ((uintptr_t)base + size) & ~(uintptr_t)15;
#if defined(__x86_64__)
    /* From the stack pointer up: r15 r14 r13 r12 rbx rbp, control words, return address; then one word of padding, so that
     * the trampoline begins with rsp = 16n + 8, as a function does. */
    uint64_t frame[9] = {0};
    frame[3] = (uint64_t)(uintptr_t)entry; /* r12 */
    frame[6] = modes;
    frame[7] = (uint64_t)(uintptr_t)wefti_ctx_trampoline + NOP_SIZE;
#elif defined(__aarch64__)
    /* d8-d15, x19-x28, x29, x30, FPCR, padding. */
    uint64_t frame[22] = {0};
    frame[8] = (uint64_t)(uintptr_t)entry;                            /* x19 */
    frame[19] = (uint64_t)(uintptr_t)wefti_ctx_trampoline + NOP_SIZE; /* x30 */
    frame[20] = modes;
#elif defined(__riscv) && __riscv_xlen == 64
    /* ra, s0-s11, fs0-fs11, rounding mode. */
    uint64_t frame[26] = {0};
    frame[0] = (uint64_t)(uintptr_t)wefti_ctx_trampoline + NOP_SIZE; /* ra */
    frame[2] = (uint64_t)(uintptr_t)entry;                           /* s1 */
    frame[25] = modes;
#else
#error "weft needs a context switch for this processor: src/ctx/switch.S"
#endif
    top -= sizeof frame;
    memcpy((void *)top, frame, sizeof frame);
    ctx->sp = (void *)top;
}
