/* A thousand round trips through two pipes, beside two threads that compute. */
#include <pthread.h>
#include <unistd.h>
static int there[2], back[2];
static void *spin(void *a) {
    for (volatile int go = 1; go;) {
    }
    return a;
}
static void *echo(void *a) {
    for (char c; read(there[0], &c, 1) == 1 && write(back[1], &c, 1) == 1;) {
    }
    return a;
}
int main(void) {
    pthread_t t;
    char c = 0;
    if (pipe(there) || pipe(back)) return 1;
    pthread_create(&t, 0, echo, 0);
    for (int i = 0; i < 2; i++) pthread_create(&t, 0, spin, 0);
    for (int i = 0; i < 1000; i++)
        if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1) return 1;
    return 0;
}
