/* A thread of GNU Pth 2.0.7 (libpth-dev) for each connection: the "Pth" server of "Are events
 * fast?".
 *
 * All threads run on one kernel thread, which waits in select(2) for all of them. So descriptors
 * from FD_SETSIZE on cannot be used. Before pth_read reads, it asks for the descriptor's mode and
 * calls select. Trying the read first, and waiting by pth_wait when it would block, is no faster.
 * The scheduler calls select at every switch anyway.
 */
#define _GNU_SOURCE
#include "http.h"

#include <pth.h>
#include <stdint.h>

/* The event that ends a wait after too long. A key gives each thread its own event, so that no wait
 * allocates one. */
static pth_event_t late(void)
{
    static pth_key_t key = PTH_KEY_INIT;
    return pth_event(PTH_EVENT_TIME | PTH_MODE_STATIC, &key, pth_timeout(PATIENCE_SECONDS, 0));
}

static ssize_t receive(void *stream, char *into, size_t room)
{
    return pth_read_ev((int)(intptr_t)stream, into, room, late());
}

static ssize_t transmit(void *stream, const char *bytes, size_t length)
{
    return pth_write_ev((int)(intptr_t)stream, bytes, length, late());
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
