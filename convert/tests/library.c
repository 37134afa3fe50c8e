/* Hard case: library functions that block: stdio on sockets and pipes, waitpid, names, system calls
 * by number. */
#include "test.h"
#include <netdb.h>
#include <sys/syscall.h>
static int pair[2];
static void *reads(void *argument) {
    char line[100], *whole = argument;
    FILE *file = fdopen(pair[0], "r");
    while (fgets(line, sizeof line, file)) strcat(whole, line);
    fclose(file);
    return NULL;
}
/* A separate process writes: the reference runtime has one kernel thread, and the library keeps
 * that thread during its wait.
 */
static void writes(void) {
    for (int index = 0; index < 5; index++) {
        char line[32];
        int length = sprintf(line, "line %d\n", index);
        usleep(1000);
        CHECK(write(pair[1], line, length) == length);
    }
    _exit(0);
}
static void *others(void *argument) {
    int number, status;
    char text[10];
    pid_t child = fork();
    if (!child) _exit(3);
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
    errno = 0;
    CHECK(waitpid(child, &status, 0) == -1 && errno == ECHILD);
    struct addrinfo *found, hints = {.ai_flags = AI_NUMERICHOST};
    CHECK(getaddrinfo("127.0.0.1", "80", &hints, &found) == 0);
    freeaddrinfo(found);
    FILE *file = tmpfile();
    fprintf(file, "%d %s", 55, "words");
    rewind(file);
    CHECK(fscanf(file, "%d %9s", &number, text) == 2 && number == 55 && !strcmp(text, "words"));
    rewind(file);
    CHECK(getc(file) == '5' && fsync(fileno(file)) == 0);
    fclose(file);
    CHECK(syscall(SYS_getpid) == getpid());
    return argument;
}
int main(void) {
    static char whole[1000];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    if (!fork()) writes();
    close(pair[1]);
    run(reads, whole);
    wait(NULL);
    run(others, NULL);
    fputs(whole, stdout);
}
