/* Shared by the http servers in C: the request, the reply, and how to serve a connection.
 *
 *     http_NAME --listen HOST:PORT     prints     listening on HOST:PORT
 *
 * They are the toy servers of Kerneis & Chroboczek, "Are events fast?" (2009): one page of 305
 * bytes from memory, and a thread for each connection. Page, fields and limits are those of
 * Duality's http service, so that only the package differs. Each server is one file. The server
 * accepts, and starts a thread for each connection. The thread calls `serve` with the package's own
 * functions to receive and to send. SIGTERM ends the server with exit code 0.
 */
#ifndef HTTP_H
#define HTTP_H

#include "server.h"

#include <strings.h>
#include <time.h>

enum {
    /* The longest request head, in bytes. */
    LONGEST_HEAD = 8192,
    LONGEST_REPLY = 1024,
    /* How long a client may be silent, or take nothing. */
    PATIENCE_SECONDS = 60,
    /* A connection is closed after so many requests. */
    REQUESTS_A_CONNECTION = 1000,
};

/* crates/services/demo/index.html */
static const char PAGE[] =
    "<!doctype html>\n"
    "<html lang=\"en\">\n"
    "<meta charset=\"utf-8\">\n"
    "<title>Duality</title>\n"
    "<link rel=\"icon\" href=\"duality.svg\">\n"
    "<link rel=\"stylesheet\" href=\"style.css\">\n"
    "<h1>Duality is serving</h1>\n"
    "<p>Written once, run by every architecture. Say <a href=\"hello.txt\">hello</a> or "
    "<a href=\"large.txt\">read more</a>.</p>\n";

enum persistence { IMPLIED, ANNOUNCED, CLOSE };

struct request {
    /* 200 if the request is for the page. */
    int status;
    int is_head;
    enum persistence persistence;
};

/* The length of the head at the start of `input`, or 0 if its end has not come. The end is not
 * before `from`. */
static inline size_t head_length(const char *input, size_t from, size_t length)
{
    from = from < 3 ? 0 : from - 3;
    const char *end = memmem(input + from, length - from, "\r\n\r\n", 4);
    return end == NULL ? 0 : (size_t)(end - input) + 4;
}

/* Whether a comma-separated list has `token`, in letters of either case. */
static inline int lists(const char *list, const char *token)
{
    size_t length = strlen(token);
    while (*list != '\0') {
        list += strspn(list, " \t,");
        size_t word = strcspn(list, " \t,");
        if (word == length && strncasecmp(list, token, length) == 0)
            return 1;
        list += word;
    }
    return 0;
}

/* The value of the field in a line that ends with a zero byte. NULL if the field is not `name`. */
static inline const char *value_of(const char *line, const char *name)
{
    size_t length = strlen(name);
    if (strncasecmp(line, name, length) != 0 || line[length] != ':')
        return NULL;
    line += length + 1;
    return line + strspn(line, " \t");
}

/* What the request line asks for. */
static inline struct request asked_for(char *line)
{
    struct request bad = {400, 0, CLOSE};
    char *target = strchr(line, ' ');
    char *version = target == NULL ? NULL : strchr(target + 1, ' ');
    if (version == NULL)
        return bad;
    *target++ = *version++ = '\0';
    if (target[0] != '/')
        return bad;
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)
        return (struct request){505, 0, CLOSE};
    struct request request = {200, strcmp(line, "HEAD") == 0, version[7] == '1' ? IMPLIED : CLOSE};
    if (!request.is_head && strcmp(line, "GET") != 0)
        request.status = 501;
    else if (strcmp(target, "/") != 0 && strcmp(target, "/index.html") != 0)
        request.status = 404;
    return request;
}

/* The request in a head. It cuts the head into pieces in place. */
static inline struct request understand(char *head, size_t length)
{
    struct request bad = {400, 0, CLOSE};
    head[length - 2] = '\0';
    if (strlen(head) != length - 2)
        return bad;
    char *line_end = strstr(head, "\r\n");
    *line_end = '\0';
    struct request request = asked_for(head);
    int is_old = request.persistence == CLOSE, hosts = 0;
    for (char *line = line_end + 2; *line != '\0'; line = line_end + 2) {
        line_end = strstr(line, "\r\n");
        *line_end = '\0';
        const char *value;
        size_t name = strcspn(line, ": \t");
        if (name == 0 || line[name] != ':')
            return bad;
        if ((value = value_of(line, "Host")) != NULL)
            hosts++;
        else if ((value = value_of(line, "Connection")) != NULL && lists(value, "close"))
            request.persistence = CLOSE;
        else if (value != NULL && is_old && lists(value, "keep-alive"))
            request.persistence = ANNOUNCED;
        else if (value_of(line, "Transfer-Encoding") != NULL ||
                 ((value = value_of(line, "Content-Length")) != NULL && strcmp(value, "0") != 0))
            /* The next bytes are a body, not a request. */
            return (struct request){413, 0, CLOSE};
    }
    if (request.status == 400 || request.status == 505)
        request.persistence = CLOSE;
    return hosts == 1 || (is_old && hosts == 0) ? request : bad;
}

/* The page's head with the current date, without its end. It is made at most once a second. */
static inline const char *page_head(size_t *length)
{
    static _Thread_local struct {
        time_t second;
        size_t length;
        char text[512];
    } last = {-1, 0, ""};
    time_t second = time(NULL);
    if (second != last.second) {
        struct tm parts;
        char date[64];
        gmtime_r(&second, &parts);
        strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &parts);
        int written = snprintf(last.text, sizeof last.text,
                               "HTTP/1.1 200 OK\r\nServer: toy\r\nDate: %s\r\n"
                               "Content-Type: text/html; charset=utf-8\r\nContent-Length: %zu\r\n"
                               "Last-Modified: Sat, 21 Nov 2026 00:00:00 GMT\r\n"
                               "ETag: \"30cc44b0ab8616b2\"\r\nAccept-Ranges: none\r\n",
                               date, sizeof PAGE - 1);
        last.second = second;
        last.length = (size_t)written;
    }
    *length = last.length;
    return last.text;
}

static inline char *append(char *output, const char *bytes, size_t length)
{
    memcpy(output, bytes, length);
    return output + length;
}

/* Writes the reply to `output`, which has room for LONGEST_REPLY bytes, and returns its length. */
static inline size_t answer(char *output, struct request request)
{
    static const char *const endings[] = {
        [IMPLIED] = "\r\n",
        [ANNOUNCED] = "Connection: keep-alive\r\n\r\n",
        [CLOSE] = "Connection: close\r\n\r\n",
    };
    const char *ending = endings[request.persistence];
    if (request.status != 200) {
        const char *reason = request.status == 400   ? "Bad Request"
                             : request.status == 404 ? "Not Found"
                             : request.status == 413 ? "Content Too Large"
                             : request.status == 431 ? "Request Header Fields Too Large"
                             : request.status == 505 ? "HTTP Version Not Supported"
                                                     : "Not Implemented";
        const char *body = request.is_head ? "" : reason;
        int written = snprintf(output, LONGEST_REPLY,
                               "HTTP/1.1 %d %s\r\nServer: toy\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n%s%s",
                               request.status, reason, strlen(reason), ending, body);
        return (size_t)written;
    }
    size_t length;
    const char *head = page_head(&length);
    char *end = append(output, head, length);
    end = append(end, ending, strlen(ending));
    if (!request.is_head)
        end = append(end, PAGE, sizeof PAGE - 1);
    return (size_t)(end - output);
}

/* Serves a connection until its end. Inlined, so that it calls the package's functions directly. */
static inline __attribute__((always_inline)) void
serve(void *stream, receive_function receive, transmit_function transmit)
{
    char input[LONGEST_HEAD], output[LONGEST_REPLY];
    size_t held = 0;
    int requests_left = REQUESTS_A_CONNECTION;
    struct request request;
    do {
        size_t head, looked_at = 0;
        while ((head = head_length(input, looked_at, held)) == 0 && held < sizeof input) {
            looked_at = held;
            ssize_t got = receive(stream, input + held, sizeof input - held);
            if (got <= 0)
                return;
            held += (size_t)got;
        }
        request = head == 0 ? (struct request){431, 0, CLOSE} : understand(input, head);
        if (--requests_left == 0)
            request.persistence = CLOSE;
        size_t length = answer(output, request);
        if (transmit(stream, output, length) != (ssize_t)length)
            return;
        /* The other bytes belong to the next request. */
        held -= head;
        memmove(input, input + head, held);
    } while (request.persistence != CLOSE);
}

#endif
