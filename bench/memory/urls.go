package memory

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// urlHosts is what URLs are spread over where nothing else is asked for.
const urlHosts = 1000

// urlOf returns the i-th URL.
func urlOf(i uint64) string { return itemOf(i, urlHosts).URL }

// itemOf returns the i-th of the URLs of so many hosts: urlBytes long, all
// different, for i up to 10¹², and found on some page. Its letters are as hard to
// compress as those of few real ones.
func itemOf(i, hosts uint64) frontier.Item {
	host := "host" + padded(i%hosts, 6) + ".example.org"
	url := make([]byte, 0, urlBytes)
	url = append(url, "https://"+host+"/"...)
	url = append(url, padded(i, 12)...)
	url = append(url, '-')
	letters := rand.NewPCG(i, 0)
	for len(url) < urlBytes {
		bits := letters.Uint64()
		for range min(urlBytes-len(url), 12) {
			url = append(url, 'a'+byte(bits%26))
			bits /= 26
		}
	}
	item := frontier.Item{URL: string(url), Host: host, Depth: 3, Priority: frontier.PriorityPage}
	binary.LittleEndian.PutUint64(item.Referrer[:], letters.Uint64())
	return item
}

// padded returns n in at least width digits.
func padded(n uint64, width int) string {
	digits := strconv.FormatUint(n, 10)
	for len(digits) < width {
		digits = "0" + digits
	}
	return digits
}

// randomPrint returns a random fingerprint: real ones are keyed hashes.
func randomPrint(rng *rand.Rand) (fp bloomstore.Fingerprint) {
	binary.LittleEndian.PutUint64(fp[:8], rng.Uint64())
	binary.LittleEndian.PutUint64(fp[8:], rng.Uint64())
	return fp
}
