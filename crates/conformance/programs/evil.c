/* A library that leaves a mark when it is loaded. */
#include <fcntl.h>
__attribute__((constructor)) static void run(void) { open(MARKER, O_CREAT | O_WRONLY, 0644); }
