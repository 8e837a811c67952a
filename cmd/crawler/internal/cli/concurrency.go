package cli

import (
	"fmt"
	"strconv"
)

// concurrency is the value of --concurrency: a number of hosts, or 0 for auto.
type concurrency int

const maxConcurrency = 100_000

func (c *concurrency) String() string {
	if *c == 0 {
		return "auto"
	}
	return strconv.Itoa(int(*c))
}

func (c *concurrency) Type() string { return "N" }

func (c *concurrency) Set(text string) error {
	if text == "auto" {
		*c = 0
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxConcurrency {
		return fmt.Errorf("want auto, or 1 to %d", maxConcurrency)
	}
	*c = concurrency(n)
	return nil
}
