/* The toy web server on epoll, written by hand as a state machine. It does the work of
 * http_pthreads.c. */
#define _GNU_SOURCE
#include "http.h"
#include "events.h"

struct client {
    struct connection connection;
    int requests_left;
    /* Whether the connection ends with the reply that is being sent. */
    bool is_last;
    /* How many bytes of input have come, and how many of them contain no end of a head. */
    size_t held, looked_at;
    /* The output to be sent, from `sent` up to `length`. */
    size_t sent, length;
    char output[LONGEST_REPLY];
    char input[LONGEST_HEAD];
};

static void begin(struct connection *connection)
{
    struct client *client = (struct client *)connection;
    client->requests_left = REQUESTS_A_CONNECTION;
    client->is_last = false;
    client->held = client->looked_at = client->sent = client->length = 0;
}

/* Answers the request with a head of so many bytes. 0 means that the head is too long. */
static void reply(struct client *client, size_t head)
{
    struct request request = head == 0 ? (struct request){431, 0, CLOSE} : understand(client->input, head);
    if (--client->requests_left == 0)
        request.persistence = CLOSE;
    client->is_last = request.persistence == CLOSE;
    client->sent = 0;
    client->length = answer(client->output, request);
    /* The other bytes belong to the next request. */
    client->held -= head;
    client->looked_at = 0;
    memmove(client->input, client->input + head, client->held);
}

static enum wait proceed(struct connection *connection)
{
    struct client *client = (struct client *)connection;
    bool again, is_drained = false;
    for (;;) {
        while (client->sent < client->length) {
            ssize_t count =
                transmit_now(connection, client->output + client->sent, client->length - client->sent, &again);
            if (count < 0)
                return again ? OUTPUT : ENDED;
            client->sent += (size_t)count;
        }
        if (client->is_last)
            return ENDED;
        size_t head = head_length(client->input, client->looked_at, client->held);
        if (head > 0 || client->held == sizeof client->input) {
            reply(client, head);
            continue;
        }
        client->looked_at = client->held;
        if (is_drained && !connection->hung_up)
            return INPUT;
        size_t room = sizeof client->input - client->held;
        ssize_t count = receive_now(connection, client->input + client->held, room, &again);
        if (count <= 0)
            return again ? INPUT : ENDED;
        client->held += (size_t)count;
        /* Bytes that come after a short read cause a new event. */
        is_drained = (size_t)count < room;
    }
}

int main(int argc, char **argv)
{
    int listener = listen_as_told(argc, argv);
    raise_limit(RLIM_INFINITY);
    serve_events(listener, sizeof(struct client), PATIENCE_SECONDS, begin, proceed);
}
