/* A program that has just started has little memory of its own: what the engine only reads belongs
 * to the executable, and what its start needed has gone back.
 * Runtime: product */
#include "test.h"
static long kibibytes(const char *key) {
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (!strncmp(line, key, strlen(key))) value = atol(line + strlen(key));
    }
    if (file) fclose(file);
    return value;
}
static void *waits(void *argument) {
    WAIT();
    return argument;
}
int main(void) {
    long own = kibibytes("RssAnon:") + kibibytes("RssShmem:");
#if !__has_feature(address_sanitizer)
    if (own > 1800) printf("%ld KiB\n", own);
#endif
    run(waits, NULL);
    printf("%d\n", own > 0);
}
