package sets

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// Links are links that a benchmark adds to a set. A set uses the fingerprint of each link
// (Print), its URL and other data (Offer), or both.
type Links interface {
	Len() int
	Print(i int) bloomstore.Fingerprint
	Offer(i int) frontier.Offer
}

// URLBytes is the length of the URLs of a Range. `crawler size` assumes the same mean
// length.
const URLBytes = 80

// Range is N different links with consecutive numbers, beginning with First. The numbers
// 0 to Run-1 have the first host, the next Run numbers have the second host, and so on.
// After the last host, the first host follows again.
type Range struct {
	First, N   uint64
	Hosts, Run uint64
	Class      frontier.Class
}

// Len implements Links.
func (r Range) Len() int { return int(r.N) }

// Print returns a pseudo-random fingerprint, which depends only on the number of the
// link.
func (r Range) Print(i int) (fp bloomstore.Fingerprint) {
	random := rand.NewPCG(r.First+uint64(i), 1)
	binary.LittleEndian.PutUint64(fp[:8], random.Uint64())
	binary.LittleEndian.PutUint64(fp[8:], random.Uint64())
	return fp
}

// Offer returns link i. Its number must be below 10¹². The URL compresses worse than
// most real URLs.
func (r Range) Offer(i int) frontier.Offer {
	n := r.First + uint64(i)
	host := fmt.Sprintf("host%06d.example.org", n/r.Run%r.Hosts)
	url := make([]byte, 0, URLBytes)
	url = fmt.Appendf(url, "https://%s/%012d-", host, n)
	letters := rand.NewPCG(n, 0)
	for len(url) < URLBytes {
		bits := letters.Uint64()
		for range min(URLBytes-len(url), 12) {
			url = append(url, 'a'+byte(bits%26))
			bits /= 26
		}
	}
	offer := frontier.Offer{URL: string(url), Host: host, Depth: 3, Class: r.Class, Priority: frontier.PriorityPage}
	binary.LittleEndian.PutUint64(offer.Referrer[:], letters.Uint64())
	return offer
}

// Prints are links of the class frontier.Exact, given by their fingerprints.
type Prints []bloomstore.Fingerprint

// Len implements Links.
func (p Prints) Len() int { return len(p) }

// Print implements Links.
func (p Prints) Print(i int) bloomstore.Fingerprint { return p[i] }

// Offer implements Links.
func (p Prints) Offer(i int) frontier.Offer {
	const hosts = 1000
	host := fmt.Sprintf("h%d.test", (int(p[i][0])<<8|int(p[i][1]))%hosts)
	return frontier.Offer{
		URL: "https://" + host + "/" + hex.EncodeToString(p[i][:]), Host: host,
		Class: frontier.Exact, Priority: frontier.PriorityPage,
	}
}

func printsOf(links Links) []bloomstore.Fingerprint {
	if prints, are := links.(Prints); are {
		return prints
	}
	return each(links, links.Print)
}

func offersOf(links Links) []frontier.Offer { return each(links, links.Offer) }

// each calls a function with the index of each link, and returns the results.
func each[T any](links Links, of func(i int) T) []T {
	all := make([]T, links.Len())
	for i := range all {
		all[i] = of(i)
	}
	return all
}
