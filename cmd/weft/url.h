/* url.h - http://HOST[:PORT][/PATH], and a connection to it. */
#ifndef WEFT_CMD_URL_H
#define WEFT_CMD_URL_H

#include <weft/net.h>

struct url {
    char host[256];      /* without brackets */
    char authority[280]; /* as a Host field has it */
    int port;
    char target[512]; /* "/..." */
};

/* 0; -EINVAL. */
int url_parse(const char *text, struct url *out);
/* Look its name up and connect.  0; a negative error, `why` says what failed.  Call from: a fiber or a plain thread. */
int url_connect(const struct url *url, weft_io **out, weft_deadline until, char *why, size_t room);

#endif
