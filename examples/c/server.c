/* A threaded web server in the style of Knot. It has an accept loop, a thread for each connection,
 * blocking calls, and a page cache shared by all threads. It serves the files of one folder.
 *
 * ```sh
 * cc -O2 -pthread -o server server.c
 * ./server 8080 FOLDER                    # a kernel thread for each connection
 * duality run -- ./server 8080 FOLDER     # a user-level thread for each connection
 * ./server 8080 FOLDER 10000              # beside 10,000 threads that wait for ever
 * ```
 *
 * Nothing here knows of Duality. A connection costs a stack of 64 KiB, of which two pages
 * are used. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BACKLOG = 4096,
    BUCKETS = 1024,
    LONGEST_HEAD = 8192,
    LONGEST_PATH = 512,
    LARGEST_PAGE = 16 << 20,
    STACK = 64 << 10,
    IDLE_SECONDS = 60,
};

/* A page, with its head, as it is sent. Pages stay for as long as the server runs. */
struct page {
    struct page *next;
    char *path;
    size_t length;
    char reply[];
};

static struct {
    pthread_mutex_t lock;
    struct page *buckets[BUCKETS];
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int folder;

static unsigned hash(const char *path) {
    unsigned value = 5381;
    while (*path) value = value * 33 + (unsigned char)*path++;
    return value % BUCKETS;
}

static const char *type_of(const char *path) {
    static const char *types[][2] = {{".html", "text/html"}, {".css", "text/css"}, {".js", "text/javascript"}, {".txt", "text/plain"}};
    const char *dot = strrchr(path, '.');
    for (size_t index = 0; dot && index < sizeof types / sizeof *types; index++) {
        if (!strcmp(dot, types[index][0])) return types[index][1];
    }
    return "application/octet-stream";
}

/* Reads a file from disk into a new page, or returns NULL. */
static struct page *load(const char *path) {
    struct page *page = NULL;
    struct stat status;
    char head[256];
    int file = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) return NULL;
    if (fstat(file, &status) || !S_ISREG(status.st_mode) || status.st_size > LARGEST_PAGE) goto out;
    int head_length = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %lld\r\n\r\n", type_of(path),
                               (long long)status.st_size);
    page = malloc(sizeof *page + head_length + status.st_size);
    char *own_path = strdup(path);
    if (!page || !own_path) goto failed;
    page->path = own_path;
    page->length = head_length + status.st_size;
    memcpy(page->reply, head, head_length);
    for (off_t done = 0; done < status.st_size;) {
        ssize_t count = pread(file, page->reply + head_length + done, status.st_size - done, done);
        if (count <= 0) goto failed;
        done += count;
    }
    goto out;
failed:
    free(own_path);
    free(page);
    page = NULL;
out:
    close(file);
    return page;
}

/* Finds a page in the cache, or on disk. The lock is not held while the disk is read, so two
 * threads may load the same page. Then the second copy is freed. */
static const struct page *find(const char *path) {
    struct page **bucket = &cache.buckets[hash(path)], *page;
    pthread_mutex_lock(&cache.lock);
    for (page = *bucket; page && strcmp(page->path, path); page = page->next) {
    }
    pthread_mutex_unlock(&cache.lock);
    if (page) return page;
    struct page *loaded = load(path);
    if (!loaded) return NULL;
    pthread_mutex_lock(&cache.lock);
    for (page = *bucket; page && strcmp(page->path, path); page = page->next) {
    }
    if (!page) {
        loaded->next = *bucket;
        page = *bucket = loaded;
        loaded = NULL;
    }
    pthread_mutex_unlock(&cache.lock);
    if (loaded) {
        free(loaded->path);
        free(loaded);
    }
    return page;
}

static bool write_all(int connection, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t count = send(connection, bytes, length, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        bytes += count;
        length -= count;
    }
    return true;
}

static bool reply_error(int connection, const char *status) {
    char reply[128];
    int length = snprintf(reply, sizeof reply, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", status);
    return write_all(connection, reply, length);
}

/* Takes the path out of "GET /path HTTP/1.1". The empty path is index.html. Returns the status of
 * an error, or NULL. */
static const char *parse(char *head, char path[LONGEST_PATH]) {
    if (strncmp(head, "GET /", 5)) return "405 Method Not Allowed";
    char *start = head + 5, *end = start + strcspn(start, " ?\r\n");
    size_t length = end - start;
    if (length >= LONGEST_PATH) return "414 URI Too Long";
    memcpy(path, start, length);
    path[length] = 0;
    if (strstr(path, "..") || path[0] == '/') return "403 Forbidden";
    if (!length) strcpy(path, "index.html");
    return NULL;
}

/* Answers one request. Returns whether another may follow. */
static bool answer(int connection, char *head) {
    char path[LONGEST_PATH];
    bool goes_on = !strcasestr(head, "\r\nConnection: close");
    const char *problem = parse(head, path);
    const struct page *page = problem ? NULL : find(path);
    if (!problem && !page) problem = "404 Not Found";
    bool sent = problem ? reply_error(connection, problem) : write_all(connection, page->reply, page->length);
    return sent && goes_on;
}

/* The thread of a connection. It reads heads of requests, which may arrive in parts or several at a
 * time, and answers them in order. */
static void *serve(void *argument) {
    int connection = (int)(long)argument;
    char head[LONGEST_HEAD + 1];
    size_t length = 0;
    for (;;) {
        head[length] = 0;
        char *end = strstr(head, "\r\n\r\n");
        if (end) {
            end[2] = 0;
            bool goes_on = answer(connection, head);
            end += 4;
            length -= end - head;
            memmove(head, end, length);
            if (!goes_on) break;
            continue;
        }
        if (length == LONGEST_HEAD) {
            reply_error(connection, "431 Request Header Fields Too Large");
            break;
        }
        ssize_t count = recv(connection, head + length, LONGEST_HEAD - length, 0);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        length += count;
    }
    close(connection);
    return NULL;
}

static int listen_on(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(port)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, BACKLOG)) {
        perror(port);
        exit(1);
    }
    return listener;
}

/* A thread that waits for ever. */
static void *rest(void *argument) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&lock);
    for (;;) pthread_cond_wait(&changed, &lock);
    return argument;
}

static void start_resting(long count, const pthread_attr_t *attributes) {
    for (long made = 0; made < count; made++) {
        pthread_t thread;
        int problem = pthread_create(&thread, attributes, rest, NULL);
        if (problem) {
            fprintf(stderr, "%ld of %ld threads, then no more: %s\n", made, count, strerror(problem));
            exit(1);
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: %s PORT FOLDER [RESTING THREADS]\n", argv[0]);
        return 2;
    }
    folder = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        perror(argv[2]);
        return 1;
    }
    struct timeval idle = {IDLE_SECONDS, 0};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    /* These threads start before the server listens, so every client finds all of them. */
    start_resting(argc == 4 ? atol(argv[3]) : 0, &attributes);
    int listener = listen_on(argv[1]), on = 1;
    for (;;) {
        int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0) {
            /* Out of descriptors or memory: the end of a connection will free some. */
            if (errno != EINTR && errno != ECONNABORTED) usleep(10000);
            continue;
        }
        setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof idle);
        pthread_t thread;
        if (pthread_create(&thread, &attributes, serve, (void *)(long)connection)) {
            reply_error(connection, "503 Service Unavailable");
            close(connection);
        }
    }
}
