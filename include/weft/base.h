/* weft/base.h - what every other header needs: visibility, deadlines, errors, version.
 *
 * Errors.  Every function that can fail returns an int: 0 or more is success, a negative errno value
 * (-EINVAL, -ENOMEM, ...) is failure.  weft never reports through `errno`.  On failure nothing has
 * changed and outputs are untouched, unless the function says otherwise.
 */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define WEFT_EXTERN_C_BEGIN extern "C" {
#define WEFT_EXTERN_C_END }
#else
#define WEFT_EXTERN_C_BEGIN
#define WEFT_EXTERN_C_END
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
#define WEFT_NOW ((weft_deadline)0) /* do not wait: look once */

/* The deadline `ns` nanoseconds from now.  Negative counts as 0; overflow becomes WEFT_NEVER. */
WEFT_API weft_deadline weft_after(int64_t ns);

/* The monotonic clock in nanoseconds; inside a `sim` runtime, that runtime's virtual clock. */
WEFT_API int64_t weft_now(void);

/* No handle.  A call that is given NULL for a task, runtime, or channel of any kind returns -EINVAL, or if it returns no error does nothing and
 * says what is true of nothing (false, 0, NULL).  Objects that live in your memory (mutex, event, nursery, ...) have to be there. */

/* A static, English sentence for any code that a weft function returned.  Never NULL.
 * Accepts the code with either sign; 0 is "success".  Unknown codes give "unknown error". */
WEFT_API const char *weft_strerror(int code);

/* The version of the library that is running, as "major.minor.patch". */
WEFT_API const char *weft_version(void);

WEFT_EXTERN_C_END
#endif
