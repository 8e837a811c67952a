package bloomstore

// SampleRate says how large the sample is: Sampled picks 1 in SampleRate fingerprints.
const SampleRate = 1024

// Sampled reports whether f belongs to the shadow sample: the fingerprints that a
// store also keeps exactly, to measure the errors of its filter. The choice is
// independent of the positions that filters compute from f.
func (f Fingerprint) Sampled() bool {
	z := (le64(f[:8]) ^ 0x6a09e667f3bcc909) * 0x9e3779b97f4a7c15
	z = (z ^ z>>32 ^ le64(f[8:])) * 0xd6e8feb86659fd93
	return (z^z>>32)%SampleRate == 0
}
