// Package redisstore is the frontier that many workers share: one crawl in one
// Redis, a server or a cluster, version 7.0 or later, without modules.
//
// A crawl is cut into partitions by a keyed hash of the host key. All keys of a
// partition carry one hash tag, so that a script may touch them together: the
// bits of a URL and its place in a queue change in one step, and so does all
// else that must not be half done. One script does each such step; the server's
// clock is the only one. docs/reference/redis-keys.md describes every key.
//
// # Epochs
//
// A server that restarts or takes over for another may have lost the last
// moments of what it answered. Every script's text names the run id of the life
// of the server that it was loaded in, and servers forget scripts when they
// end. So a script that runs is a proof that the server lives since the client
// last looked, at no cost; an answer NOSCRIPT makes the client look again, and
// what had been answered in the old epoch is not relied upon any more.
//
// # Repeats
//
// A command whose reply was lost is repeated by nobody but the caller, who got
// frontier.ErrUnavailable: the clients that a Store makes never send a script
// twice on their own. What is repeated by callers is safe to repeat, by the
// lease's id, by an item's number within it, or because the filter knows the URL.
//
// It takes layout and bits of the filter from package redisbits, decides
// nothing about politeness (package politeness) or the form of a URL (package
// canon), and does not fetch.
package redisstore
