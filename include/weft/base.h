/* weft/base.h - what every other header needs: visibility, deadlines, errors, version.
 *
 * Errors.  Every function that can fail returns an int: 0 or more is success, a negative errno value
 * (-EINVAL, -ENOMEM, ...) is failure.  weft never reports through `errno`.  On failure nothing has
 * changed and outputs are untouched, unless the function says otherwise.
 *
 * NULL.  A handle that weft gave (weft_task, weft_io, weft_chan, weft_pool, ...; a weft_nursery and a weft_async too) and that is NULL is -EINVAL,
 * and so is nowhere to put a result, unless the call says that it is optional.  The case of a select for it has that result.  A call that returns
 * no error does nothing then, and says what is true of nothing (false, 0, NULL, closed).  Calls that give a handle back (close, drop, destroy, free)
 * do nothing with NULL, and succeed.  Where NULL means something (the caller's runtime, defaults) the call says so.
 * Not looked at, as in C's own library, are objects in your memory (weft_mutex, weft_rwlock, weft_cond, weft_sem, weft_event, weft_barrier, weft_once,
 * weft_group, weft_job, weft_wait, weft_reader, weft_interval) and buffers of a size that is not 0: they have to be there.
 */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* WEFT_CAST: for the macros of these headers, which C++ programs expand under -Wold-style-cast. */
#ifdef __cplusplus
#define WEFT_EXTERN_C_BEGIN extern "C" {
#define WEFT_EXTERN_C_END }
#define WEFT_CAST(type, value) static_cast<type>(value)
#else
#define WEFT_EXTERN_C_BEGIN
#define WEFT_EXTERN_C_END
#define WEFT_CAST(type, value) ((type)(value))
#endif

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#define WEFT_MUST_USE __attribute__((warn_unused_result))
#else
#define WEFT_API
#define WEFT_MUST_USE
#endif

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

WEFT_EXTERN_C_BEGIN

/* A point on the monotonic clock in nanoseconds, after which a wait gives up.
 * Make one with weft_after(), or use the two constants. */
typedef int64_t weft_deadline;

#define WEFT_NEVER INT64_MAX       /* wait as long as it takes */
#define WEFT_NOW WEFT_CAST(weft_deadline, 0) /* do not wait: look once */

typedef struct weft_cap weft_cap; /* <weft/cap.h> */

/* The deadline `ns` nanoseconds from now.  Negative counts as 0; overflow becomes WEFT_NEVER. */
WEFT_API weft_deadline weft_after(int64_t ns);

/* The monotonic clock in nanoseconds; inside a `sim` runtime, that runtime's virtual clock. */
WEFT_API int64_t weft_now(void);

/* A static, English sentence for any code that a weft function returned.  Never NULL.
 * Accepts the code with either sign; 0 is "success".  Unknown codes give "unknown error". */
WEFT_API const char *weft_strerror(int code);

/* The version of the library that is running, as "major.minor.patch". */
WEFT_API const char *weft_version(void);

WEFT_EXTERN_C_END
#endif
