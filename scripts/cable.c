/* Joins two network interfaces like a long line, with delay, loss and rate, for scripts/hosts.py.
 *
 *     cable INTERFACE INTERFACE DELAY_NS LOSS_PPM BITS_PER_SECOND PACKETS
 *
 * Both directions are alike. DELAY_NS counts for one direction, LOSS_PPM is in millionths of the
 * packets, and 0 bits per second mean no limit. The program drops a packet if PACKETS packets are
 * queued before that packet. The program prints "ready" and ends by a signal. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

enum { LARGEST = 65536, BATCH = 256, BUFFER = 16 << 20 };
static const uint64_t SECOND = 1000000000;

struct packet {
    uint64_t due;
    size_t length;
    unsigned char *bytes;
};

/* One direction: a ring of packets in the order of their times. */
struct direction {
    int from, to;
    struct packet *ring;
    size_t first, count;
    uint64_t clear; /* time at which the last bit has left the sender */
};

static uint64_t delay, loss, rate;
static size_t room;

static void die(const char *what)
{
    fprintf(stderr, "cable: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static uint64_t number(const char *text)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno || *end || end == text) {
        errno = EINVAL;
        die(text);
    }
    return value;
}

/* Opens a socket that receives all packets that arrive at an interface, and that sends packets from
 * it. */
static int attach(const char *interface)
{
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("socket");
    int yes = 1, size = BUFFER;
    if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes))
        die("PACKET_IGNORE_OUTGOING");
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET,
        .sll_protocol = htons(ETH_P_ALL),
        .sll_ifindex = (int)if_nametoindex(interface),
    };
    if (!address.sll_ifindex || bind(fd, (struct sockaddr *)&address, sizeof address))
        die(interface);
    return fd;
}

static int is_lost(void)
{
    static uint64_t state = 88172645463325252u; /* xorshift64 */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % 1000000 < loss;
}

/* Takes the packets that have arrived, and gives each packet its time of delivery. */
static void take(struct direction *d)
{
    static unsigned char buffer[LARGEST];
    for (int i = 0; i < BATCH; i++) {
        ssize_t length = recv(d->from, buffer, sizeof buffer, 0);
        if (length <= 0)
            return;
        if (is_lost() || d->count == room)
            continue;
        uint64_t left = now();
        if (rate) {
            if (d->clear < left)
                d->clear = left;
            d->clear += (uint64_t)length * 8 * SECOND / rate;
            left = d->clear;
        }
        unsigned char *bytes = malloc((size_t)length);
        if (!bytes)
            continue;
        memcpy(bytes, buffer, (size_t)length);
        size_t last = (d->first + d->count++) % room;
        d->ring[last] = (struct packet){left + delay, (size_t)length, bytes};
    }
}

/* Delivers the packets that are due. A packet that the interface refuses is lost. */
static void deliver(struct direction *d)
{
    while (d->count && d->ring[d->first].due <= now()) {
        struct packet *packet = &d->ring[d->first];
        if (send(d->to, packet->bytes, packet->length, 0) < 0 && errno == EMSGSIZE)
            fprintf(stderr, "cable: a packet of %zu bytes is dropped: switch offloads off\n",
                    packet->length);
        free(packet->bytes);
        d->first = (d->first + 1) % room;
        d->count--;
    }
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fputs("usage: cable INTERFACE INTERFACE DELAY_NS LOSS_PPM BITS_PER_SECOND PACKETS\n",
              stderr);
        return 2;
    }
    int ends[2] = {attach(argv[1]), attach(argv[2])};
    delay = number(argv[3]);
    loss = number(argv[4]);
    rate = number(argv[5]);
    room = number(argv[6]);
    struct direction directions[2];
    struct pollfd polled[2];
    for (int i = 0; i < 2; i++) {
        directions[i] = (struct direction){.from = ends[i], .to = ends[!i]};
        directions[i].ring = calloc(room, sizeof *directions[i].ring);
        if (!room || !directions[i].ring)
            die("memory for packets");
        polled[i] = (struct pollfd){.fd = ends[i], .events = POLLIN};
    }
    /* On a busy machine, the scheduler's delay would add to the line's delay. Without the right to
     * SCHED_FIFO, the scheduler's delay stays. */
    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 20});
    prctl(PR_SET_TIMERSLACK, 1);
    puts("ready");
    fflush(stdout);
    for (;;) {
        uint64_t wait = SECOND, time = now();
        for (int i = 0; i < 2; i++) {
            struct direction *d = &directions[i];
            if (d->count) {
                uint64_t due = d->ring[d->first].due;
                uint64_t left = due > time ? due - time : 0;
                wait = left < wait ? left : wait;
            }
        }
        struct timespec timeout = {(time_t)(wait / SECOND), (long)(wait % SECOND)};
        if (ppoll(polled, 2, &timeout, NULL) < 0 && errno != EINTR)
            die("ppoll");
        for (int i = 0; i < 2; i++) {
            if (polled[i].revents)
                take(&directions[i]);
            deliver(&directions[i]);
        }
    }
}
