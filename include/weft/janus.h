/* weft/janus.h - nurseries under the names that a Janus compiler emits (libweft-janus).
 *
 * The calls are those of <weft/abi.h>, which says what they do, where they may be called and which
 * results there are.  Nurseries and tasks are weft's: all calls of <weft/nursery.h> and
 * <weft/task.h> take them.
 *
 *     source                   opcode                    runtime target
 *     nursery {                %1 = Nursery_Begin        n = janus_nursery_create()
 *         spawn compute(x)     %2 = Spawn @compute, %x   janus_nursery_spawn(n, compute, x)
 *         spawn compute(y)     %3 = Spawn @compute, %y   janus_nursery_spawn(n, compute, y)
 *     }                        %4 = Nursery_End %1       janus_nursery_await(n)
 *                                                        janus_nursery_destroy(n)
 *     await                    Await                     janus_nursery_await(n)
 *     async compute(x)         Async_Call @compute, %x   weft_async_call(n, compute, x, &call)
 *                                                        weft_async_await(&call, &value)
 *
 * Under the profile :sovereign Nursery_Begin has a capability as its operand, and its target is
 * weft_abi_nursery_create_with(rt, cap, fund).  The other opcodes stay the same.
 */
#ifndef WEFT_JANUS_H
#define WEFT_JANUS_H

#include <weft/abi.h>

WEFT_EXTERN_C_BEGIN

/* What a task runs.  A negative result is its error; 0 or more is success. */
typedef int (*janus_task_fn)(void *arg);
/* 0 success, -1 cancelled, -2 panic, -3 budget exhausted, else the negative code of the first task
 * that failed. */
typedef int janus_nursery_result;

/* Opens a nursery, in a fiber or on a plain thread: weft_abi_nursery_create.  NULL if it cannot be
 * had; the other calls take that. */
WEFT_API weft_nursery *janus_nursery_create(void);

/* Starts fn(arg) in it: weft_abi_nursery_spawn.  The task is borrowed until janus_nursery_await;
 * nothing has to be released.  NULL if it was refused, which janus_nursery_await reports. */
WEFT_API weft_task *janus_nursery_spawn(weft_nursery *n, janus_task_fn fn, void *arg);

/* Waits for all its tasks: weft_abi_nursery_await.  May suspend. */
WEFT_API janus_nursery_result janus_nursery_await(weft_nursery *n);

/* Frees it; tasks that were not awaited are cancelled, and awaited: weft_abi_nursery_destroy.  May
 * suspend. */
WEFT_API void janus_nursery_destroy(weft_nursery *n);

WEFT_EXTERN_C_END
#endif
