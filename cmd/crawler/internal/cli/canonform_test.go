package cli

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

func TestCanonicalOptions(t *testing.T) {
	t.Parallel()
	const raw = "http://a.test/?utm_source=x&b=2&a=1"
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "http://a.test/?b=2&a=1"},
		{[]string{"--strip-param=b"}, "http://a.test/?a=1"},
		{[]string{"--strip-param=-"}, raw},
		{[]string{"--strip-param=b", "--strip-param=-"}, "http://a.test/?utm_source=x&a=1"},
		{[]string{"--keep-param=utm_source", "--strip-param=a"}, "http://a.test/?utm_source=x&b=2"},
		{[]string{"--sort-query"}, "http://a.test/?a=1&b=2"},
	} {
		s := crawl.DefaultSettings()
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		addRows(set, &s, formNames...)
		for _, name := range formNames {
			if set.Lookup(name) == nil {
				t.Fatalf("no flag --%s", name)
			}
		}
		if err := set.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		form, err := canon.New(formOptions(&s))
		if err != nil {
			t.Fatal(err)
		}
		if url, err := form.Parse(raw); err != nil || url.String() != c.want {
			t.Errorf("%v: Parse(%q) = %s, %v, want %s", c.args, raw, url, err, c.want)
		}
	}
}
