/* certs.c - the certificates of these tests: made once, before the first, by the openssl command; removed after the last. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tls_fixture.h"

static char folder[] = "/tmp/weft-tls-XXXXXX";
static pid_t maker;

static const char script[] =
    "cd '%s' && exec 2>log >&2 && set -e\n"
    "new='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'\n"
    "openssl req -x509 $new -keyout ca.key -out ca.pem -subj '/CN=weft test CA' -days 3\n"
    "make() {\n"
    "    openssl req $new -keyout $1.key -out $1.csr -subj \"/CN=$2\"\n"
    "    printf \"subjectAltName=$3\\n\" >$1.ext\n"
    "    openssl x509 -req -in $1.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days $4 -extfile $1.ext -out $1.pem\n"
    "    cat $1.key >>$1.pem\n"
    "}\n"
    "make good localhost DNS:localhost,IP:127.0.0.1 3\n"
    "make other elsewhere.example DNS:elsewhere.example 3\n"
    "make wild wild.example 'DNS:*.wild.example,DNS:wild.example' 3\n"
    "make renewed renewed.example DNS:localhost 3\n"
    "make expired localhost DNS:localhost -1\n"
    "make nameless localhost email:root@localhost 3\n"
    "make user someone DNS:someone.example 3\n"
    "openssl req -x509 $new -keyout alone.key -out alone.pem -subj /CN=localhost -addext subjectAltName=DNS:localhost\n"
    "cat alone.key >>alone.pem\n"
    "echo nonsense >garbage.pem\n";

static void remove_all(void) {
    char command[sizeof folder + 16];
    if (getpid() != maker)
        return;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command))
        perror(command);
}

__attribute__((constructor)) static void make_all(void) {
    char command[sizeof script + sizeof folder];
    maker = getpid();
    if (!mkdtemp(folder))
        return;
    atexit(remove_all);
    snprintf(command, sizeof command, script, folder);
    if (system(command))
        fprintf(stderr, "the openssl command could not make the certificates\n");
}

const char *tls_file(const char *name) {
    static char paths[8][64];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}
