//go:build !race

package countbits

const raceEnabled = false // see race_on_test.go
