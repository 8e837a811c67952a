package sizing

import "math"

// leafPages returns the mean number of leaf pages of a B-tree that got n keys in
// random order, each page with room for so many keys and split in halves when it
// is full. It follows how many pages there are with each number of keys: a key
// comes to a page with j of them with probability j/n (Yao, "On random 2-3
// trees", Acta Informatica 9, 1978). The pages are ln 2 full in the mean, and
// more or less so in turns, for pages of one age fill at about the same time.
func leafPages(n float64, room int) float64 {
	if n <= float64(room) {
		return 1
	}
	half := (room + 1) / 2
	pages := make([]float64, room+1)
	pages[half], pages[room+1-half] = 1, 1
	if 2*half == room+1 {
		pages[half] = 2
	}
	// In steps of the logarithm of n, in which no page gets more than a part of a key.
	whole := math.Log(n / float64(room+1))
	steps := math.Ceil(whole * 5 * float64(room))
	step := whole / steps
	for range int(steps) {
		split := step * float64(room) * pages[room]
		for j := room; j > half-1; j-- {
			pages[j] += step * (float64(j-1)*pages[j-1] - float64(j)*pages[j])
		}
		pages[half] += split
		pages[room+1-half] += split
	}
	sum := 0.0
	for _, count := range pages {
		sum += count
	}
	return sum
}
