/* What the echo servers in C share: what is done with a connection (RFC 862).
 *
 * Every byte comes back, until the client closes its side. Nothing is said about silence, as in
 * Duality's echo service.
 */
#ifndef ECHO_H
#define ECHO_H

#include "server.h"

enum {
    /* So many bytes are under way at most, as in Duality's service. */
    ROOM = 4096,
};

/* Serves a connection until its end. Inlined, so that the package's functions are called directly. */
static inline __attribute__((always_inline)) void
serve(void *stream, receive_function receive, transmit_function transmit)
{
    char bytes[ROOM];
    ssize_t length;
    while ((length = receive(stream, bytes, sizeof bytes)) > 0 && transmit(stream, bytes, (size_t)length) == length) {
    }
}

#endif
