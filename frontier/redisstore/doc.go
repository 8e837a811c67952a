// Package redisstore is the frontier that many workers share: one crawl in one Redis, a
// server or a cluster, version 7.0 or later, without modules.
//
// A crawl is divided into partitions by a keyed hash of the host key. All keys of a partition
// have one hash tag, so that a script may change them together. One script does each step
// that must not be half done: for example, the bits of a URL and its queue entry change in
// one step. Only the server's clock is used. docs/reference/redis-keys.md describes every
// key.
//
// # Epochs
//
// A server that restarts, or takes over from another, may have lost the last writes that it
// confirmed. The text of every script contains the run id of the server process that loaded
// it, and a server that ends loses its scripts. So a script that runs proves, at no cost, that
// the server has not restarted since the client last checked. The answer NOSCRIPT makes the
// client check again, and drop everything that it has cached from the old epoch.
//
// # Repeats
//
// Only the caller, which gets frontier.ErrUnavailable, repeats a command whose reply was lost:
// the clients of a Store never send a script twice on their own. The scripts recognise a
// repeat by the lease's id, by an item's number within the lease, or by the filter.
//
// Package redisbits has the layout and the bits of the filter. This package does not decide
// about politeness (package politeness) or the form of a URL (package canon), and makes no
// HTTP request.
package redisstore
