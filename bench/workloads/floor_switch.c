/* floor_switch.c - the cheapest context switch there is: six registers, the stack pointer, and a return.
 * The bench has its own, so that the floor does not move when weft's switch does. */
#include <math.h>
#include <stdlib.h>

#include "floor.h"

#ifdef __x86_64__

/* Save the callee-saved registers on this stack, its pointer in *from, and go on where `to` was left. */
void bench_switch(void **from, void *to);
__asm__(".text\n"
        ".globl bench_switch\n"
        ".hidden bench_switch\n"
        ".type bench_switch, @function\n"
        "bench_switch:\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n"
        "    pop %r14\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size bench_switch, . - bench_switch\n");

static void *outer, *inner;
static uint64_t entered;

static void other_side(void) {
    for (;;) {
        entered++;
        bench_switch(&inner, outer);
    }
}

double bench_floor_switch(struct bench_run *run) {
    enum { STACK = 16384 };
    uint64_t count = run->quick ? 1000000 : 10000000;
    char *stack = aligned_alloc(4096, STACK);
    if (!bench_check(run, stack != NULL, "no memory"))
        return NAN;
    uint64_t *top = (uint64_t *)(void *)(stack + STACK);
    *--top = 0; /* other_side never returns; this keeps the stack aligned as after a call */
    *--top = (uint64_t)(uintptr_t)other_side;
    for (int i = 0; i < 6; i++)
        *--top = 0;
    inner = top;
    entered = 0;
    int64_t start = bench_now();
    for (uint64_t i = 0; i < count; i++)
        bench_switch(&outer, inner);
    double ns = (double)(bench_now() - start) / (double)(2 * count);
    bench_check(run, entered == count, "%llu switches of %llu", (unsigned long long)entered, (unsigned long long)count);
    free(stack);
    return ns;
}

#else

double bench_floor_switch(struct bench_run *run) {
    (void)run;
    return NAN;
}

#endif
