// Package redisstore is the frontier that many workers share. It keeps one crawl in one
// Redis: a server or a cluster of version 7.0 or later, without modules.
//
// A crawl is divided into partitions by a keyed hash of the host key. All keys of a partition
// have one hash tag, so that a script can change them together. Each step that must not be
// half done is one script: for example, one script sets the bits of a URL in the Bloom filter
// and queues the URL. All times are from the server's clock. docs/reference/redis-keys.md
// describes every key.
//
// # Epochs
//
// A server that restarts, or takes over from another, may lack the last writes that were
// confirmed. The text of every script contains the run id of the server process that loaded
// it, and a server loses its scripts when it ends. So a script that runs proves, at no cost,
// that the server has not restarted since the client last checked. The answer NOSCRIPT makes
// the client check again, and drop everything that it has cached from the old epoch.
//
// # Repeats
//
// If the reply of a script is lost, the Store does not send the script again. The caller gets
// frontier.ErrUnavailable and can repeat the call. The scripts recognise a repeat by the
// lease's id, by an item's number within the lease, or by the filter.
//
// Package redisbits has the layout and the bits of the filter. This package does not decide
// about politeness (package politeness) or the form of a URL (package canon), and makes no
// HTTP request.
package redisstore
