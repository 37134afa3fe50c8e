/* Calls by address, as in the runtime of the product. */
#include "../runtime/functions.c"
