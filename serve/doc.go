// Package serve runs crawls behind an HTTP API, in which a repeated request has one effect.
//
// A Server has many crawls, each in a directory below its root, and runs some of them at once. They share the memory and a
// politeness.Gate: no host is requested more often because several crawls request it. With Redis, the crawls are there, and
// workers elsewhere run them. The API has the operations of a crawl.Handle and does not implement any of them itself. The
// OpenAPI document is made from the handlers.
//
// The package owns the routes, who may use them, the bounds of requests, and what is kept about each crawl outside of it:
// its name, who created it, and whether it should run (a card). It does not own crawls (package crawl), and it does not
// store answers (package idempotency).
//
// # How a request has one effect
//
// Each request that changes something has an Idempotency-Key. The answer is stored after the effect, so a crash can come
// between them. The repeat then runs the handler again, which finds the effect of the first request:
//
//	create, delete    the card has the ID of the request; New finishes them after a crash
//	settings, drop    the version of the policy has the ID of the request as its author
//	retry             the crawl stores how far the retry is, under the ID of the request
//	seeds, uploads    the crawl stores the verdicts of each chunk under the ID of the request
//	pause, resume, stop  a repeat has no further effect
//
// # Crawls in Redis
//
// The partitions of a crawl lie on several nodes, so no step can hold all of an effect and its answer. Each step of a partition also
// stores, under the ID of the request, what it decided, and a repeat goes on from there. The answer is stored last, in Redis or,
// if there is one, in Postgres. One Server at a time uses a Redis, under a lease (see lease.lua). Each lease is a new term, and
// each request, chunk and write of a Server checks that its term is still the present one. A Server that was paused for longer than
// its lease, between this check and the next step, can still do this one step: steps of partitions and new versions of a policy have
// one effect nevertheless, because they belong to the ID of the request. The deletion of a crawl is such a step, too.
package serve
