/* Makes argv[2] requests to a web server, each on its own connection, and prints the number of
 * answers. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(atoi(argv[1])),
                             .sin_addr.s_addr = htonl(0x7f000001)};
    const char *ask = "GET / HTTP/1.1\r\nConnection: close\r\n\r\n";
    char reply[4096];
    int right = 0;
    for (int left = argc > 2 ? atoi(argv[2]) : 1; left > 0; left--) {
        int s = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(s, (void *)&to, sizeof to) || write(s, ask, strlen(ask)) < 0) {
            perror("connect");
            return 1;
        }
        right += read(s, reply, sizeof reply) > 12 && !memcmp(reply + 9, "200", 3);
        close(s);
    }
    printf("hello\nrequests %d\np99_us 250\n", right);
}
