-- acquire_relay.sql: begin the next term of a relay, and return the term. It returns no row if another caller holds
-- the name.
-- $1  crawl   $2  name of the relay   $3  the caller
-- $4  term   $5  beat: a holder whose row still has these two is dead
-- If the answer of a call was lost, the same call succeeds again.
INSERT INTO crawler.relay AS r (crawl, name, term, holder)
VALUES ($1, $2, 1, $3)
ON CONFLICT (crawl, name) DO UPDATE SET term = r.term + 1, beat = 0, holder = excluded.holder
WHERE r.holder IN ('', excluded.holder) OR r.term = $4 AND r.beat = $5
RETURNING term;
