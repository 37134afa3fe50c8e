/* Functions that are called by their addresses: as in the runtime of the product. */
#include "../runtime/functions.c"
