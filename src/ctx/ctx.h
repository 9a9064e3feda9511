/* ctx.h - a suspended computation, and the switch between two of them.
 *
 * What.   A context is the stack pointer of a stack on which everything else has been saved.
 * Contract.  wefti_ctx_switch saves what the ABI says a call preserves, and nothing else: the compiler has saved the rest.
 *           x86-64    rbx rbp r12-r15, rsp, the control words of SSE (MXCSR) and x87
 *           aarch64   x19-x30, sp, d8-d15, FPCR
 *           riscv64   s0-s11, ra, sp, fs0-fs11, the rounding mode
 *         The stack is 16-byte aligned at entry as after a call.  A context is resumed once for each time it was saved, by one
 *         thread at a time, which may be another thread than the one that saved it.
 *         The signal mask, errno and thread-locals are not saved: they belong to the thread.  Nor are the flags of
 *         floating-point exceptions: after a switch they may be either side's, or cleared, but never cause a trap.
 * Unwinding.  Call frame information is right at every instruction, so debuggers and profilers see through a switch; the
 *         first frame of a context ends the backtrace.
 * Checked by.  test/unit/ctx_*.c, natively and on emulated processors.
 */
#ifndef WEFTI_CTX_CTX_H
#define WEFTI_CTX_CTX_H

#include <stddef.h>
#include <stdint.h>

struct wefti_ctx {
    void *sp;
};

/* Save the caller into `from` and continue `to`.  The call returns when somebody switches back to `from`, with the `pass`
 * that he gave. */
void *wefti_ctx_switch(struct wefti_ctx *from, const struct wefti_ctx *to, void *pass);

/* The caller's floating-point modes. */
uint64_t wefti_ctx_modes(void);

/* Make a context that, when first switched to, calls entry(pass) on the stack [base, base + size), with these modes.  entry must not
 * return. */
void wefti_ctx_init(struct wefti_ctx *ctx, void *base, size_t size, void (*entry)(void *pass), uint64_t modes);

#endif
