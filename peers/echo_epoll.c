/* Echo on epoll, written by hand as a state machine. It does the work of echo_pthreads.c. */
#define _GNU_SOURCE
#include "echo.h"
#include "events.h"

struct echo {
    struct connection connection;
    /* The bytes to be sent, from `sent` up to `length`. */
    size_t sent, length;
    char bytes[ROOM];
};

static void begin(struct connection *connection)
{
    struct echo *echo = (struct echo *)connection;
    echo->sent = echo->length = 0;
}

static enum wait proceed(struct connection *connection)
{
    struct echo *echo = (struct echo *)connection;
    bool again, is_drained = false;
    for (;;) {
        while (echo->sent < echo->length) {
            ssize_t count = transmit_now(connection, echo->bytes + echo->sent, echo->length - echo->sent, &again);
            if (count < 0)
                return again ? OUTPUT : ENDED;
            echo->sent += (size_t)count;
        }
        if (is_drained && !connection->hung_up)
            return INPUT;
        ssize_t count = receive_now(connection, echo->bytes, sizeof echo->bytes, &again);
        if (count <= 0)
            return again ? INPUT : ENDED;
        echo->sent = 0;
        echo->length = (size_t)count;
        /* Bytes that come after a short read cause a new event. */
        is_drained = echo->length < sizeof echo->bytes;
    }
}

int main(int argc, char **argv)
{
    int listener = listen_as_told(argc, argv);
    raise_limit(RLIM_INFINITY);
    serve_events(listener, sizeof(struct echo), 0, begin, proceed);
}
