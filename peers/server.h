/* Shared by all servers in C: the socket, and the handling of failures.
 *
 *     NAME --listen HOST:PORT     prints     listening on HOST:PORT
 *
 * SIGTERM ends the server with exit code 0.
 */
#ifndef SERVER_H
#define SERVER_H

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKLOG = 4096,
    /* The pause before accepting again after descriptors, memory or threads have run out. */
    PAUSE_MICROSECONDS = 10000,
};

/* A package's functions for a stream. They act as read(2) and write(2), but `transmit` returns less
 * only if it failed. */
typedef ssize_t receive_function(void *stream, char *into, size_t room);
typedef ssize_t transmit_function(void *stream, const char *bytes, size_t length);

/* Ends the program with a message that says what failed. */
static inline void must(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        exit(1);
    }
}

/* Whether accept(2) failed for lack of a resource that the end of a connection frees. */
static inline int out_of_means(void)
{
    return errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
}

static void end(int number)
{
    (void)number;
    _exit(0);
}

/* Allows as many open descriptors as possible, but no more than `most`. */
static inline void raise_limit(rlim_t most)
{
    struct rlimit limit;
    must(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    limit.rlim_cur = limit.rlim_max < most ? limit.rlim_max : most;
    must(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
}

/* Listens at the address on the command line, prints that address, and returns the socket. */
static inline int listen_as_told(int argc, char **argv)
{
    char *colon = argc == 3 && strcmp(argv[1], "--listen") == 0 ? strrchr(argv[2], ':') : NULL;
    if (colon == NULL) {
        fprintf(stderr, "usage: %s --listen HOST:PORT\n", argv[0]);
        exit(2);
    }
    *colon = '\0';
    signal(SIGTERM, end);
    signal(SIGPIPE, SIG_IGN);
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
    int refused = getaddrinfo(argv[2], colon + 1, &hints, &found);
    if (refused) {
        fprintf(stderr, "%s:%s: %s\n", argv[2], colon + 1, gai_strerror(refused));
        exit(1);
    }
    int listener = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    must(listener >= 0, "socket");
    must(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0, "SO_REUSEADDR");
    /* On Linux, accepted sockets inherit this option: tcp(7). */
    must(setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
    must(bind(listener, found->ai_addr, found->ai_addrlen) == 0, "bind");
    must(listen(listener, BACKLOG) == 0, "listen");
    freeaddrinfo(found);
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    must(getsockname(listener, (struct sockaddr *)&address, &length) == 0, "getsockname");
    printf("listening on %s:%d\n", argv[2], ntohs(address.sin_port));
    must(fflush(stdout) == 0, "standard output");
    return listener;
}

#endif
