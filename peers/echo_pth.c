/* A thread of GNU Pth 2.0.7 (libpth-dev) for each connection.
 *
 * All threads run on one kernel thread, which waits in select(2) for all of them. So descriptors
 * from FD_SETSIZE on cannot be used. Before pth_read reads, it asks for the descriptor's mode and
 * calls select. Trying the read first, and waiting by pth_wait when it would block, is no faster.
 * The scheduler calls select at every switch anyway.
 */
#define _GNU_SOURCE
#include "echo.h"

#include <pth.h>
#include <stdint.h>

static ssize_t receive(void *stream, char *into, size_t room)
{
    return pth_read((int)(intptr_t)stream, into, room);
}

static ssize_t transmit(void *stream, const char *bytes, size_t length)
{
    return pth_write((int)(intptr_t)stream, bytes, length);
}

static void *connection(void *stream)
{
    serve(stream, receive, transmit);
    close((int)(intptr_t)stream);
    return NULL;
}

int main(int argc, char **argv)
{
    int listener = listen_as_told(argc, argv);
    raise_limit(FD_SETSIZE);
    must(pth_init(), "pth_init");
    pth_attr_t attributes = pth_attr_new();
    must(attributes != NULL, "pth_attr_new");
    must(pth_attr_set(attributes, PTH_ATTR_JOINABLE, FALSE), "pth_attr_set");
    must(pth_attr_set(attributes, PTH_ATTR_STACK_SIZE, 64 * 1024), "pth_attr_set");
    for (;;) {
        int stream = pth_accept(listener, NULL, NULL);
        if (stream < 0) {
            if (out_of_means())
                pth_usleep(PAUSE_MICROSECONDS);
            continue;
        }
        while (pth_spawn(attributes, connection, (void *)(intptr_t)stream) == NULL)
            pth_usleep(PAUSE_MICROSECONDS);
    }
}
