/* The loop of servers written by hand as state machines.
 *
 *     epoll_wait ──► the listener: accept all that wait, and let each proceed at once
 *                └─► a connection: let it proceed until it would block, or has ended
 *
 * A server is a `struct` that begins with a `struct connection`, and a function `proceed`. The
 * function does all work that needs no wait, and returns what the connection waits for next. Events
 * are edge-triggered. One kernel thread does everything.
 */
#ifndef EVENTS_H
#define EVENTS_H

#include "server.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>

enum {
    EVENTS_A_ROUND = 256,
};

/* What a connection waits for. */
enum wait { INPUT, OUTPUT, ENDED };

struct connection {
    /* The neighbours in the list of waiting connections, longest wait first. `after` also links
     * free places. */
    struct connection *before, *after;
    /* The time at which the wait times out, in milliseconds. */
    int64_t deadline;
    int socket;
    /* The events that epoll was asked for; 0 before the first time. */
    uint32_t asked;
    /* Whether a short read may hide that the client has closed. */
    bool hung_up;
};

typedef enum wait proceed_function(struct connection *connection);

struct loop {
    int poller, listener;
    /* The size of the server's `struct` for a connection, in bytes. */
    size_t size;
    /* How long a connection may wait, in milliseconds, or 0 for ever. */
    int64_t patience;
    int64_t now;
    /* When the loop accepts again after resources ran out, or 0. */
    int64_t resume;
    struct connection waiting, *idle;
};

static inline int64_t milliseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Receives the present bytes. Sets `*again` if there are none. */
static inline ssize_t receive_now(struct connection *connection, char *into, size_t room, bool *again)
{
    ssize_t got = recv(connection->socket, into, room, 0);
    *again = got < 0 && errno == EAGAIN;
    return got;
}

/* Sends as many bytes as fit. Sets `*again` if none fit. */
static inline ssize_t transmit_now(struct connection *connection, const char *bytes, size_t length, bool *again)
{
    ssize_t sent = send(connection->socket, bytes, length, MSG_NOSIGNAL);
    *again = sent < 0 && errno == EAGAIN;
    return sent;
}

static inline void leave(struct connection *connection)
{
    if (connection->before == NULL)
        return;
    connection->before->after = connection->after;
    connection->after->before = connection->before;
    connection->before = NULL;
}

static inline void end_connection(struct loop *loop, struct connection *connection)
{
    leave(connection);
    close(connection->socket);
    connection->after = loop->idle;
    loop->idle = connection;
}

/* Lets a connection go on, and then arranges its next wait. */
static inline __attribute__((always_inline)) void
advance(struct loop *loop, struct connection *connection, proceed_function proceed)
{
    enum wait wait = proceed(connection);
    if (wait == ENDED) {
        end_connection(loop, connection);
        return;
    }
    uint32_t wanted = EPOLLET | EPOLLRDHUP | (wait == OUTPUT ? EPOLLOUT : EPOLLIN);
    if (wanted != connection->asked) {
        struct epoll_event event = {.events = wanted, .data.ptr = connection};
        int how = connection->asked == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
        if (epoll_ctl(loop->poller, how, connection->socket, &event) != 0) {
            end_connection(loop, connection);
            return;
        }
        connection->asked = wanted;
    }
    if (loop->patience == 0)
        return;
    leave(connection);
    connection->deadline = loop->now + loop->patience;
    connection->before = loop->waiting.before;
    connection->after = &loop->waiting;
    connection->before->after = loop->waiting.before = connection;
}

static inline struct connection *new_connection(struct loop *loop, int socket)
{
    struct connection *connection = loop->idle;
    if (connection != NULL)
        loop->idle = connection->after;
    else if ((connection = malloc(loop->size)) == NULL)
        return NULL;
    *connection = (struct connection){.socket = socket};
    return connection;
}

static inline void listen_for(struct loop *loop, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = NULL};
    must(epoll_ctl(loop->poller, EPOLL_CTL_MOD, loop->listener, &event) == 0, "epoll_ctl");
}

/* Accepts all waiting connections. `begin` prepares the fields after the `struct connection`. */
static inline __attribute__((always_inline)) void
accept_all(struct loop *loop, void begin(struct connection *), proceed_function proceed)
{
    for (;;) {
        int socket = accept4(loop->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (socket < 0) {
            if (out_of_means()) {
                listen_for(loop, 0);
                loop->resume = loop->now + PAUSE_MICROSECONDS / 1000;
            } else if (errno != EAGAIN) {
                continue;
            }
            return;
        }
        struct connection *connection = new_connection(loop, socket);
        if (connection == NULL) {
            close(socket);
            continue;
        }
        begin(connection);
        advance(loop, connection, proceed);
    }
}

/* How long epoll_wait may wait, in milliseconds. */
static inline int time_left(const struct loop *loop)
{
    int64_t next = loop->resume;
    const struct connection *first = loop->waiting.after;
    if (first != &loop->waiting && (next == 0 || first->deadline < next))
        next = first->deadline;
    if (next == 0)
        return -1;
    /* The coarse clock may be up to 4 ms behind. */
    return next > loop->now ? (int)(next - loop->now) + 4 : 0;
}

static inline void look_at_the_clock(struct loop *loop)
{
    loop->now = milliseconds();
    if (loop->resume != 0 && loop->resume <= loop->now) {
        loop->resume = 0;
        listen_for(loop, EPOLLIN);
    }
    while (loop->waiting.after != &loop->waiting && loop->waiting.after->deadline <= loop->now)
        end_connection(loop, loop->waiting.after);
}

/* Serves for ever. */
static inline __attribute__((always_inline)) void
serve_events(int listener, size_t size, int patience_seconds, void begin(struct connection *), proceed_function proceed)
{
    struct loop loop = {.listener = listener, .size = size, .patience = patience_seconds * INT64_C(1000)};
    loop.waiting.before = loop.waiting.after = &loop.waiting;
    loop.poller = epoll_create1(EPOLL_CLOEXEC);
    must(loop.poller >= 0, "epoll_create1");
    must(fcntl(listener, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[EVENTS_A_ROUND];
    must(epoll_ctl(loop.poller, EPOLL_CTL_ADD, listener, &event) == 0, "epoll_ctl");
    loop.now = milliseconds();
    for (;;) {
        int count = epoll_wait(loop.poller, events, EVENTS_A_ROUND, time_left(&loop));
        loop.now = milliseconds();
        bool has_new = false;
        for (int index = 0; index < count; index++) {
            struct connection *connection = events[index].data.ptr;
            if (connection == NULL) {
                has_new = true;
                continue;
            }
            if (events[index].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
                connection->hung_up = true;
            advance(&loop, connection, proceed);
        }
        /* New connections come last, so that they can take the places of ended ones. */
        if (has_new)
            accept_all(&loop, begin, proceed);
        look_at_the_clock(&loop);
    }
}

#endif
