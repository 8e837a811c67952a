//go:build !race

package bloomtest

const raceEnabled = false // see race_on_test.go
