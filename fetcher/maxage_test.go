package fetcher

import (
	"net/http"
	"testing"
	"time"
)

func TestMaxAge(t *testing.T) {
	const date = "Tue, 01 Sep 2026 10:00:00 GMT"
	for _, c := range []struct {
		header http.Header
		want   time.Duration
	}{
		{http.Header{}, 0},
		{http.Header{"Cache-Control": {"max-age=60"}}, time.Minute},
		{http.Header{"Cache-Control": {`public, MAX-AGE="60"`}}, time.Minute},
		{http.Header{"Cache-Control": {"public", "max-age=60"}, "Age": {"20"}}, 40 * time.Second},
		{http.Header{"Cache-Control": {"max-age=60"}, "Age": {"90"}}, 0},
		{http.Header{"Cache-Control": {"max-age=60, no-cache"}}, 0},
		{http.Header{"Cache-Control": {"no-store"}, "Expires": {"Tue, 01 Sep 2026 11:00:00 GMT"}, "Date": {date}}, 0},
		{http.Header{"Cache-Control": {"max-age=60, max-age=90"}}, time.Minute},
		{http.Header{"Cache-Control": {"max-age=-5"}}, 0},
		{http.Header{"Cache-Control": {"max-age=soon"}, "Expires": {"Tue, 01 Sep 2026 11:00:00 GMT"}, "Date": {date}}, time.Hour},
		{http.Header{"Cache-Control": {"s-maxage=60"}}, 0},
		{http.Header{"Cache-Control": {"max-age=99999999999999"}}, mostAge},
		{http.Header{"Expires": {"Tue, 01 Sep 2026 11:00:00 GMT"}, "Date": {date}, "Age": {"600"}}, 50 * time.Minute},
		{http.Header{"Expires": {"0"}, "Date": {date}}, 0},
		{http.Header{"Expires": {"Tue, 01 Sep 2026 09:00:00 GMT"}, "Date": {date}}, 0},
		{http.Header{"Cache-Control": {"max-age=60"}, "Expires": {"Tue, 01 Sep 2026 11:00:00 GMT"}, "Date": {date}}, time.Minute},
	} {
		if got := maxAge(c.header); got != c.want {
			t.Errorf("maxAge(%v) = %v, want %v", c.header, got, c.want)
		}
	}
}

func TestWithoutCoding(t *testing.T) {
	for tag, want := range map[string]string{
		`"a-gzip"`: `"a"`, `W/"a-gzip"`: `W/"a"`, `"a;gzip"`: `"a"`, `"a--gzip"`: `"a"`, `"a-br"`: `"a"`, `"a-zstd"`: `"a"`, `"a:gzip"`: `"a"`,
		`"gzip"`: `"gzip"`, `"-gzip"`: `"-gzip"`, `W/"-gzip"`: `W/"-gzip"`, `a-gzip`: `a-gzip`, `""`: `""`, ``: ``, `"agzip"`: `"agzip"`,
	} {
		if got := withoutCoding(tag); got != want {
			t.Errorf("withoutCoding(%s) = %s, want %s", tag, got, want)
		}
	}
	if !sameTag(`W/"a"`, `"a"`) || !sameTag(`"a-gzip"`, `W/"a"`) || sameTag(`"a"`, `"b"`) {
		t.Error("sameTag does not compare weakly")
	}
}
