// A library with the bytes of system calls in its relocations and constants. Built without separate
// code, these stand in the same segment as the code.
#define PLACES 4096

// nop; mov $39,%eax; syscall; ret
__attribute__((used)) const unsigned char constants[] = {
    0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xb8, 0x27, 0, 0, 0, 0x0f, 0x05, 0xc3,
};

static char targets[PLACES * 256];

#define P1(n) &targets[(n) * 256], &targets[(n) * 256 + 0x0f], &targets[((n) * 256 + 0x50f) % sizeof targets],
#define P8(n) P1(n) P1(n + 1) P1(n + 2) P1(n + 3) P1(n + 4) P1(n + 5) P1(n + 6) P1(n + 7)
#define P64(n) P8(n) P8(n + 8) P8(n + 16) P8(n + 24) P8(n + 32) P8(n + 40) P8(n + 48) P8(n + 56)
#define P512(n)                                                                                \
    P64(n) P64(n + 64) P64(n + 128) P64(n + 192) P64(n + 256) P64(n + 320) P64(n + 384)         \
    P64(n + 448)
char *const words[] = {P512(0) P512(512) P512(1024) P512(1536) P512(2048) P512(2560) P512(3072) P512(3584)};
