/* A thread of State Threads 1.9 (libst-dev) for each connection.
 *
 * All threads run on one kernel thread. A call tries the system call first, and switches to another
 * thread when it would block. So st_accept takes all waiting connections before the threads of
 * accepted ones run.
 */
#define _GNU_SOURCE
#include "echo.h"

#include <st.h>

static ssize_t receive(void *stream, char *into, size_t room)
{
    return st_read(stream, into, room, ST_UTIME_NO_TIMEOUT);
}

static ssize_t transmit(void *stream, const char *bytes, size_t length)
{
    return st_write(stream, bytes, length, ST_UTIME_NO_TIMEOUT);
}

static void *connection(void *stream)
{
    serve(stream, receive, transmit);
    st_netfd_close(stream);
    return NULL;
}

int main(int argc, char **argv)
{
    int socket = listen_as_told(argc, argv);
    raise_limit(RLIM_INFINITY);
    /* Uses epoll(7) if the library was built with epoll; Debian's library was not. Otherwise uses
     * poll(2), because the default, select(2), knows only 1,024 descriptors. */
    st_set_eventsys(ST_EVENTSYS_ALT);
    if (st_get_eventsys() != ST_EVENTSYS_ALT)
        must(st_set_eventsys(ST_EVENTSYS_POLL) == 0, "st_set_eventsys");
    must(st_init() == 0, "st_init");
    st_netfd_t listener = st_netfd_open_socket(socket);
    must(listener != NULL, "st_netfd_open_socket");
    for (;;) {
        st_netfd_t stream = st_accept(listener, NULL, NULL, ST_UTIME_NO_TIMEOUT);
        if (stream == NULL) {
            if (out_of_means())
                st_usleep(PAUSE_MICROSECONDS);
            continue;
        }
        /* The new stack has 64 KiB. If possible, the library reuses the stack of an ended
         * thread. */
        while (st_thread_create(connection, stream, 0, 0) == NULL)
            st_usleep(PAUSE_MICROSECONDS);
    }
}
