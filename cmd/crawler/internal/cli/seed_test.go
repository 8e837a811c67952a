package cli

import "flag"

// seedFlag is the seed with which random tests are replayed.
var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0: a new one")
