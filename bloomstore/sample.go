package bloomstore

// SampleRate is the part of all fingerprints that Sampled picks: 1 in SampleRate.
const SampleRate = 1024

// Sampled reports whether f belongs to the sample whose members a store also
// remembers exactly, to see what its filter really does with new URLs. The
// choice is a hash of all bits of f: it has nothing to do with a filter's own
// use of them.
func (f Fingerprint) Sampled() bool {
	z := (le64(f[:8]) ^ 0x6a09e667f3bcc909) * 0x9e3779b97f4a7c15
	z = (z ^ z>>32 ^ le64(f[8:])) * 0xd6e8feb86659fd93
	return (z^z>>32)%SampleRate == 0
}
