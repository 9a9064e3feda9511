/* auth.c - who may ask what (auth.h). */
#include "auth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- The token ---------------------------------------------------------------------------------------- */

static int check_file(int fd, const char *path, char *why, size_t room) {
    struct stat stat;
    if (fstat(fd, &stat) < 0) {
        snprintf(why, room, "%s: %s", path, strerror(errno));
        return -EIO;
    }
    if (!S_ISREG(stat.st_mode)) {
        snprintf(why, room, "%s is not a file", path);
        return -EINVAL;
    }
    if (stat.st_uid != geteuid() && stat.st_uid != 0) {
        snprintf(why, room, "%s belongs to another user", path);
        return -EPERM;
    }
    if (stat.st_mode & 077) {
        snprintf(why, room, "%s can be read by others (mode %03o): chmod 600 %s", path, stat.st_mode & 0777u, path);
        return -EPERM;
    }
    return 0;
}

int auth_read_token(struct auth *auth, const char *path, char *why, size_t room) {
    char text[AUTH_TOKEN_MOST + 2];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        int error = -errno;
        snprintf(why, room, "%s: %s; to make one: (umask 077; head -c 32 /dev/urandom | base64 > %s)", path,
                 strerror(errno), path);
        return error;
    }
    int error = check_file(fd, path, why, room);
    ssize_t size = error ? 0 : read(fd, text, sizeof text);
    close(fd);
    if (error)
        return error;
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\r'))
        size--;
    if (size < AUTH_TOKEN_LEAST || size > AUTH_TOKEN_MOST) {
        snprintf(why, room, "%s: a token has %d to %d characters", path, AUTH_TOKEN_LEAST, AUTH_TOKEN_MOST);
        return -EINVAL;
    }
    for (ssize_t i = 0; i < size; i++)
        if (text[i] <= ' ' || text[i] > '~') {
            snprintf(why, room, "%s: a token is printable, without spaces, on one line", path);
            return -EINVAL;
        }
    memcpy(auth->token, text, (size_t)size);
    auth->token_size = (size_t)size;
    return 0;
}

/* Takes as long for any two texts of these sizes. */
static bool is_equal(const char *ours, size_t size, const char *theirs, size_t their_size) {
    unsigned char differ = size != their_size;
    for (size_t i = 0; i < their_size; i++)
        differ |= (unsigned char)(ours[i % size] ^ theirs[i]);
    return !*(volatile unsigned char *)&differ;
}

uint64_t auth_peer(const weft_addr *addr) {
    struct sockaddr_storage any = {0};
    uint64_t hash = UINT64_C(1469598103934665603);
    const unsigned char *at = (const unsigned char *)&any;
    memcpy(&any, addr->storage, addr->size < sizeof any ? addr->size : sizeof any);
    ((struct sockaddr_in *)&any)->sin_port = 0; /* the same place in both families */
    for (size_t i = 0; i < sizeof(struct sockaddr_in6); i++)
        hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    return hash;
}

enum auth_token auth_check(struct auth *auth, weft_text given, uint64_t peer, int64_t now) {
    static const char scheme[] = "Bearer ";
    size_t place = peer % AUTH_ADDRESSES;
    if (!given.at || !auth->token_size)
        return AUTH_NONE;
    /* The right one is never turned away: others at the same address would lock it out. */
    if (given.size > sizeof scheme - 1 && !strncasecmp(given.at, scheme, sizeof scheme - 1) &&
        is_equal(auth->token, auth->token_size, given.at + sizeof scheme - 1, given.size - (sizeof scheme - 1)))
        return AUTH_RIGHT;
    wefti_lock_take(&auth->lock);
    if (now - auth->tries[place].since >= INT64_C(1000000000)) {
        auth->tries[place].since = now;
        auth->tries[place].wrong = 0;
    }
    bool throttled = auth->tries[place].wrong >= AUTH_TRIES;
    auth->tries[place].wrong += !throttled;
    wefti_lock_give(&auth->lock);
    return throttled ? AUTH_THROTTLED : AUTH_WRONG;
}

/* -- Host and Origin ---------------------------------------------------------------------------------- */

/* Without the port; empty: it is malformed. */
static weft_text host_name(weft_text host) {
    bool bracket = host.size && host.at[0] == '[';
    const char *end = host.size ? memchr(host.at, bracket ? ']' : ':', host.size) : NULL;
    if (!end)
        return bracket ? (weft_text){host.at, 0} : host;
    weft_text name = {host.at + bracket, (size_t)(end - host.at) - bracket};
    for (const char *at = end + bracket, *stop = host.at + host.size; at < stop; at++)
        if (at == end + bracket ? *at != ':' : *at < '0' || *at > '9')
            return (weft_text){host.at, 0};
    return name;
}

bool auth_host_is_good(const struct auth *auth, weft_text host) {
    weft_text name = host_name(host);
    char text[64];
    struct in6_addr binary;
    if (name.size == 0)
        return false;
    if (weft_text_is_nocase(name, "localhost"))
        return true;
    for (unsigned i = 0; i < auth->host_count; i++)
        if (weft_text_is_nocase(name, auth->hosts[i]))
            return true;
    if (name.size >= sizeof text)
        return false;
    memcpy(text, name.at, name.size);
    text[name.size] = 0;
    return inet_pton(host.at[0] == '[' ? AF_INET6 : AF_INET, text, &binary) == 1;
}

bool auth_origin_is_good(weft_text origin, weft_text host) {
    static const char *const schemes[] = {"http://", "https://"};
    if (!origin.at)
        return true;
    for (int i = 0; i < 2; i++) {
        size_t size = strlen(schemes[i]);
        if (origin.size == size + host.size && !memcmp(origin.at, schemes[i], size) &&
            !strncasecmp(origin.at + size, host.at, host.size))
            return true;
    }
    return false;
}

bool auth_is_loopback(const weft_addr *addr) {
    const struct sockaddr *any = (const struct sockaddr *)addr->storage;
    if (any->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)any)->sin_addr.s_addr) >> 24) == 127;
    if (any->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)any)->sin6_addr);
    return any->sa_family == AF_UNIX;
}
