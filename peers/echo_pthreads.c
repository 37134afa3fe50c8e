/* A kernel thread for each connection, by glibc (libc6-dev). The thread waits in the plain system
 * call.
 *
 * `duality run` and `duality cc` take this program as it is: nothing here knows of Duality.
 */
#define _GNU_SOURCE
#include "echo.h"

#include <pthread.h>
#include <stdint.h>

static ssize_t receive(void *stream, char *into, size_t room)
{
    return recv((int)(intptr_t)stream, into, room, 0);
}

static ssize_t transmit(void *stream, const char *bytes, size_t length)
{
    size_t sent = 0;
    while (sent < length) {
        ssize_t now = send((int)(intptr_t)stream, bytes + sent, length - sent, MSG_NOSIGNAL);
        if (now < 0)
            return -1;
        sent += (size_t)now;
    }
    return (ssize_t)sent;
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
    raise_limit(RLIM_INFINITY);
    pthread_attr_t attributes;
    must(pthread_attr_init(&attributes) == 0, "pthread_attr_init");
    must(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0, "pthread_attr_setdetachstate");
    must(pthread_attr_setstacksize(&attributes, 64 * 1024) == 0, "pthread_attr_setstacksize");
    for (;;) {
        int stream = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (stream < 0) {
            if (out_of_means())
                usleep(PAUSE_MICROSECONDS);
            continue;
        }
        pthread_t thread;
        while (pthread_create(&thread, &attributes, connection, (void *)(intptr_t)stream) != 0)
            usleep(PAUSE_MICROSECONDS);
    }
}
