package cli

import "flag"

// seedFlag replays random tests.
var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0: a new one")
