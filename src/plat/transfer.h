/* transfer.h - recv and send without libc, where that pays.  Included by plat.h.
 *
 * libc's are cancellation points of POSIX threads, which costs four locked instructions a call, and workers are never cancelled that way.
 * Its syscall() is a call and a return more: a return that comes out of the kernel is mispredicted, since the kernel has used up the
 * processor's stack of return addresses.  Checkers look at libc's, and the model checker has its own.
 */
#ifndef WEFTI_PLAT_TRANSFER_H
#define WEFTI_PLAT_TRANSFER_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(WEFTI_MODEL)
#define WEFTI_CHECKED_CALLS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEFTI_CHECKED_CALLS 1
#endif
#endif

#if defined(__x86_64__) && defined(__LP64__) && defined(__linux__) && !defined(WEFTI_CHECKED_CALLS)
#define WEFTI_DIRECT_CALLS 1
static inline ssize_t wefti_transfer(long number, int fd, const void *bytes, size_t size, long flags) {
    register long with __asm__("r10") = flags;
    register long addr __asm__("r8") = 0;
    register long addr_size __asm__("r9") = 0;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"((long)fd), "S"(bytes), "d"(size), "r"(with), "r"(addr), "r"(addr_size)
                     : "rcx", "r11", "memory");
    return result;
}
static inline ssize_t wefti_recv(int fd, void *bytes, size_t size) {
    return wefti_transfer(45, fd, bytes, size, 0); /* recvfrom */
}
static inline ssize_t wefti_send(int fd, const void *bytes, size_t size) {
    return wefti_transfer(44, fd, bytes, size, 0x4000); /* sendto, MSG_NOSIGNAL */
}
#endif

#endif
