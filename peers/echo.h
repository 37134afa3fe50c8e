/* Serves a connection (RFC 862), for all echo servers in C.
 *
 * Every byte comes back, until the client closes its side. As in Duality's echo service, there is
 * no limit on silence.
 */
#ifndef ECHO_H
#define ECHO_H

#include "server.h"

enum {
    /* The most bytes of a connection under way, as in Duality's service. */
    ROOM = 4096,
};

/* Serves a connection until its end. Inlined, so that it calls the package's functions directly. */
static inline __attribute__((always_inline)) void
serve(void *stream, receive_function receive, transmit_function transmit)
{
    char bytes[ROOM];
    ssize_t length;
    while ((length = receive(stream, bytes, sizeof bytes)) > 0 && transmit(stream, bytes, (size_t)length) == length) {
    }
}

#endif
