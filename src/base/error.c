/* error.c - a sentence for every code. */
#include <errno.h>
#include <weft/base.h>

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

const char *weft_strerror(int code) {
    switch (code < 0 ? 0u - (unsigned)code : (unsigned)code) {
    case 0: return "success";
    case EINVAL: return "invalid argument or setting, or there is no runtime here";
    case E2BIG: return "too many arguments, or a structure of a newer weft that sets what this library does not know";
    case ENOMEM: return "out of memory";
    case EAGAIN: return "not now, try again later: it is not there yet, or there is no room, thread or answer for it";
    case ESHUTDOWN: return "the runtime is stopping and takes no more tasks";
    case ETIMEDOUT: return "the deadline passed";
    case ETIME: return "had the processor for too long without ever waiting";
    case ECANCELED: return "cancelled";
    case EDEADLK: return "would wait for itself, or nothing can ever run again";
    case EBUSY: return "in use: another waiter is registered, or tasks are still running";
    case EOVERFLOW: return "nested too deep, or more than can be counted";
    case ERANGE: return "fewer than none";
    case ENOSYS: return "not supported by this system";
    case EBADF: return "not an open file descriptor";
    case EIO: return "input or output failed";
    case ENOSPC: return "no space left";
    case EFBIG: return "the file would become too large";
    case EPIPE: return "closed: the other end, or the nursery";
    case ELOOP: return "started again too often";
    case EACCES: return "not allowed: permission denied, or only the owner may do this";
    case EPERM: return "not permitted: not locked by the caller, the profile forbids it, or a capability is missing";
    case EDQUOT: return "the fund or the capability has too little left";
    case ENOENT: return "there is no such file, name or thing";
    case ESRCH: return "no such process";
    case EEXIST: return "exists already";
    case ENAMETOOLONG: return "the name is too long";
    case EMFILE: return "this process has too many open files";
    case ENFILE: return "the system has too many open files";
    case EADDRINUSE: return "the address is in use";
    case EADDRNOTAVAIL: return "this machine does not have that address";
    case EAFNOSUPPORT: return "the system does not support this kind of address";
    case ECONNREFUSED: return "nobody listens at that address";
    case ECONNRESET: return "the other side has ended the connection";
    case ENOTCONN: return "not connected";
    case EHOSTUNREACH:
    case ENETUNREACH: return "there is no way to that address";
    case EMSGSIZE: return "larger than is allowed";
    case ENOBUFS: return "no room left for it";
    case EBADMSG: return "malformed";
    case EPROTO: return "the other side does not follow the protocol";
    case EINTR: return "interrupted";
    case ENOTRECOVERABLE: return "a forked child has none of its parent's runtime: it may only exec or exit";
    case ECHILD: return "somebody else has taken how that child ended";
    case ENOTDIR: return "not a directory";
    case EISDIR: return "a directory";
    case ENOTEMPTY: return "the directory is not empty";
    case ENOEXEC: return "not a program";
    case EROFS: return "may only be read";
    case EOPNOTSUPP: return "this kind of stream, socket or process cannot do that";
    case EPROTONOSUPPORT: return "nobody here speaks that protocol";
    case EKEYREJECTED: return "the other side's certificate is not good, or another's";
    case EDESTADDRREQ: return "where to is missing";
    case ENETDOWN: return "the network is down";
    case EHOSTDOWN: return "the machine at that address does not answer";
    case ESPIPE: return "has no positions: a pipe, a socket, a terminal";
    case ENOTSOCK: return "not a socket";
    case ENOPROTOOPT: return "this kind of socket has no such option";
    case EPROTOTYPE: return "the socket at that address is of another kind";
    case EISCONN: return "connected already";
    case EALREADY:
    case EINPROGRESS: return "under way already";
    case ENETRESET: return "the network has ended the connection";
    case EFAULT: return "not an address in memory";
    case EXDEV: return "on another file system";
    case ENXIO:
    case ENODEV: return "there is no such device, or nobody at the other end";
    case ENOTTY: return "not a terminal, or this device cannot do that";
    case ETXTBSY: return "the program is running, or being written";
    case EMLINK: return "too many links";
    case ESTALE: return "the file is gone from its server";
    case EBADFD: return "in a state in which it cannot do that";
    case ENOTBLK: return "not a disk";
    case EDOM: return "outside of what is allowed";
    case ECONNABORTED: return "the connection was given up before it was made";
    default: return "unknown error";
    }
}

const char *weft_version(void) {
    return TEXT(WEFT_VERSION_MAJOR) "." TEXT(WEFT_VERSION_MINOR) "." TEXT(WEFT_VERSION_PATCH);
}
